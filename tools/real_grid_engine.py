#!/usr/bin/env python3
"""A real Grid Engine on a host of its own, while this process lives. Needs root and Debian.

    tools/real_grid_engine.py COMMAND...   run it on that host, then take everything down
    tools/real_grid_engine.py              print a line of JSON, then wait until standard input ends
    tools/real_grid_engine.py --fetch      download Debian's packages and unpack them, no more

The JSON has ``path``, a folder with qsub, qstat and so on that may be called from outside, and
``enter``, the words before a command that is to run on the host.

The packages are not installed: their commands bear the names of PBS's, and their set-up asks
questions. The host, `n1`, is a set of namespaces whose network has nothing but a loopback, as Grid
Engine without its own security obeys every process that reaches its port. sge_qmaster and sge_execd
are its children, so they and all jobs end with it, in whatever way this process ends.

There is one node; h_vmem is consumable by slot, 1 GB by default. `main.q`
runs jobs again, `short.q` ends them after a minute. Of the parallel environments, `smp` has slots
of one node, `mpi` of any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CACHE = Path("/var/cache/grain-grid-engine")
PACKAGES = tuple(f"gridengine-{part}" for part in ("common", "client", "master", "exec"))
NODE, PORT = "n1", 16444
# It ends with its input, which is this process's. Debian's build searches for its spooling library
# in /usr/lib/gridengine and nowhere else.
HOST = """
hostname "$1"
mount --make-rprivate /
mount --bind "$2/hosts" /etc/hosts
mount -t overlay -o "lowerdir=$3/usr/lib:/usr/lib" overlay /usr/lib
ip link set lo up
echo ready
cat >/dev/null
"""
BOOTSTRAP = """\
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {spool}
binary_path {root}/bin
qmaster_spool_dir {folder}/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
ENVIRONMENT = """\
pe_name {name}
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves TRUE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""
EXEC_HOST = """\
hostname {node}
load_scaling NONE
complex_values slots={slots},h_vmem={megabytes}M
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""
QUEUE = {
    "qname": "", "hostlist": NODE, "seq_no": "0", "load_thresholds": "NONE",
    "suspend_thresholds": "NONE", "nsuspend": "1", "suspend_interval": "00:05:00", "priority": "0",
    "min_cpu_interval": "00:05:00", "processors": "UNDEFINED", "qtype": "BATCH INTERACTIVE",
    "ckpt_list": "NONE", "pe_list": "smp mpi", "rerun": "TRUE", "slots": "",
    "tmpdir": "/tmp", "shell": "/bin/sh", "prolog": "NONE", "epilog": "NONE",
    "shell_start_mode": "posix_compliant", "starter_method": "NONE", "suspend_method": "NONE",
    "resume_method": "NONE", "terminate_method": "NONE", "notify": "", "owner_list": "NONE",
    "user_lists": "NONE", "xuser_lists": "NONE", "subordinate_list": "NONE",
    "complex_values": "NONE", "projects": "NONE", "xprojects": "NONE", "calendar": "NONE",
    "initial_state": "default",
    **{
        f"{kind}_{what}": "INFINITY"
        for what in ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
        for kind in "sh"
    },
}  # fmt: skip
# The one command of the package that another name calls.
CLIENTS = ("qsub", "qstat", "qdel", "qconf", "qmod", "qhost", "qacct", "qalter", "qhold", "qrls")


class Failed(Exception):
    """The error that Grid Engine does not work here; the text says why."""


def main() -> int:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fetch", action="store_true", help="download the packages, and end")
    parser.add_argument("-c", "--cores", type=int, default=4, help="slots of the node")
    parser.add_argument("-m", "--memory", type=int, default=4000, help="h_vmem of the node, in MB")
    parser.add_argument("--notify", type=int, default=60, help="seconds from a signal to SIGKILL")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    # A TERM takes the way of a KeyboardInterrupt, through every `finally`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if asked.fetch:
            fetch()
            return 0
        if reason := why_not():
            raise Failed(reason)
        with tempfile.TemporaryDirectory(prefix="grain-sge-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            with host(folder) as enter:
                engine = GridEngine(folder, enter, asked)
                engine.start()
                return use(engine, asked.command)
    except Failed as failed:
        print(f"real_grid_engine: {failed}", file=sys.stderr)
        return 1


def use(engine: GridEngine, command: list[str]) -> int:
    """Run the command on the host, or print how to get there and wait for the end of the input."""
    if command:
        return subprocess.run([*engine.enter, *command], check=False).returncode
    print(json.dumps({"path": str(engine.outside), "enter": engine.enter}), flush=True)
    sys.stdin.read()
    return 0


def why_not() -> str:
    """Return what is missing on this machine, or an empty text."""
    if os.geteuid() != 0:
        return "a real Grid Engine is started by root only"
    missing = [name for name in ("ip", "nsenter", "unshare") if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if not (CACHE / "usr/sbin/sge_qmaster").exists():
        return "no Grid Engine here; `tools/real_grid_engine.py --fetch` downloads it"
    return ""


def fetch() -> None:
    """Download the packages and unpack them.

    Raises:
        Failed: there is no apt, or it fails.
    """
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Failed("needs root and apt")
    if (CACHE / "usr/sbin/sge_qmaster").exists():
        return
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as name:
        # Not as _apt: that user may not write here.
        words = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download"]
        words += [*PACKAGES, *libraries()]
        if subprocess.run(words, cwd=name, check=False, stdout=sys.stderr).returncode:
            raise Failed("apt-get cannot download Debian's packages of Grid Engine")
        unpacked = Path(name, "unpacked")
        for package in Path(name).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, unpacked], check=True)
        unpacked.chmod(0o755)
        # It is there as a whole or not at all.
        unpacked.rename(CACHE)


