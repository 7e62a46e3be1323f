"""Objects to bytes and back."""

from __future__ import annotations

import functools
import math
import pickle
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import outcome
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource import Cores, Memory
from grain.worker.call import name_of
from grain.worker.errors import (
    ExternalError,
    ExternalMemoryError,
    Failure,
    PayloadError,
)
from grain.worker.errors import (
    failure_of as failure_in_short,
)
from grain.worker.payload import Failed, Payloads, add_note, describe, failure_in

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.frozensets(st.integers())
    ),
    max_leaves=20,
)


@dataclass
class Box:
    """Importable, and refuses to be pickled if what it holds does."""

    content: Any


class Wants(Exception):
    """Takes other arguments than it hands to Exception."""

    def __init__(self, code: int, *, path: str) -> None:
        super().__init__(f"{path}: {code}")
        self.code = code


class WantsOfSystem(OSError):
    """The same below a class of exceptions that has fields of its own."""

    def __init__(self, errno: int) -> None:
        super().__init__(errno, "no such thing", "/a/path")


class OfTwoKinds(Wants, MemoryError):
    """Of two builtin classes, of which CPython makes it by one."""


class Unloadable(Exception):
    """Pickles, and cannot be loaded."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (int, ("not a number",))


def there_and_back(value: Any) -> Any:
    """A result on its way from a runner to a mission."""
    return Payloads("there").dump_outcome(outcome.Value(value))


def arrives(payload: bytes) -> Any:
    return Payloads("here").load_outcome(payload).unwrap()


def failure_of(ended: outcome.Error | outcome.Value[Any]) -> BaseException:
    assert isinstance(ended, outcome.Error)
    return ended.error


@given(PLAIN)
def test_what_is_plain_arrives_as_it_was(value: Any) -> None:
    """Values of Python's own types arrive unchanged."""
    assert value == arrives(there_and_back(value))
    assert failure_in(there_and_back(value)) is None


