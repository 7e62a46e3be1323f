"""The part of ``grain ls`` about `grain scale --auto`. Pure."""

from __future__ import annotations

import time
from typing import Any

from grain.cli.show import clean, folded, table
from grain.resource.figures import span


def scaling_text(state: dict[str, Any] | None, most: int | None = None) -> str:
    """Format the state of a `grain scale --auto`; empty if there is none."""
    if state is None:
        return ""
    rows = [
        (
            shape["name"],
            *(shape["jobs"].get(phase, 0) for phase in ("pending", "running", "lost")),
            "-" if shape["max"] is None else shape["max"],
            _remark(shape),
        )
        for shape in state["shapes"]
    ]
    head = ("SHAPE", "PENDING", "RUNNING", "LOST", "MAX", "REMARK")
    parts = [table("WORKERS BY DEMAND", head, rows, most)]
    lines = [
        f"{time.strftime('%H:%M:%S', time.localtime(at))} {clean(what)}"
        for at, what in state["lines"][-2:]
    ]
    for one in state["impossible"]:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in one["reasons"].items())
        lines.append(
            f"Impossible: {clean(one['ask'])}, {one['waiting']} waiting ({clean(reasons)})"
        )
    lines.append(
        f"From {state['min']} to {state['max']} workers, by process {state['pid']} on "
        f"{clean(state['host'])}."
    )
    parts += [f"{text}\n" for line in lines for text in folded(line, most)]
    return "\n" + "".join(parts)


def _remark(shape: dict[str, Any]) -> str:
    remarks = [f"one for each {span(shape['worth'])} of work"] if "worth" in shape else []
    if shape["pause"]:
        remarks.append(f"pause of {shape['pause']:.0f} s after failures")
    if shape["avoided"]:
        remarks.append(f"avoids {', '.join(map(clean, shape['avoided']))}")
    return "; ".join(remarks) or "-"
