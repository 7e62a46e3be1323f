"""Commands that speak Slurm, with a real dispatcher and real workers, as tools call them."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from command_site import Site, shell
from test_queue import Jobs

from grain.cli.slurm.__main__ import answer
from grain.cli.slurm.here import Here

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Tool:
    """A tool that knows Slurm only: it calls commands on PATH, and reads what they say."""

    def __init__(self, jobs: Jobs) -> None:
        self.folder = jobs.site.folder
        self._commands = ""
        self._jobs = jobs

    async def start(self) -> None:
        self._commands = (await self._jobs.grain("slurm")).strip()

    async def call(
        self, *words: str, status: int = 0, stdin: str = "", folder: Path | None = None
    ) -> str:
        """Return the output of a command, with standard error as many tools read it."""
        more = {"cwd": folder or self.folder, "input": stdin, "stderr": subprocess.STDOUT}
        done = await trio.to_thread.run_sync(partial(self.done, *words, **more))
        assert done.returncode == status, done.stdout
        return done.stdout

    def done(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a command, and return how it has ended."""
        path = f"{self._commands}:{self._jobs.site.environ['PATH']}"
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder}
        options: dict[str, Any] = {"text": True, "timeout": 120, **streams, **more}
        env = {**self._jobs.site.environ, "PATH": path}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            words, env=env, check=False, **options
        )
        return done

    async def submit(self, *words: str, script: str) -> str:
        (self.folder / "script.sh").write_text(f"#!/bin/bash\n{script}\n")
        return (await self.call("sbatch", "--parsable", *words, "script.sh")).strip()

    def answer(self, *words: str) -> str:
        """Return the output of a command that this process runs: starting another costs much more.

        It is for polls, and for what a test is not about.
        """
        with shell(self.folder, self._jobs.site.environ):
            found = answer(Here(words[0], self._commands, os.environ), [*words[1:]])
        assert (found.status, found.err) == (0, "")
        return found.out

    async def until(self, number: str, state: str) -> None:
        """Ask until a job has a state."""
        while set(self.answer(*f"squeue -h -t all -o %t -j {number}".split()).split()) != {state}:
            await trio.sleep(0.1)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
async def tool(tmp_path: Path) -> AsyncIterator[Tool]:
    jobs = Jobs(Site(tmp_path))
    tool = Tool(jobs)
    await tool.start()
    with jobs.site.gnaw(), jobs.site.worker("w", Cores=2, Memory=1, Host="auto"):
        yield tool
        await jobs.grain("queue", "stop")


async def test_jobs_run_as_under_slurm(tool: Tool) -> None:
    with trio.fail_after(300):
        good = await tool.submit(
            "-J",
            "good",
            "-c",
            "2",
            script="echo $SLURM_JOB_ID $SLURM_CPUS_PER_TASK $SLURM_JOB_NAME",
        )
        bad = await tool.submit("-o", "%x-%j.log", "-J", "bad", script="echo no >&2; exit 3")
        array = await tool.submit(
            "-a", "1-2", "-o", "%A_%a.log", script="echo $SLURM_ARRAY_TASK_ID; srun -l hostname"
        )
        after = await tool.submit("-d", f"afterok:{array}", script="ls *.log")
        for number in (good, after):
            await tool.until(number, "CD")
        await tool.until(bad, "F")
        assert tool.text(f"slurm-{good}.out").split() == [good, "2", "good"]
        assert tool.text(f"bad-{bad}.log") == "no\n"
        host = (await tool.call("hostname")).strip()
        assert [tool.text(f"{array}_{task}.log") for task in (1, 2)] == [
            f"{task}\n0: {host}\n" for task in (1, 2)
        ]
        assert f"{array}_1.log" in tool.text(f"slurm-{after}.out")
        form = ["-n", "-X", "-P", "-o", "JobID,State,ExitCode", "-j", f"{good},{bad},{array}"]
        assert (await tool.call("sacct", *form)).splitlines() == [
            f"{good}|COMPLETED|0:0", f"{bad}|FAILED|3:0", f"{array}_1|COMPLETED|0:0",
            f"{array}_2|COMPLETED|0:0",
        ]  # fmt: skip
        assert "JobState=FAILED Reason=NonZeroExitCode" in await tool.call(
            "scontrol", "show", "job", bad
        )


async def test_a_job_is_cancelled(tool: Tool) -> None:
    with trio.fail_after(300):
        number = await tool.submit(script="sleep 600")
        await tool.until(number, "R")
        await tool.call("scancel", number)
        await tool.until(number, "CA")


async def test_what_waits_for_a_worker_begins_as_it_was_asked_for_meanwhile(tool: Tool) -> None:
    with (tool.folder / "grain.toml").open("a") as file:
        file.write('Host = "auto"\n')  # of [worker.res]
    host = socket.gethostname().partition(".")[0]
    with trio.fail_after(300):
        first = await tool.submit("-n2", script="until [ -e go ]; do sleep 0.1; done")
        await tool.until(first, "R")
        held = await tool.submit("-n2", script="touch ran")
        away = await tool.submit("-x", host, script="touch ran")
        short = await tool.submit("-w", host, script="sleep 600")
        await tool.call("scontrol", "hold", held)
        await tool.call("scontrol", "update", f"JobId={short}", "TimeLimit=0:01")
        (tool.folder / "go").touch()
        await tool.until(short, "TO")
        asked = ("squeue", "-h", "-o", "%i %t %r", "-j", held)
        assert f"{held} PD JobHeldUser\n" == await tool.call(*asked)
        assert f"{away} PD\n" == await tool.call("squeue", "-h", "-o", "%i %t", "-j", away)
        assert not (tool.folder / "ran").exists()
        await tool.call("scontrol", "release", held)
        await tool.until(held, "CD")
        await tool.call("scancel", away)


