"""The one place where Python objects become bytes, and bytes become objects.

    payloads = Payloads()                                   # one for each end
    function = payloads.dump_function(fn)                   # once; travels once to each worker
    data = payloads.dump_arguments(args, kwargs)            # for each task
    ...
    fn = payloads.load_function(function.payload)           # in the runner
    args, kwargs = payloads.load_arguments(data)
    data = payloads.dump_outcome(outcome.Value(3))
    ...
    payloads.load_outcome(data).unwrap()                    # in the mission

Between the two ends a payload is opaque, but for one thing: `failure_in` says whether an outcome is
a failure, and which, in plain data and without importing anything.

What can be imported travels by its name, the rest by value (`grain.worker.pickling.by_value`): the
process that loads it must be able to import the same names. Functions and classes by value are
bytecode, which needs the version of Python that made it: `Function.interpreter` and
`interpreter_of` say which, so that the head can choose a worker. A process of another version
refuses them before it loads anything of them.
"""

from __future__ import annotations

import hashlib
import pickle
import struct
import sys
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import msgspec
import outcome

from grain.edge.messages import Pieces
from grain.edge.version import INTERPRETER
from grain.worker.call import name_of
from grain.worker.errors import RAISED_BY_TEXTS, PayloadError, sendable, short_tracebacks
from grain.worker.errors import add_note as add_note
from grain.worker.pickling.blame import find_large, find_unpicklable
from grain.worker.pickling.by_value import Classes
from grain.worker.pickling.in_process import acts as acts
from grain.worker.pickling.in_process import refusal as refusal
from grain.worker.pickling.origin import ForeignCode
from grain.worker.pickling.pickler import dump_pieces, dump_small, dumps, gathered, has_code, loads
from grain.worker.pickling.pickler import whole as whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grain.edge.buffers import Buffer
    from grain.worker.call import Outcome

P = ParamSpec("P")
T = TypeVar("T")

VALUE, ERROR, UNNAMED, NAMED = b"V", b"E", b"A", b"K"
_HEAD = struct.Struct("<cI")
_LONGEST = 64 * 1024  # characters of a message or a traceback


class Function(NamedTuple):
    """A function as bytes: it travels to each worker once, and calls refer to it by its digest.

    Attributes:
        digest: of the bytes.
        interpreter: the interpreter that can load it, as `grain.edge.version.INTERPRETER`; empty
            if any can, as it travels by name.
    """

    digest: bytes
    payload: bytes
    name: str
    interpreter: str = ""


