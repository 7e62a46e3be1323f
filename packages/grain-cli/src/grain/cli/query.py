"""Query the scheduler: connect, ask, and return within seconds whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from grain.edge.questions import (
    CODEC,
    Answer,
    Ask,
    CallAnswer,
    ProgramsAnswer,
    StateAnswer,
    WhyAnswer,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.config import Config
    from grain.edge import Peer
    from grain.edge.messages import Payload

    _Questions = Sequence[tuple[Ask, Any]]
    """Questions with the forms of their answers."""

_Form = TypeVar("_Form")

PATIENCE = 2.0
"""Seconds to look for a scheduler."""

BRIEF = 0.5
"""Seconds to look for a scheduler that may know something, and is not needed."""

ANSWER = 30.0
"""Seconds for the answer of a scheduler that was reached."""

NOBODY = "a scheduler runs only while there are missions with workers elsewhere"
"""The end of the sentence that no scheduler answers, if nothing is known to be wrong."""

_BUSY = 2.0  # seconds for the answer of another process, which may be busy


class NoScheduler(Exception):
    """No scheduler answers; the text is a sentence for the user."""


class NobodyThere(NoScheduler):
    """There is no scheduler, and nothing is known to be wrong."""


def explanation_of(
    why: WhyAnswer, call: CallAnswer | None, programs: ProgramsAnswer | None
) -> WhyAnswer:
    """Put the answers about a task together; None stands for an answer that did not come."""
    return msgspec.structs.replace(
        why,
        call=call.call or None if call is not None else None,
        programs=programs.programs or None if programs is not None else None,
    )


def ask(
    config: Config,
    question: Ask,
    form: type[_Form],
    *,
    patience: float = PATIENCE,
    answer: float = ANSWER,
) -> _Form:
    """Put a question to the scheduler of a configuration.

    Args:
        patience: seconds to look for the scheduler. Where only files connect the two hosts, finding
            it takes about 10 s.
        answer: seconds for its answer.

    Raises:
        NoScheduler: there is none, or its answer cannot be understood. The text names missions
            that run without one.
    """
    return ask_all(config, [question], form, patience=patience, answer=answer)[0]


def ask_state(
    config: Config, *, patience: float = PATIENCE, answer: float = ANSWER, scales: bool = False
) -> StateAnswer:
    """Ask the scheduler for its state, as `ask` does; `Ask` explains ``scales``."""
    return ask(config, Ask("state", scales=scales), StateAnswer, patience=patience, answer=answer)


def state_if_any(
    config: Config,
    *,
    patience: float | None = None,
    answer: float = ANSWER,
    scales: bool = False,
) -> StateAnswer | None:
    """Ask the scheduler for its state; return None if none answers.

    Args:
        patience: None for `BRIEF`.
        scales: as of `Ask`.
    """
    patience = BRIEF if patience is None else patience
    try:
        return ask_state(config, patience=patience, answer=answer, scales=scales)
    except NoScheduler:
        return None


def ask_all(
    config: Config,
    questions: Sequence[Ask],
    form: type[_Form],
    *,
    patience: float = PATIENCE,
    answer: float = ANSWER,
) -> list[_Form]:
    """Put questions of one kind to the scheduler, as `ask` does; return the answers in order."""
    pairs = [(question, form) for question in questions]
    return _ask(config, pairs, (), patience, answer)


def explain(
    config: Config, mission: str, number: int, *, patience: float = PATIENCE, call: bool = True
) -> WhyAnswer:
    """Ask the scheduler about a task, and whom it knows to know more, if they are not busy.

    Args:
        call: False to ask nothing of its mission, which has the call.

    Raises:
        NoScheduler: as in `ask`.
    """
    first = [(Ask("why", mission, number), WhyAnswer)]
    others: list[tuple[Ask, Any]] = [(Ask("programs", mission, number), ProgramsAnswer)]
    if call:
        others.append((Ask("arguments", mission, number), CallAnswer))
    why, programs, *more = _ask(config, first, others, patience, ANSWER)
    return explanation_of(why, more[0] if more else None, programs)


def _ask(
    config: Config, questions: _Questions, others: _Questions, patience: float, answer: float
) -> list[Any]:
    address = config.worker.cli_dial
    try:
        return _ask_at(address, questions, others, patience, answer)
    except NoScheduler as error:
        if alone := without_scheduler(config):
            raise type(error)(f"{error}; {alone}") from error
        raise


def without_scheduler(config: Config) -> str:
    """Return the sentence on the missions that run though no scheduler answers; "" if none."""
    from grain.cli.local_missions import local_missions, local_missions_text

    return local_missions_text(local_missions(config))


def ask_at(address: str, question: Ask, form: type[_Form], *, patience: float) -> _Form:
    """Put a question to the scheduler at an address, as `ask` does."""
    answer: _Form = _ask_at(address, [(question, form)], (), patience, ANSWER)[0]
    return answer


def _ask_at(
    address: str, questions: _Questions, others: _Questions, patience: float, answer: float
) -> list[Any]:
    import trio

    from grain.edge.errors import DialError, EdgeError

    try:
        return trio.run(_put, address, questions, others, patience, answer)
    except BaseException as error:
        # A channel raises its errors in groups of one.
        failure: BaseException = error
        while len(inner := members(failure)) == 1:
            failure = inner[0]
        if isinstance(failure, DialError | trio.TooSlowError):
            if frozen := _frozen(address):
                raise NoScheduler(f"the scheduler at {address} {frozen}") from error
            tried = failure.tried if isinstance(failure, DialError) else ()
            # Why no scheduler can be met there; empty if none is.
            trouble = next((one.outcome for one in tried if one.unusable), "")
            kind = NoScheduler if trouble else NobodyThere
            raise kind(
                f"no scheduler answers at {address}: {trouble or NOBODY}; `grain doctor` shows more"
            ) from error
        if isinstance(failure, EdgeError | trio.EndOfChannel):
            reason = str(failure) or "it has ended the connection"
            raise NoScheduler(f"the scheduler at {address} cannot be asked: {reason}") from error
        raise


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
    address: str, questions: _Questions, others: _Questions, patience: float, answer: float
) -> list[Any]:
    import trio

    from grain.edge import dial

    answers: list[Any] = []
    # A filesystem that hangs would delay the end by 10 s, which is too long for a terminal.
    with trio.fail_after(patience + 0.5) as limit:
        async with dial(address, role="cli", codec=CODEC, patience=patience) as peer:
            limit.deadline = trio.current_time() + answer
            for question, form in questions:
                await peer.channel.send([(question, None)])
                [(_, payload), *_] = await peer.channel.receive()
                answers.append(read(peer, payload, form))
            if others:
                answers += await _put_others(peer, others)
    return answers


def read(peer: Peer, payload: Payload, form: type[_Form]) -> _Form:
    """Return an answer of a scheduler.

    Raises:
        RemoteProtocolError: it has another form; the text says if the scheduler is of another
            version of Grain.
    """
    return unpack(payload, form, peer.greeting.package)


async def _put_others(peer: Peer, questions: _Questions) -> list[Any]:
    """Return the answers of those who may be busy; None for each that does not come soon."""
    import trio

    from grain.edge.errors import EdgeError

    forms = {question.about: form for question, form in questions}
    answers: dict[str, Any] = {}
    with trio.move_on_after(_BUSY):
        try:
            await peer.channel.send([(question, None) for question, _ in questions])
            while len(answers) < len(questions):
                for message, payload in await peer.channel.receive():
                    if isinstance(message, Answer) and message.about in forms:
                        answers[message.about] = read(peer, payload, forms[message.about])
        except (EdgeError, trio.EndOfChannel):
            pass
    return [answers.get(about) for about in forms]
