"""What a program is told of its allocation, by each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.resource import (
    THREADS,
    ZERO,
    Capacity,
    Cores,
    GPUs,
    Identities,
    Licences,
    Memory,
    Opaque,
    Resource,
    RootAllocation,
    Supply,
    Token,
    WTime,
    cpus_of,
    from_data,
    to_data,
    variables_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Sockets(Identities):
    _noun = "socket"

    def _variables(self, worker: Mapping[str, str]) -> Mapping[str, str]:
        return {"SOCKETS": ",".join(map(str, self.ids)), "AT": worker.get("PLACE", "")}


class Untold(Identities):
    def _variables(self, worker: Mapping[str, str]) -> Mapping[str, str]:  # noqa: ARG002
        return {"UNTOLD": self.N}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("res", "expected"),
    [
        (ZERO, {}),
        (Token("a") & Capacity(1) & WTime(T=60), {}),
        (Opaque("Elsewhere", {"N": 2}), {}),
        (Memory(1.5), {"GRAIN_MEMORY_MB": "1500"}),
        (Memory(0.0000015), {"GRAIN_MEMORY_MB": "0"}),
        (Memory(4, group="opt"), {"GRAIN_MEMORY_MB": "4000"}),
        (Memory(group="opt"), {}),
        (Licences(2), {"GRAIN_LICENCES": "2"}),
        (Licences(vasp=2, orca=1), {"GRAIN_LICENCES": "orca:1,vasp:2"}),
        (Sockets([3, 5]) & Memory(1), {"SOCKETS": "3,5", "AT": "n1", "GRAIN_MEMORY_MB": "1000"}),
    ],
    ids=repr,
)
def test_each_kind_tells_a_program_what_it_has(res: Resource, expected: dict[str, str]) -> None:
    assert expected == variables_of(res, {"PLACE": "n1"})


@pytest.mark.parametrize(("asked", "n"), [(Cores(3), "3"), (Cores(0.25), "1"), (Cores("all"), "4")])
def test_cores_tell_their_number_to_programs_and_to_libraries(asked: Cores, n: str) -> None:
    got = Supply(Cores([2, 4, 6, 7]) & Memory(8)).alloc(asked & Memory(1))
    found = variables_of(got, {})

    assert {n} == {found[name] for name in ("GRAIN_CORES", *THREADS)}
    assert [2, 4, 6, 7][: int(n)] == cpus_of(got)


def test_of_alternatives_a_program_is_told_what_its_task_got() -> None:
    supply = Supply(Cores(4))
    either = GPUs(1) | Cores(2)

    got = next(supply.alloc(one) for one in either.alternatives() if supply.fit(one).name == "NOW")
    assert "2" == variables_of(got, {})["GRAIN_CORES"]
    with pytest.raises(TypeError, match="alternatives"):
        variables_of(either, {})


def test_the_root_of_a_gang_is_told_of_its_own_part() -> None:
    root = RootAllocation(Cores([1]) & Sockets([7]), [])

    assert "7" == variables_of(root, {})["SOCKETS"]
    assert [1] == cpus_of(root)


def test_a_kind_that_travelled_is_told_like_one_that_did_not() -> None:
    res = Cores([1]) & Sockets([7, 8]) & GPUs([[0, 0.5]])

    assert variables_of(res, {}) == variables_of(from_data(to_data(res)), {})


def test_a_variable_that_is_not_a_string_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError) as raised:
        variables_of(Untold(2), {})

    assert (
        "Untold._variables() returns 'UNTOLD': 2, but a variable has a string as its name and as "
        "its value: write 'UNTOLD': '2'"
    ) == str(raised.value)


def test_a_kind_of_numbered_things_is_shown_by_its_own_name() -> None:
    assert "Sockets([3,5-6]) & CPU_Cores([0])" == repr(Sockets([3, 5, 6]) & Cores(1))
    assert "Sockets(2)" == Sockets(2).ask()
    assert "Sockets(all)" == repr(Sockets("all"))
    assert 1 == (Sockets(2) & Cores(1)).N
