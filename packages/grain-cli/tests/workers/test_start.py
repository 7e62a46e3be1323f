"""`grain start`: the mission as a job."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from grain_testkit.command_line import grain

if TYPE_CHECKING:
    from pathlib import Path

Put = Callable[[str, str], "Path"]
CONFIG = """
system = "slurm"
[head]
name = "opt"
main_log_file = "logs/opt.log"
cmd = "python 'my mission.py' && echo done"
[head.script]
walltime = "2:00:00"
cores = 1
queue = "long"
setup_cleanup = "module load x"
"""


def test_the_mission_is_submitted(alone: Path, command: Put) -> None:
    """With [head.script], its command, the configuration it is started with, and no SIGUSR1."""
    command("sbatch", f"cat > '{alone}/read'; echo 6")
    (alone / "grain.toml").write_text(CONFIG)

    dry = grain("start", "--dry", "--", "--exclusive")
    done = grain("start", "--", "--exclusive")

    assert (0, f"opt is job 6, output in {alone}/logs/opt.log\n") == (done.exit_code, done.output)
    script = (alone / "read").read_text()
    setting = f"GRAIN_CONFIG={shlex.quote(str(alone / 'grain.toml'))}"
    log = f"{alone}/logs/opt.log"
    quoted = shlex.quote("python 'my mission.py' && echo done")
    assert dry.output == script
    lines = script.splitlines()
    assert {
        "#SBATCH --job-name=opt",
        f'#SBATCH --output="{log}"' if " " in log else f"#SBATCH --output={log}",
        "#SBATCH --partition=long",
        "#SBATCH --time=02:00:00",
        "#SBATCH --exclusive",
        "module load x",
        f"(trap '' INT USR1 USR2; exec env {setting} /bin/bash -c {quoted}) &",
    } <= set(lines)
    assert "--signal" not in script
    assert (alone / "logs").is_dir()
    [file] = (alone / "state/grain/jobs").iterdir()
    assert "mission" == json.loads(file.read_text())["kind"]


def test_on_this_machine(alone: Path) -> None:
    """A process that outlives the command, in a session of its own, with all CPUs."""
    text = CONFIG.replace(
        "python 'my mission.py' && echo done",
        "echo $GRAIN_CONFIG; exec sleep 1000",
    ).replace("module load x", "true")
    (alone / "grain.toml").write_text(text)

    started = json.loads(grain("start", "--local", "--json").output)
    pid = int(started["id"].split(":")[-2])
    try:
        assert pid == os.getsid(pid)
        assert os.sched_getaffinity(0) == os.sched_getaffinity(pid)
        end = time.monotonic() + 60
        while not (alone / "logs/opt.log").read_text() and time.monotonic() < end:
            time.sleep(0.05)
        assert f"{alone}/grain.toml\n" == (alone / "logs/opt.log").read_text()
        assert f"{alone}/grain.toml\n" == grain("logs", "opt").output
    finally:
        os.killpg(pid, signal.SIGTERM)


def test_start_without_a_command_is_refused_with_an_example(alone: Path) -> None:
    """The message names the configuration file."""
    (alone / "grain.toml").write_text('[head]\nname = "opt"\n')
    done = grain("start")

    assert 1 == done.exit_code
    assert "head.cmd: found no command, expected what starts the mission" in done.output


def test_start_refuses_options_that_the_system_cannot_take(alone: Path) -> None:
    """Options for the batch system begin with a dash; this machine takes none."""
    (alone / "grain.toml").write_text(CONFIG)

    assert 2 == grain("start", "mission.py").exit_code
    assert 2 == grain("start", "--local", "--", "--exclusive").exit_code
    assert not (alone / "state/grain/jobs").exists()
