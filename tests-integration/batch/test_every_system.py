"""What Grain relies on in every batch system: fakes of all, a real Slurm, a real Grid Engine.

Submit, see, warn, cancel, refuse, forget, no answer, in doubt, stuck, started again. The suite
tells the first story of each batch system, and the others of those that differ most in it; the
nightly session tells each of each.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from fake_batch.start import Batch, Missing, fake, real, until
from fake_small.start import real_grid_engine, small

from grain.cli.batch import (
    BatchError,
    BatchJob,
    BatchSystem,
    BatchUnreachable,
    JobPhase,
    JobRecords,
    SubmissionUnknown,
    is_mark,
    open_system,
    worker_job,
)
from grain.cli.batch.opening import commands_of
from grain.cli.batch.tracked import SETTLED, UNSEEN, Tracked
from grain.cli.workers.submission import recorded
from grain.config import load
from grain.files.batch_systems import BATCH_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = datetime.datetime(2026, 3, 4, 9, 30, 15)
TEXT = """
system = "{system}"
{more}
[worker.env]
GRAIN_TEST_STOP = "{folder}/stop"
[script]
cores = {cores}
memory = 1
walltime = "00:10:00"
setup_cleanup = ["echo set up", "defer echo clean"]
{script}
"""
CUSTOM = r"""
[custom_system]
submit_cmd = "sh -c 'bsub < $0'"
directory = "{folder}/jobs"
template = '''
{{{{shebang}}}}
#BSUB -J {{{{name}}}}
#BSUB -o "{{{{log_file}}}}"
#BSUB -q {{{{queue}}}}

{{{{body}}}}
'''
id_pattern = 'Job <(\d+)>'
status_cmd = "own-status"
phases = {{ waiting = "pending", held = "stuck", ended = "gone" }}
cancel_cmd = "own-cancel"
"""
# A fake of ssh: every host is this machine, unless a file says that it is down.
SSH = """\
#!/bin/sh
[ "$1 $2 $3 $4" = "-o BatchMode=yes -o ConnectTimeout=10" ] || exit 2
host=$5
shift 5
if [ -e "$FAKE_SSH_DOWN" ]; then
    echo "ssh: connect to host $host port 22: Connection timed out" >&2
    exit 255
fi
[ "$host" != nowhere ] || { echo "ssh: Could not resolve hostname nowhere" >&2; exit 255; }
exec env - PATH=/usr/bin:/bin HOME="$HOME" "$@"
"""
STATUS = 'for i; do [ ! -e "$FAKE_SMALL/$i" ] || echo "$i $(cat "$FAKE_SMALL/$i/state") why"; done'


@dataclass(frozen=True)
class Site:
    """A batch system, and how it is provoked.

    Attributes:
        system: Its name in the configuration.
        env: The environment variables by which its commands are found and find it.
        batch: Its own commands; None for ssh.
        unknown: An id that it does not know.
        refusal: The setting that it refuses, and the beginning of the remedy.
        stuck: The setting by which a job never starts.
        warned: What the worker of a warned job gets; empty if there is no warning.
        farewell: True if a job that is cancelled has its say.
    """

    system: str
    env: dict[str, str]
    batch: Batch | None
    unknown: str
    refusal: tuple[str, str]
    stuck: str = ""
    warned: str = ""
    farewell: bool = True

    def order(self, job: str, word: str) -> None:
        """Give an order to the shepherd of a small fake's job."""
        from pathlib import Path

        number = job.split(".")[0]
        if self.system == "flux":
            number = str("123456789ABCDEFGHJKLMN".index(number[-1]))
        Path(self.env["FAKE_SMALL"], number, f"order.{word}").touch()

    def out(self, *words: str) -> None:
        assert self.batch is not None
        done = self.batch.run(*words)
        assert 0 == done.returncode, done

    def warn(self, job: str) -> None:
        """Give the warning before the end of the time."""
        if self.system == "slurm":
            self.out("scancel", "--signal=USR1", "--batch", job)
        elif self.system == "pbs":
            self.out("qsig", "-s", "USR1", job)
        elif self.system == "ssh":
            os.kill(int(job.split(":")[1]), signal.SIGUSR1)
        else:
            self.order(job, "warn")

    def start_again(self, job: str) -> None:
        """Have the batch system start a job again, under its id."""
        if self.system == "slurm":
            self.out("scontrol", "requeue", job)
            assert self.batch is not None
            words = ("squeue", "-h", "-o", "%T", "-j", job)
            until(lambda: self.batch and self.batch.run(*words).stdout.strip() == "PENDING")
            self.out("scontrol", "update", f"jobid={job}", "StartTime=now")
        elif self.system == "pbs":
            self.out("qrerun", job)
        elif "FAKE_SMALL" in self.env:
            self.order(job, "requeue")
        else:
            self.out("qmod", "-rj", job)


