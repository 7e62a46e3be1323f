"""What /proc shows of a process that was forked to do something else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PROGRAM = """\
import ctypes, json, os, sys
from pathlib import Path
from grain.worker.node.shown import show

words, variables = json.load(sys.stdin)
show([word.encode() for word in words], {a.encode(): b.encode() for a, b in variables.items()})
shown = [Path("/proc/self", name).read_text().rstrip("\\0") for name in ("cmdline", "environ")]
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(json.dumps([*shown, getenv(b"KEPT").decode(), os.environ["KEPT"]]))
"""


def shown(words: list[str], variables: dict[str, str]) -> list[Any]:
    """Return the command line, the environment, and twice a variable that the process has."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([words, variables]).encode(),
        env={"KEPT": "value", "OTHER": "x" * 100},
        stdout=subprocess.PIPE,
        check=True,
    )
    return list(json.loads(done.stdout))


def test_others_see_the_new_words_and_the_process_keeps_its_variables() -> None:
    words, variables, *kept = shown(["one", "two words"], {"B": "bb", "A": "1"})
    assert ["one", "two words"] == words.split("\0")
    assert ["A=1", "B=bb"] == variables.split("\0")
    assert ["value", "value"] == kept


def test_what_finds_no_room_is_missing() -> None:
    words, variables, *_ = shown(["w" * 10_000], {"LONG": "y" * 1000, "SHORT": "1"})
    assert 100 < len(words) < 10_000
    assert set(words) == {"w"}
    assert "SHORT=1" == variables
