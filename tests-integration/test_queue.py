"""Jobs of the queue, with real processes: what is killed, and what goes on."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from command_site import Site
from fake_batch.start import Missing, real
from fake_small.start import real_grid_engine

from grain.files.processes import start_time
from grain.queue.dispatchers import Dispatchers
from grain.queue.folder import Queue
from grain.queue.records import Wish
from grain_testkit.local_processes import stop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from fake_batch.start import Batch

    from grain_testkit.programs import Process

SCRIPT = """\
#!/bin/sh
echo "begun $GRAIN_ATTEMPT" >> "$1.log"
until [ -e "$1.go" ]; do sleep 0.05; done
echo ended >> "$1.log"
"""
"""A job that says in a file that it has begun, waits for another file, and says that it ends."""


class Jobs:
    """A queue in a directory, and the commands for it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.state = site.environ["XDG_STATE_HOME"]
        self.folder = Path(self.state, "grain/queues/queue")
        (site.folder / "job.sh").write_text(SCRIPT)

    async def grain(self, *words: str) -> str:
        """Run a command that succeeds, and return its output."""
        done = await self.site.typed(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def submit(self, *words: str) -> str:
        return (await self.grain("submit", "--parsable", *words)).strip()

    async def list(self) -> dict[int, dict[str, Any]]:
        return {one["job"]: one for one in json.loads(await self.grain("jobs", "--json", "--all"))}

    async def dispatcher(self) -> int:
        """Return the process of the dispatcher in charge, once there is one."""
        while (last := Dispatchers(Queue.open(self.folder).files).last()) is None:
            await trio.sleep(0.05)
        return last[1].pid

    async def kill_dispatcher(self) -> int:
        """Kill the dispatcher in charge, and return its process, which is gone.

        SIGKILL is not delivered yet when `os.kill` returns: whoever looks next may see it alive.
        """
        pid = await self.dispatcher()
        os.kill(pid, signal.SIGKILL)
        while start_time(pid) is not None:
            await trio.sleep(0.02)
        return pid

    @asynccontextmanager
    async def successor(self, first: int) -> AsyncIterator[Process]:
        """Stop a dispatcher, and have another one in charge for the block."""
        stop(first)
        with self.site.script("-m", "grain.dispatcher", str(self.folder)) as second:
            while await self.dispatcher() == first:
                await trio.sleep(0.05)
            yield second

    async def until_lines(self, name: str, *lines: str) -> None:
        path = self.site.folder / f"{name}.log"
        while not path.exists() or path.read_text() != "".join(f"{line}\n" for line in lines):
            await trio.sleep(0.02)

    async def until_logs(self, count: int) -> None:
        """Wait until so many dispatchers have begun their event logs."""
        while len(list(Path(self.state).glob("grain/missions/*/events.jsonl"))) < count:
            await trio.sleep(0.05)

    def go(self, name: str) -> None:
        (self.site.folder / f"{name}.go").touch()

    @contextmanager
    def gnaw(self) -> Iterator[None]:
        """Run a scheduler. All dispatchers end before it, or one would start another scheduler."""
        with self.site.gnaw():
            try:
                yield
            finally:
                self.end()

    def end(self) -> None:
        """Kill all dispatchers that are left."""
        if self.folder.exists():
            for file in (self.folder / "dispatchers").iterdir():
                if file.name.isdigit():
                    pid = json.loads(file.read_text())["pid"]
                    if start_time(pid) == json.loads(file.read_text())["pid_began"]:
                        with suppress(ProcessLookupError):  # it ends, as its scheduler is gone
                            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    jobs = Jobs(Site(tmp_path))
    yield jobs
    jobs.end()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A scheduler, and a worker with one core, whose queue has the jobs of several tests."""
    jobs = Jobs(Site(tmp_path_factory.mktemp("serving")))
    with jobs.gnaw(), jobs.site.worker("w", Cores=1):
        yield jobs.site
    jobs.end()


@pytest.fixture
def more(serving: Site, tmp_path: Path) -> Jobs:
    """More jobs of that queue, submitted in a directory of their own, by tests that end nothing."""
    site = copy(serving)
    site.folder = tmp_path
    site.environ = {**serving.environ, "GRAIN_CONFIG": str(serving.folder / "grain.toml")}
    return Jobs(site)


async def test_a_job_goes_on_when_its_dispatcher_is_killed_and_the_next_one_has_its_end(
    jobs: Jobs,
) -> None:
    with jobs.gnaw(), jobs.site.worker("w", Cores=2), trio.fail_after(300):
        first = await jobs.submit("job.sh", "a")
        await jobs.until_lines("a", "begun 1")
        killed = await jobs.kill_dispatcher()
        second = await jobs.submit("job.sh", "b")
        await jobs.until_lines("b", "begun 1")
        assert await jobs.dispatcher() != killed
        jobs.go("a")
        jobs.go("b")
        await jobs.grain("wait", first, second)
        await jobs.until_lines("a", "begun 1", "ended")
        assert {one["state"] for one in (await jobs.list()).values()} == {"done"}


async def test_a_job_goes_on_without_dispatcher_and_scheduler_and_lists_know_its_end(
    jobs: Jobs,
) -> None:
    with jobs.site.worker("w", Cores=1), trio.fail_after(300):
        with jobs.gnaw():
            number = await jobs.submit("job.sh", "a")
            await jobs.until_lines("a", "begun 1")
            await jobs.kill_dispatcher()
        jobs.go("a")
        await jobs.until_lines("a", "begun 1", "ended")
        await jobs.grain("wait", number)
        assert (await jobs.list())[1]["state"] == "done"


async def test_a_job_that_needs_more_memory_than_it_got_runs_again_with_more(jobs: Jobs) -> None:
    """Grain ends it at what its group asks for, and knows next time; another one is too large."""
    # All attempts but one go on until they are ended, however late the worker looks at them.
    program = (
        "import os, sys, time; held = b'x' * int(sys.argv[1]); "
        "os.environ['GRAIN_ATTEMPT'] == sys.argv[2] or time.sleep(600)"
    )

    async def run(size: int, ends: str) -> dict[str, Any]:
        words = ["-r", "Cores=1,Memory=opt:0.6", "--", sys.executable, "-c", program]
        number = await jobs.submit(*words, str(size), ends)
        await jobs.site.typed("wait", number)
        return (await jobs.list())[int(number)]

    with jobs.gnaw(), jobs.site.worker("w", Cores=10, Memory=2), trio.fail_after(300):
        # The first attempt has the share of its core, 0.2 GB.
        climbed = await run(400_000_000, "2")
        too_large = await run(900_000_000, "")
    ends = [(one["how"], one["message"]) for one in climbed["attempts"]["1"]]
    assert "done" == climbed["state"]
    assert ["memory", "exit"] == [how for how, _ in ends]
    assert "GB of 0.2 and was ended" in ends[0][1]
    assert "out of memory" == too_large["state"]
    assert "GB of 0.6 and was ended" in too_large["attempts"]["2"][-1]["message"]


async def test_a_dispatcher_that_is_just_starting_is_stopped(jobs: Jobs) -> None:
    with jobs.gnaw(), trio.fail_after(300):
        await jobs.submit("-H", "job.sh", "a")
        assert "has stopped" in await jobs.grain("queue", "stop")
        assert start_time(await jobs.dispatcher()) is None
        assert "no dispatcher runs" in await jobs.grain("queue", "status")


async def test_a_dispatcher_that_is_stopped_leaves_what_runs_alone(jobs: Jobs) -> None:
    with jobs.gnaw(), jobs.site.worker("w", Cores=1), trio.fail_after(300):
        await jobs.submit("job.sh", "a")
        await jobs.until_lines("a", "begun 1")
        waiting = await jobs.submit("job.sh", "b")
        stopped = await jobs.dispatcher()
        await jobs.grain("queue", "stop")
        while start_time(stopped) is not None:
            await trio.sleep(0.05)
        # Commands on other hosts, which cannot see the process, know as well.
        assert (jobs.folder / "dispatchers/1.gone").exists()
        assert "no dispatcher runs" in await jobs.grain("queue", "status")
        jobs.go("a")
        await jobs.until_lines("a", "begun 1", "ended")
        assert (await jobs.list())[2]["state"] == "waiting"
        await jobs.grain("queue", "start")
        jobs.go("b")
        await jobs.grain("wait", waiting)


async def test_jobs_that_are_submitted_one_by_one_have_one_dispatcher(jobs: Jobs) -> None:
    with jobs.gnaw(), trio.fail_after(300):
        for _ in range(4):
            await jobs.submit("job.sh", "a")
        await jobs.dispatcher()
        started = (jobs.site.folder / "state/grain/started").glob("queue@*")
        assert ["queue@1"] == [path.name for path in started]


async def test_what_is_cancelled_without_a_dispatcher_never_begins(jobs: Jobs) -> None:
    with jobs.gnaw(), trio.fail_after(300):
        await jobs.submit("job.sh", "a")
        await jobs.submit("-a", "1-3", "job.sh", "b")
        await jobs.kill_dispatcher()
        assert "3 tasks waited" in await jobs.grain("cancel", "--reason", "wrong", "2")
        found = await jobs.list()
        assert (found[1]["state"], found[2]["state"]) == ("waiting", "cancelled")
        with jobs.site.worker("w", Cores=1):
            await jobs.grain("queue", "start")
            await jobs.until_lines("a", "begun 1")
            jobs.go("a")
            await jobs.grain("wait", "1")
        assert not (jobs.site.folder / "b.log").exists()


async def test_what_fails_after_its_cancellation_is_cancelled_and_runs_no_more(jobs: Jobs) -> None:
    # The worker may look for wishes at any moment: its SIGTERM does not end this one.
    script = SCRIPT.replace("\n", "\ntrap '' TERM\n", 1)
    (jobs.site.folder / "fails.sh").write_text(f"{script}exit 3\n")
    with jobs.gnaw(), jobs.site.worker("w", Cores=1), trio.fail_after(300):
        first = await jobs.submit("--retries", "5", "fails.sh", "a")
        after = await jobs.submit("--after", f"{first}:any", "job.sh", "b")
        await jobs.until_lines("a", "begun 1")
        # The worker looks for wishes every five seconds, and nothing else tells it about them.
        stopped = await jobs.dispatcher()
        stop(stopped)
        await jobs.grain("cancel", first)
        jobs.go("a")
        await jobs.until_lines("a", "begun 1", "ended")
        os.kill(stopped, signal.SIGCONT)
        jobs.go("b")
        await jobs.grain("wait", after)
        found = await jobs.list()
        assert (found[1]["state"], found[2]["state"]) == ("cancelled", "done")
        await jobs.until_lines("a", "begun 1", "ended")


@pytest.mark.parametrize(
    ("to_job", "to_worker"),
    [
        (signal.SIGTERM, [signal.SIGTERM]),  # as Slurm
        (signal.SIGUSR2, [signal.SIGUSR2, signal.SIGTERM]),  # as Grid Engine and a job's script
        (signal.SIGKILL, [signal.SIGKILL]),
    ],
)
async def test_a_job_that_is_ended_together_with_its_worker_runs_again(
    jobs: Jobs, to_job: int, to_worker: list[signal.Signals]
) -> None:
    """A batch system signals all processes of its job, and this one gets the signal first."""
    (jobs.site.folder / "job.sh").write_text(SCRIPT.replace("\n", "\necho $$ > pid\n", 1))
    with jobs.gnaw(), trio.fail_after(300):
        with jobs.site.worker("w1", Cores=1) as worker:
            number = await jobs.submit("job.sh", "a")
            await jobs.until_lines("a", "begun 1")
            stop(worker.pid)
            os.kill(int((jobs.site.folder / "pid").read_text()), to_job)
            for one in to_worker:
                worker.send_signal(one)
            worker.send_signal(signal.SIGCONT)
            with jobs.site.worker("w2", Cores=1):
                await jobs.until_lines("a", "begun 1", "begun 2")
                jobs.go("a")
                await jobs.grain("wait", number)
        [[first, second]] = (await jobs.list())[1]["attempts"].values()
        assert first["how"] in ("returned", "lost")
        assert second["how"] == "exit"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("way", "preempt"),
    [
        ("scancel {job}", "OFF"),
        ("scontrol requeue {job}", "OFF"),
        ("scontrol update nodename={node} state=down reason=x", "OFF"),
        ("scontrol update jobid={job} timelimit=1", "OFF"),
        ("sbatch -p urgent -w {node} -c 4 -o /dev/null --wrap true", "CANCEL"),
        ("sbatch -p urgent -w {node} -c 4 -o /dev/null --wrap true", "REQUEUE"),
    ],
)
async def test_what_ends_a_worker_of_a_real_slurm_is_not_the_failure_of_its_job(
    jobs: Jobs, way: str, preempt: str
) -> None:
    try:
        with real("--kill-wait=8", f"--preempt={preempt}") as slurm:
            await check_another_run(jobs, slurm, ("squeue", "-h", "-t", "R", "-o", "%i %N"), way)
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("way", "queue"),
    [
        ("qdel {job}", "main.q"),
        ("qmod -rj {job}", "main.q"),
        # The queue's limit, of which the worker knows nothing: SIGUSR2, then SIGKILL.
        ("sleep 65", "short.q"),
    ],
)
async def test_what_ends_a_worker_of_a_real_grid_engine_is_not_the_failure_of_its_job(
    jobs: Jobs, way: str, queue: str
) -> None:
    try:
        with real_grid_engine("--cores=8", "--memory=64000", "--notify=8") as (batch, _):
            script = f'cores = 4\nqueue = "{queue}"\n'
            await check_another_run(jobs, batch, ("qstat", "-s", "r"), way, script)
    except Missing as missing:
        pytest.skip(str(missing))


async def check_another_run(
    jobs: Jobs,
    batch: Batch,
    running: Sequence[str],
    way: str,
    script: str = 'cores = 4\nwalltime = "00:20:00"\n',
) -> None:
    """End the worker of a job, and see that the job runs again on another one.

    Args:
        running: the command that lists what runs: the job, and whatever else.
        way: the command that ends it.
        script: how workers are asked for.
    """
    with jobs.gnaw(), trio.fail_after(300):
        path = f"{Path(sys.executable).parent}:{batch.env['PATH']}"
        jobs.site.environ.update({**batch.env, "PATH": path, "XDG_STATE_HOME": jobs.state})
        (jobs.site.folder / "grain.toml").write_text(
            f'system = "{batch.system}"\naddress = "{jobs.site.address}"\n[script]\n{script}'
        )
        await jobs.grain("up", "-n", "1")
        number = await jobs.submit("job.sh", "a")
        await jobs.until_lines("a", "begun 1")
        job, *others = batch.out(*running).splitlines()[-1].split()
        batch.out(*way.format(job=job, node=others[0]).split())
        await jobs.grain("up", "-n", "1")
        await jobs.until_lines("a", "begun 1", "begun 2")
        jobs.go("a")
        await jobs.grain("wait", number)


MEMBER = """\
#!/bin/sh
echo "begun $GRAIN_ATTEMPT" >> a.log
"$GRAIN_RSH" m1 'echo $$ > pid; until [ -e a.go ]; do sleep 0.05; done' || exit 1
echo ended >> a.log
"""
"""A job that goes on until another file is there, which its program on the second node sees."""


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL])
async def test_a_job_on_several_workers_runs_again_if_one_of_them_is_ended(
    jobs: Jobs, ends: signal.Signals
) -> None:
    """The program on the second node gets the signal of its batch job before the worker there."""
    (jobs.site.folder / "job.sh").write_text(MEMBER)
    pid = jobs.site.folder / "pid"
    with jobs.gnaw(), ExitStack() as running, trio.fail_after(300):
        workers = [
            running.enter_context(jobs.site.worker(name, Cores=1, Memory=1)) for name in "abc"
        ]
        number = await jobs.submit("-r", "2 * Node(1, 0.5)", "job.sh")
        await jobs.until_lines("a", "begun 1")
        while not pid.exists() or not pid.read_text():
            await trio.sleep(0.02)
        program = int(pid.read_text())
        [worker] = [one for one in workers if one.pid in _above(program)]
        stop(worker.pid)
        os.kill(program, ends)
        worker.send_signal(ends)
        worker.send_signal(signal.SIGCONT)
        await jobs.until_lines("a", "begun 1", "begun 2")
        jobs.go("a")
        await jobs.grain("wait", number)
        [[first, second]] = (await jobs.list())[1]["attempts"].values()
        assert first["how"] in ("returned", "lost")
        assert second["how"] == "exit"


def _above(pid: int) -> list[int]:
    """Return the processes above one."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
        found.append(pid)
    return found


async def test_a_job_that_a_user_ends_by_a_signal_has_failed(more: Jobs) -> None:
    with trio.fail_after(300):
        number = await more.submit("--", "sh", "-c", "kill -TERM $$")
        done = await more.site.typed("wait", number)
        assert "SIGTERM" in done.stderr
        assert done.returncode == 1


async def test_a_job_whose_runner_was_killed_runs_again_as_its_worker_says_so(jobs: Jobs) -> None:
    with jobs.gnaw(), jobs.site.worker("w", Cores=2), trio.fail_after(300):
        await jobs.submit("job.sh", "a")
        beside = await jobs.submit("--", "sleep", "1000")
        await jobs.until_lines("a", "begun 1")
        queue = Queue.open(jobs.folder)
        while (other := queue.begun(int(beside), None, 1)) is None:
            await trio.sleep(0.05)
        os.kill(other.pid, signal.SIGKILL)
        await jobs.until_lines("a", "begun 1", "begun 2")
        jobs.go("a")
        await jobs.grain("wait", "1")
        for number in (1, int(beside)):
            while (ended := queue.ended(number, None, 1)) is None:
                await trio.sleep(0.05)
            # Not by a look at the process, which is not possible from another host.
            assert (ended.how, "was ended by SIGKILL" in ended.message) == ("lost", True)


async def test_a_job_whose_runner_is_killed_is_lost_though_nobody_hears_of_it(jobs: Jobs) -> None:
    """Neither dispatcher nor scheduler is there to be told, and then the worker ends."""
    with ExitStack() as worker, trio.fail_after(300):
        with jobs.gnaw():
            worker.enter_context(jobs.site.worker("w", Cores=1))
            number = int(await jobs.submit("job.sh", "a"))
            await jobs.until_lines("a", "begun 1")
            dispatcher = await jobs.dispatcher()
            os.kill(dispatcher, signal.SIGKILL)
        queue = Queue.open(jobs.folder)
        begun = queue.begun(number, None, 1)
        assert begun is not None
        os.kill(begun.pid, signal.SIGKILL)
        while (ended := queue.ended(number, None, 1)) is None:
            await trio.sleep(0.05)
        assert (ended.how, "was ended by SIGKILL" in ended.message) == ("lost", True)


async def test_a_job_whose_runner_is_killed_as_it_is_cancelled_is_cancelled(jobs: Jobs) -> None:
    with jobs.gnaw(), jobs.site.worker("w", Cores=1), trio.fail_after(300):
        number = int(await jobs.submit("job.sh", "a"))
        await jobs.until_lines("a", "begun 1")
        dispatcher = await jobs.dispatcher()
        stop(dispatcher)
        queue = Queue.open(jobs.folder)
        begun = queue.begun(number, None, 1)
        assert begun is not None
        queue.wish(Wish(what="cancel", jobs=((number, number),), by="ann", at=time.time()))
        os.kill(begun.pid, signal.SIGKILL)
        while (ended := queue.ended(number, None, 1)) is None:
            await trio.sleep(0.05)
        assert "lost" == ended.how
        os.kill(dispatcher, signal.SIGCONT)
        await jobs.site.typed("wait", str(number))
        assert (await jobs.list())[number]["state"] == "cancelled"
        await jobs.until_lines("a", "begun 1")


async def test_of_two_dispatchers_the_later_one_stays(jobs: Jobs) -> None:
    with jobs.gnaw(), jobs.site.worker("w", Cores=1), trio.fail_after(300):
        await jobs.submit("job.sh", "a")
        await jobs.until_lines("a", "begun 1")
        first = await jobs.dispatcher()
        await jobs.until_logs(1)
        # As if it were silent for long, on another host.
        async with jobs.successor(first):
            # One of the two is the mission, though neither log has an end.
            await jobs.until_logs(2)
            assert "queue is a queue of jobs: " in (await jobs.site.typed("cancel", "queue")).stderr
            os.kill(first, signal.SIGCONT)
            while start_time(first) is not None:
                await trio.sleep(0.05)
            jobs.go("a")
            await jobs.grain("wait", "1")
            await jobs.until_lines("a", "begun 1", "ended")


async def test_a_dispatcher_serves_again_if_the_later_one_was_killed(jobs: Jobs) -> None:
    """Also the scheduler serves it, which has seen the later one."""
    with jobs.gnaw(), jobs.site.worker("w", Cores=2), trio.fail_after(300):
        await jobs.submit("job.sh", "a")
        await jobs.until_lines("a", "begun 1")
        first = await jobs.dispatcher()
        async with jobs.successor(first) as second:
            await jobs.submit("job.sh", "b")
            await jobs.until_lines("b", "begun 1")
            second.kill()
            second.wait()
        os.kill(first, signal.SIGCONT)
        while await jobs.dispatcher() != first:
            await trio.sleep(0.05)
        for name in ("a", "b"):
            jobs.go(name)
        await jobs.submit("job.sh", "c")
        await jobs.until_lines("c", "begun 1")
        assert await jobs.dispatcher() == first
        jobs.go("c")
        await jobs.grain("wait", "1", "2", "3")
        await jobs.until_lines("a", "begun 1", "ended")


async def test_failed_tasks_run_again_by_retries_and_on_request(more: Jobs) -> None:
    fail = "echo x >> failed; exit 4"
    with trio.fail_after(300):
        number = await more.submit("--retries", "1", "sh", "-c", fail)
        done = await more.site.typed("wait", number)
        assert done.returncode == 1
        assert "exit status 4" in done.stderr
        assert (more.site.folder / "failed").read_text() == "x\n" * 2
        assert "1 task runs again" in await more.grain("resubmit", "--failed", number)
        await more.site.typed("wait", number)
        assert (more.site.folder / "failed").read_text() == "x\n" * 4


async def test_jobs_wait_for_others_and_for_release(more: Jobs) -> None:
    with trio.fail_after(300):
        first = await more.submit("job.sh", "a")
        after = await more.submit("--after", first, "sh", "-c", "echo after >> order")
        held = await more.submit("-H", "sh", "-c", "echo held >> order")
        await more.until_lines("a", "begun 1")
        found = await more.list()
        assert found[int(after)]["reason"] == "for other jobs"
        assert found[int(held)]["reason"] == "on hold"
        more.go("a")
        await more.grain("wait", after)
        await more.grain("release", held)
        await more.grain("wait", held)
        assert (more.site.folder / "order").read_text() == "after\nheld\n"


async def test_lists_name_jobs_and_history_counts_those_that_failed(jobs: Jobs) -> None:
    (jobs.site.folder / "lines").write_text("0\n3\n")
    with jobs.gnaw(), jobs.site.worker("w", Cores=1), trio.fail_after(300):
        await jobs.submit("-J", "opt", "--each-line", "lines", "--", "sh", "-c", "exit {}")
        assert (await jobs.site.typed("wait", "1")).returncode == 1
        await jobs.submit("job.sh", "a")
        waiting = await jobs.submit("-a", "5-6", "job.sh", "a")
        await jobs.until_lines("a", "begun 1")
        # The view, which has the names, is written a second or so later.
        names, listed = (f"queue:{waiting}_5", "runs queue:2\n"), ""
        while not all(name in listed for name in names):
            await trio.sleep(0.1)
            listed = await jobs.grain("ls")
        while True:  # the log is written now and then
            history = json.loads(await jobs.grain("history", "--json", "queue"))
            opt = history["functions"].get("opt")
            if opt is not None and opt["done"] + opt["failed"] == 2:
                break
            await trio.sleep(0.1)
        assert (opt["done"], opt["failed"]) == (1, 1)
        [cause] = history["causes"]
        assert "exit 3: sh" in await jobs.grain("history", "--failed", "queue")
        task = cause["calls"][0]["task"]
        assert "task 1_2 has failed" in await jobs.grain("why", f"queue:{task}")


async def test_a_dispatcher_that_cannot_serve_is_not_silent(jobs: Jobs) -> None:
    with jobs.gnaw(), trio.fail_after(300):
        await jobs.submit("-H", "true")
        await jobs.kill_dispatcher()
        # A link that leads to itself.
        (jobs.folder / "attempts/0").unlink()
        (jobs.folder / "attempts/0").symlink_to("0")
        begun = await jobs.site.typed("queue", "start")
        assert begun.returncode == 1
        assert "the dispatcher has ended at once: grain: " in begun.stderr
        assert "symbolic links" in begun.stderr


async def loops(site: Site, shells: int, times: int, *command: str) -> list[list[int]]:
    """Have shells run a command at once, each so many times; return the numbers each prints."""
    script = 'n=$1; shift; while [ $n -gt 0 ]; do "$@" || exit; n=$((n - 1)); done'
    words = ["sh", "-c", script, "sh", str(times), *command]
    found: list[list[int]] = []

    async def one() -> None:
        done = await trio.run_process(words, cwd=site.folder, env=site.environ, capture_stdout=True)
        found.append([int(number) for number in done.stdout.split()])

    async with trio.open_nursery() as nursery:
        for _ in range(shells):
            nursery.start_soon(one)
    return found


@pytest.mark.nightly
async def test_a_loop_of_sbatch_gives_each_number_once_and_all_jobs_end(jobs: Jobs) -> None:
    """Of 200 jobs; docs/performance.md has the figures of 10,000."""
    with jobs.gnaw(), jobs.site.worker("w", Cores=2), trio.fail_after(800):
        sbatch = (await jobs.grain("slurm")).strip() + "/sbatch"
        words = ("--parsable", "-o", "/dev/null", "--wrap", "true")
        assert await loops(jobs.site, 1, 200, sbatch, *words) == [list(range(1, 201))]
        await jobs.grain("wait", "all")
        assert {one["state"] for one in (await jobs.list()).values()} == {"done"}
        assert len(list(jobs.folder.glob("live/attempts-*/*.ended"))) == 200


@pytest.mark.nightly
async def test_shells_that_submit_at_once_get_different_numbers(jobs: Jobs) -> None:
    with jobs.gnaw(), jobs.site.worker("w", Cores=2), trio.fail_after(800):
        command = jobs.site.command("-m", "grain.cli", "submit", "--parsable", "--", "true")
        found = await loops(jobs.site, 6, 20, *command)
        assert all(numbers == sorted(numbers) for numbers in found)
        assert sorted(n for numbers in found for n in numbers) == list(range(1, 121))
        await jobs.grain("wait", "all")
        assert {one["state"] for one in (await jobs.list()).values()} == {"done"}


async def test_an_array_with_too_many_failures_is_cancelled_and_runs_again_on_request(
    more: Jobs,
) -> None:
    script = "[ $GRAIN_ARRAY_TASK_ID -gt 2 ] || [ -e good ] || exit 3\n"
    script += "until [ -e good ]; do sleep 0.05; done"
    with trio.fail_after(300):
        number = await more.submit("-a", "1-40", "--halt", "fail=2", "sh", "-c", script)
        done = await more.site.typed("wait", number)
        assert done.returncode == 40
        found = (await more.list())[int(number)]
        ends = [task[-1]["how"] for task in found["attempts"].values()]
        assert (ends.count("exit"), ends.count("cancelled")) == (2, 38)
        assert "--halt fail=2" in await more.grain("jobs", number)
        (more.site.folder / "good").touch()
        assert "40 tasks run again" in await more.grain("resubmit", "--failed", number)
        await more.grain("wait", number)
        assert (await more.list())[int(number)]["state"] == "done"


async def test_a_queue_of_its_own_takes_jobs_later_and_is_waited_for_as_a_whole(
    more: Jobs,
) -> None:
    with trio.fail_after(300):
        for name in ("a", "b"):
            await more.grain("submit", "--queue", "opt", "job.sh", name)
        more.go("a")
        await more.until_lines("a", "begun 1", "ended")
        more.go("b")
        await more.grain("wait", "--queue", "opt", "all")
        await more.until_lines("b", "begun 1", "ended")
        await more.grain("submit", "--queue", "opt", "-H", "job.sh", "c")
        cancelled = (await more.grain("cancel", "opt:all")).splitlines()
        assert cancelled[-1] == "job 3 is cancelled; it waited"
        await more.grain("queue", "stop", "--queue", "opt")