QUEUE = 'queue = "nope"', "Set script.queue to a "
SLURM_STUCK = 'queue = "short"'
SITES = (*BATCH_SYSTEMS, "real slurm", "real sge", "ssh", "custom")


def different(env: dict[str, str]) -> dict[str, str]:
    """The variables that a batch system needs beside those of everybody."""
    return {name: text for name, text in env.items() if os.environ.get(name) != text}


@contextlib.contextmanager
def opened(name: str, folder: Path) -> Iterator[Site]:
    """The site of a name.

    Raises:
        Missing: It is not to be had here.
    """
    with contextlib.ExitStack() as stack:

        def of(system: str, batch: Batch, unknown: str, **more: object) -> Site:
            refusal = more.pop("refusal", QUEUE)
            return Site(system, different(batch.env), batch, unknown, refusal, **more)  # type: ignore[arg-type]

        if name.endswith("slurm"):
            batch = stack.enter_context(
                fake("slurm", folder, pace=0) if name == "slurm" else real("--kill-wait=20")
            )
            yield of("slurm", batch, "99999", stuck=SLURM_STUCK, warned="USR1")
        elif name == "pbs":
            batch = stack.enter_context(fake("pbs", folder, pace=0))
            yield of("pbs", batch, "999.pbs", stuck="cores = 99", warned="USR1")
        elif name == "real sge":
            batch, _ = stack.enter_context(real_grid_engine())
            yield of("sge", batch, "99999", stuck="log")
        elif name == "ssh":
            folder.mkdir(exist_ok=True)
            path = folder / "ssh"
            path.write_text(SSH)
            path.chmod(0o755)
            env = {
                "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
                "FAKE_SSH_DOWN": str(folder / "down"),
            }
            refusal = "nowhere", "Correct `hosts` in the configuration."
            yield Site("ssh", env, None, "n1:4194305:1", refusal, warned="USR1")
        else:
            batch = stack.enter_context(small("lsf" if name == "custom" else name, folder))
            if name == "custom":
                commands = folder / "bin/lsf"
                for command, text in ("own-status", STATUS), ("own-cancel", 'bkill "$@" || :'):
                    (commands / command).write_text(f"#!/bin/sh\n{text}\n")
                    (commands / command).chmod(0o755)
            unknown = {"htcondor": "999.0", "flux": "ƒzzzz"}.get(name, "999")
            condor = 'queue = "nope"', "Leave it unset"
            refusal = {"htcondor": condor, "custom": ('queue = "nope"', "")}.get(name, QUEUE)
            yield of(
                name,
                batch,
                unknown,
                refusal=refusal,
                stuck="log" if name == "sge" else "hold",
                warned={"htcondor": "", "sge": "TERM"}.get(name, "USR1"),
                farewell=name != "oar",
            )


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Each batch system in turn."""
    folder = tmp_path_factory.mktemp("site") / "x"
    if request.param == "oar" and " " in str(folder):
        pytest.skip("OAR takes no path with a space in it")
    try:
        with opened(request.param, folder) as one:
            yield one
    except Missing as missing:
        pytest.skip(str(missing))


def told_of(*by_day: str) -> pytest.MarkDecorator:
    """Tell a story of these batch systems by day, and of the others by night."""
    sites = [
        name if name in by_day else pytest.param(name, marks=pytest.mark.nightly) for name in SITES
    ]
    return pytest.mark.parametrize("site", sites, indirect=True)


Start = tuple[BatchSystem, BatchJob]


@pytest.fixture
def start(site: Site, worker: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Start]:
    """The batch system and the worker's job, with more settings of [script]."""
    worker.chdir(tmp_path)
    for name, text in site.env.items():
        # The worker of the test comes first, then the commands of the batch system.
        own = f"{tmp_path / 'bin'}{os.pathsep}{text}"
        worker.setenv(name, own if name == "PATH" else text)

    def open_with(script: str = "", **replaced: str) -> Start:
        hosts = "hosts = ['n1', 'n2']" if site.system == "ssh" else ""
        if site.system == "ssh" and script == "nowhere":
            hosts, script = "hosts = ['nowhere']", ""
        if site.system == "custom" and "queue" not in script:
            script += 'queue = "normal"'
        cores = 1 if site.system == "ssh" or "cores" in script else 2
        text = TEXT.format(
            system=site.system, more=hosts, folder=tmp_path, cores=cores, script=script
        )
        if site.system == "custom":
            text += CUSTOM.format(folder=tmp_path)
        if "cores" in script:
            text = text.replace("cores = 1\n", "", 1)
        (tmp_path / "grain.toml").write_text(text)
        config = load(tmp_path / "grain.toml")
        job = worker_job(config, now=NOW, folder=str(tmp_path), path=str(tmp_path / "bin"))
        system = open_system(config, now=NOW)
        return system, replace(job, **replaced)  # type: ignore[arg-type]

    return open_with