async def test_a_script_can_trap_a_signal_and_have_itself_run_again(tool: Tool) -> None:
    script = (
        "trap 'echo caught; scontrol requeue $SLURM_JOB_ID' USR2\n"
        'echo "run ${SLURM_RESTART_COUNT:-0}"\n'
        '[ "$SLURM_RESTART_COUNT" ] && exit 0\n'
        "touch begun; while true; do sleep 0.1; done"
    )
    with trio.fail_after(300):
        number = await tool.submit("--open-mode=append", script=script)
        while not (tool.folder / "begun").exists():
            await trio.sleep(0.1)
        await tool.call("scancel", "-b", "-s", "USR2", number)
        await tool.until(number, "CD")
        first, caught, ended, second = tool.text(f"slurm-{number}.out").splitlines()
        assert (first, caught, second) == ("run 0", "caught", "run 1")
        assert f"*** JOB {number} ON " in ended
        assert ended.endswith(" DUE TO JOB REQUEUE ***")


async def test_what_nextflow_calls(tool: Tool) -> None:
    """As its executor ``slurm`` does, by its source, with what matters of the scripts it writes."""

    async def submit(name: str, command: str, *directives: str) -> str:
        work = tool.folder / "work" / name
        work.mkdir(parents=True)
        lines = [f"-J nf-{name}", f'-o "{work}/.command.log"', "--no-requeue",
                 "--signal B:USR2@30", "--mem 100M", *directives]  # fmt: skip
        script = [
            "#!/bin/bash",
            *(f"#SBATCH {line}" for line in lines),
            "trap 'printf -- ${status:=0} > .exitcode' EXIT",
            "trap 'kill $pid' TERM INT USR2",
            f"({command}) > .command.out & pid=$!",
            "wait $pid || status=$?",
            "exit $status",
        ]
        (work / ".command.run").write_text("\n".join([*script, ""]))
        said = await tool.call("sbatch", ".command.run", folder=work)
        assert re.fullmatch(r"Submitted batch job \d+\n", said)
        return said.split()[-1]

    async def until(**states: str) -> None:
        query = ("squeue", "--noheader", "-o", "%i %t", "-t", "all", "-u", getpass.getuser())
        wanted = {f"{numbers[name]} {state}" for name, state in states.items()}
        while not wanted <= set(tool.answer(*query).splitlines()):
            await trio.sleep(0.1)
        assert wanted <= set((await tool.call(*query)).splitlines())

    with trio.fail_after(300):
        numbers = {
            "good": await submit("good", "echo result", "-c 2", "-t 00:10:00"),
            "bad": await submit("bad", "exit 3"),
            "late": await submit("late", "sleep 600", "-t 00:00:33"),
        }
        await until(good="CD", bad="F", late="F")
        for name, status in {"good": "0", "bad": "3", "late": "140"}.items():
            assert tool.text(f"work/{name}/.exitcode") == status
        assert tool.text("work/good/.command.out") == "result\n"
        numbers = {name: await submit(name, "sleep 600") for name in ("one", "two", "three")}
        await until(one="R", two="R", three="PD")
        assert await tool.call("scancel", *numbers.values()) == ""
        await until(one="CA", two="CA", three="CA")


async def test_srun_outside_of_a_job_shows_its_output_and_its_status(tool: Tool) -> None:
    with trio.fail_after(300):
        assert await tool.call("srun", "-n2", "-l", "sh", "-c", "echo $SLURM_NTASKS") in (
            "0: 2\n1: 2\n", "1: 2\n0: 2\n",
        )  # fmt: skip
        script = "echo out $SLURM_STEP_ID $SLURM_NTASKS; echo err >&2; exit 3"
        found = await tool.call("srun", "sh", "-c", script, status=3)
        err, out, why = sorted(found.splitlines())
        assert ("err", "out 0 1") == (err, out)
        assert re.fullmatch(r"srun: error: [\w-]+: task 0: Exited with exit code 3", why)
        found = await tool.call("srun", "no-such-program", status=2)
        assert "error: execve(): no-such-program: No such file" in found
        assert await tool.call("sbatch", "-W", "--wrap", "exit 4", status=4) != ""
        assert await tool.call("sbatch", "-W", "--wrap", "kill -9 $$", status=1) != ""
        assert await tool.call("srun", "-n2", "-o", "out-%t", "echo", "x") == ""
        assert (tool.text("out-0"), tool.text("out-1")) == ("x\n", "x\n")
        assert await tool.call("srun", "cat", stdin="from a pipe\n") == "from a pipe\n"
        assert await tool.call("srun", "sh", "-c", "srun cat < out-0") == "x\n"
        assert await tool.call("sh", "-c", "srun cat < out-0") == "x\n"
        assert await tool.call("srun", "-i", "none", "cat", stdin="x") == ""
        assert await tool.call("srun", "-n2", "-l", "-i", "out-%t", "cat") in (
            "0: x\n1: x\n", "1: x\n0: x\n",
        )  # fmt: skip
        assert await tool.call("srun", "-n2", "-l", "-i", "1", "cat", stdin="x\n") == "1: x\n"
