"""Query the scheduler: connect, ask, and return within seconds whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.config import Config
    from grain.edge import Peer
    from grain.edge.questions import Ask

PATIENCE = 2.0
"""Seconds to look for a scheduler."""

ANSWER = 30.0
"""Seconds for the answer of a scheduler that was reached."""

NOBODY = "a scheduler runs only while there are missions with workers elsewhere"
"""The end of the sentence that no scheduler answers, if nothing is known to be wrong."""

_BUSY = 2.0  # seconds for the answer of somebody else, who may be busy


class NoScheduler(Exception):
    """No scheduler answers; the text is a sentence for people."""


class NobodyThere(NoScheduler):
    """There is no scheduler, and nothing is known to be wrong."""


def ask(
    config: Config,
    *questions: Ask,
    patience: float = PATIENCE,
    answer: float = ANSWER,
    others: Sequence[Ask] = (),
) -> list[Any]:
    """Put questions to the scheduler of a configuration.

    Args:
        config: The configuration, which has the address (`Worker.cli_dial`).
        questions: The questions.
        patience: Seconds to look for the scheduler. Where only files connect the two hosts, finding
            it takes about 10 s.
        answer: Seconds for its answers.
        others: Further questions of one kind each, which others than the scheduler answer, if they
            are not busy.

    Returns:
        The answers in the order of the questions, as plain data; None for those of
        others that did not come.

    Raises:
        NoScheduler: There is none, or its answer cannot be understood. The text names missions
            that run without one.
    """
    address = config.worker.cli_dial
    try:
        return ask_at(address, *questions, patience=patience, answer=answer, others=others)
    except NoScheduler as error:
        if alone := without_scheduler(config):
            raise type(error)(f"{error}; {alone}") from error
        raise


def without_scheduler(config: Config) -> str:
    """Return the sentence on the missions that run though no scheduler answers; "" if none."""
    from grain.cli.alone import alone, alone_text

    return alone_text(alone(config))


def ask_at(
    address: str,
    *questions: Ask,
    patience: float = PATIENCE,
    answer: float = ANSWER,
    others: Sequence[Ask] = (),
) -> list[Any]:
    """Put questions to the scheduler at an address, as `ask` does."""
    import trio

    from grain.edge.errors import DialError, EdgeError

    try:
        return trio.run(_put, address, questions, patience, answer, others)
    except BaseException as error:
        # A channel raises its errors in groups of one.
        failure: BaseException = error
        while len(inner := members(failure)) == 1:
            failure = inner[0]
        if isinstance(failure, DialError | trio.TooSlowError):
            if frozen := _frozen(address):
                raise NoScheduler(f"the scheduler at {address} {frozen}") from error
            trouble = _meeting_trouble(failure)
            kind = NoScheduler if trouble else NobodyThere
            raise kind(
                f"no scheduler answers at {address}: {trouble or NOBODY}; `grain doctor` shows more"
            ) from error
        if isinstance(failure, EdgeError | trio.EndOfChannel):
            reason = str(failure) or "it has ended the connection"
            raise NoScheduler(f"the scheduler at {address} cannot be asked: {reason}") from error
        raise


def _meeting_trouble(error: BaseException) -> str:
    """Return why nobody can be met at an address; empty if just nobody is there."""
    from grain.edge.errors import DialError

    tried = error.tried if isinstance(error, DialError) else ()
    return next((one.outcome for one in tried if one.unusable), "")


def _frozen(address: str) -> str:
    """Return the end of a sentence on a scheduler that is on this host and does not answer."""
    import trio

    from grain.edge import head_here, stopped_words

    here = trio.run(head_here, address)
    if here is None:
        return ""
    host, process = here
    if process.stopped:
        return stopped_words(process.pid, host)
    return (
        f"(process {process.pid} on {host}) is there and has not answered in time, as while it "
        "starts or is busy: try again. If it never answers, `kill "
        f"{process.pid}` there ends it, nothing is lost, and a mission starts another one"
    )


def members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of a group; none of any other exception."""
    # Python 3.10 has no name for groups.
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return inner


async def _put(
    address: str,
    questions: tuple[Ask, ...],
    patience: float,
    answer: float,
    others: Sequence[Ask],
) -> list[Any]:
    import trio

    from grain.edge import dial
    from grain.edge.questions import CODEC, unpack

    answers: list[Any] = []
    # A filesystem that hangs would delay the end by 10 s, which is too long for a terminal.
    with trio.fail_after(patience + 0.5) as limit:
        async with dial(address, role="cli", codec=CODEC, patience=patience) as peer:
            limit.deadline = trio.current_time() + answer
            for question in questions:
                await peer.channel.send([(question, None)])
                [(_, payload), *_] = await peer.channel.receive()
                answers.append(unpack(payload))
            answers += await _put_others(peer, others)
    return answers


async def _put_others(peer: Peer, questions: Sequence[Ask]) -> list[Any]:
    """Return the answers of those who may be busy; None for each that does not come soon."""
    import trio

    from grain.edge.errors import EdgeError
    from grain.edge.questions import Answer, unpack

    answers: dict[str, Any] = {}
    with trio.move_on_after(_BUSY):
        try:
            await peer.channel.send([(question, None) for question in questions])
            while len(answers) < len(questions):
                for message, payload in await peer.channel.receive():
                    if isinstance(message, Answer):
                        answers[message.about] = unpack(payload)
        except (EdgeError, trio.EndOfChannel):
            pass
    return [answers.get(question.about) for question in questions]


def who() -> str:
    """Return who types the command, for those whose task ends."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # the user has no name
        import os

        user = f"user {os.geteuid()}"
    return f"{user} on {socket.gethostname()}"
