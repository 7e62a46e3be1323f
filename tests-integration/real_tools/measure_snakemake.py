"""Measure workflows of Snakemake; docs/tools.md has the numbers.

    python tests-integration/real_tools/measure_snakemake.py local [JOBS]
    tools/real_slurm.py -n 1 -c 2 python tests-integration/real_tools/measure_snakemake.py slurm

``local``: so many jobs that do nothing, by ``snakemake --cores 2`` and by ``--executor grain``, one
by one and in groups. ``slurm``: 20 chains of three rules, on a real Slurm that belongs to the
measurement (see tools/real_slurm.py), by ``--executor slurm`` and by ``--executor grain`` on
workers in one job. It runs with the environment of the tests, and prints a JSON line each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests-integration")]

from real_tools.snakemake_workflow import GRAIN, SNAKEMAKE  # noqa: E402
from real_tools.tool_site import ToolSite, tool_site  # noqa: E402

from grain.queue.book import Book  # noqa: E402
from grain.queue.folder import Queue  # noqa: E402
from grain_testkit.local_processes import process_folders  # noqa: E402
from grain_testkit.tool_environments import tool_environment  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK = os.sysconf("SC_CLK_TCK")
MANY = """\
rule all:
    input: expand("out/{{i}}", i=range({jobs}))
rule one:
    output: "out/{{i}}"
    group: "one"
    shell: "echo {{wildcards.i}} > {{output}}"
"""
CHAINS = """\
rule all:
    input: expand("three/{i}", i=range(20))
rule one:
    output: "one/{i}"
    shell: "sleep 2; date +%s.%N > {output}"
rule two:
    input: "one/{i}"
    output: "two/{i}"
    shell: "sleep 2; date +%s.%N > {output}"
rule three:
    input: "two/{i}"
    output: "three/{i}"
    shell: "sleep 2; date +%s.%N > {output}"
"""
# Snakemake, with the CPU seconds of the plug-in's calls in this process.
TIMED = """\
import atexit, json, sys, time
from snakemake.cli import main
from snakemake_executor_plugin_grain.executor import Executor
spent = {"submit": 0.0, "look": 0.0}
def timed(kind, call):
    def run(*words):
        began = time.thread_time()
        try:
            return call(*words)
        finally:
            spent[kind] += time.thread_time() - began
    return run
Executor._submit = timed("submit", Executor._submit)
Executor._look = timed("look", Executor._look)
atexit.register(lambda: open("spent", "w").write(json.dumps(spent)))
main(sys.argv[1:])
"""


def say(what: str, **numbers: Any) -> None:
    """Print a measurement."""
    print(json.dumps({"what": what, **numbers}), flush=True)


def run(site: ToolSite, python: Path, name: str, snakefile: str, *words: str) -> dict[str, Any]:
    """Run a workflow; return its seconds, and the CPU seconds of the process of Snakemake."""
    folder = site.home / name
    folder.mkdir()
    (folder / "Snakefile").write_text(snakefile)
    program = folder / "timed.py"
    program.write_text(TIMED)
    environ = {**site.environ, "PATH": f"{python.parent}:{site.environ['PATH']}"}
    began = time.monotonic()
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [python, program, *words], cwd=folder, env=environ, stdout=printed, stderr=printed
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    seconds = time.monotonic() - began
    if status:
        sys.exit((folder / "printed").read_text())
    spent = folder / "spent"
    more = json.loads(spent.read_text()) if spent.exists() else {}
    return {
        "seconds": round(seconds, 1),
        "cpu": round(usage.ru_utime + usage.ru_stime, 2),
        **{f"plug_in_{kind}_cpu": round(value, 3) for kind, value in more.items()},
    }


def background(site: ToolSite) -> dict[str, float]:
    """Return the CPU seconds of Grain's processes of a site, by their modules."""
    found: dict[str, float] = {}
    mark = os.fsencode(f"HOME={site.home}")
    for folder in process_folders():
        try:
            if mark not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):
            continue
        kind = next((w for w in words if w.startswith("grain.") or "guards/" in w), "")
        kind = kind.rpartition("/")[2] or ("grain-worker" if "grain-worker" in str(words) else "")
        if kind:
            found[kind] = found.get(kind, 0.0) + (int(fields[11]) + int(fields[12])) / TICK
    return found


def queue_of(site: ToolSite, name: str) -> dict[str, float]:
    """Return times of the jobs that a workflow had in the queue."""
    book = Book.read(Queue.open(site.home / ".local/state/grain/queues/queue"))
    entries = [one for one in book.entries.values() if one.job.directory == str(site.home / name)]
    runs = [(one.job.at, one.runs[None][-1]) for one in entries]
    return {
        "jobs": len(runs),
        "waited_mean": round(sum(run.began - at for at, run in runs) / len(runs), 2),
        "ran_mean": round(sum(run.elapsed for _, run in runs) / len(runs), 2),
        "job_cpu_mean": round(sum(run.cpu for _, run in runs) / len(runs), 2),
    }


