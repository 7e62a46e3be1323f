"""Where the time of one call goes: each hop through Gnaw, agent and runner, and what it is made of.

The calls have a time limit, as others of their kind would take the short way, in a lane. They come
one after the other, in processes that note when they wake up, read, decode, encode and write
(`tools.bench._trace`). Each row is a hop, in microseconds, with these parts in their order:

- ``decide``: what the sender does from the message before to this one. First it is the submission
  in the mission, in the last row what is left to do there, with the task that waits for the result.
- ``beside``: in that time, other messages encoded and written.
- ``encode``, ``write``: of the message that the call waits for.
- ``wake``: from the end of the write until the receiver has woken up. It may do so earlier.
- ``read``: from there until its bytes are here: trio's pass, and the system call.
- ``decode``: until there are messages.

Beside it stand the same calls without a trace, and a chain of as many processes that do nothing but
read and write; and both again for calls in a lane.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from grain.remote_exer import RemoteExecutor
from grain.resource import Cores, WTime
from tools.bench import _trace, say
from tools.bench._chain import floor
from tools.bench.cluster import nothing, present, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.resource import Resource
    from tools.bench._trace import Event

CALLS, WARM = 2000, 500
ROUNDS = 3

HOPS = [
    ("Submit", "mission", "gnaw"),
    ("Lease", "gnaw", "agent"),
    ("StartRun", "agent", "runner"),
    ("Ended", "runner", "agent"),
    ("RunEnded", "agent", "gnaw"),
    ("Resolved", "gnaw", "mission"),
]
"""The messages of a call, each with the sender and the receiver."""

PARTS = ("decide", "beside", "encode", "write", "wake", "read", "decode")


class Arrival(NamedTuple):
    """A message that has arrived: when its process woke up, had the bytes, and the message."""

    woke: float
    read: float
    decoded: float


class Departure(NamedTuple):
    """A message that leaves, and all that was encoded and written so far, in seconds."""

    began: float
    encoded: float
    write: float
    wrote: float
    spent: float


class Passages:
    """The messages that a process has received and sent, by the name of their class."""

    def __init__(self, events: list[Event]) -> None:
        self.arrived: dict[str, list[Arrival]] = {}
        self.left: dict[str, list[Departure]] = {}
        # Seconds that were spent on messages until an arrival of this index in `arrived`.
        self.spent: dict[tuple[str, int], float] = {}
        woke = spent = 0.0
        unwritten: list[tuple[str, float, float, float]] = []
        for kind, began, ended, names in events:
            if kind == "woke":
                woke = ended
            elif kind == "decoded":
                for name in names:
                    arrived = self.arrived.setdefault(name, [])
                    self.spent[name, len(arrived)] = spent
                    arrived.append(Arrival(woke, began, ended))
            elif kind == "encoded":
                unwritten += [(name, began, ended, spent) for name in names]
                spent += ended - began
            else:
                for name, encode, encoded, before in unwritten:
                    left = self.left.setdefault(name, [])
                    left.append(Departure(encode, encoded, began, ended, before))
                unwritten = []
                spent += ended - began


async def one_by_one(address: str, one: Resource) -> list[tuple[float, float]]:
    """Return when each of the last calls was submitted, and when its result was there."""
    times = []
    async with RemoteExecutor(address) as executor:
        for _ in range(WARM + CALLS):
            began = time.perf_counter()
            executor.submit(one, nothing)
            await executor.join()
            times.append((began, time.perf_counter()))
    return times[WARM:]


def measured(
    folder: Path, one: Resource, *, trace: bool
) -> tuple[list[tuple[float, float]], list[Event]]:
    """Measure calls through processes of their own; return their times, and the mission's trace.

    The other processes write theirs to files in the folder.
    """
    address = f"edge://{folder}/meeting"
    worker = ["grain.worker", "--url", address, "--res", '{"Cores": 2}']
    gnaw = ["grain.head", "--address", address]
    if trace:
        os.environ[_trace.FILE_OF_RUNNER] = f"{folder}/runner"
        worker = ["tools.bench._trace", f"{folder}/agent", *worker, "--context", _trace.__file__]
        gnaw = ["tools.bench._trace", f"{folder}/gnaw", *gnaw]
    with running(*gnaw), running(*worker):
        trio.run(present, address, 1)
        if not trace:
            return trio.run(one_by_one, address, one), []
        with _trace.tracing() as own:
            times = trio.run(one_by_one, address, one, instruments=[own])
    return times, own.events


def parts(
    calls: list[tuple[float, float]], processes: dict[str, Passages]
) -> Iterator[list[dict[str, float]]]:
    """Yield for each call the seconds of the parts of its hops, the end in the mission last."""
    for call, (began, ended) in enumerate(calls, -len(calls)):
        rows: list[dict[str, float]] = []
        since, spent = began, None
        for name, sender, receiver in HOPS:
            left = processes[sender].left[name][call]
            arrivals = processes[receiver].arrived[name]
            arrived = arrivals[call]
            beside = 0.0 if spent is None else left.spent - spent
            wrote = min(max(arrived.woke, left.write), left.wrote)
            rows.append(
                {
                    "decide": left.write - since - beside - (left.encoded - left.began),
                    "beside": beside,
                    "encode": left.encoded - left.began,
                    "write": wrote - left.write,
                    "wake": max(arrived.woke, left.write) - wrote,
                    "read": arrived.read - max(arrived.woke, left.write),
                    "decode": arrived.decoded - arrived.read,
                }
            )
            since = arrived.decoded
            spent = processes[receiver].spent[name, len(arrivals) + call]
        rows.append({**dict.fromkeys(PARTS, 0.0), "decide": ended - since})
        yield rows


def main() -> None:
    """Print what is measured."""
    names = [f"{name}.{sender}_to_{receiver}" for name, sender, receiver in HOPS] + ["result"]
    rounds: dict[tuple[str, str], list[float]] = {}
    whole: list[float] = []
    bare: list[float] = []
    untraced: list[float] = []
    bare_lane: list[float] = []
    in_lane: list[float] = []
    through = Cores(1) & WTime(T=600)
    for _ in range(ROUNDS):
        bare.append(floor(len(HOPS) // 2))
        bare_lane.append(floor(1))
        for one, medians_of in ((through, untraced), (Cores(1), in_lane)):
            with tempfile.TemporaryDirectory() as name:
                times, _ = measured(Path(name), one, trace=False)
                medians_of.append(statistics.median(b - a for a, b in times) * 1e6)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            times, own = measured(folder, through, trace=True)
            processes = {"mission": Passages(own)}
            for process in ("gnaw", "agent", "runner"):
                processes[process] = Passages(json.loads((folder / process).read_text()))
        whole.append(statistics.median(b - a for a, b in times) * 1e6)
        rows = list(parts(times, processes))
        for index, hop in enumerate(names):
            for part in PARTS:
                value = statistics.median(row[index][part] for row in rows) * 1e6
                rounds.setdefault((hop, part), []).append(value)
    medians = {key: statistics.median(values) for key, values in rounds.items()}
    for hop in names:
        row = {part: round(medians[hop, part], 1) for part in PARTS}
        say(f"hops.{hop}", sum(row.values()), "us", **row)
    for part in PARTS:
        say(f"hops.all.{part}", sum(medians[hop, part] for hop in names), "us")
    say("hops.call.traced", statistics.median(whole), "us")
    say("hops.call", statistics.median(untraced), "us")
    say("hops.bare_processes", statistics.median(bare), "us")
    say("hops.call_in_lane", statistics.median(in_lane), "us")
    say("hops.bare_processes_in_lane", statistics.median(bare_lane), "us")


if __name__ == "__main__":
    main()
