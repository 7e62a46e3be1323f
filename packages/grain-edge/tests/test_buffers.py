"""Memory for large payloads."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from grain.edge.buffers import FOREIGN, advise_huge_pages, allocate
from grain.edge.framing.frames import HEADER, LARGE, FrameDecoder
from grain.edge.messages import Codec, Message


class Gigabyte(Message, frozen=True):
    """May bring a gigabyte."""

    max_payload = 1024**3


def resident() -> int:
    """Bytes that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_allocated_memory_is_zeros_that_can_be_written_to() -> None:
    view = allocate(5_000_000)
    assert (5_000_000, 0, 0) == (len(view), view[0], view[-1])

    view[-3:] = b"end"

    assert b"end" == bytes(view[-3:])


def test_an_announced_gigabyte_takes_no_memory() -> None:
    """Only what has come of it."""
    codec = Codec(Gigabyte)
    decoder = FrameDecoder(codec)
    before = resident()
    announced = codec.encode(Gigabyte(), 1024**3)
    decoder.feed(HEADER.pack(len(announced), LARGE) + announced)
    decoder.feed(bytes(1_000_000))

    assert resident() - before < 20_000_000


def flags_of(memory: bytearray) -> list[str]:
    """Return the system's flags of its middle: VmFlags, see proc_pid_smaps(5)."""
    middle = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + len(memory) // 2
    here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            start, end = (int(word, 16) for word in words[0].split("-"))
            here = start <= middle < end
        elif here and words[0] == "VmFlags:":
            return words[1:]
    return []


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists() or not hasattr(mmap, "MADV_HUGEPAGE"),
    reason="a system without huge pages",
)
def test_memory_of_another_allocator_gets_huge_pages_if_it_is_large() -> None:
    """And nothing in it is changed, nor before it and behind it."""
    large, small = bytearray(FOREIGN), bytearray(FOREIGN)
    large[0] = large[-1] = 7
    advise_huge_pages(memoryview(large)[:])
    advise_huge_pages(memoryview(small)[1:])

    assert "hg" in flags_of(large)
    assert "hg" not in flags_of(small)
    assert (7, 7, 14) == (large[0], large[-1], sum(large[:: FOREIGN - 1]))


@pytest.mark.parametrize("size", [0, 1, 4096])
def test_little_memory_is_left_alone(size: int) -> None:
    advise_huge_pages(memoryview(bytearray(size)))


FAULTS = """
import resource, sys
from grain.edge.buffers import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def payloads():
    for _ in range(20):
        received = bytearray(1_000_000)
        loaded = bytes(received)
        del received, loaded

before = faults()
keep_freed_memory()
lesson = faults() - before
payloads()
before = faults()
payloads()
print(lesson, faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_memory_that_was_freed_is_kept_for_the_next_payload() -> None:
    """Hardly a page comes from the system again: twenty times two megabytes are 9,760 pages."""
    # Any setting of malloc that a user has made stays.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    env.pop("GLIBC_TUNABLES", None)
    words = [sys.executable, "-c", FAULTS]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)

    lesson, later = map(int, done.stdout.split())
    assert lesson < 100
    assert later < 1000