def log(folder: Path, name: str = "w093015.log") -> str:
    """The output of a job, wherever PBS has it before its end."""
    texts = [path.read_text() for path in folder.glob(name)]
    return "".join(texts)


def phase(system: BatchSystem, one: str) -> JobPhase:
    return system.states([one])[one].phase


def begin(site: Site, system: BatchSystem, job: BatchJob, folder: Path) -> str:
    """Submit one worker that is to begin; return its id."""
    [one] = system.submit(job, 1)
    until(lambda: phase(system, one.id) is JobPhase.RUNNING)
    if site.system == "pbs":  # whose output comes at the end
        from pathlib import Path

        spool = Path(site.env["FAKE_BATCH"], "spool", f"{one.id.removesuffix('.pbs')}.OU")
        until(lambda: spool.exists() and "worker: --url" in spool.read_text())
    else:
        until(lambda: "worker: --url" in log(folder))
    return one.id


@told_of(*SITES)
def test_workers_are_submitted_seen_and_cancelled(
    site: Site, start: Callable[..., Start], tmp_path: Path
) -> None:
    """Two have names and logs of their own; when they end, they clean up."""
    system, job = start()

    jobs = list(system.submit(job, 2))
    ids = [one.id for one in jobs]
    until(lambda: all(phase(system, one) is JobPhase.RUNNING for one in ids))
    states = system.states([*ids, site.unknown])
    if site.system != "pbs":
        until(lambda: all(f"--name {j.name}" in log(tmp_path, f"{j.name}.log") for j in jobs))
    system.cancel(ids)
    until(lambda: all(phase(system, one) is JobPhase.GONE for one in ids))
    system.cancel([*ids, site.unknown])

    assert 2 == len(set(ids))
    assert ["w093015-0", "w093015-1"] == [one.name for one in jobs]
    assert [f"{tmp_path}/{one.name}.log" for one in jobs] == [one.log_file for one in jobs]
    assert JobPhase.GONE is states[site.unknown].phase
    if site.system != "custom":
        assert all(states[one].node for one in ids)
    if site.farewell:
        until(lambda: all("clean" in log(tmp_path, f"{one.name}.log") for one in jobs))
    for one in jobs:
        # Not as the first line: some batch systems start jobs by a login shell, whose profile
        # may print lines of its own.
        lines = log(tmp_path, f"{one.name}.log").splitlines()
        begun = [line for line in lines if line == "set up" or line.startswith("worker: --url")]
        assert "set up" == begun[0]
        assert 2 == len(begun)
        if site.farewell:
            assert 1 == log(tmp_path, f"{one.name}.log").count("worker: TERM")


@pytest.mark.parametrize("site", ["real sge"], indirect=True)
def test_jobs_of_the_real_grid_engine_read_no_profile(
    site: Site, start: Callable[..., Start], tmp_path: Path
) -> None:
    """The profile of whoever runs the tests may print lines, or take a minute."""
    system, job = start()

    # A login shell has a dash before its name.
    list(system.submit(replace(job, main="sh -c 'ps -o args= -p $PPID'"), 1))
    until(lambda: "clean" in log(tmp_path))

    first, shell, last = log(tmp_path).splitlines()
    assert ("set up", "bash", "clean") == (first, shell.split()[0], last)


@told_of("sge", "flux")
def test_a_warning_reaches_the_worker_and_does_not_end_it(
    site: Site, start: Callable[..., Start], tmp_path: Path
) -> None:
    """Grid Engine's comes when the time is over, so it ends the worker in peace."""
    if not site.warned:
        pytest.skip("it gives no warning, or not to order")
    system, job = start()
    one = begin(site, system, job, tmp_path)

    site.warn(one)
    if site.system == "pbs":
        system.cancel([one])
    until(lambda: f"worker: {site.warned}" in log(tmp_path))

    if site.warned == "USR1" and site.system != "pbs":
        assert JobPhase.RUNNING is phase(system, one)
    system.cancel([one])
    until(lambda: phase(system, one) is JobPhase.GONE)