def libraries() -> list[str]:
    """Return the packages of the libraries that they need: Debian changes their names at times.

    Not those that every Debian has, and whose copies must fit each other.
    """
    words = ["apt-cache", "depends", *PACKAGES]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    names = set(re.findall(r"Depends: (lib\S+)", done.stdout))
    return sorted(names - {"libc6", "libcrypt1", "libpam0g", "libtinfo6"})


@contextlib.contextmanager
def host(folder: Path) -> Iterator[list[str]]:
    """Make the host; yield the words before a command that is to run there."""
    (folder / "hosts").write_text(f"127.0.0.1 {NODE} localhost\n")
    words = [
        *("unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child"),
        *("--mount-proc", "sh", "-ec", HOST, "sh", NODE, str(folder), str(CACHE)),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as unshare:
        try:
            assert unshare.stdout is not None
            if unshare.stdout.readline() != "ready\n":
                raise Failed("a host cannot be made here, see above")
            children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text()
            first = children.split()[0]
            spaces = ("--net", "--uts", "--ipc", "--mount", "--pid")
            inside = ["sh", "-c", 'cd "$0" 2>/dev/null || cd /; exec "$@"']
            yield ["nsenter", "-t", first, *spaces, "--", *inside]
        finally:
            assert unshare.stdin is not None
            unshare.stdin.close()
            try:
                unshare.wait(5)
            except subprocess.TimeoutExpired:
                unshare.kill()


class GridEngine:
    """The daemons and their configuration.

    Args:
        folder: for their state.
        enter: the words before a command that is to run on the host, but for its directory.
        asked: the command line.

    Attributes:
        enter: the words before a command of users: it starts in /, with Grid Engine in PATH.
        outside: the folder of the commands for use from outside.
    """

    def __init__(self, folder: Path, enter: list[str], asked: argparse.Namespace) -> None:
        self._folder = folder
        self._root = folder / "root"
        self._arch = self._text(enter, "/", "sh", str(CACHE / "usr/share/gridengine/util/arch"))
        self._bin = self._root / "bin" / self._arch
        self._common = self._root / "default/common"
        libraries = [self._root / "lib" / self._arch, *(CACHE / "usr/lib").glob("*-linux-gnu*")]
        self._env = {
            "SGE_ROOT": str(self._root),
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(PORT),
            "SGE_EXECD_PORT": str(PORT + 1),
            # In the foreground: the host has no other use for its daemons' shells.
            "SGE_ND": "1",
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        }
        self._words = enter
        self._asked = asked
        self.outside = folder / "outside"
        settings = [f"{name}={value}" for name, value in self._env.items()]
        path = f"PATH={self._bin}:{os.environ.get('PATH', os.defpath)}"
        self.enter = [*enter, str(Path.cwd()), "env", *settings, path]

    def start(self) -> None:
        """Start the daemons and configure them.

        Raises:
            Failed: they do not come up; the text has the ends of their messages.
        """
        self._lay_out()
        etc = self._folder / "etc"
        shared = CACHE / "usr/share/gridengine"
        spool = f"{self._common};{self._folder / 'spool'}"
        (self._common / "bootstrap").write_text(
            BOOTSTRAP.format(spool=spool, root=self._root, folder=self._folder)
        )
        (self._common / "act_qmaster").write_text(f"{NODE}\n")
        (etc / "configuration").write_text(
            _replaced(
                (shared / "default-configuration").read_text(),
                execd_spool_dir=str(self._folder / "execd"),
                min_uid="0",
                min_gid="0",
                load_report_time="00:00:01",
                mailer="/bin/true",
                # Jobs read no profile: what that of this machine's user prints or waits for is no
                # part of a test. The word stands for an empty list.
                login_shells="none",
            )
        )
        self._run("spoolinit", "classic", "libspoolc", spool, "init")
        for what, where in (
            ("configuration", etc / "configuration"),
            ("complexes", shared / "util/resources/centry"),
            ("usersets", shared / "util/resources/usersets"),
            ("managers", "root"),
        ):
            self._run("spooldefaults", what, str(where))
        self._daemon("sge_qmaster")
        self._wait("sge_qmaster", lambda: not self._client("qconf", "-sh").returncode)
        self._configure(etc)
        self._daemon("sge_execd")
        self._wait("sge_execd", self._ready)

    def _lay_out(self) -> None:
        """Make the tree that Grid Engine expects, of links to the packages' files."""
        library = self._root / "lib" / self._arch
        helpers = self._root / "utilbin" / self._arch
        own = ("qmaster/job_scripts", "spool", "execd", "etc", "outside")
        for path in (self._bin, library, helpers, self._common, *(self._folder / o for o in own)):
            path.mkdir(parents=True)
        (self._root / "util").symlink_to(CACHE / "usr/share/gridengine/util")
        files = [*(CACHE / "usr/lib/gridengine").iterdir(), *(CACHE / "usr/sbin").glob("sge_*")]
        for file in files:
            if file.is_symlink():
                continue
            if file.suffix == ".so":
                (library / file.name).symlink_to(file)
            elif file.suffix == ".bin" or not file.with_name(f"{file.name}.bin").exists():
                # Beside a .bin stands a script that calls it from where Debian installs it.
                for folder in (self._bin, helpers):
                    (folder / file.name.removesuffix(".bin")).symlink_to(file)
        for name, program in (("qhold", "qalter"), ("qresub", "qalter"), ("qrls", "qalter")):
            (self._bin / name).unlink(missing_ok=True)
            (self._bin / name).symlink_to(self._bin / program)
        for name in CLIENTS:
            script = self.outside / name
            settings = [shlex.quote(f"{name}={value}") for name, value in self._env.items()]
            words = [*map(shlex.quote, self._words), '"$PWD"', "env", *settings]
            script.write_text(f'#!/bin/sh\nexec {" ".join(words)} {self._bin / name} "$@"\n')
            script.chmod(0o755)

    def _configure(self, etc: Path) -> None:
        for name, rule in (("smp", "$pe_slots"), ("mpi", "$fill_up")):
            (etc / name).write_text(ENVIRONMENT.format(name=name, rule=rule))
            self._qconf("-Ap", etc / name)
        complexes = self._qconf("-sc").splitlines()
        for number, line in enumerate(complexes):
            words = line.split()
            if words[0] == "h_vmem":
                complexes[number] = " ".join([*words[:5], "YES", "1G", *words[7:]])
        (etc / "complexes").write_text("\n".join(complexes) + "\n")
        self._qconf("-Mc", etc / "complexes")
        scheduler = _replaced(
            self._qconf("-ssconf"),
            schedule_interval="0:0:1",
            flush_submit_sec="1",
            flush_finish_sec="1",
        )
        (etc / "scheduler").write_text(scheduler)
        self._qconf("-Msconf", etc / "scheduler")
        self._qconf("-as", NODE)
        (etc / "host").write_text(
            EXEC_HOST.format(node=NODE, slots=self._asked.cores, megabytes=self._asked.memory)
        )
        self._qconf("-Ae", etc / "host")
        for name, limit in (("main.q", "INFINITY"), ("short.q", "00:01:00")):
            given = {"qname": name, "h_rt": limit, "notify": f"00:00:{self._asked.notify:02}"}
            given["slots"] = str(self._asked.cores)
            given["seq_no"] = "10" if name == "short.q" else "0"
            lines = [f"{key} {value}" for key, value in {**QUEUE, **given}.items()]
            (etc / name).write_text("\n".join(lines) + "\n")
            self._qconf("-Aq", etc / name)

    def _ready(self) -> bool:
        """Return True if the node has reported: its queues have no letters of a state."""
        lines = self._client("qstat", "-f", "-q", "main.q").stdout.splitlines()
        return any(line.startswith("main.q@") and len(line.split()) == 5 for line in lines)

    def _daemon(self, name: str) -> None:
        # As at a boot: jobs inherit the environment of sge_execd.
        clean = ["env", "-i", *(f"{key}={value}" for key, value in self._env.items())]
        path = "PATH=/usr/local/bin:/usr/bin:/bin"
        with (self._folder / f"{name}.log").open("wb") as log:
            subprocess.Popen(
                [
                    *self._words,
                    "/",
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    *clean,
                    path,
                    self._bin / name,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _client(self, *words: str) -> subprocess.CompletedProcess[str]:
        settings = [f"{name}={value}" for name, value in self._env.items()]
        return subprocess.run(
            [*self._words, "/", "env", *settings, str(self._bin / words[0]), *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def _run(self, *words: str) -> str:
        """Run a command that must succeed; return what it printed."""
        done = self._client(*words)
        if done.returncode:
            raise Failed(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _qconf(self, *words: str | Path) -> str:
        return self._run("qconf", *map(str, words))

    def _wait(self, what: str, ready: Callable[[], bool], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                logs = [*self._folder.glob("*.log"), *self._folder.glob("**/messages")]
                tails = "".join(f"\n{log}: {log.read_text()[-300:]}" for log in logs)
                raise Failed(f"no {what} within {seconds:g} s{tails}")
            time.sleep(0.05)

    @staticmethod
    def _text(enter: list[str], *words: str) -> str:
        done = subprocess.run([*enter, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()


def _replaced(text: str, **values: str) -> str:
    """Return lines of a name and a value with other values for some of the names."""
    lines = []
    for line in text.splitlines():
        name = line.split(maxsplit=1)[0] if line.strip() else ""
        lines.append(f"{name} {values[name]}" if name in values else line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
