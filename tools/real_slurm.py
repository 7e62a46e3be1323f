#!/usr/bin/env python3
"""A real Slurm on this machine, for as long as one command runs. Needs root and Debian's slurm-wlm.

    tools/real_slurm.py COMMAND...       run it with SLURM_CONF set, then take everything down
    tools/real_slurm.py                  print SLURM_CONF=..., then wait until standard input ends
    tools/real_slurm.py --install ...    install slurm-wlm by apt first if it is missing

munged, slurmctld and the slurmds (nodes n1, n2, ...) are children of this process and listen on
127.0.0.1 only. Partition `main` has all nodes, `short` has n1 and a limit of 2 minutes. A job's
memory is watched, and with --confine confined by control groups of version 1. Whatever the way in
which this process ends, its children end with it; in the ordinary ways, jobs and their processes
too.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CONF = """\
ClusterName=grain
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/{task}
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=1
KillWait={kill_wait}
MinJobAge=3600
MessageTimeout=60
BatchStartTimeout=60
MaxArraySize={array}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
AccountingStorageType=accounting_storage/none
"""

CONFINED = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainRAMSpace=yes
"""
MEMORY = Path("/sys/fs/cgroup/memory")


class Failed(Exception):
    """The error that Slurm does not work here; the text says why."""


def main() -> int:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install", action="store_true", help="apt-get install slurm-wlm first")
    parser.add_argument("-n", "--nodes", type=int, default=3)
    parser.add_argument("-c", "--cores", type=int, default=4, help="of each node")
    parser.add_argument("-m", "--memory", type=int, default=4000, help="of each node, in MiB")
    parser.add_argument("--array", type=int, default=1001, help="MaxArraySize; 0 forbids arrays")
    parser.add_argument("--kill-wait", type=int, default=2, help="seconds from SIGTERM to SIGKILL")
    parser.add_argument(
        "--preempt",
        default="OFF",
        help="what becomes of jobs whose place one of the partition `urgent` takes, as REQUEUE",
    )
    parser.add_argument("--task", default="none", help="TaskPlugin, as affinity")
    parser.add_argument(
        "--confine", action="store_true", help="jobs to their memory, by control groups"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    # A TERM takes the way of a KeyboardInterrupt, through every `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        prepare(install=asked.install)
        if asked.confine and not os.access(MEMORY, os.W_OK):
            raise Failed(f"--confine: there are no groups of version 1 in {MEMORY}")
        with tempfile.TemporaryDirectory(prefix="grain-slurm-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            with cluster(folder, asked) as conf:
                return use(conf, asked.command)
    except Failed as failed:
        print(f"real_slurm: {failed}", file=sys.stderr)
        return 1


def use(conf: Path, command: list[str]) -> int:
    """Run the command with the cluster, or print where it is and wait for the end of the input."""
    if command:
        env = {**os.environ, "SLURM_CONF": str(conf)}
        return subprocess.run(command, env=env, check=False).returncode
    print(f"SLURM_CONF={conf}", flush=True)
    sys.stdin.read()
    return 0


def prepare(*, install: bool) -> None:
    """Install the programs that are missing.

    Raises:
        Failed: not root, or not installed.
    """
    if os.geteuid() != 0:
        raise Failed("needs root")
    if shutil.which("slurmctld") and shutil.which("munged"):
        return
    if not install or not shutil.which("apt-get"):
        raise Failed("slurmctld and munged are not installed; on Debian: apt install slurm-wlm")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with no_services():
        for words in (["update"], ["install", "-y", "--no-install-recommends", "slurm-wlm"]):
            subprocess.run(["apt-get", "-qq", *words], env=env, check=True, stdout=sys.stderr)


@contextlib.contextmanager
def no_services(policy: Path = Path("/usr/sbin/policy-rc.d")) -> Iterator[None]:
    """Keep Debian's packages from starting daemons of their own while they are installed."""
    if policy.exists():
        yield
        return
    try:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        yield
    finally:
        policy.unlink(missing_ok=True)


@contextlib.contextmanager
def cluster(folder: Path, asked: argparse.Namespace) -> Iterator[Path]:
    """Start the daemons, yield the path of slurm.conf, stop them."""
    libc = ctypes.CDLL(None, use_errno=True)
    # What a killed slurmd leaves behind becomes a child of this process, which ends it.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    conf = write_conf(folder, asked)
    env = {**os.environ, "SLURM_CONF": str(conf)}
    daemons: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        log = (folder / f"{Path(command[0]).name}.out").open("ab")
        with log:
            daemons.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=env,
                    start_new_session=True,
                    preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
                )
            )

    try:
        start(*munged(folder))
        wait_for("munged", (folder / "munge.sock").exists, 60, folder)
        start("slurmctld", "-D", "-f", str(conf))
        for number in range(1, asked.nodes + 1):
            (folder / "spool" / f"n{number}").mkdir(parents=True)
            start("slurmd", "-D", "-N", f"n{number}", "-f", str(conf))
        wait_for("idle nodes", lambda: idle(env) == asked.nodes, 180, folder)
        yield conf
    finally:
        stop(daemons, env)


