"""The boundary between the messages of a runner's channel and the objects that it works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import outcome

from grain.worker.errors import PayloadError

if TYPE_CHECKING:
    from grain.resource import Resource
    from grain.worker.call import Call, Outcome, RunSettings
    from grain.worker.messages import DefineFunction, ForgetFunctions, StartRun
    from grain.worker.processes.account import RunAccount

Arriving = TypeVar("Arriving", contravariant=True)
Departing = TypeVar("Departing", covariant=True)


class Translation(Protocol[Arriving, Departing]):
    """The translation of arriving payloads into calls, and of their outcomes into payloads.

    There are two: `MemoryTranslation` in the process of the head, and
    `grain.worker.runner.wire_translation.WireTranslation` where bytes travel. No other code has to
    do with both forms of a payload.
    """

    def learn(self, message: DefineFunction | ForgetFunctions, payload: Arriving | None) -> None:
        """Store a function, or forget some."""

    def learn_once(self, digest: bytes, function: Arriving) -> None:
        """Store a function, unless it is there: what a lane calls may come by two ways.

        To be called before each call of it in a lane: it may be forgotten after many others.
        """

    def decode(
        self, run: StartRun, payload: Arriving | None
    ) -> tuple[Call, Resource, RunSettings | None]:
        """Return the call, the resources and the settings of a run.

        Raises:
            PayloadError: this run cannot take place.
        """

    def encode_report(self, account: RunAccount, ended: Outcome | None) -> object:
        """Return the report on a run that has ended, as `Ended` takes it. Raises nothing.

        Args:
            ended: its outcome; None if it was cancelled.
        """

    def encode(self, ended: Outcome, call: Call | None) -> tuple[Departing, bool]:
        """Return the payload of an outcome, and True if it is an exception. Raises nothing.

        Args:
            call: the call whose outcome it is; None if the run could not be decoded.
        """


class MemoryTranslation:
    """The translation of a channel in memory: calls, resources and outcomes travel as they are.

    Args:
        settings: the settings of all runs; None for those of the surrounding task.
    """

    def __init__(self, settings: RunSettings | None = None) -> None:
        self._settings = settings

    def learn(self, message: DefineFunction | ForgetFunctions, payload: Call | None) -> None:
        """Do nothing: functions travel within calls."""

    def learn_once(self, digest: bytes, function: Call) -> None:
        """Do nothing, likewise."""

    def decode(
        self, run: StartRun, payload: Call | None
    ) -> tuple[Call, Resource, RunSettings | None]:
        """Return the payload, which is the call, and the resources of the run."""
        if payload is None:
            raise PayloadError("a run came without its call")
        return payload, run.res, self._settings

    def encode_report(self, account: RunAccount, ended: Outcome | None) -> RunAccount:  # noqa: ARG002
        """Return the account itself: most executors need no report."""
        return account

    def encode(self, ended: Outcome, call: Call | None) -> tuple[Outcome, bool]:  # noqa: ARG002
        """Return the outcome itself."""
        return ended, type(ended) is outcome.Error
