"""`JobCommands`: a queue in a directory, whose receipts the tests make, as workers would."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner, Result

from grain.cli import main
from grain.queue.arrays import parse_array
from grain.queue.dispatchers import Dispatchers, this_dispatcher
from grain.queue.folder import Queue, queue_folder
from grain.queue.records import Begun, Ended, Job

if TYPE_CHECKING:
    from pathlib import Path


class JobCommands:
    """A queue, and the commands for it, which this process runs.

    Attributes:
        queue: the queue.
        home: the working directory.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.queue = Queue.open(queue_folder(), make=True)

    def submit(self, name: str = "opt", array: str = "", **more: Any) -> int:
        """Put a job into the queue, without a command."""
        job = Job(
            name=name,
            at=time.time(),
            host="login1",
            user="ann",
            directory=str(self.home),
            command=("true",),
            array=parse_array(array) if array else None,
            stdout="job-%A_%a.out" if array else "job-%j.out",
            **more,
        )
        return self.queue.submit(job)

    def begin(self, number: int, task: int | None = None, **more: Any) -> int:
        """Have the next attempt begin on worker w1; return its number."""
        attempt = len(self.queue.attempts(number, task)) + 1
        begun = Begun(at=time.time() - 90, host="n17", worker="w1", ticket=1, **more)
        assert self.queue.begin(number, task, attempt, begun)
        return attempt

    def end(self, number: int, task: int | None = None, **how: Any) -> None:
        """Have an attempt begin and end, with exit status 0 if nothing else is given."""
        runs = self.queue.attempts(number, task)
        if not runs or runs[-1].ended is not None:
            self.begin(number, task)
        attempt = len(self.queue.attempts(number, task))
        ended = Ended(**{"how": "exit", "at": time.time(), "elapsed": 90.0, **how})
        assert self.queue.end(number, task, attempt, ended)

    def dispatch(self) -> None:
        """Have a dispatcher: this process is alive."""
        Dispatchers(self.queue.files).take_charge(this_dispatcher())

    def grain(self, *words: str, **more: Any) -> Result:
        """Type a command."""
        return CliRunner().invoke(main, words, catch_exceptions=False, **more)

    def done(self, *words: str, **more: Any) -> str:
        """Type a command that succeeds, and return its output."""
        done = self.grain(*words, **more)
        assert done.exit_code == 0, done.output
        return done.output

    def refused(self, *words: str, **more: Any) -> str:
        """Type a command that fails, and return its message."""
        done = self.grain(*words, **more)
        assert done.exit_code in (1, 2), done.output
        assert done.stdout == ""
        return done.stderr
