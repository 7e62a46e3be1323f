"""The ten tasks of docs/slurm.md, as a user types them who knows only Slurm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from command_site import Site
from test_queue import Jobs
from test_speaking_slurm import Tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

PAGE = Path(__file__).parent.parent / "docs/slurm.md"
JOB = """\
#!/bin/sh
#SBATCH -o %x-%A_%a.txt
echo "ran $SLURM_ARRAY_TASK_ID" >> job.log
"""
WAITING = "#!/bin/sh\n#SBATCH -a 1-5\nuntil [ -e go ]; do sleep 0.05; done\n"


def ten_tasks() -> Iterator[tuple[str, list[str]]]:
    """Yield the tasks of the page, and the commands for each."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("\n## Ten tasks\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 2 and "`" in cells[1]:
            yield cells[0], re.findall(r"`([^`]+)`", cells[1])


class Prompt(Tool):
    """A shell at which the commands of the page are typed."""

    async def typed(self, command: str, number: str = "12", status: int = 0) -> str:
        """Type a command of the page; the number of its job stands for 12."""
        return await self.call(
            "sh", "-c", re.sub(r"(?<!\d)12(?!\d)", number, command), status=status
        )

    async def submitted(self, command: str, number: str = "12") -> str:
        """Type a command that submits; return the number that it prints."""
        match = re.fullmatch(r"Submitted batch job (\d+)\n", await self.typed(command, number))
        assert match is not None
        return match[1]

    async def waiting(self, *options: str) -> str:
        """Submit an array of five tasks that go on until `go`; return its number."""
        (self.folder / "go").unlink(missing_ok=True)
        (self.folder / "waiting.sh").write_text(WAITING)
        return (await self.call("sbatch", "--parsable", *options, "waiting.sh")).strip()

    def go(self) -> None:
        (self.folder / "go").touch()

    def states(self, number: str) -> dict[str, str]:
        """Return the states of the tasks of a job, by their names."""
        found = self.answer("squeue", "-h", "-t", "all", "-o", "%i %t", "-j", number)
        return dict(line.split() for line in found.splitlines())

    def enter(self, name: str) -> None:
        """Change to a new directory with the files of the page."""
        self.folder = self._jobs.site.folder / name
        self.folder.mkdir()
        (self.folder / "job.sh").write_text(JOB)
        (self.folder / "next.sh").write_text("#!/bin/sh\necho next >> job.log\n")
        (self.folder / "mol.xyz").write_text("3\n")


@pytest.fixture
async def prompt(tmp_path: Path) -> AsyncIterator[Prompt]:
    jobs = Jobs(Site(tmp_path))
    # The program of the page is on PATH, which goes along with jobs.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/xtb").write_text('#!/bin/sh\necho "xtb $* on $SLURM_CPUS_ON_NODE"\n')
    (tmp_path / "bin/xtb").chmod(0o755)
    jobs.site.environ["PATH"] = f"{tmp_path / 'bin'}:{jobs.site.environ['PATH']}"
    prompt = Prompt(jobs)
    await prompt.start()
    with jobs.site.gnaw(), jobs.site.worker("w", Cores=4, Memory=10):
        yield prompt
        await jobs.grain("queue", "stop")


async def submit_a_script(prompt: Prompt, commands: list[str]) -> None:
    number = await prompt.submitted(commands[0])
    await prompt.until(number, "CD")
    assert prompt.text("job.log") == "ran \n"


async def submit_a_command(prompt: Prompt, commands: list[str]) -> None:
    number = await prompt.submitted(commands[0])
    await prompt.until(number, "CD")
    assert prompt.text(f"slurm-{number}.out") == "xtb mol.xyz on 4\n"


async def run_a_hundred_times(prompt: Prompt, commands: list[str]) -> None:
    number = await prompt.submitted(commands[0])
    await prompt.until(number, "CD")
    ran = sorted(int(line.split()[1]) for line in prompt.text("job.log").splitlines())
    assert ran == list(range(1, 101))


async def begin_after_another_job(prompt: Prompt, commands: list[str]) -> None:
    first = await prompt.waiting()
    number = await prompt.submitted(commands[0], first)
    assert prompt.states(number) == {number: "PD"}
    prompt.go()
    await prompt.until(number, "CD")
    assert prompt.text("job.log") == "next\n"