def local(jobs: int) -> None:
    """Measure jobs that do nothing."""
    python = tool_environment(SNAKEMAKE, *GRAIN)
    folder = tempfile.mkdtemp()
    with tool_site(Path(folder, "home")) as site:
        snakefile = MANY.format(jobs=jobs)
        grain = ("--executor", "grain", "-j", str(jobs), "--max-jobs-per-timespan", "10000/1s")
        run(site, python, "warm", MANY.format(jobs=2), *grain)
        say("--cores 2", **run(site, python, "plain", snakefile, "--cores", "2"))
        for name, size in (("groups", 25), ("single", 1)):
            before = background(site)
            # Without --cores, a group asks for the cores of all of its jobs.
            group = ("--group-components", f"one={size}", "--cores", "1")
            found = run(site, python, name, snakefile, *grain, *group)
            after = background(site)
            used = {kind: round(cpu - before.get(kind, 0.0), 2) for kind, cpu in after.items()}
            say(f"grain, groups of {size}", **found, **queue_of(site, name), grain_cpu=used)


CLUSTER = """\
system = "slurm"
[script]
cores = 2
memory = 3
walltime = "1:00:00"
queue = "main"
"""
DIRECT = (
    "--executor", "slurm", "-j", "100", "--default-resources", "mem_mb=350", "runtime=10",
    "slurm_partition=main", "--slurm-no-account", "--slurm-status-command", "squeue",
)  # fmt: skip
HURRIED = (
    "--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1",
)  # fmt: skip
WITH_GRAIN = ("--executor", "grain", "-j", "100", "--default-resources", "mem_mb=350")


def slurm() -> None:
    """Measure chains of rules on a real Slurm; to be run below tools/real_slurm.py."""
    python = tool_environment(
        SNAKEMAKE, *GRAIN, "snakemake-executor-plugin-slurm==2.8.0",
        "snakemake-executor-plugin-slurm-jobstep==0.6.1",
    )  # fmt: skip
    folder = tempfile.mkdtemp()
    Path(folder, "home").mkdir(mode=0o700)
    site = ToolSite(Path(folder, "home"))
    site.environ["SLURM_CONF"] = os.environ["SLURM_CONF"]
    (site.home / "grain.toml").write_text(CLUSTER)
    # The plug-in for Slurm removes SLURM_CONF from the environment of srun.
    srun = site.home / "bin/srun"
    srun.parent.mkdir()
    conf = os.environ["SLURM_CONF"]
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {shutil.which("srun")} "$@"\n')
    srun.chmod(0o755)
    site.environ["PATH"] = f"{srun.parent}:{site.environ['PATH']}"
    try:
        for busy in (False, True):
            with others(site) if busy else nullcontext():
                where = "a busy Slurm" if busy else "an idle Slurm"
                for what, words in (("", DIRECT), (", 1 s", (*DIRECT, *HURRIED))):
                    name = f"direct{len(words)}{busy}"
                    found = run(site, python, name, CHAINS, *words)
                    say(f"slurm{what}, on {where}", **found, **waits(site))
                began = time.monotonic()
                site.call("grain", "up", "-n", "1")
                found = run(site, python, f"grain{busy}", CHAINS, *WITH_GRAIN)
                found |= queue_of(site, f"grain{busy}") | {"worker": waits(site)}
                found["with_worker"] = round(time.monotonic() - began, 1)
                say(f"grain, on {where}", **found)
                site.call("scancel", "-u", "root", "--name", "w*", status=None)
                for number in site.call("squeue", "-h", "-o", "%i %j").splitlines():
                    if number.split()[1].startswith("w"):
                        site.call("scancel", number.split()[0])
    finally:
        site.call("scancel", "-u", "root", status=None)
        site.stop()


def waits(site: ToolSite) -> dict[str, float]:
    """Return how long jobs waited in Slurm that have begun since the last call, but others'."""
    text = site.call("squeue", "-h", "-t", "all", "-o", "%i %j %V %S %T")
    seen = site.home / "seen"
    known = set(seen.read_text().split()) if seen.exists() else set()
    lines = [line.split() for line in text.splitlines()]
    mine = [one for one in lines if one[1] != "other" and one[0] not in known and one[3] != "N/A"]
    seen.write_text(" ".join(one[0] for one in lines))
    seconds = [
        (datetime.fromisoformat(one[3]) - datetime.fromisoformat(one[2])).total_seconds()
        for one in mine
    ]
    mean = round(sum(seconds) / len(seconds), 1) if seconds else 0.0
    return {"slurm_jobs": len(mine), "slurm_waited_mean": mean, "slurm_waited": sum(seconds)}


@contextmanager
def others(site: ToolSite) -> Iterator[None]:
    """Have jobs of others: 4 wait at any time, of one core and 20 s each."""
    program = site.home / "others.sh"
    program.write_text(
        "while true; do\n"
        "  n=$(squeue -h -n other -t PD -o %i | wc -l)\n"
        "  while [ $n -lt 4 ]; do\n"
        "    sbatch -Q -J other -p main -c 1 --mem 50 -o /dev/null --wrap 'sleep 20'; n=$((n+1))\n"
        "  done; sleep 1\ndone\n"
    )
    process = subprocess.Popen(
        ["sh", program], cwd=site.home, env=site.environ, stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(30)
        yield
    finally:
        process.kill()
        process.wait()
        site.call("scancel", "-u", "root", "--name", "other", status=None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["local"]:
        local(int((sys.argv[2:] or ["500"])[0]))
    elif sys.argv[1:] == ["slurm"]:
        slurm()
    else:
        sys.exit(__doc__)
