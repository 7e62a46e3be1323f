"""Programs in Python, started as users start them: by this interpreter, in a new process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from typing import TypeAlias

    Process: TypeAlias = subprocess.Popen[Any]
    StrPath: TypeAlias = str | os.PathLike[str]


def start(*words: StrPath, **options: Any) -> Process:
    """Start ``python WORDS``, with further options of `subprocess.Popen`."""
    return subprocess.Popen([sys.executable, *words], **options)


def run(*words: StrPath, input: str = "", **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: A002
    """Run ``python WORDS`` to its end, with further options of `subprocess.run`.

    Returns:
        Its status, whatever that is, and its output, as text.
    """
    return subprocess.run(
        [sys.executable, *words],
        input=input,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
