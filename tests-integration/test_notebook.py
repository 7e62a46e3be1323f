"""The notebook in docs/ runs headless and shows what it says; cells can be interrupted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebook.ipynb"


@pytest.fixture(autouse=True, scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Jupyter neither sees nor writes anything of this user."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
            monkeypatch.setenv(name, str(folder / name))
        monkeypatch.chdir(folder)
        yield


def shown(cell: Any) -> list[str]:
    """Return the output of a cell: the printed lines and the value of its last line.

    A kernel sends what was printed by now every fifth of a second, so that two lines may come as
    one piece or as two.
    """
    lines: list[str] = []
    printing = False
    for output in cell.outputs:
        if output.get("name") == "stderr":
            continue
        stream = output["output_type"] == "stream"
        text = output["text"] if stream else output["data"]["text/plain"]
        if stream and printing:
            lines[-1] += text
        else:
            lines.append(text)
        printing = stream
    return lines


def client_of(notebook: Any, kernel: str) -> NotebookClient:
    """Runs cells; what a cell shows may come long after its end where the machine is busy.

    A kernel has sockets of its name in the tests' directory instead of ports: of those that are
    free when they are chosen, another test may have one when the kernel has started.
    """
    options = Config({"KernelManager": {"transport": "ipc", "ip": kernel}})
    return NotebookClient(
        notebook, timeout=120, iopub_timeout=120, kernel_name="python3", config=options
    )


def test_each_cell_of_the_notebook_shows_what_the_repository_has() -> None:
    """Each cell shows what it shows in the repository."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    expected = [shown(cell) for cell in notebook.cells if cell.cell_type == "code"]
    client_of(notebook, "of the page").execute()
    assert expected == [shown(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert any("[0, 1, 4, 9, 16]" in text for cell in expected for text in cell)


class Kernel:
    """Runs cells.

    Attributes:
        loop: the event loop that talks to it.
    """

    def __init__(self, client: NotebookClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self.loop = loop

    @property
    def all(self) -> list[Any]:
        """The cells that were run."""
        return list(self._client.nb.cells)

    async def run(self, code: str) -> list[str]:
        """Run a cell, and return what it shows."""
        cell = nbformat.v4.new_code_cell(code)  # type: ignore[no-untyped-call]
        self._client.nb.cells.append(cell)
        await self._client.async_execute_cell(cell, len(self._client.nb.cells) - 1)
        return shown(cell)

    async def interrupted(self, code: str) -> None:
        """Run a cell that is interrupted."""
        with pytest.raises(CellExecutionError) as caught:
            await self.run(code)
        assert caught.value.ename in ("CancelledError", "KeyboardInterrupt")


@pytest.fixture(scope="module")
def cells() -> Iterator[Kernel]:
    """One kernel for all tests, as its start takes longer; each test closes what it opens."""
    loop = asyncio.new_event_loop()
    notebook = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    client = client_of(notebook, "of the tests")
    started = client.async_setup_kernel()
    loop.run_until_complete(started.__aenter__())
    try:
        yield Kernel(client, loop)
    finally:
        loop.run_until_complete(started.__aexit__(None, None, None))
        loop.close()


DEFINE = """
from contextlib import AsyncExitStack
import asyncio, os, signal, subprocess, trio
from grain.delayed import delayed, mission
from grain.resource import Cores
from grain.worker.external import run_external

begun = []
program = f"sleep 1000.75{os.getpid()}"  # of this kernel, and no other's

@delayed
async def external():
    await run_external(program.split())

@delayed
async def waited():
    begun.append(True)
    await event.wait()
    return "waited"

def here():
    return mission(Cores(1), config_file=False, progress=False)

def sleeping():
    words = ["pgrep", "-f", program.replace(".", "[.]") + "$"]
    return subprocess.run(words, capture_output=True).stdout != b""

def interrupt_when(condition):  # what the button does
    if condition():
        os.kill(os.getpid(), signal.SIGINT)
    else:
        asyncio.get_running_loop().call_later(0.1, interrupt_when, condition)
"""


def test_interrupting_a_cell_with_a_block(cells: Kernel) -> None:
    """The block's mission ends, with its programs; the next cell runs."""

    async def main() -> None:
        await cells.run(DEFINE)
        await cells.interrupted(
            "interrupt_when(sleeping)\nasync with here(): await (external @ Cores(1))()"
        )
        assert ["False False\n"] == await cells.run(
            "print(trio.lowlevel.in_trio_run(), sleeping())"
        )
        again = "async with here():\n    print(await delayed(trio.sleep)(0))"
        assert ["None\n"] == await cells.run(again)

    cells.loop.run_until_complete(main())


def test_interrupting_a_cell_that_waits(cells: Kernel) -> None:
    """In a mission that several cells use, the wait is given up, and nothing else."""

    async def main() -> None:
        await cells.run(DEFINE)
        await cells.run("stack, event = AsyncExitStack(), trio.Event()")
        await cells.run("made = await stack.enter_async_context(here())")
        await cells.interrupted("r_ = waited()\ninterrupt_when(lambda: begun)\nawait r_")
        assert ["<Delayed waited: not known yet, await it>"] == await cells.run("event.set()\nr_")
        assert ["'waited'"] == await cells.run("await r_")
        await cells.run("await stack.aclose()")
        assert ["False\n"] == await cells.run("print(trio.lowlevel.in_trio_run())")

    cells.loop.run_until_complete(main())


COMPUTE = """
import os, subprocess, threading
from contextlib import AsyncExitStack
from grain.delayed import delayed, mission
from grain.resource import Cores
from grain.subproc import subprocess_pool_scope, subprocify
from grain.worker.blocking import in_thread

scale = 10

def helper(x):
    return scale * x

@delayed
@subprocify
def in_process(x):
    print("computes", x)
    return helper(x), os.getpid()

def plain(x):
    return helper(x), threading.current_thread() is threading.main_thread()

decorated = delayed(in_thread(plain))

def here():
    return mission(Cores(2), config_file=False, progress=False)
"""


def test_functions_of_cells_compute_in_processes_and_threads_without_a_scope(cells: Kernel) -> None:
    """Functions of a notebook travel with what they use; their prints come back."""

    async def main() -> None:
        await cells.run(COMPUTE)
        assert ["computes 1\n10 True\n"] == await cells.run(
            "async with here():\n"
            "    value, pid = await (in_process @ Cores(1))(1)\n"
            "    print(value, pid != os.getpid())"
        )
        assert ["(70, True)\n(30, False) (40, False)\n"] == await cells.run(
            "async with here():\n"
            "    print(await (delayed(subprocify(plain)) @ Cores(1))(7))\n"
            "    print(await (decorated @ Cores(1))(3), await decorated(4))"
        )
        await cells.run(COMPUTE.replace("scale = 10", "scale = 100"))
        assert ["computes 1\n100\n"] == await cells.run(
            "async with here():\n    print((await (in_process @ Cores(1))(1))[0])"
        )

    cells.loop.run_until_complete(main())


def test_a_mission_of_several_cells_has_one_pool_which_ends_with_it(cells: Kernel) -> None:
    async def main() -> None:
        await cells.run(COMPUTE)
        await cells.run("stack = AsyncExitStack()")
        await cells.run("entered = await stack.enter_async_context(here())")
        await cells.run("_, first = await (in_process @ Cores(1))(1)")
        await cells.run("_, second = await (in_process @ Cores(1))(2)")
        assert ["True True\n"] == await cells.run(
            "print(first == second, os.path.exists(f'/proc/{first}'))"
        )
        await cells.run("await stack.aclose()")
        assert ["False\n"] == await cells.run("print(os.path.exists(f'/proc/{first}'))")

    cells.loop.run_until_complete(main())


def bars(cell: Any) -> list[str]:
    """Return the lines of progress that a cell shows, as text."""
    texts = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return [text for text in texts if " running, " in text]


SLEEP = """
@delayed
async def sleep(seconds):
    await trio.sleep(seconds)
    if not seconds:
        raise ValueError("no time")
"""
OPEN = """
stack = AsyncExitStack()
await stack.enter_async_context(mission(Cores(2), config_file=False, name="t"))
"""


def test_each_cell_that_runs_tasks_has_a_bar_of_its_own(cells: Kernel) -> None:
    """Also in a mission that an earlier cell has opened; other cells have none."""

    async def main() -> None:
        codes = [
            DEFINE + SLEEP + OPEN,
            "1 + 1",
            "await (sleep @ Cores(1))(2)",
            "2 + 2",
            "broken = (sleep @ Cores(1))(0)\nawait (sleep @ Cores(1))(2)",
            "await asyncio.wait([asyncio.ensure_future(stack.aclose())])",
        ]
        for code in codes:
            await cells.run(code)
        shown = [bars(cell) for cell in cells.all[-len(codes) :]]
        assert [[], [], [], []] == [shown[0], shown[1], shown[3], shown[5]]
        [first], [second] = shown[2], shown[4]
        assert first.startswith("1 done, 0 failed, 0 running, 0 queued, ")
        assert second.startswith("2 done, 1 failed, 0 running, 0 queued, ")

    cells.loop.run_until_complete(main())


def test_a_cell_that_fails_shows_that_nothing_runs_any_more(cells: Kernel) -> None:
    """It keeps its bar for good."""

    async def main() -> None:
        await cells.run(DEFINE + SLEEP)
        code = """
async with mission(Cores(2), config_file=False):
    (sleep @ Cores(1))(1000)
    await (sleep @ Cores(1))(1)
    await (sleep @ Cores(1))(0)
"""
        with pytest.raises(CellExecutionError):
            await cells.run(code)
        [bar] = bars(cells.all[-1])
        assert bar.startswith("1 done, 1 failed, 1 cancelled, 0 running, 0 queued, ")
        assert "so far" not in bar

    cells.loop.run_until_complete(main())


def test_a_failure_in_a_cell_says_what_to_do_and_shows_the_frames_of_the_notebook(
    cells: Kernel,
) -> None:
    async def main() -> None:
        await cells.run(DEFINE + SLEEP)
        with pytest.raises(CellExecutionError) as before_a_mission:
            await cells.run("await (sleep @ Cores(1))(0)")
        with pytest.raises(CellExecutionError) as in_a_task:
            await cells.run(
                "async with mission(Cores(1), config_file=False):\n    await (sleep @ Cores(1))(0)"
            )
        shown = str(before_a_mission.value)
        assert "open one in this cell by `async with mission(Cores(2)):`" in shown
        assert "asyncio.run" not in shown
        shown = str(in_a_task.value)
        assert "no time" in shown
        assert "graph.py" not in shown
        assert "value.py" not in shown

    cells.loop.run_until_complete(main())


# Lines, and what their errors say.
OUT_OF_PLACE = [
    ("async with subprocess_pool_scope(): pass", "in notebooks, leave it out"),
    ("await subprocify(plain)(1)", "await (delayed(plain) @ Cores(1))(...)"),
]


def test_what_has_no_place_in_a_cell_says_what_to_write(cells: Kernel) -> None:
    async def main() -> None:
        await cells.run(COMPUTE)
        for line, message in OUT_OF_PLACE:
            for block in ("async with here():", "if True:"):
                lines = f"try:\n  {block}\n    {line}\nexcept RuntimeError as e:\n  print(e)"
                assert message in (await cells.run(lines))[0]

    cells.loop.run_until_complete(main())
