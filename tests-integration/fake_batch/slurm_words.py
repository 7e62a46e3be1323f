"""Values as Slurm writes them: times, memory, arrays, signals."""

from __future__ import annotations

import math
import re
import signal

from fake_batch.words import Refused


def failed(text: str) -> Refused:
    """A refusal of the controller."""
    return Refused(f"sbatch: error: Batch job submission failed: {text}")


def minutes_of(text: str) -> float:
    """A limit in seconds, of whole minutes, rounded up, as Slurm does."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in (*parts, *([days] if dash else []))) or len(parts) > 3:
        raise Refused("sbatch: error: Invalid --time specification", 255)
    numbers = [int(part) for part in parts]
    # minutes, minutes:seconds, hours:minutes:seconds; days-hours, days-hours:minutes, ...
    hours = [*numbers, 0, 0][:3] if dash else [0, *numbers, 0][:3] if len(numbers) < 3 else numbers
    seconds = int(days or 0) * 86400 + hours[0] * 3600 + hours[1] * 60 + hours[2]
    return math.ceil(seconds / 60) * 60.0


def megabytes_of(text: str) -> int:
    """Memory in MiB."""
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text, re.IGNORECASE)
    if not match:
        raise Refused("sbatch: error: Invalid --mem specification", 255)
    factor = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}[match[2].upper()]
    return math.ceil(int(match[1]) * factor)


def array_of(text: str) -> tuple[list[int], int]:
    """Indices, and how many may run at a time; 0 for any number."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?(?:%(\d+))?", text)
    if not match:
        raise failed("Invalid job array specification")
    first, last = int(match[1]), int(match[2] or match[1])
    return list(range(first, last + 1)), int(match[3] or 0)


def signal_of(text: str) -> signal.Signals:
    """A signal, by name or number."""
    name = text.upper().removeprefix("SIG")
    try:
        return signal.Signals(int(name)) if name.isdecimal() else signal.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise Refused(f"scancel: error: Unknown job signal: {text}") from None


def warning_of(text: str) -> tuple[signal.Signals, float] | None:
    """Signal and seconds of ``B:USR1@60``; None if the shell is not meant."""
    name, _, seconds = text.partition("@")
    if not name.startswith("B:"):
        # To the steps of srun only, of which there are none.
        return None
    return signal_of(name.removeprefix("B:")), float(seconds or 60)
