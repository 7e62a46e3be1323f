"""Resources as one word of a command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource import (
    Capacity,
    Cores,
    Either,
    GPUs,
    Memory,
    Node,
    Resource,
    Token,
    WTime,
    from_data,
    from_text,
    gang,
    to_data,
    with_group,
)


def test_a_text_of_kinds_and_values_is_a_resource() -> None:
    expected = Cores(4) & Memory(8) & WTime(T=3600)

    assert expected == from_text("Cores=4,Memory=8,WTime=1:00:00")
    assert Cores([2, 3]) == from_text(" Cores = [2, 3] ")
    assert Token("a,b") == from_text('Token="a,b"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a list"),
        ("Licenses=1", "Did you mean Licences"),
        ("Licenses(1)", "Did you mean Licences"),
        ("Identities=4", "unknown kind of resource 'Identities'"),
        ('Gang={"count":2,"of":3}', "not a number of members"),
        ("Cores", "'Cores' in 'Cores': write Kind=value"),
        ("Cores=1,Cores=2", "twice"),
        ("Cores(4", "as in Python"),
        ("cores=4", "Did you mean Cores"),
        ("Node=4", "cores and memory"),
        ("Cores=-1", "negative"),
    ],
)
def test_a_text_that_is_none_is_refused_with_the_part_that_is_wrong(
    text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_text(text)


# ---- several workers, and Python

kinds = st.fixed_dictionaries(
    {},
    optional={
        "cores": st.one_of(
            st.integers(1, 64).map(Cores), st.sampled_from([Cores("all"), Cores(0.25)])
        ),
        "gpus": st.builds(GPUs, st.integers(1, 8), spread=st.booleans()),
        "memory": st.integers(1, 10**9).map(lambda kb: Memory(kb / 1e6)),
        "token": st.text("ab,|()'\" 4*=", min_size=1).map(Token),
        "capacity": st.integers(2, 9).map(Capacity),
        "limit": st.builds(WTime, T=st.integers(60, 10**6), softT=st.integers(1, 60)),
    },
).filter(bool)
joined = kinds.map(lambda found: _joined(list(found.values())))
one = st.one_of(
    joined, st.builds(gang, st.integers(1, 9), joined, same=st.sampled_from(["group", "job"]))
)
several = st.lists(one, min_size=2, max_size=4, unique=True)


def _joined(parts: list[Resource]) -> Resource:
    first, *others = parts
    for part in others:
        first = first & part
    return first


@given(st.one_of(one, st.builds(lambda found, s: Either(*found, prefer=s), several, st.just(60))))
def test_a_request_is_the_resource_of_the_text_that_shows_it(request: Resource) -> None:
    assert request == from_text(request.ask())


@given(several)
def test_alternatives_are_the_resource_of_the_text_that_shows_them(found: list[Resource]) -> None:
    request = Either(*found)

    assert request == from_text(request.ask())


def test_memory_of_a_group_has_its_name_before_the_most() -> None:
    assert Cores(4) & Memory(32, group="opt") == from_text("Cores=4,Memory=opt:32")
    assert Memory(0.5, group="auto") == from_text("Memory=auto:.5")
    assert Memory(group="h-bonds.2") == from_text("Memory=h-bonds.2:")
    for wrong in ("Memory=opt", "Memory=opt:lots"):
        with pytest.raises(ValueError, match="write opt:32 to have the memory learned"):
            from_text(wrong)
    for wrong in ("Memory=8:opt", "Memory=:8", "Memory=opt:0"):
        with pytest.raises(ValueError, match="Memory"):
            from_text(wrong)


def test_a_command_line_may_leave_the_name_of_the_group_to_the_command() -> None:
    request = Cores(4) & Memory(32, group="auto") | 2 * (Cores(1) & Memory(8, group="auto"))
    named = from_data(with_group(to_data(request), "xtb"))
    assert Cores(4) & Memory(32, group="xtb") | 2 * (Cores(1) & Memory(8, group="xtb")) == named
    other = to_data(Memory(32, group="opt"))
    assert other == with_group(other, "xtb")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4 * Node(32, 100)", 4 * Node(32, 100)),
        ("4 * Cores=32,Memory=100", 4 * Node(32, 100)),
        ("4*Cores=32, Memory=100, WTime=1:00:00", 4 * Node(32, 100) & WTime(T=3600)),
        ("2 * Cores=16,same=job", gang(2, Cores(16), same="job")),
        ("2 * Cores=16|GPUs=1", 2 * Cores(16) | GPUs(1)),
        ("2*Cores=16,prefer=60|Cores=8", Either(2 * Cores(16), Cores(8), prefer=60)),
        ("Node(N=4, M=8) & WTime(T='1:00:00')", Node(4, 8) & WTime(T=3600)),
        ('Token="f(x)"', Token("f(x)")),
    ],
)
def test_a_number_before_a_request_asks_for_so_many_workers(text: str, expected: Resource) -> None:
    assert expected == from_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 * Cores=4", "a task needs one worker or more"),
        ("0 * Cores(4)", "a task needs one worker or more"),
        ("2 * 2 * Cores=4", "write one number, as in 4"),
        ("2 * (2 * Cores(4))", "write one number, as in 4"),
        ("Cores=4|Cores=4", "among the alternatives twice"),
        ("Cores(4) | Cores(4)", "among the alternatives twice"),
        ("4 * Node(8, 8) & Licences(1)", "each member has the same, so write it inside"),
        ("4 * Node(8, 8) & Cores(1)", "both are of the kind Cores; state one of them"),
        ("2 * Cores(8) & 2 * Cores(1)", "a task is one gang"),
        ("2.5 * Cores=4", "'2.5' .*: the number of workers is a whole number"),
        ("two * Cores=4", "'two' .*: the number of workers is a whole number"),
        ("2 * Cores=4,same=0", "the same 'group' or the same 'job'"),
        (f"Token('a' * {10**30})", "as in Python"),
        ("Cores=4,same=job", "same is for several workers"),
        ("2 * Cores=4,same=rack", "the same 'group' or the same 'job'"),
        ("Cores(4) * 4", "write the number of workers first, as in 4 \\* Cores"),
        ("Cores(4) + Memory(8)", "neither a resource nor a value"),
        ("Cors(4)", "unknown kind of resource 'Cors'"),
        ("Cores(len('a'))", "unknown kind of resource 'len'"),
        ("Cores(x)", "x is neither a resource nor a value"),
        ("Cores(4).N", "neither a resource nor a value"),
        ("Cores(*[1])", "neither a resource nor a value"),
        ("Cores(**{})", "each argument by itself"),
        ("(" * 500 + "Cores(1)" + ")" * 500, "as in Python"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_either_form(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_text(text)
