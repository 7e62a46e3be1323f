"""The public face of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import grain.edge

NAMES = [
    "ALL_TRANSPORTS",
    "Attempt",
    "DEFAULT",
    "Peer",
    "Serving",
    "dial",
    "examine",
    "prepare",
    "serve",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_had_from_the_package(name: str) -> None:
    assert getattr(grain.edge, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is not there is an AttributeError, as of any module."""
    with pytest.raises(AttributeError, match="module 'grain.edge' has no attribute 'dail'"):
        _ = grain.edge.dail  # type: ignore[attr-defined]


def test_a_channel_in_memory_imports_no_network() -> None:
    """A channel in memory does not bring in what meets over a network, nor its cryptography."""
    code = "import sys, grain.edge.channel; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "grain.edge.framing.memory_channel" in done.stdout.split()
    assert not {"grain.edge.connecting.dial", "grain.edge.connecting.serve", "cryptography"} & set(
        done.stdout.split()
    )
