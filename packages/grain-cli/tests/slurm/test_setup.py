"""``grain slurm``, ``grain slurm doctor``, and ``grain submit`` of scripts for Slurm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from grain.cli import main
from grain.cli.batch.command import Commands
from grain.cli.batch.system_commands import system_command, system_environment
from grain.cli.slurm.setup.folder import COMMANDS, script
from grain.files.whole import write_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from slurm_site import SlurmSite


def grain(site: SlurmSite, *words: str, **environment: str) -> Result:
    return CliRunner().invoke(main, words, env={**site.environment, **environment})


def folder(site: SlurmSite) -> Path:
    return site.folder / "state/grain/slurm"


def test_the_directory_is_printed_for_path(site: SlurmSite) -> None:
    done = grain(site, "slurm")
    assert (done.exit_code, done.stdout) == (0, f"{folder(site)}\n")
    assert f'export PATH={folder(site)}:"$PATH"' in done.stderr
    assert {file.name for file in folder(site).iterdir()} == {*COMMANDS, ".grain"}
    assert folder(site).stat().st_mode & 0o777 == 0o700


def test_a_command_takes_no_module_from_the_working_directory(site: SlurmSite) -> None:
    grain(site, "slurm")
    for name in ("msgspec.py", "socket.py", "grain.py"):
        (site.folder / name).write_text("raise SystemExit('of another user')\n")
    site.submit("--wrap=x")
    for command, words in {"squeue": ["-h", "-o", "%i"], "sacct": ["-nXPo", "JobID"]}.items():
        done = subprocess.run(
            [folder(site) / command, *words],
            cwd=site.folder, env=site.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)


@pytest.mark.parametrize(
    ("command", "words"), [("squeue", ()), ("sacct", ()), ("sbatch", ("--wrap=x",))]
)
def test_commands_that_tools_call_every_second_import_little(
    site: SlurmSite, command: str, words: tuple[str, ...]
) -> None:
    grain(site, "slurm")
    site.submit("--wrap=x")
    done = subprocess.run(
        [folder(site) / command, *words], cwd=site.folder, capture_output=True, text=True,
        env={**site.environment, "PYTHONPROFILEIMPORTTIME": "1"}, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "grain.queue.folder" in imported
    slow = {"click", "trio", "inspect", "dataclasses", "importlib.metadata", "asyncio"}
    slow |= {"grain.eventlog.schema", "grain._gvar", "json", "shutil", "socket", "site"}
    # Amounts of resources are checked by their kinds.
    slow |= set() if command == "sbatch" else {"grain.resource", "hashlib"}
    assert imported & slow == set()


def test_commands_speak_to_one_queue_though_a_tool_hides_where_it_is(site: SlurmSite) -> None:
    grain(site, "slurm")
    hidden = {name: site.environment[name] for name in ("HOME", "PATH")}
    words = [str(folder(site) / "sbatch"), "--quiet", "--wrap=x"]
    subprocess.run(words, env=hidden, cwd=site.folder, check=True)
    assert site.queue.jobs.end() == 2


@pytest.fixture
def shown(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a function that runs a command's file, and returns the environment it has."""
    (tmp_path / "show.py").write_text(
        "import json, os\n"
        "def main(words): return print(json.dumps([words, dict(os.environ)])) or 0\n"
    )

    def run(text: str, **environment: str) -> dict[str, str]:
        write_script(tmp_path / "command", text)
        done = subprocess.run(
            [str(tmp_path / "command"), "b c"],
            env={"PYTHONPATH": str(tmp_path)} | environment, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        words, variables = json.loads(done.stdout)
        assert ["a", "b c"] == words
        return dict(variables)

    return run


def test_the_place_of_the_queue_may_have_any_letters_and_can_be_changed(
    shown: Callable[..., dict[str, str]],
) -> None:
    text = script("show", ["a"], "/it's ü")
    assert "/it's ü" == shown(text)["XDG_STATE_HOME"]
    assert "/not  there" == shown(text, XDG_STATE_HOME="/not  there")["XDG_STATE_HOME"]
    assert "XDG_STATE_HOME" not in shown(script("show", ["a"]))


def test_what_msgspec_does_without_is_there_for_others(
    shown: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """Trio needs it on Python 3.10, and so does each command that asks a scheduler."""
    (tmp_path / "typing_extensions.py").touch()
    with (tmp_path / "show.py").open("a") as module:
        module.write("import typing_extensions\n")

    assert shown(script("show", ["a"]))


@pytest.mark.parametrize("place", ["", "it's here", "x" * 200])
def test_a_command_keeps_what_sh_would_lose(
    shown: Callable[..., dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    if place:
        (tmp_path / place).symlink_to(Path(sys.executable).resolve().parent)
        python = tmp_path / place / Path(sys.executable).resolve().name
        monkeypatch.setattr(sys, "executable", str(python))
    odd = {"BASH_FUNC_module%%": "() {  echo hi\n}", "my.var": "1"}
    assert odd.items() <= shown(script("show", ["a"]), **odd).items()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_there(site: SlurmSite, command: str) -> None:
    assert site.out(command, "--version") == "slurm 22.05.8\n"


def test_the_doctor_looks_where_tools_look(site: SlurmSite) -> None:
    (site.folder / ".bash_profile").write_text("export PATH=/usr/bin:/bin\n")
    done = grain(site, "slurm", "doctor")
    assert done.exit_code == 1
    assert [line[:6] for line in done.stdout.splitlines()] == [
        "wrong ", "      ", "wrong ", "      ", "ok    ",
    ]  # fmt: skip
    assert "add this line at the end of ~/.bash_profile: export PATH=" in done.stdout
    with (site.folder / ".bash_profile").open("a") as file:
        file.write(f'export PATH={folder(site)}:"$PATH"\n')
    done = grain(site, "slurm", "doctor", PATH=f"{folder(site)}:{os.environ['PATH']}")
    assert done.exit_code == 0
    assert "wrong" not in done.stdout


def test_grain_submit_reads_directives_of_slurm(site: SlurmSite) -> None:
    (site.folder / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH -J slurm -t 10 -c 4 -o x.out\n#GRAIN --name grain -t 20m\ntrue\n"
    )
    for words in (["-r", "Cores=2"], [], ["--directives", "off"]):
        assert grain(site, "submit", *words, "job.sh").exit_code == 0
    jobs = [site.queue.job(number) for number in (1, 2, 3)]
    assert [job.request for job in jobs] == [{"Cores": 2}, {"Cores": 4}, {"Cores": 1}]
    assert [job.name for job in jobs] == ["grain", "grain", "job.sh"]
    assert [job.timeout for job in jobs] == [1200.0, 1200.0, 0.0]
    assert [job.stdout for job in jobs] == ["x.out", "x.out", "job-%j.out"]


def test_grain_submit_divides_gpus_as_the_configuration_says(site: SlurmSite) -> None:
    (site.folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --gres=shard:1\n")
    assert "write gpu_shards = 4 under [worker]" in grain(site, "submit", "job.sh").stderr

    (site.folder / "grain.toml").write_text("worker.gpu_shards = 2")
    assert grain(site, "submit", "job.sh").exit_code == 0
    assert site.queue.job(1).request == {"Cores": 1, "GPUs": 0.5}


def test_a_directive_that_cannot_be_obeyed_is_said(site: SlurmSite) -> None:
    (site.folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --reservation=x\n")
    done = grain(site, "submit", "job.sh")
    assert done.exit_code == 2
    assert "in a line #SBATCH: Requested reservation is invalid (Grain has no reservations)" in (
        done.stderr
    )


def system_commands(site: SlurmSite) -> Path:
    """Make a directory with commands of the system, which print how they are called."""
    there = site.folder / "usr-bin"
    there.mkdir()
    for name in ("sbatch", "srun"):
        (there / name).write_text('#!/bin/sh\necho "system $0 $*"\n')
        (there / name).chmod(0o700)
    return there


def test_grain_itself_calls_commands_of_the_system(site: SlurmSite) -> None:
    grain(site, "slurm")
    there = system_commands(site)
    env = {"PATH": f"{folder(site)}:{there}:/bin"}
    assert shutil.which("sbatch", path=env["PATH"]) == f"{folder(site)}/sbatch"
    assert system_command("sbatch", env) == f"{there}/sbatch"
    assert system_environment(env) == {"PATH": f"{there}:/bin"}


def test_a_batch_system_is_never_asked_by_a_look_alike(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    grain(site, "slurm")
    there = system_commands(site)
    monkeypatch.setenv("PATH", f"{folder(site)}:{there}:/bin:/usr/bin")
    done = Commands("Slurm", ("sbatch",)).run(["sbatch", "x"])
    assert done.out == f"system {there}/sbatch x\n"


def test_in_a_job_of_the_system_srun_is_that_of_the_system(site: SlurmSite) -> None:
    grain(site, "slurm")
    path = f"{folder(site)}:{system_commands(site)}:/bin"
    done = site.process("srun", "-n", "2", "x", PATH=path, SLURM_JOB_ID="7")
    assert done.stdout.startswith("system ")
    assert done.stdout.endswith("/usr-bin/srun -n 2 x\n")


def test_a_refusal_names_the_command_of_the_system(site: SlurmSite) -> None:
    grain(site, "slurm")
    path = f"{folder(site)}:{system_commands(site)}:/bin"
    found = site.answer("sbatch", "-w", "n1", "--wrap=x", PATH=path)
    assert found.err.endswith(f"; the system's sbatch may have it: {site.folder}/usr-bin/sbatch")