async def see_what_waits_and_runs(prompt: Prompt, commands: list[str]) -> None:
    number = await prompt.waiting()
    held = await prompt.waiting("-H")
    while "R" not in prompt.states(number).values():
        await trio.sleep(0.05)
    listed = await prompt.typed(commands[0])
    assert listed.split()[:4] == ["JOBID", "PARTITION", "NAME", "USER"]
    assert f"{number}_1" in listed
    assert listed.count("(JobHeldUser)") == 5
    prompt.go()
    await prompt.call("scancel", held)


async def see_how_jobs_ended(prompt: Prompt, commands: list[str]) -> None:
    bad = await prompt.submit(script="exit 3")
    await prompt.until(bad, "F")
    [line] = [one for one in (await prompt.typed(commands[0])).splitlines() if one.startswith(bad)]
    assert line.split()[-2:] == ["FAILED", "3:0"]


async def see_all_about_a_job(prompt: Prompt, commands: list[str]) -> None:
    number = await prompt.submitted("sbatch job.sh")
    await prompt.until(number, "CD")
    found = await prompt.typed(commands[0], number)
    assert f"JobId={number} JobName=job.sh" in found
    assert "JobState=COMPLETED" in found


async def cancel(prompt: Prompt, commands: list[str]) -> None:
    whole, one_task, pending = commands
    number = await prompt.waiting("-H")
    assert await prompt.typed(one_task, number) == ""
    assert prompt.states(number)[f"{number}_3"] == "CA"
    assert prompt.states(number)[f"{number}_2"] == "PD"
    assert await prompt.typed(whole, number) == ""
    assert set(prompt.states(number).values()) == {"CA"}
    other = await prompt.waiting("-H")
    assert await prompt.typed(pending) == ""
    assert set(prompt.states(other).values()) == {"CA"}


async def hold_release_run_again(prompt: Prompt, commands: list[str]) -> None:
    hold, release, requeue = commands
    number = await prompt.waiting("-d", f"afterok:{await prompt.submitted('sbatch -H job.sh')}")
    await prompt.typed(hold, number)
    assert "JobHeldUser" in await prompt.call("squeue", "-h", "-o", "%r", "-j", number)
    await prompt.typed(release, number)
    assert "JobHeldUser" not in await prompt.call("squeue", "-h", "-o", "%r", "-j", number)
    again = await prompt.submitted("sbatch job.sh")
    await prompt.until(again, "CD")
    await prompt.typed(requeue, again)
    await prompt.until(again, "CD")
    while prompt.text("job.log") != "ran \n" * 2:
        await trio.sleep(0.05)
    await prompt.call("scancel", "--me")


async def wait_for_a_result(prompt: Prompt, commands: list[str]) -> None:
    step, job = commands
    assert await prompt.typed(step) == "xtb mol.xyz on 4\n"
    number = await prompt.submitted(job)
    assert prompt.states(number) == {number: "CD"}
    (prompt.folder / "job.sh").write_text("#!/bin/sh\nexit 3\n")
    await prompt.typed(job, status=3)


TASKS: dict[str, Callable[[Prompt, list[str]], Awaitable[None]]] = {
    "submit a script": submit_a_script,
    "submit a command": submit_a_command,
    "run it a hundred times, ten at a time": run_a_hundred_times,
    "begin when job 12 has succeeded": begin_after_another_job,
    "see what waits and runs": see_what_waits_and_runs,
    "see how jobs ended": see_how_jobs_ended,
    "see all about a job": see_all_about_a_job,
    "cancel": cancel,
    "hold, release, run again": hold_release_run_again,
    "wait for a result at the prompt": wait_for_a_result,
}


async def test_the_ten_tasks_of_the_page_do_what_it_says(prompt: Prompt) -> None:
    """In one test, as each of them would start a cluster."""
    on_page = dict(ten_tasks())
    assert list(on_page) == list(TASKS)
    with trio.fail_after(600):
        for number, (task, commands) in enumerate(on_page.items()):
            prompt.enter(f"task{number}")
            await TASKS[task](prompt, commands)
