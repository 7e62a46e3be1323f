"""Short tracebacks: which frames are hidden, and that exceptions are restored."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import grain
from grain.worker.errors import PayloadError, short_tracebacks

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAIN_TRACEBACK", raising=False)


def of_grain(body: str) -> Callable[[Callable[[], object]], None]:
    """Return a function, with a frame of Grain, of which this is the body; it may call `f`."""
    source = "def function(f):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    names: dict[str, Any] = {"PayloadError": PayloadError}
    exec(compile(source, f"{next(iter(grain.__path__))}/worker/some.py", "exec"), names)
    function: Callable[[Callable[[], object]], None] = names["function"]
    return function


def load_nonsense() -> None:
    json.loads("{")


def raised(function: Callable[..., object], *args: object) -> Exception:
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError


def short(error: BaseException) -> str:
    with short_tracebacks(error):
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def names(shown: str) -> list[str]:
    """Return the files with frames, in their order; those that adjoin are named once."""
    files = [line.split('"')[1] for line in shown.splitlines() if line.strip().startswith("File ")]
    found = [Path(file).name for file in files]
    return [name for i, name in enumerate(found) if not i or found[i - 1] != name]


def test_frames_of_grain_between_those_of_the_user_are_hidden() -> None:
    error = raised(of_grain("f()"), load_nonsense)

    assert [HERE, "__init__.py", "decoder.py"] == names(short(error))


def test_frames_of_libraries_that_grain_calls_are_hidden() -> None:
    error = raised(of_grain("import json\njson.loads('{')"), None)

    assert [HERE] == names(short(error))


def test_an_error_that_grain_did_not_mean_to_raise_is_shown_whole() -> None:
    error = raised(of_grain("{}['a']"), None)

    assert [HERE, "some.py"] == names(short(error))


@pytest.mark.parametrize(
    "body",
    [
        "raise TypeError('say what to write')",
        "raise PayloadError('it cannot travel')",
        "__tracebackhide__ = True\n{}['of an operation of the user']",
    ],
)
def test_an_error_that_grain_raises_on_purpose_or_passes_on_shows_the_users_frames(
    body: str,
) -> None:
    assert [HERE] == names(short(raised(of_grain(body), None)))


def test_a_cause_that_was_handled_within_grain_is_hidden() -> None:
    handled = "try: open('/no/such/file')\nexcept OSError as error: raise PayloadError('x')"
    for body in (handled, f"{handled} from error"):
        shown = short(raised(of_grain(body), None))

        assert "PayloadError: x" in shown
        assert "FileNotFoundError" not in shown


def test_a_cause_in_the_users_code_is_shown() -> None:
    body = "try: f()\nexcept ValueError as error: raise PayloadError('x') from error"
    shown = short(raised(of_grain(body), load_nonsense))

    assert "JSONDecodeError" in shown
    assert "direct cause" in shown
    assert "some.py" not in shown


def test_everything_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAIN_TRACEBACK", "full")
    error = raised(of_grain("raise TypeError"), None)

    assert "".join(traceback.format_exception(error)) == short(error)


class Rigid(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


def test_exceptions_are_restored_also_in_circles_and_where_a_class_refuses_attributes() -> None:
    def fail() -> None:
        raise Rigid("no attributes")

    body = "try: f()\nexcept Exception as error: raise PayloadError('x') from error"
    error = raised(of_grain(body), fail)
    cause = error.__cause__
    assert cause is not None
    BaseException.__setattr__(cause, "__context__", error)
    whole = "".join(traceback.format_exception(error))
    before = error.__traceback__, error.__cause__, error.__context__, error.__suppress_context__

    assert "some.py" not in short(error)
    assert whole == "".join(traceback.format_exception(error))
    assert before == (
        error.__traceback__, error.__cause__, error.__context__, error.__suppress_context__
    )  # fmt: skip
