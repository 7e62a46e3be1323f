"""Lists of hosts, as Slurm and Flux write them."""

from __future__ import annotations

import pytest

from grain.files.hosts import host_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3,07],login", ["n1", "n2", "n3", "n07", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("", []),
    ],
)
def test_a_list_names_hosts(text: str, names: list[str]) -> None:
    assert names == host_names(text)


@pytest.mark.parametrize(
    "text",
    [
        "n[3-1]", "n[1", "n]", "n[x]", "n[1-99999999]", "n[1-400]m[1-400]",
        # In a time that grows with their lengths only.
        "n" * 1000 + "[", "n[1]" * 300 + "[",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        host_names(text)
