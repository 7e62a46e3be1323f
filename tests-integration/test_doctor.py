"""`grain doctor --slow` where a scheduler serves, where none does, and amid faults."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from command_site import Site, running

from grain.edge import serve
from grain.edge.questions import CODEC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def findings(
    site: Site, *words: str, code: int | None = 0
) -> dict[str, list[dict[str, str]]]:
    """Return the doctor's findings about the scheduler, by check."""
    done = await site.typed("doctor", "--json", *words)
    assert code in {None, done.returncode}, done.stdout + done.stderr
    checks: dict[str, list[dict[str, str]]] = {}
    for one in json.loads(done.stdout):
        checks.setdefault(one["check"], []).append(one)
    after = list(checks)[list(checks).index("scheduler") :]
    return {check: checks[check] for check in after}


def states(checks: dict[str, list[dict[str, str]]]) -> dict[str, set[str]]:
    return {check: {one["state"] for one in lines} for check, lines in checks.items()}


async def until_states(
    site: Site, expected: dict[str, set[str]], *words: str
) -> dict[str, list[dict[str, str]]]:
    """Wait until the findings have these states, and return them.

    The scheduler has 5 s to answer, in which that of a busy machine may get no processor.
    """
    while expected != states(checks := await findings(site, *words, code=None)):
        await trio.sleep(0.2)
    return checks


@asynccontextmanager
async def serving(address: str, *transports: str) -> AsyncIterator[None]:
    """One who is to be reached in some ways only."""

    async def handle(peer: Any) -> None:
        await trio.sleep_forever()

    ways = frozenset(transports)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, handle, address, codec=CODEC, transports=ways))
        yield
        nursery.cancel_scope.cancel()


@contextmanager
def reserved(host: str) -> Iterator[int]:
    """Reserve a port for the listener that gets its number."""
    with socket.socket() as holder:
        holder.bind((host, 0))
        # From now on a listener that allows as much, as all of trio's do, may be bound to it, too.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]


async def test_every_way_is_tried(site: Site) -> None:
    """Also those that a faster one makes needless, and nothing of them is left."""
    with site.gnaw(), trio.fail_after(300):
        await site.until(lambda _: True)
        quick = await until_states(site, {"scheduler": {"ok"}, "workers": {"ok"}})
        ways = {f"by {way}": {"ok"} for way in ("unix", "tcp", "reverse", "files")}
        slow = await until_states(site, {"scheduler": {"ok"}, **ways, "workers": {"ok"}}, "--slow")
        mailbox = site.folder / "edge/meeting.d/1"
        # Who serves looks in now and then, and removes what was left there. (So directories go
        # while they are listed, which `os.walk` takes as it is, and `Path.glob` does not.)
        while {"up.0", "down.0"} & {name for _, _, names in os.walk(mailbox) for name in names}:
            await trio.sleep(0.1)

    assert ["scheduler", "workers"] == list(quick)
    assert ["scheduler", *ways, "workers"] == list(slow)


async def test_where_only_files_lead(site: Site) -> None:
    """Without --slow no head is found; with it the other ways are listed, each with its outcome."""
    with trio.fail_after(300):
        async with serving(site.address, "files"):
            quick = await findings(site)
            ways = {"by reverse": {"ok"}, "by files": {"ok"}}
            slow = await until_states(site, {"scheduler": {"ok"}, **ways}, "--slow")

    assert {"scheduler": {"warn"}} == states(quick)
    assert slow["scheduler"][0]["says"].endswith((" by reverse", " by files"))


async def test_doctor_finds_at_once_that_no_scheduler_serves(site: Site) -> None:
    """That is found out at once, by --slow too, which has nothing to try."""
    slow = await findings(site, "--slow")

    assert ["scheduler"] == list(slow)
    assert slow["scheduler"][0]["says"].startswith("none at edge://")


@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_addresses_with_one_way(site: Site, kind: str) -> None:
    """Before one serves, while it does, and when it was killed."""
    edge = site.folder / "edge"
    stack = ExitStack()
    if kind == "unix":
        address = f"unix://{edge}/socket"
    else:
        # Bound, so that no other process is given it; a listener there may have it, too.
        port = stack.enter_context(reserved("127.0.0.1"))
        address = f"tcp://127.0.0.1:{port}?edge={edge}/other"
    (site.folder / "grain.toml").write_text(f'address = "{address}"\n')
    with stack, trio.fail_after(300):
        before = await findings(site, "--slow")
        with running("grain.head", "--address", address) as gnaw:
            await site.until(lambda _: True)
            working = {"scheduler": {"ok"}, f"by {kind}": {"ok"}, "workers": {"ok"}}
            there = await until_states(site, working, "--slow")
            gnaw.kill()
            gnaw.wait()
            code = 0 if kind == "unix" else 1
            killed = await findings(site, "--slow", code=code)

    assert before["scheduler"][0]["says"].startswith(f"none at {address}")
    assert ["scheduler", f"by {kind}", "workers"] == list(there)
    assert {"warn"} == states(killed)[f"by {kind}"]
    expected = "a scheduler on this" if kind == "unix" else "the one in the meeting file"
    assert killed["scheduler"][0]["says"].startswith(expected)


async def test_a_directory_that_lets_others_in_is_reported_with_a_remedy(site: Site) -> None:
    """The obstacle is reported with its remedy; there is no other transport to try."""
    (site.folder / "edge").chmod(0o777)
    slow = await findings(site, "--slow", code=1)

    assert {"scheduler": {"fail"}} == states(slow)
    assert "chmod go-w" in slow["scheduler"][0]["says"]


async def test_one_that_does_not_answer(site: Site) -> None:
    """A stopped scheduler: each way says so, and the command ends."""
    config = (site.folder / "grain.toml").read_text()
    address = f"unix://{site.folder}/edge/socket"
    (site.folder / "grain.toml").write_text(config.replace(site.address, address))
    code = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); "
        "s.listen(); print(flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", code, address.removeprefix("unix://")]
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            start = partial(trio.run_process, words, stdout=-1, check=False)
            mute: trio.Process = await nursery.start(start)
            assert mute.stdout is not None
            await mute.stdout.receive_some(1)
            slow = await findings(site, "--slow", code=1)
            nursery.cancel_scope.cancel()

    assert "one on this host does not answer" == slow["scheduler"][0]["says"]
    assert "no answer" in slow["by unix"][0]["says"]
