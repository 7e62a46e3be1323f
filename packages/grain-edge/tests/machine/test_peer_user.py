"""Which users count as the own one at the other end of a socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from grain.edge.machine import peer_user
from grain_testkit.other_user import as_other, needs_other_user

_ASK = r"""
class Connected:
    def getsockopt(self, *asked):
        return struct.pack("3i", 1, int(sys.argv[1]), 0)

import sys
print(is_own(Connected()), os.geteuid() == int(sys.argv[1]))
"""


@needs_other_user
@pytest.mark.parametrize("uid", ["0", "1", "own"])
def test_nobody_else_is_taken_for_this_user_and_not_root_either(uid: str) -> None:
    code = Path(peer_user.__file__).read_text() + _ASK
    own = as_other("import os; print(os.geteuid())").strip()

    said = as_other(code, own if uid == "own" else uid)

    assert f"{uid == 'own'} {uid == 'own'}\n" == said
