"""An `Executor` that reads no configuration and shows no progress."""

from __future__ import annotations

from typing import Any

from grain.delayed import Executor
from grain.resource import Cores


def executor(local: int = 2, **options: Any) -> Executor:
    return Executor(local=Cores(local), config_file=False, progress=False, **options)
