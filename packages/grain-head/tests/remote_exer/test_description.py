"""The call of a task in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.edge import dial
from grain.edge.questions import CODEC, Ask, CallAnswer, unpack
from grain.remote_exer import HostingExecutor
from grain.remote_exer.description import LARGEST, describe_call
from grain.resource import Cores
from grain.worker.payload import Payloads

if TYPE_CHECKING:
    from pathlib import Path

    from grain.edge import Peer

PAYLOADS = Payloads()


def described(*args: Any, **kwargs: Any) -> str:
    return describe_call("energy", PAYLOADS.dump_arguments(args, kwargs), PAYLOADS)


class Stubborn:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise ValueError


class Poison:
    """An object that cannot be loaded."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (described(), "energy()"),
        (described("h2o.xyz", charge=-1), "energy('h2o.xyz', charge=-1)"),
        (described("x" * 1000), f"energy('{'x' * 27}...{'x' * 28}')"),
        (described([1] * 1000), "energy([1, 1, 1, 1, 1, 1, ...])"),
        (described(Poison()), "energy(...), whose arguments cannot be shown: PayloadError"),
        (described(b"x" * LARGEST), "energy(...), with arguments of 1.0 MB"),
    ],
)
def test_a_call_is_shown_as_written_with_large_values_shortened(call: str, expected: str) -> None:
    assert expected == call


def test_an_object_that_cannot_be_shown_is_named_by_its_class() -> None:
    assert described(Stubborn()).startswith("energy(<Stubborn instance at 0x")


def test_a_description_is_short() -> None:
    assert len(described(*range(1000))) < 1100


async def wait(name: str, seconds: float) -> None:
    """A tasklet."""
    assert name
    await trio.sleep(seconds)


async def test_a_mission_describes_the_call_of_a_task_that_runs(tmp_path: Path) -> None:
    """A question reaches it by way of the head; a task that it does not have has no call."""
    (tmp_path / "s").mkdir(mode=0o700)
    address = f"edge://{tmp_path}/s/meeting"
    async with HostingExecutor(Cores(1), address=address, name="opt") as executor:
        job = executor.submit(Cores(1), wait, "h2o.xyz", seconds=1000.0)
        await executor.ask_why(job)  # it has arrived
        async with dial(address, role="cli", codec=CODEC) as peer:
            calls = [await ask(peer, number) for number in (job, job + 1)]
        executor.cancel(job)

    assert ["wait('h2o.xyz', seconds=1000.0)", ""] == calls


async def ask(peer: Peer, task: int) -> str:
    await peer.channel.send([(Ask("arguments", mission="opt", task=task), None)])
    [(_, payload)] = await peer.channel.receive()
    return unpack(payload, CallAnswer).call
