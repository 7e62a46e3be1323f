"""The mission of a campaign, as a user's script: ``python -m tools.campaign.mission PLAN``.

PLAN is a JSON file with a `MissionPlan`. Tasks sleep, as only their number and their times count.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import msgspec
import trio

from grain.combine import exec1
from grain.delayed import delayed, run
from grain.resource import Cores, GPUs, Memory, Resource, WTime
from grain_testkit.campaign import FUNCTIONS, Failure, plan_failures

_LOG_SPREAD = 0.4  # of the times of runs
_RANKS = 12


class MissionPlan(msgspec.Struct, frozen=True):
    """The plan of a mission.

    Attributes:
        folder: a directory of its own.
        molecules: how many there are, at least 22.
        gpu_tasks: tasks that no worker has room for.
        at_once: how many molecules are on their way at a time.
        scale: seconds of the mission for one of the campaign.
        stated: True if the mission says at its beginning how often it calls each function.
        seed: of the times.
    """

    folder: str
    molecules: int
    gpu_tasks: int
    at_once: int
    scale: float
    stated: bool
    seed: int = 1


async def _work(folder: str, molecule: int, seconds: float, failure: Failure | None) -> int:
    from grain.worker.external import run_external

    if failure is None:
        await trio.sleep(seconds)
        return molecule
    if failure.error == "TooSlowError":
        await trio.sleep_forever()
    if failure.error == "Once":
        await trio.sleep(seconds)
        mark = trio.Path(folder, f"tried-{molecule}")
        if not await mark.exists():
            await mark.touch()
            raise ConnectionError("the licence server is busy")
        return molecule
    message = failure.message.format(n=molecule, word="caffeine")
    if failure.error in {"ExternalError", "CrashedError"}:
        code = 128 if failure.function == "optimise" else 25
        end = "kill -9 $$" if failure.outcome == "crashed" else f"exit {code}"
        # Its command is not to have the reason in it: that one stands on stderr only.
        await run_external(
            ["sh", "-c", f"sleep {seconds:.3f}; cat >&2; {end}", f"mol{molecule:04}.xyz"],
            stdin=message.rpartition(": ")[2].encode(),
        )
    await trio.sleep(seconds)
    raise {"ValueError": ValueError, "FileNotFoundError": FileNotFoundError}[failure.error](message)


@delayed
async def prepare(folder: str, molecule: int, seconds: float, failure: Failure | None) -> int:
    """Prepare a molecule."""
    return await _work(folder, molecule, seconds, failure)


@delayed(retries=1, retry_on=(trio.TooSlowError, ConnectionError), retry_wait=0.1)
async def optimise(folder: str, molecule: int, seconds: float, failure: Failure | None) -> int:
    """Optimise its structure."""
    return await _work(folder, molecule, seconds, failure)


@delayed
async def energy(folder: str, molecule: int, seconds: float, failure: Failure | None) -> int:
    """Compute its energy."""
    return await _work(folder, molecule, seconds, failure)


@delayed
async def rank(folder: str, group: int, seconds: float, failure: Failure | None) -> int:
    """Rank the molecules of a group."""
    return await _work(folder, group, seconds, failure)


async def dock() -> None:
    """Dock a molecule."""


_ONCE = Failure("optimise", 0, "error", "Once", "")


class Campaign:
    """The mission.

    Args:
        plan: what it does.
    """

    def __init__(self, plan: MissionPlan) -> None:
        self._plan = plan
        self._rng = random.Random(plan.seed)
        self._failing = plan_failures(plan.molecules, self._rng)
        self._places = trio.CapacityLimiter(plan.at_once)
        self._group = -(-plan.molecules // _RANKS)
        self._left = [0] * _RANKS
        for molecule in range(plan.molecules):
            self._left[molecule // self._group] += 1

    @property
    def calls(self) -> dict[str, int]:
        """How often each function is called, as far as that is known before."""
        molecules = self._plan.molecules
        failing = {(function, m) for (function, m), failure in self._failing.items() if failure}
        optimised = sum(function == "optimise" for function, _ in failing)
        return {
            "prepare": molecules,
            "optimise": molecules,
            "energy": molecules - optimised,
            "rank": sum(left > 0 for left in self._left),
        }

    async def run(self) -> None:
        """Run all of it; cancel at the end what fits nowhere."""
        async with trio.open_nursery() as background:
            for _ in range(self._plan.gpu_tasks):
                background.start_soon(exec1, self._request("dock") & GPUs(1), dock)
            async with trio.open_nursery() as nursery:
                for molecule in range(1, self._plan.molecules + 1):
                    await self._places.acquire_on_behalf_of(molecule)
                    nursery.start_soon(self._molecule, molecule)
            background.cancel_scope.cancel()

    async def _molecule(self, molecule: int) -> None:
        try:
            for function in (prepare, optimise, energy):
                name = function.__name__
                failure = self._failing.get((name, molecule))
                if failure is None and (name, molecule) in self._failing:
                    failure = _ONCE
                await self._call(function, name, molecule, failure)
        except Exception:  # one molecule fewer: the mission tells of it
            pass
        finally:
            self._places.release_on_behalf_of(molecule)
        group = (molecule - 1) // self._group
        self._left[group] -= 1
        if not self._left[group]:
            await self._call(rank, "rank", group, None)

    async def _call(self, function: Any, name: str, number: int, failure: Failure | None) -> None:
        seconds = FUNCTIONS[name].seconds * self._rng.lognormvariate(0, _LOG_SPREAD)
        seconds *= self._plan.scale
        await (function @ self._request(name))(self._plan.folder, number, seconds, failure)

    def _request(self, name: str) -> Resource:
        one = FUNCTIONS[name]
        # No less than a busy machine needs to start a program.
        limit = max(6.0, one.limit * self._plan.scale)
        return Cores(one.cores) & Memory(one.memory) & WTime(T=limit)


def main() -> None:
    """Run the mission of the plan that the command line names."""
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=MissionPlan)
    campaign = Campaign(plan)
    run(campaign.run, name="campaign", total=campaign.calls if plan.stated else None)


if __name__ == "__main__":
    # By the name of the module, which workers can import, too.
    from tools.campaign.mission import main as imported

    imported()
