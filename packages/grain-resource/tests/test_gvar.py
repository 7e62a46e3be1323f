"""GVAR: what a running tasklet may know about its own run."""

from __future__ import annotations

import contextvars
import copy
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING

from grain import GVAR
from grain.resource import ZERO, Cores

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_outside_of_a_run_there_are_no_resources_and_no_worker() -> None:
    assert ZERO is contextvars.Context().run(lambda: GVAR.res)
    assert "" == contextvars.Context().run(lambda: GVAR.instance)
    assert "<grain.GVAR res=Ø instance=''>" == repr(GVAR)


def test_a_scope_sets_both_variables_and_restores_them() -> None:
    """Within a scope both variables are set; afterwards they are what they were."""
    with GVAR.scope(Cores(2), "node7"):
        assert (Cores(2), "node7") == (GVAR.res, GVAR.instance)
        with GVAR.scope(Cores([5])):
            assert ([5], "") == (GVAR.res.c, GVAR.instance)
        assert (Cores(2), "node7") == (GVAR.res, GVAR.instance)

    assert (ZERO, "") == (GVAR.res, GVAR.instance)


def test_programs_start_in_the_current_directory_unless_a_scope_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) == GVAR.cwd
    with GVAR.scope(ZERO, cwd="/", env={"A": "1", "B": None}):
        assert ("/", {"A": "1", "B": None}) == (GVAR.cwd, GVAR.env)
        GVAR.surroundings = SimpleNamespace(cwd="/tmp", env={})
        assert ("/tmp", {}) == (GVAR.cwd, GVAR.env)
    assert (str(tmp_path), {}) == (GVAR.cwd, GVAR.env)


def test_scope_left_by_an_error() -> None:
    """An exception ends the scope as well."""
    try:
        with GVAR.scope(Cores(2)):
            raise KeyError
    except KeyError:
        pass

    assert ZERO is GVAR.res


def test_setting_a_variable_in_one_context_does_not_show_in_another() -> None:
    def run(n: int) -> None:
        GVAR.res = Cores(n)
        GVAR.instance = f"node{n}"

    one, other = contextvars.copy_context(), contextvars.copy_context()
    one.run(run, 1)
    other.run(run, 2)

    assert (1, "node1") == one.run(lambda: (GVAR.res.N, GVAR.instance))
    assert (2, "node2") == other.run(lambda: (GVAR.res.N, GVAR.instance))
    assert ZERO is GVAR.res


def test_a_context_that_is_copied_later_has_what_was_set() -> None:
    """A context that is copied later sees what was set, as tasks started by a tasklet do."""
    with GVAR.scope(Cores(3), "node1"):
        child = contextvars.copy_context()

    assert (3, "node1") == child.run(lambda: (GVAR.res.N, GVAR.instance))


def test_gvar_is_pickled_by_its_public_name() -> None:
    """GVAR travels as the name ``grain.GVAR``; no private module is part of what travels."""
    data = pickle.dumps(GVAR, 4)

    assert GVAR is pickle.loads(data)
    assert b"_gvar" not in data
    assert b"grain" in data
    assert GVAR is copy.deepcopy(GVAR)