def write_conf(folder: Path, asked: argparse.Namespace) -> Path:
    """Write slurm.conf for nodes on this machine, on ports that were free a moment ago."""
    ports = free_ports(asked.nodes + 1)
    (folder / "state").mkdir()
    here = socket.gethostname().split(".")[0]
    values = {"ports": ports, "array": asked.array, "kill_wait": asked.kill_wait}
    task = "cgroup" if asked.confine else asked.task
    lines = [CONF.format(folder=folder, task=task, **values)]
    if asked.confine:
        (folder / "cgroup.conf").write_text(CONFINED)
    else:
        lines.append("JobAcctGatherParams=OverMemoryKill\n")
    lines += [
        f"NodeName=n{number} NodeHostname={here} NodeAddr=127.0.0.1 Port={ports[number]}"
        f" CPUs={asked.cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={asked.cores}"
        f" ThreadsPerCore=1 RealMemory={asked.memory}\n"
        for number in range(1, asked.nodes + 1)
    ]
    lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
    lines.append("PartitionName=short Nodes=n1 MaxTime=2 State=UP\n")
    if asked.preempt != "OFF":
        lines.append(f"PreemptType=preempt/partition_prio\nPreemptMode={asked.preempt}\n")
        lines.append("PartitionName=urgent Nodes=ALL PriorityTier=9 State=UP\n")
    conf = folder / "slurm.conf"
    conf.write_text("".join(lines))
    return conf


def munged(folder: Path) -> list[str]:
    """Return the command of munged, with a key of its own (which only its owner may read)."""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    options = {
        "key-file": key,
        "socket": folder / "munge.sock",
        "pid-file": folder / "munged.pid",
        "log-file": folder / "munged.log",
        "seed-file": folder / "munged.seed",
    }
    # --force: root's /tmp is writable by all, which munged dislikes around its socket.
    words = [f"--{name}={path}" for name, path in options.items()]
    return ["munged", "--foreground", "--force", *words]


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that no process listens on.

    Below the ports that the kernel gives to processes that ask for any: it might give them to
    others before the daemons have them.
    """
    free: list[int] = []
    for port in random.SystemRandom().sample(range(15_000, 32_000), 1000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == count:
            return free
    raise Failed("no free ports")


def wait_for(what: str, ready: Callable[[], bool], seconds: float, folder: Path) -> None:
    """Poll until the condition holds.

    Raises:
        Failed: it is not so in time; the text has the ends of the logs.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            logs = [*folder.glob("*.log"), *folder.glob("*.out")]
            tails = "".join(f"\n{log.name}: {log.read_text()[-300:]}" for log in logs)
            raise Failed(f"no {what} within {seconds:g} s{tails}")
        time.sleep(0.05)


def idle(env: dict[str, str]) -> int:
    """Return the number of nodes that wait for work."""
    words = ["sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    return int(done.stdout.strip() or 0)


def stop(daemons: list[subprocess.Popen[bytes]], env: dict[str, str]) -> None:
    """End the jobs, then the daemons, then whatever either left behind."""
    quiet = {"env": env, "capture_output": True, "check": False, "timeout": 15}
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        subprocess.run(["scancel", "-u", "root"], **quiet)  # type: ignore[call-overload]
        for _ in range(100):
            if not subprocess.run(["squeue", "-h"], **quiet).stdout:  # type: ignore[call-overload]
                break
            time.sleep(0.1)
    for daemon in reversed(daemons):
        daemon.terminate()
    for daemon in reversed(daemons):
        try:
            daemon.wait(5)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    while children := _children():
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    return [
        int(pid)
        for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
    ]


if __name__ == "__main__":
    sys.exit(main())