class Failed(msgspec.Struct, frozen=True):
    """The exception of a failed task, as plain data.

    Attributes:
        type: the exception's class, with its module unless that is builtins.
        traceback: the formatted traceback, with those of its causes.
    """

    type: str
    message: str
    traceback: str
    where: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class Payloads:
    """The translator between objects and bytes for one end: a mission or a runner.

    It remembers the classes of `__main__` that it has sent and received, so that an object which
    returns still has the class that it had.

    Args:
        where: the name of this end in the note that has a remote traceback.
        unsearched: why modules may be missing here, as a sentence for error messages.
        interruptible: False in a process that Ctrl-C has no effect on: a `KeyboardInterrupt` is the
            failure of an object there, as any other exception is.
    """

    def __init__(
        self, where: str = "", unsearched: str = "", *, interruptible: bool = True
    ) -> None:
        self.where = where
        self._interruptible = interruptible
        self._unsearched = f". {unsearched}" if unsearched else ""
        self._classes = Classes()

    # ---- functions and arguments

    def dump_function(self, fn: object) -> Function:
        """Return a function as bytes: by its name if it can be imported, else by value.

        Raises:
            PayloadError: it cannot be serialised; the message names the part to blame.
        """
        name = name_of(fn)
        try:
            payload = self._dump(fn)
        except Exception as error:
            culprit = find_unpicklable(fn, name, self._dump)
            raise _refusal(f"the function {name}", culprit or ("it", fn, error)) from error
        digest = hashlib.blake2b(payload, digest_size=16).digest()
        interpreter = INTERPRETER if has_code(payload) else ""
        return Function(digest, bytes(payload), name, interpreter)

    def large_parts(self, fn: object, least: int) -> list[tuple[str, int]]:
        """Return what makes a function large: variables and arguments, with their sizes in bytes.

        It dumps each of them once more, so ask only about functions whose bytes are large.

        Args:
            least: the size from which a part counts.
        """
        return find_large(fn, name_of(fn), self._dump, least)

    def load_function(self, payload: Buffer | Pieces) -> Callable[..., Any]:
        """Return the function behind the bytes.

        Raises:
            PayloadError: it cannot be loaded here.
        """
        fn: Callable[..., Any] = self._load(whole(payload), "the function of this task")
        return fn

    def dump_arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> bytes | memoryview | Pieces:
        """Return the arguments of a call as bytes: a snapshot, whatever becomes of them afterwards.

        Large `bytes` among them are not copied; the result is `Pieces` then.

        Raises:
            PayloadError: one of them cannot be serialised.
        """
        small = None if kwargs else dump_small(args, UNNAMED)
        return gathered(self.argument_pieces(args, kwargs)) if small is None else small

    def argument_pieces(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Buffer]:
        """Return the same in pieces to be joined, large buffers not copied: no snapshot of those.

        Raises:
            PayloadError: one of them cannot be serialised.
        """
        try:
            if kwargs:
                return self._fenced(dump_pieces, (args, dict(kwargs)), self._classes, NAMED)
            return self._fenced(dump_pieces, args, self._classes, UNNAMED)
        except Exception as error:
            named = {f"argument {i}": arg for i, arg in enumerate(args)}
            named |= {f"argument {key}": arg for key, arg in kwargs.items()}
            for name, arg in named.items():
                if culprit := find_unpicklable(arg, name, self._dump):
                    raise _refusal("an argument of this task", culprit) from culprit[2]
            raise _refusal("the arguments of this task", ("they", args, error)) from error

    def load_arguments(self, payload: Buffer | Pieces) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments behind the bytes; arrays may share the memory of ``payload``.

        Raises:
            PayloadError: they cannot be loaded here.
        """
        payload = whole(payload)
        arguments = self._load(payload, "the arguments of this task", 1)
        if memoryview(payload)[:1] == NAMED:
            args, kwargs = arguments
            return args, kwargs
        return arguments, {}

    # ---- outcomes

    def dump_outcome(self, ended: Outcome, name: str = "this task") -> bytes | memoryview | Pieces:
        """Return the outcome of a task as bytes, or as `Pieces` like arguments. Raises nothing.

        Args:
            ended: a value or an exception. What cannot be serialised becomes a `PayloadError`.
        """
        return gathered(self.outcome_pieces(ended, name))

    def outcome_pieces(self, ended: Outcome, name: str = "this task") -> list[Buffer]:
        """Return the same in pieces to be joined, large buffers not copied. Raises nothing."""
        if isinstance(ended, outcome.Value):
            try:
                return self._fenced(dump_pieces, ended.value, self._classes, VALUE, copy_all=True)
            except Exception as error:
                culprit = find_unpicklable(ended.value, "result", self._dump_copy)
                refusal = _refusal(f"the result of {name}", culprit or ("it", ended.value, error))
                return [self._dump_error(refusal, name)]
        return [self._dump_error(ended.error, name)]

    def _dump_error(self, error: BaseException, name: str) -> bytes:
        failure = describe(error, self.where)
        try:
            pickled = self._dump_copy(error)
        except Exception as why:
            culprit = find_unpicklable(error, "the exception", self._dump_copy)
            lost = _refusal(
                f"{name} raised {failure}\nThat exception", culprit or ("it", error, why)
            )
            pickled = self._dump(lost)
        record = msgspec.msgpack.encode(failure)
        return b"".join([_HEAD.pack(ERROR, len(record)), record, pickled])

    def load_outcome(self, payload: Buffer | Pieces) -> Outcome:
        """Return the outcome behind the bytes. Raises nothing.

        An exception has its type and its arguments, and the traceback of the other end as its last
        note. What cannot be loaded here becomes a `PayloadError`.
        """
        try:
            payload = whole(payload)
            failure = None if payload[:1] == VALUE else failure_in(payload)
            if failure is None:
                return outcome.Value(self._load(payload, "the result of this task", len(VALUE)))
            error = self._load_error(payload, failure)
        except PayloadError as refusal:
            return outcome.Error(refusal)
        add_note(error, _note(failure))
        return outcome.Error(error)

    def _load_error(self, payload: Buffer, failure: Failed) -> BaseException:
        try:
            view = memoryview(payload)
            start = _HEAD.size + _HEAD.unpack_from(view)[1]
            error = self._fenced(loads, view[start:], self._classes)
            if isinstance(error, BaseException):
                return error
            why: object = f"it became {error!r:.200}"
        except ForeignCode as obstacle:
            why = obstacle
        except Exception as obstacle:
            why = f"{type(obstacle).__name__}: {obstacle}"
        return PayloadError(
            f"the task raised {failure}\nThat exception cannot be loaded here: {why}"
        )

    # ---- both

    def _dump(self, obj: Any) -> bytes | memoryview:
        return self._fenced(dumps, obj, self._classes)

    def _dump_copy(self, obj: Any) -> bytes | memoryview:
        return self._fenced(dumps, obj, self._classes, copy_all=True)

    def _fenced(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a step of pickling returns, in which code of the objects runs.

        Raises:
            Exception: the step's, or one in place of another exception, such as `SystemExit`: none
                of the objects' own ends more than their task.
            KeyboardInterrupt: Ctrl-C, where it has an effect.
        """
        try:
            return step(*args, **kwargs)
        except Exception:
            raise
        except BaseException as error:
            if self._interruptible and isinstance(error, KeyboardInterrupt):
                raise
            raise pickle.PickleError(f"it raised {error!r}") from error

    def _load(self, payload: Buffer, what: str, start: int = 0) -> Any:
        try:
            return self._fenced(loads, payload, self._classes, start)
        except ImportError as error:
            raise PayloadError(
                f"{what} cannot be loaded here ({self.where or 'in this process'}): {error}. "
                "What comes from a module travels by its name: the module must be importable here, "
                f"by {sys.executable}{self._unsearched}"
            ) from error
        except ForeignCode as error:
            raise PayloadError(
                f"{what} cannot be loaded here ({self.where or 'in this process'}): {error}"
            ) from error
        except Exception as error:
            raise PayloadError(
                f"{what} cannot be loaded here ({self.where or 'in this process'}): "
                f"{type(error).__name__}: {error}"
            ) from error


