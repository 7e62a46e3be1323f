"""The controller of a fake batch system: one thread that answers commands and lets time pass."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

from fake_batch.pbs_show import qstat
from fake_batch.slurm import Slurm
from fake_batch.slurm_show import sinfo, squeue
from fake_batch.words import Answer, Asked, Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_batch.cluster import Cluster
    from fake_batch.pbs import Pbs
    from fake_batch.processes import Processes

# How long the loop waits for a command before it looks at the jobs again, in seconds.
PAUSE = 0.02


class Controller:
    """The owner of a cluster, until a signal ends it.

    Args:
        system: Its batch system.
        cluster: Its nodes and jobs.
        processes: Its processes.
        folder: Where its socket is.
        pace: Seconds of the cluster in a second of the clock.
    """

    def __init__(
        self, system: Slurm | Pbs, cluster: Cluster, processes: Processes, folder: Path, pace: float
    ) -> None:
        self._commands = commands(system)
        self._cluster = cluster
        self._processes = processes
        self._path = folder / "socket"
        self._deaf = folder / "deaf"
        self._pace = pace
        self._start = time.monotonic()
        self._skipped = 1.0  # a job that began at 0 would be one that has not begun
        cluster.manners = system

    def run(self) -> None:
        """Serve until SIGTERM, or until standard input ends with whoever started this."""
        try:
            while True:
                self._listen()
                while self._deaf.exists():
                    self._pass_time()
                    time.sleep(PAUSE)
        finally:
            self._path.unlink(missing_ok=True)
            self._processes.end_all()

    def _listen(self) -> None:
        self._path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            # A client that finds the socket is answered: it has its name only when the controller
            # listens.
            unnamed = self._path.with_name("socket.new")
            unnamed.unlink(missing_ok=True)
            listener.bind(str(unnamed))
            listener.listen(64)
            unnamed.rename(self._path)
            listener.settimeout(PAUSE)
            while not self._deaf.exists():
                self._pass_time()
                try:
                    channel, _ = listener.accept()
                except TimeoutError:
                    continue
                with channel:
                    channel.settimeout(60)
                    self._serve(channel)
        self._path.unlink(missing_ok=True)

    def _pass_time(self) -> None:
        spent = (time.monotonic() - self._start) * self._pace
        self._cluster.tick(spent + self._skipped)

    def _serve(self, channel: socket.socket) -> None:
        try:
            with channel.makefile("rb") as question:
                asked = Asked(**json.load(question))
            answer = self.answer(asked)
            reply = {"out": answer.out, "err": answer.err, "code": answer.code}
            channel.sendall(json.dumps(reply).encode())
        except (OSError, ValueError):
            # Whoever asked is gone.
            return

    def answer(self, asked: Asked) -> Answer:
        """Run one command."""
        try:
            if asked.command == "fakectl":
                return self._fakectl(asked.argv)
            answer = self._commands[asked.command](asked)
        except Refused as refused:
            return Answer(err=f"{refused}\n", code=refused.code)
        self._pass_time()
        return answer

    def _fakectl(self, words: list[str]) -> Answer:
        nodes = self._cluster.nodes
        match words:
            case ["crash" | "lose" as how, name] if name in nodes:
                # crash: the daemon alone; lose: the whole machine.
                self._cluster.crash(nodes[name], self._cluster.now, processes_too=how == "lose")
            case ["revive", name] if name in nodes:
                self._cluster.resume(nodes[name])
            case ["pass", seconds]:
                self._skipped += float(seconds)
                self._pass_time()
            case ["deaf"]:
                self._deaf.touch()
            case _:
                usage = "fakectl: crash, lose or revive NODE, pass SECONDS, deaf"
                return Answer(err=f"{usage}\n", code=2)
        return Answer()


def commands(system: Slurm | Pbs) -> dict[str, Callable[[Asked], Answer]]:
    """The commands of a batch system, by name."""
    if isinstance(system, Slurm):
        return {
            "sbatch": system.sbatch,
            "scancel": system.scancel,
            "scontrol": system.scontrol,
            "squeue": lambda asked: squeue(system, asked),
            "sinfo": lambda asked: sinfo(system, asked),
        }
    return {
        "qsub": system.qsub,
        "qdel": system.qdel,
        "qselect": system.qselect,
        "qrerun": system.qrerun,
        "qsig": system.qsig,
        "qstat": lambda asked: qstat(system, asked),
    }