@told_of("htcondor", "oar")
def test_a_refusal_names_the_setting_to_change(site: Site, start: Callable[..., Start]) -> None:
    setting, remedy = site.refusal
    system, job = start(setting)

    with pytest.raises(BatchError) as info:
        list(system.submit(job, 1))

    assert info.value.remedy.startswith(remedy)
    assert not isinstance(info.value, BatchUnreachable)


@told_of("sge", "lsf")
def test_a_job_that_never_starts_is_stuck_and_can_be_cancelled(
    site: Site, start: Callable[..., Start]
) -> None:
    if not site.stuck:
        pytest.skip("its jobs start or fail at once")
    from pathlib import Path

    hold = Path(site.env.get("FAKE_SMALL", "/nonexistent"), "hold")
    if site.stuck == "log":
        system, job = start(log_file="/nonexistent/w.log")
    elif site.stuck == "hold":
        system, job = start()
        hold.touch()
    else:
        system, job = start(site.stuck)
    try:
        [one] = system.submit(job, 1)
    finally:
        hold.unlink(missing_ok=True) if hold.parent.exists() else None
    until(lambda: phase(system, one.id) is JobPhase.STUCK)

    assert "" != system.states([one.id])[one.id].reason
    system.cancel([one.id])
    until(lambda: phase(system, one.id) is JobPhase.GONE)


@told_of("slurm", "htcondor")
def test_a_job_that_is_started_again_keeps_its_id(
    site: Site, start: Callable[..., Start], tmp_path: Path
) -> None:
    if site.system == "ssh":
        pytest.skip("nobody starts a process again")
    system, job = start()
    one = begin(site, system, job, tmp_path)

    site.start_again(one)
    if site.system == "pbs":
        assert site.batch is not None
        until(lambda: "run_count = 2" in site.batch.run("qstat", "-f", one).stdout)  # type: ignore[union-attr]
    elif site.system in {"slurm", "sge"}:
        until(lambda: "--name w093015-r1" in log(tmp_path, "w093015-r1.log") + log(tmp_path))
    elif site.system != "htcondor":  # which writes its output again
        until(lambda: log(tmp_path).count("worker: --url") == 2)
    until(lambda: phase(system, one) is JobPhase.RUNNING)

    system.cancel([one])
    until(lambda: phase(system, one) is JobPhase.GONE)


@told_of("sge")
@pytest.mark.parametrize("status", [99, 100])
def test_no_exit_status_of_a_worker_has_its_job_run_again(
    site: Site, start: Callable[..., Start], tmp_path: Path, status: int
) -> None:
    system, job = start(main=f"sh -c 'echo ran; exit {status}'")

    [one] = system.submit(job, 1)
    until(lambda: phase(system, one.id) is JobPhase.GONE)
    until(lambda: "clean" in log(tmp_path))

    assert 1 == log(tmp_path).count("ran\n")


@told_of("ssh", "oar")
def test_no_answer_is_no_end(site: Site, start: Callable[..., Start], tmp_path: Path) -> None:
    """Not of a job, and not of a submission, which may succeed later."""
    if site.system in {"slurm", "pbs"} or (site.system == "sge" and "FAKE_SMALL" not in site.env):
        pytest.skip("tested where it can be silenced")
    if site.system == "custom":
        pytest.skip("only its user knows the words of its silence")
    from pathlib import Path

    system, job = start()
    one = begin(site, system, job, tmp_path)
    silence = Path(site.env.get("FAKE_SSH_DOWN") or f"{site.env['FAKE_SMALL']}/deaf")
    silence.touch()
    try:
        with pytest.raises(BatchUnreachable):
            list(system.submit(job, 1))
        if site.system == "ssh":
            assert JobPhase.UNKNOWN is phase(system, one)
        else:
            with pytest.raises(BatchUnreachable):
                system.states([one])
        with pytest.raises(BatchUnreachable):
            system.cancel([one])
    finally:
        silence.unlink()

    assert JobPhase.RUNNING is phase(system, one)
    system.cancel([one])
    until(lambda: phase(system, one) is JobPhase.GONE)