def interpreter_of(arguments: Buffer | Pieces) -> str:
    """Return the interpreter that can load arguments of `Payloads.dump_arguments` made here.

    Returns:
        As `grain.edge.version.INTERPRETER`; empty if any can, as they have no bytecode.
    """
    if isinstance(arguments, Pieces):
        return INTERPRETER if has_code(arguments.parts[1]) else ""
    return INTERPRETER if has_code(arguments, len(UNNAMED)) else ""


def failed(payload: Buffer | Pieces) -> bool:
    """Return True if an outcome is a failure; `failure_in` returns which."""
    if type(payload) is bytes:  # most of them
        return payload[:1] != VALUE
    return _first(payload)[:1] != VALUE


def _first(payload: Buffer | Pieces) -> memoryview:
    """Return the first piece of an outcome, which is enough to know whether it is a failure."""
    return memoryview(payload.parts[0] if isinstance(payload, Pieces) else payload)


def failure_in(payload: Buffer | Pieces) -> Failed | None:
    """Return the failure in an outcome, None if it is a success; loads no object.

    Raises:
        PayloadError: these bytes are not from `Payloads.dump_outcome`.
    """
    view = _first(payload)
    if view[:1] == VALUE:
        return None
    try:
        kind, length = _HEAD.unpack_from(view)
        if kind == ERROR:
            record = view[_HEAD.size : _HEAD.size + length]
            return msgspec.msgpack.decode(record, type=Failed)
    except (struct.error, msgspec.MsgspecError):
        pass
    raise PayloadError("the outcome of this task is damaged, or of another version of Grain")


def describe(error: BaseException, where: str = "") -> Failed:
    """Return an exception as plain data. Raises nothing."""
    cls = type(error)
    module = "" if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}."
    try:
        message = str(error)
    except RAISED_BY_TEXTS as why:
        message = f"<its message cannot be had: {why!r:.200}>"
    text = _formatted(error)
    if isinstance(error, ModuleNotFoundError):
        text = f"{text.rstrip()}\n{sys.executable} has no such module: install it there"
    return Failed(
        sendable(f"{module}{cls.__qualname__}"),
        sendable(message[:_LONGEST]),
        sendable(text),
        where,
    )


def _formatted(error: BaseException) -> str:
    try:
        with short_tracebacks(error):
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except RAISED_BY_TEXTS as why:
        return f"<the traceback cannot be had: {why!r:.200}>"
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}\n[... {len(text)} characters ...]\n{text[-_LONGEST // 2 :]}"


def _note(failure: Failed) -> str:
    where = f"on {failure.where}" if failure.where else "elsewhere"
    return f"Raised {where}:\n{failure.traceback.rstrip()}"


def _refusal(what: str, culprit: tuple[str, Any, BaseException]) -> PayloadError:
    name, obj, why = culprit
    try:
        shown = f"{obj!r:.200}"
    except RAISED_BY_TEXTS:
        shown = "an object"
    return PayloadError(
        f"{what} cannot be serialised, because {name} cannot: {shown}, "
        f"of type {type(obj).__module__}.{type(obj).__qualname__} ({type(why).__name__}: {why})"
    )