@given(st.lists(PLAIN).map(tuple), st.dictionaries(st.text(), PLAIN))
def test_arguments_arrive_as_they_were(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """By position and by name."""
    payload = Payloads().dump_arguments(args, kwargs)

    assert (args, kwargs) == Payloads().load_arguments(payload)


@given(st.binary(), st.booleans())
def test_damaged_bytes_are_an_error_of_the_task(data: bytes, as_outcome: bool) -> None:
    """Never anything else than a PayloadError, whatever bytes come."""
    try:
        data.index(b"c")  # a pickle may import and call; only what is not a pickle is of interest
    except ValueError:
        pass
    else:
        return
    if as_outcome:
        ended = Payloads().load_outcome(b"E" + data)
        assert isinstance(failure_of(ended), PayloadError)
    else:
        with pytest.raises(PayloadError):
            Payloads().load_arguments(b"A\x07" + data)


def test_a_function_always_has_the_same_digest_and_another_has_another() -> None:
    payloads = Payloads()

    first, again, other = (payloads.dump_function(f) for f in (math.sin, math.sin, math.cos))

    assert first == again
    assert first.digest != other.digest
    assert math.sin is Payloads().load_function(first.payload)
    assert "sin" == first.name


def test_functions_that_cannot_be_imported_travel_by_value() -> None:
    """Closures and lambdas, alone or within a partial or the arguments."""
    base = 40

    def add(x: int) -> int:
        return base + x

    function = Payloads().dump_function(functools.partial(add, 2))
    arguments = Payloads().dump_arguments((lambda: base,), {"f": add})

    assert 42 == Payloads().load_function(function.payload)()
    (loaded,), named = Payloads().load_arguments(arguments)
    assert 40 == loaded()
    assert 41 == named["f"](1)


def test_a_wrapped_function_keeps_its_own_name_in_errors() -> None:
    def decorated(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(x: int) -> Any:
            return fn(x)

        return wrapper

    def energy(x: int) -> int:
        return x + 1

    energy.__qualname__ = "energy"  # as on top of a script
    function: Any = decorated(energy)
    function.scale = 2
    loaded: Any = Payloads().load_function(Payloads().dump_function(function).payload)
    assert ("energy", "energy", 3) == (loaded.__qualname__, name_of(loaded), loaded(2))
    assert 2 == loaded.scale


def test_classes_by_value_keep_their_identity() -> None:
    """A class that goes out with a function and comes back in a result is the same class."""

    class Node:
        def __init__(self, below: Any) -> None:
            self.below = below

        def leaf(self) -> Leaf:
            return Leaf(self)

    class Leaf:
        def __init__(self, above: Any) -> None:
            self.above = above

        def node(self) -> Node:
            return Node(self)

    def grow(node: Any) -> Any:
        assert isinstance(node, Node)
        return node.leaf()

    mission, runner = Payloads("mission"), Payloads("runner")
    fn = runner.load_function(mission.dump_function(grow).payload)
    (node,), _ = runner.load_arguments(mission.dump_arguments((Node(None),), {}))
    ended = mission.load_outcome(runner.dump_outcome(outcome.Value(fn(node))))

    leaf = ended.unwrap()
    assert type(node) is not Node
    assert type(leaf) is Leaf
    assert type(leaf.above) is Node
    assert type(leaf.node()) is Node


def test_a_script_can_catch_the_exceptions_that_it_defines_and_its_tasklets_raise() -> None:
    class Mine(Exception):
        def __init__(self, a: int, b: str) -> None:
            super().__init__(f"{a}-{b}")
            self.a = a

    def fails() -> None:
        raise Mine(3, "x")

    mission, runner = Payloads("mission"), Payloads("runner")
    fn = runner.load_function(mission.dump_function(fails).payload)
    error = failure_of(mission.load_outcome(runner.dump_outcome(outcome.capture(fn))))

    assert type(error) is Mine
    assert ("3-x",) == error.args
    assert 3 == error.a


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1),
        Wants(3, path="/x"),
        WantsOfSystem(2),
        OfTwoKinds(3, path="/x"),
        ExternalMemoryError(Failure(("xtb",), "n1", memory_request=2.0)),
        KeyError("k"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        FileNotFoundError(2, "no such file", "/x"),
        ExternalError(Failure(argv=("a", "b"), host="h", returncode=-11)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_keep_type_and_arguments(error: Exception) -> None:
    """Also where their class takes other arguments, which pickle alone cannot load."""
    back = failure_of(Payloads().load_outcome(Payloads("n1").dump_outcome(outcome.Error(error))))

    assert type(back) is type(error)
    assert error.args == back.args
    assert str(error) == str(back)
    attributes = {k: v for k, v in vars(back).items() if k != "__notes__"}
    assert vars(error) == attributes


def test_a_text_that_is_not_utf_8_stays_as_it_is_and_is_described_with_escapes() -> None:
    """As in an exception that names a file whose name has other bytes."""

    def fails() -> None:
        try:
            raise KeyError("\udce9")
        except KeyError as error:
            group = ExceptionGroup("caf\udce9", [ValueError("\udcea")])
            add_note(group, "beside \udceb")
            raise group from error

    fails.__code__ = fails.__code__.replace(co_filename="/caf\udce9.py")
    payload = Payloads("n1").dump_outcome(outcome.capture(fails))
    failure, back = failure_in(payload), failure_of(Payloads().load_outcome(payload))

    assert failure is not None
    assert r"caf\udce9 (1 sub-exception)" == failure.message
    assert isinstance(back, ExceptionGroup)
    assert "caf\udce9" == back.message
    assert ("\udcea",) == back.exceptions[0].args
    mine, note = back.__notes__  # type: ignore[attr-defined,unused-ignore]
    assert "beside \udceb" == mine
    for text in (r"KeyError: '\udce9'", r"ValueError: \udcea", r'"/caf\udce9.py"'):
        assert text in note


def test_the_traceback_of_the_other_end_is_the_last_note_of_an_exception() -> None:
    """On any version of Python."""

    def deep() -> None:
        error = ValueError("deep")
        error.__notes__ = ["mine"]  # type: ignore[attr-defined,unused-ignore]
        raise error

    error = failure_of(
        Payloads().load_outcome(Payloads("w1 on n1").dump_outcome(outcome.capture(deep)))
    )

    mine, note = error.__notes__  # type: ignore[attr-defined,unused-ignore]
    assert "mine" == mine
    assert note.startswith("Raised on w1 on n1:\nTraceback")
    assert "in deep" in note


def test_a_group_of_exceptions_arrives_with_its_members() -> None:
    error = ExceptionGroup("some", [ValueError(1), Wants(2, path="p")])
    back = failure_of(Payloads().load_outcome(Payloads().dump_outcome(outcome.Error(error))))

    assert isinstance(back, ExceptionGroup)
    assert [ValueError, Wants] == [type(e) for e in back.exceptions]


def test_a_result_that_cannot_travel_is_an_error_of_its_task_that_names_the_object() -> None:
    generator = (i for i in range(3))
    value = {"grid": [1, Box(generator)]}

    error = failure_of(Payloads().load_outcome(there_and_back(value)))

    assert isinstance(error, PayloadError)
    assert "result['grid'][1].content" in str(error)
    assert "generator" in str(error)


def test_arguments_that_cannot_travel_are_named_at_the_call() -> None:
    with pytest.raises(PayloadError, match=r"argument job\.content cannot: <generator"):
        Payloads().dump_arguments((1,), {"job": Box(i for i in "ab")})


def test_the_error_for_a_function_that_cannot_travel_names_the_variable() -> None:
    captured = (i for i in range(3))

    def uses() -> Any:
        return captured

    with pytest.raises(PayloadError, match=r"captured \(a variable of .*uses\)"):
        Payloads().dump_function(uses)


def test_an_exception_that_cannot_travel_is_described_in_words() -> None:
    """Its type, message and traceback are plain data beside it."""
    payload = Payloads("n1").dump_outcome(outcome.Error(Wants(1, path="p")))
    error = Wants(7, path="/data")
    error.source = (i for i in "ab")  # type: ignore[attr-defined]
    payload = Payloads("n1").dump_outcome(outcome.Error(error))

    failure = failure_in(payload)
    lost = failure_of(Payloads().load_outcome(payload))

    assert failure == describe(error, "n1")
    assert isinstance(lost, PayloadError)
    assert f"{__name__}.Wants: /data: 7" in str(lost)
    assert "the exception.source cannot" in str(lost)


def test_the_error_for_bytes_that_cannot_be_loaded_describes_them() -> None:
    """An exception or a result whose class does not exist here, or which refuses."""
    lost = failure_of(Payloads().load_outcome(Payloads().dump_outcome(outcome.Error(Unloadable()))))
    assert isinstance(lost, PayloadError)
    assert "Unloadable" in str(lost)

    broken = failure_of(Payloads().load_outcome(there_and_back(Unloadable())))
    assert isinstance(broken, PayloadError)

    elsewhere = b"V\0" + pickle.dumps(Box(1), 5).replace(b"Box", b"Bax")
    with pytest.raises(PayloadError, match="Bax"):
        Payloads().load_outcome(elsewhere).unwrap()


class Ends(Exception):
    """Ends its process where it is pickled, or where it is loaded."""

    def __init__(self, by: BaseException, *, there: bool) -> None:
        super().__init__()
        self.by = by
        self.there = there

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self.there:
            raise self.by
        return raises, (type(self.by), *self.by.args)


def raises(kind: type[BaseException], *args: Any) -> None:
    raise kind(*args)


INTERRUPT = KeyboardInterrupt("mine")


@pytest.mark.parametrize("by", [SystemExit(4), GeneratorExit(), INTERRUPT], ids=repr)
@pytest.mark.parametrize("there", [True, False], ids=["pickled", "loaded"])
@pytest.mark.parametrize("kind", [outcome.Value, outcome.Error])
def test_an_object_whose_methods_would_end_the_process_fails_its_task(
    kind: Callable[[Any], outcome.Value[Any] | outcome.Error], there: bool, by: BaseException
) -> None:
    """Whichever exception they raise; the error names it, and the object if that is at hand."""
    mission, runner = Payloads(interruptible=False), Payloads(interruptible=False)
    payload = runner.dump_outcome(kind(Ends(by, there=there)))
    error = failure_of(mission.load_outcome(payload))

    assert isinstance(error, PayloadError)
    assert f"it raised {by!r}" in str(error)
    if there or kind is outcome.Error:
        assert f"{__name__}.Ends" in str(error)


@pytest.mark.parametrize("by", [SystemExit(4), INTERRUPT], ids=repr)
def test_functions_and_arguments_whose_methods_would_end_the_process_likewise(
    by: BaseException,
) -> None:
    ends, later = Ends(by, there=True), Ends(by, there=False)
    payloads = Payloads(interruptible=False)
    for dump in (
        lambda: payloads.dump_arguments((ends,), {}),
        lambda: payloads.dump_arguments((), {"a": ends}),
        lambda: payloads.dump_function(functools.partial(print, ends)),
        lambda: payloads.load_arguments(payloads.dump_arguments((later,), {})),
        lambda: payloads.load_function(
            payloads.dump_function(functools.partial(print, later)).payload
        ),
    ):
        with pytest.raises(PayloadError, match="it raised"):
            dump()


def test_ctrl_c_while_an_object_is_pickled_or_loaded_is_passed_on_where_it_has_an_effect() -> None:
    with pytest.raises(KeyboardInterrupt):
        there_and_back(Ends(INTERRUPT, there=True))
    for kind in (outcome.Value, outcome.Error):
        payload = Payloads().dump_outcome(kind(Ends(INTERRUPT, there=False)))
        with pytest.raises(KeyboardInterrupt):
            Payloads().load_outcome(payload)


def test_the_error_for_a_missing_module_names_it_and_says_what_to_do() -> None:
    payload = b"A\0" + b"cno_such_module\nf\n."

    with pytest.raises(PayloadError, match=r"No module named 'no_such_module'.*importable") as info:
        Payloads("w1").load_arguments(payload)

    assert str(info.value).endswith(f"by {sys.executable}")


def test_the_note_on_a_failed_import_names_the_interpreter() -> None:
    missing = outcome.Error(ModuleNotFoundError("No module named 'xtb'"))
    error = failure_of(Payloads().load_outcome(Payloads().dump_outcome(missing)))

    (note,) = error.__notes__  # type: ignore[attr-defined,unused-ignore]
    expected = f"No module named 'xtb'\n{sys.executable} has no such module: install it there"
    assert note.endswith(expected)


def test_resources_and_locks_travel_by_dill() -> None:
    lock, res = arrives(there_and_back((threading.Lock(), Cores([3]) & Memory(2))))

    assert not lock.locked()
    assert Cores([3]) & Memory(2) == res


def test_a_long_traceback_is_cut_in_its_middle() -> None:
    def fails() -> None:
        raise ValueError("x" * 1_000_000)

    failure = failure_in(Payloads().dump_outcome(outcome.capture(fails)))

    assert failure is not None
    assert len(failure.message) == 65536
    assert len(failure.traceback) < 70_000


@pytest.mark.parametrize("raised", [RuntimeError("no"), SystemExit(4)])
def test_an_exception_whose_own_methods_fail_is_described_nevertheless(
    raised: BaseException,
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise raised

    failure = describe(Mute(), "n1")

    assert "" == failure_in_short(Mute()).message
    assert isinstance(failure, Failed)
    assert failure.type.endswith("Mute")
    assert "cannot be had" in failure.message