# Hangs without end where it is to submit, before or after it has done so.
HANGS = """\
#!/bin/sh
case "$1" in --version|jobs|cancel) exec "{real}" "$@" ;; esac
cat > "{folder}/request.$$"
if [ {system} = ssh ] && ! grep -q grain-started "{folder}/request.$$"; then
    exec "{real}" "$@" < "{folder}/request.$$"
fi
[ {when} = before ] || "{real}" "$@" < "{folder}/request.$$" > /dev/null 2>&1
touch "{folder}/hangs"
exec sleep 100000
"""


@contextlib.contextmanager
def hanging(site: Site, folder: Path, when: str, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command that submits hangs, and its time is over as soon as it does."""
    name, *_ = commands_of("lsf" if site.system == "custom" else site.system).names
    path = folder / "bin" / name
    real_one = shutil.which(name, path=site.env.get("PATH", os.environ["PATH"]))
    path.write_text(HANGS.format(real=real_one, folder=folder, system=site.system, when=when))
    path.chmod(0o755)

    class Hanging(subprocess.Popen):  # type: ignore[type-arg]
        def communicate(self, input=None, timeout=None):  # type: ignore[no-untyped-def]  # noqa: A002, ARG002
            while True:
                try:
                    return super().communicate(input, 0.1)
                except subprocess.TimeoutExpired:
                    input = None  # noqa: A001 - it has been sent
                    if (folder / "hangs").exists():
                        raise

    with patch.context() as patched:
        patched.setattr("grain.cli.batch.command.subprocess.Popen", Hanging)
        yield
    path.unlink()
    (folder / "hangs").unlink()


def numbered(one: str) -> str:
    """Return an id without its host: those of the fake ssh are all this machine."""
    return one.split(":", 1)[-1]


def submit_in_doubt(
    site: Site, start: Callable[..., Start], folder: Path, when: str, patch: pytest.MonkeyPatch
) -> tuple[BatchSystem, BatchJob, JobRecords, str]:
    """Submit by a command that hangs; return what there is, and the mark of its record."""
    system, job = start(name=f"w{when}")
    config = load(folder / "grain.toml")
    with (
        hanging(site, folder, when, patch),
        pytest.raises(SubmissionUnknown, match="It is unknown whether the batch system has w"),
    ):
        list(recorded(config, lambda: system.submit(job, 1), [job]))
    store = JobRecords(folder / "state/grain/jobs")
    [record] = store.read()
    assert is_mark(record.id)
    return system, job, store, record.id


def later(system: BatchSystem, store: JobRecords, seconds: float) -> Tracked:
    """The same batch system after a while."""
    import time

    return Tracked(system, store, lambda: time.time() + seconds)


@told_of("custom", "pbs")
def test_a_submission_that_hangs_after_it_was_accepted_makes_one_job(
    site: Site, start: Callable[..., Start], worker: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is found by its name, adopted, and ended like any other."""
    system, job, store, mark = submit_in_doubt(site, start, tmp_path, "after", worker)
    if site.system == "custom":
        # Nobody can ask for it by name: it counts for a while.
        assert JobPhase.UNKNOWN is phase(system, mark)
        assert JobPhase.UNKNOWN is phase(later(system, store, UNSEEN - 60), mark)
        assert JobPhase.GONE is phase(later(system, store, UNSEEN), mark)
        until(lambda: "worker: --url" in log(tmp_path))
        (tmp_path / "stop").touch()
        until(lambda: "clean" in log(tmp_path))
        return

    until(lambda: phase(system, mark) is JobPhase.RUNNING)
    [adopted] = store.read()

    assert {numbered(adopted.id)} == {*map(numbered, system.find([job.name])[job.name])}
    assert (False, mark) == (is_mark(adopted.id), adopted.mark)
    system.cancel([mark])
    until(lambda: phase(system, adopted.id) is JobPhase.GONE)
    assert JobPhase.GONE is phase(system, mark)


@told_of("ssh", "lsf")
def test_a_submission_that_hangs_before_it_was_accepted_makes_place_for_one_job(
    site: Site, start: Callable[..., Start], worker: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It counts until it must be over; then another one may be submitted."""
    system, job, store, mark = submit_in_doubt(site, start, tmp_path, "before", worker)

    assert JobPhase.UNKNOWN is phase(system, mark)
    given_up = UNSEEN if site.system == "custom" else SETTLED
    assert JobPhase.GONE is phase(later(system, store, given_up), mark)

    one = begin(site, system, job, tmp_path)
    if site.system != "custom":
        assert {numbered(one)} == {*map(numbered, system.find([job.name])[job.name])}
    system.cancel([one])
    until(lambda: phase(system, one) is JobPhase.GONE)
