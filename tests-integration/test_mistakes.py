"""The mistakes of the first hour, as a table: what one types, and the text that one must see.

A row is the code, and parts of the text. To add a mistake, add a row to the table of its kind:

- `EXPRESSIONS`: code outside of a mission, which raises;
- `IN_A_MISSION`: code in a mission's main function; the text is in its exception or on standard
  error;
- `BLOCKING`: code in a tasklet that keeps its event loop from running others, on standard error of
  the mission, once for local tasks and once for those of a worker in another process;
- `TO_A_WORKER`: code in a main function whose leaves run in another process, so that what they use
  has to travel;
- `IN_ASYNCIO`: code in a mission's block in an asyncio program;
- `PROGRAMS`: a program by itself, which may be sent a signal: its exit status, and what it prints;
- `COMMANDS`: a command line, whose complaint is one line and no traceback; `CONFIGURATIONS`: a
  grain.toml that `grain up` refuses.

Workers that come late, or are too small, and code that blocks have a test each; workers with
another Python are in test_pythons.py, as they need one.

The code has ``f``, a delayed function that returns its argument, and what a user imports.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from command_site import Site

from grain.cli import main as grain
from grain.combine import open_waitgroup
from grain.delayed import delayed, each, mission, run
from grain.resource import Capacity, Cores, Memory, Node, WTime
from grain.worker.blocking import in_thread
from grain.worker.external import run_external
from grain_testkit.programs import start

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from grain_testkit.programs import Process


@delayed
async def f(x: Any = 1) -> Any:
    """Return the argument."""
    return x


OBJECTS: tuple[Any, ...] = (
    asyncio,
    json,
    math,
    os,
    subprocess,
    threading,
    time,
    trio,
    Path,
    f,
    delayed,
    each,
    run,
)
OBJECTS += (Capacity, Cores, Memory, Node, WTime, in_thread, open_waitgroup, run_external)
NAMES: dict[str, Any] = {thing.__name__: thing for thing in OBJECTS}

EXPRESSIONS = [
    # ---- resources
    ('WTime("1h")', 'write WTime(T="01:00:00")'),
    ("WTime(3600)", "write WTime(T=3600), with the time limit in seconds"),
    ('WTime("1:30:00")', 'write WTime(T="1:30:00")'),
    ('WTime(T="1h30m")', 'so write T="01:30:00"'),
    ("Cores(2) + Memory(2)", "resources are joined by &: write Cores(2) & Memory(2)"),
    ("Cores(1) * 4", "write the number of workers first, as in 4 * Cores(1)"),
    ("Node(cores=4)", "write Node(N=4, M=8), with the memory in GB"),
    ("Node(4)", "write Node(4, 8), with the memory in GB, or Cores(4) for only the cores"),
    ('Cores("4")', "write Cores(4)"),
    ("Cores(2.5)", "For more than one core, ask for whole ones, as in Cores(3)"),
    ("Cores(cores=4)", "write only the number, as in Cores(4)"),
    ('Memory("4GB")', "as in Memory(4)"),
    ('Memory("500 MB")', "as in Memory(0.5)"),
    ("Memory(8) & Memory(2)", "both are of the kind Memory; state one of them"),
    # ---- binding resources to functions
    ("f @ 4", "write f @ Cores(4)"),
    ("f @ (Cores(4), Memory(8))", "write f @ (Cores(4) & Memory(8))"),
    ("f @ Cores(4) & Memory(8)", "write f @ (Cores(4) & Memory(8)), with brackets"),
    ("Cores(4) @ f", "write f @ Cores(4)"),
    # ---- functions
    ("delayed(math.sqrt)", "a tasklet is defined with `async def`"),
    ("delayed(f)", "f is a delayed function already"),
    ("f.submit(1)", "call it, and await what it returns, as in r_ = f(...); r = await r_"),
    ("f(1)", "call it in a function that is given to grain.delayed.run"),
    ("in_thread(f.fn)", "in_thread is for blocking functions: leave in_thread out"),
    (
        "delayed(time.sleep)",
        "becomes one by subprocify(fn) (grain.subproc), a waiting one by in_thread(fn) (",
    ),
    # ---- the main function
    ("run(main())", "give run() an async function, not its call: run(main)"),
    ("run(main, local=2)", "give the resources of the local worker, as Cores(2)"),
    ("run(lambda: 3, local=Cores(1))", "a tasklet is defined with `async def`"),
    ("asyncio.run(main())", "Write run(main, local=Cores(2)) instead of asyncio.run(main())"),
    ("trio.run(main)", "Write run(main, local=Cores(2)) instead of trio.run(main)"),
]

NOT_KNOWN = "the value of f is not known yet; await it first"
STANDS_FOR = "A Delayed stands for a value that is not known yet: await it first"
IN_TRIO = "write `await trio.sleep(1)` instead of `await asyncio.sleep(1)`"

IN_A_MISSION = [
    # ---- a value that is not there yet
    ('f"{f(1)}"', NOT_KNOWN),
    ('f"{f(1):.3f}"', NOT_KNOWN),
    ('"{}".format(f(1))', NOT_KNOWN),
    ('"%.3f" % f(1)', NOT_KNOWN),
    ('"%d" % f(1)', STANDS_FOR),
    ("print(f(1))", "<Delayed f: not known yet, await it>"),
    ("print(f(1) + 1)", "<Delayed of f: not known yet, await it>"),
    ("json.dumps({'energy': f(1)})", STANDS_FOR),
    ("1 if f(1) else 2", NOT_KNOWN),
    ("2 in f([1, 2])", NOT_KNOWN),
    ("min(f(1), f(2))", NOT_KNOWN),
    ("int(f(1))", NOT_KNOWN),
    ("float(f(1))", NOT_KNOWN),
    ("math.sqrt(f(1))", NOT_KNOWN),
    ("range(f(1))", NOT_KNOWN),
    ("open(f('a.xyz'))", NOT_KNOWN),
    ("Path(f('a.xyz'))", NOT_KNOWN if sys.version_info < (3, 12) else STANDS_FOR),
    ("os.path.exists(f('a.xyz'))", NOT_KNOWN),
    ("os.path.join('run', f('a.xyz'))", STANDS_FOR),
    ("','.join([f('a')])", STANDS_FOR),
    ("await run_external(['cat', f('a.xyz')])", NOT_KNOWN),
    ("for x in f([1, 2]): pass", "declare it with @delayed(nout=...), or await it first"),
    ("len(f([1, 2]))", "the length of f is not known yet"),
    ("f(f(1))", "await it first and pass the value"),
    ("(f @ Cores(1))([f(1)])", "await it first and pass the value"),
    ("f @ Cores(4)(1)", "write (fn @ Cores(4))(x), with brackets"),
    ("await [f(1), f(2)]", "results = await each(delayed_objects)"),
    ("await f", "A delayed function is called, and what it returns is awaited"),
    (
        "async with trio.open_nursery() as nursery: nursery.start_soon(f, 1)",
        "It starts at the call: no nursery is needed",
    ),
    (
        """
        async def forgets():
            return trio.sleep(0)
        await (delayed(forgets) @ Cores(1))()
        """,
        "returned a coroutine: an await is missing, write `return await sleep(...)`",
    ),
    (
        """
        async def leaf():
            return await f(1)
        await (delayed(leaf) @ Cores(1))()
        """,
        "f was called in a leaf",
    ),
    # ---- trio and asyncio
    ("await asyncio.sleep(1)", IN_TRIO),
    ("await asyncio.gather(f(1), f(2))", "`await each(a_, b_)` instead of `await asyncio.gather"),
    (
        """
        async def leaf():
            await asyncio.sleep(1)
        await (delayed(leaf) @ Cores(1))()
        """,
        IN_TRIO,
    ),
    ("trio.run(trio.sleep, 0)", "This code runs in trio already: await the function"),
    # ---- programs and cores
    (
        """
        @delayed
        async def opt(x):
            await run_external(["echo", x])
        await each([opt("a.xyz"), opt("b.xyz")])
        """,
        (
            "opt runs `echo a.xyz` without cores of its own, in the mission's own process: such "
            "calls all start at once, however many there are. Write (opt @ Cores(1))(...); if it "
            "is meant, run_external([...], here=True)\n"
        ),
    ),
    (
        """
        async def opt(x):
            await run_external(["echo", x])
        async with open_waitgroup() as wg:
            wg.start_subtask(opt, "a.xyz")
        """,
        "Write wg.submit(Cores(1), opt, ...) instead of start_subtask",
    ),
    (
        """
        async def opt(x):
            await run_external(["echo", x])
        @delayed
        async def both():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opt, "a.xyz")
                nursery.start_soon(opt, "b.xyz")
        await both()
        """,
        "Put the program into a delayed function fn, and write (fn @ Cores(1))(...)",
    ),
    (
        "await run_external(['echo', 'a.xyz'])",
        "Put the program into a delayed function fn, and write (fn @ Cores(1))(...)",
    ),
    (
        "await (f @ Cores(0))(1)",
        (
            "f @ Cores(0) asks for no core: such tasks all start at once on a worker, however many "
            "there are. Write f @ Cores(1); or f @ (Cores(0) & Capacity(1)) if that is meant\n"
        ),
    ),
    ("await (f @ Cores(64))(1)", "what it needs: run(..., local=Cores(64))"),
    ("f.fn @ Cores(1)", "f is not a delayed function: decorate it with @delayed"),
    ("await run_external('echo a', here=True)", 'write ["echo", "a"]'),
]

TO_A_WORKER = [
    (
        "await (f @ Cores(1))(threading.Lock())",
        "a threading.Lock is of use in its own process only",
    ),
    (
        """
        lock = threading.Lock()
        async def leaf():
            with lock:
                pass
        await (delayed(leaf) @ Cores(1))()
        """,
        "because lock (a variable of main.<locals>.leaf) cannot: <unlocked",
    ),
    ("await (f @ Cores(1))([trio.Event()])", "Make it in the function that uses it"),
    (
        """
        with open("/etc/hosts") as file:
            await (f @ Cores(1))(file)
        """,
        "an open file belongs to this process. Pass the path, and open the file in the function",
    ),
    ("await (f @ Cores(1))(x for x in 'ab')", "Pass a list of what it yields"),
    ("await (f @ Cores(1))(trio.sleep(0))", "Pass the function and its arguments, or await it"),
    (
        """
        table = [str(number) for number in range(500_000)]
        async def leaf():
            return len(table)
        await (delayed(leaf) @ Cores(1))()
        """,
        (
            "warning: table (a variable of main.<locals>.leaf, 4.4 MB) travels with "
            "main.<locals>.leaf to every worker, and every new runner loads it: load it inside of "
            "the function, or pass a path\n"
        ),
    ),
]

BLOCKING = [
    # More than twice as long as it takes to be reported, for a watch that gets no processor.
    ("time.sleep(6.5)", "`time.sleep(6.5)`", "write `await trio.sleep(...)`"),
    (
        "subprocess.run(['sleep', '6.5'])",
        "`subprocess.run(['sleep', '6.5'])`",
        "run the program with `await run_external([...])` (grain.worker.external)",
    ),
]

IN_ASYNCIO = [
    ("await trio.sleep(1)", "write `await asyncio.sleep(1)` instead of `await trio.sleep(1)`"),
    ("json.dumps(f(1))", STANDS_FOR),
]

_WAITS = """\
@delayed
async def leaf():
    try:
        print("begins", flush=True)
        await trio.sleep_forever()
    finally:
        print("finally", flush=True)

async def main():
    await (leaf @ Cores(1))()

"""
_ONE_CPU = "os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])\n"
_LEAF = "async def main():\n    await (f @ Cores(1))()\n\n"
_RUN = "run(main, local=Cores(1), config_file=False)\n"

PROGRAMS = [
    # ---- the name, the program, the signal, its exit status, the texts
    (
        "SIGTERM",
        _WAITS + _RUN,
        signal.SIGTERM,
        143,
        ["finally\n", "SIGTERM received: the mission ends."],
    ),
    (
        "SIGHUP",
        _WAITS + _RUN,
        signal.SIGHUP,
        129,
        ["finally\n", "SIGHUP received: the mission ends."],
    ),
    (
        "Ctrl-C",
        _WAITS + _RUN,
        signal.SIGINT,
        -signal.SIGINT,
        ["finally\n", "interrupted: 0 tasks ended, 1 stopped; nothing is left running"],
    ),
    (
        "more cores than CPUs",
        _ONE_CPU + _LEAF + _RUN.replace("Cores(1)", "Cores(8)"),
        None,
        0,
        ["warning: local=Cores(8): this process may use only CPU ", ", so programs are bound to"],
    ),
    (
        "two missions on one CPU",
        _ONE_CPU
        + "from grain.worker.node.cpus import local_offer\n"
        + _LEAF
        + "with local_offer(Cores(1)):\n    "
        + _RUN,
        None,
        0,
        [
            ", and another mission or worker on this machine has it, so programs are ",
            "bound to no CPUs and compete with theirs\n",
        ],
    ),
    (
        "a crash",
        "import ctypes\n@delayed\nasync def leaf():\n    ctypes.string_at(0)\n"
        + _LEAF.replace("f @", "leaf @")
        + _RUN,
        None,
        -signal.SIGSEGV,
        ["Fatal Python error: Segmentation fault", ", line 11 in leaf"],
    ),
    (
        "a failure",
        "@delayed\nasync def leaf(x):\n    return 1 / x\n"
        + _LEAF.replace("f @ Cores(1))(", "leaf @ Cores(1))(0")
        + _RUN,
        None,
        1,
        ["in leaf\n    return 1 / x", "ZeroDivisionError: division by zero", "1 failed ("],
    ),
]

COMMANDS = [
    ("grain map", "no command. Write one, as in: grain map wc -l {} ::: a.txt b.txt"),
    ("grain map 'echo {1}' ::: a", "Write it without the quotes around it"),
    ("grain map --timeout 1x echo ::: a", "write seconds, or 90s, 10m, 2h, 1d"),
    ("grain map --resume echo ::: a", "--resume needs the --joblog FILE of the run"),
    ("grain -c nofile.toml ls", "nofile.toml: no such file"),
    ("grain logs nobody", "no job that `grain` has submitted from here is called 'nobody'"),
    ("grain lss", "No such command 'lss'; did you mean 'ls'?"),
    ("grain docter", "No such command 'docter'; did you mean 'doctor'?"),
    ("grain squeue", "did you mean 'jobs'?"),
    ("grain scancel opt", "did you mean 'cancel'?"),
    ("grain scale", "name the number of workers to keep alive, as in: grain scale 4"),
    ("grain drain", "no worker is here, and none waits for its job; `grain up` submits some"),
    ("grain cancel opt", "no scheduler answers at edge://"),
    ("grain map -j x echo ::: a", "write a number of jobs, as 8; or one relative to the"),
    ("grain map -j 0 echo ::: a", "-j 0: write how many jobs may run at a time, as in -j 100"),
    ("grain map --shell 'echo $(( {} ))' ::: 010", "before a number make it octal. Write 10"),
    ("grain map --shell 'sh -c {}' ::: a", "Write a script of your own"),
    ("grain map --env NOSUCH echo ::: a", "--env NOSUCH: there is no such variable here"),
    ("grain map --nice 10 echo ::: a", "write it before the command: grain map nice -n 10 COMMAND"),
    ("grain map --pipe wc ::: a", "a job reads nothing from standard input. Give it files"),
    ("grain map -j 1 nosuch ::: a", "job 1: nosuch a: program not found on PATH: nosuch"),
]

CONFIGURATIONS = [
    ('adress = "edge:///shared/me"', "adress: found an unknown key", "did you mean address?"),
    ("[script]\ncores = '4'", "script.cores: found the string '4'", "expected a whole number"),
    ("[worker]\nname = 3", "worker.name: found the number 3", "expected a name"),
    ('address = "tpc://h:4000"', "address: found the string", "unknown scheme 'tpc'; expected"),
    (
        'address = "tcp://::1:4000"',
        "write IPv6 numbers in brackets, as in tcp://[::1]:4000",
        "expected an address such as 'edge:///shared/me/edge'",
    ),
    ('address = "tcp://h"', "a port from 1 to 65535 must follow the host", "tcp://host:port"),
    ('address = "tcp://h:0"', "port 0 is another port at each start", "expected an address such"),
    ('address = "/shared/me"', "'/shared/me' is not an address: expected", "edge:///absolute/path"),
]

# What is meant, and says so: no row of these prints anything.
MEANT = [
    "await run_external(['hostname'], here=True)",
    "await (f @ (Cores(0) & Capacity(1)))(1)",
    "await (f @ Memory(1))(1)",
    "await trio.to_thread.run_sync(time.sleep, 0.01)",
    "await in_thread(time.sleep)(0.01)",
    "await in_thread(asyncio.run)(asyncio.sleep(0.01))",
    "await (delayed(in_thread(time.sleep)) @ Cores(1))(0.01)",
]


def shown(error: BaseException) -> str:
    """Return the text of a traceback, with all notes.

    Python 3.10 prints them where exceptiongroup has had its way with `traceback`, and only there.
    """
    text = "".join(traceback.format_exception(error))
    inner = "".join(map(shown, getattr(error, "exceptions", ())))
    more = [inner, *getattr(error, "__notes__", ())]
    return "\n".join([text, *(one for one in more if one not in text)])


def main_of(code: str) -> Callable[[], Awaitable[Any]]:
    """Return an async function with some code as its body."""
    names = {**NAMES, "__name__": "__main__"}  # asyncio looks at the name of the module
    exec(f"async def main():\n{textwrap.indent(textwrap.dedent(code), '    ')}", names)
    main: Callable[[], Awaitable[Any]] = names["main"]
    return main


def ids(rows: list[Any]) -> list[str]:
    return [" ".join((row if isinstance(row, str) else row[0]).split()) for row in rows]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(("code", "text"), EXPRESSIONS, ids=ids(EXPRESSIONS))
def test_outside_of_a_mission_it_raises(code: str, text: str) -> None:
    async def main() -> None:
        await f(1)

    with pytest.raises((TypeError, ValueError, AttributeError, RuntimeError)) as caught:
        eval(code, {**NAMES, "main": main})

    assert text in shown(caught.value)


@pytest.fixture
def _loop_of_gather() -> Iterator[None]:
    """Have an event loop that is closed; `asyncio.gather` makes one, which stays open, if not."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("_loop_of_gather")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(("code", "text"), IN_A_MISSION, ids=ids(IN_A_MISSION))
def test_in_a_mission_it_is_said(code: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = ""
    try:
        run(main_of(code), local=Cores(2), config_file=False, progress=False)
    except Exception as raised:
        error = shown(raised)
    gc.collect()  # what asyncio left behind warns here, and not in a test that comes later

    out, err = capsys.readouterr()
    assert 1 == (error + out + err).count(text)


@pytest.fixture(scope="module")
def of_travels() -> list[str]:
    """What the rows of `TO_A_WORKER` print or raise, in order, in one mission for all of them."""
    said: list[str] = []

    async def main() -> None:
        for code, _ in TO_A_WORKER:
            sys.stderr = io.StringIO()
            error = ""
            try:
                await main_of(code)()
            except Exception as raised:
                error = "".join(traceback.format_exception_only(raised))
            said.append(error + sys.stderr.getvalue())

    with contextlib.redirect_stderr(io.StringIO()):
        run(main, local=Cores(1), isolated=True, config_file=False, progress=False)
    return said


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("row", range(len(TO_A_WORKER)), ids=ids(TO_A_WORKER))
def test_what_cannot_travel_to_a_worker_is_named(row: int, of_travels: list[str]) -> None:
    assert 1 == of_travels[row].count(TO_A_WORKER[row][1])


@pytest.mark.parametrize(("code", "text"), IN_ASYNCIO, ids=ids(IN_ASYNCIO))
def test_in_an_asyncio_program_it_raises(code: str, text: str) -> None:
    async def block() -> None:
        async with mission(local=Cores(1), config_file=False, progress=False):
            await main_of(code)()

    with pytest.raises((TypeError, RuntimeError)) as caught:
        asyncio.run(block())

    assert text in shown(caught.value)


@pytest.mark.parametrize("code", MEANT, ids=ids(MEANT))
def test_what_is_meant_is_not_warned_of(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(main_of(code), local=Cores(1) & Memory(2), config_file=False, progress=False)

    assert "warning" not in capsys.readouterr().err


IMPORTS = (
    "import os\nimport trio\nfrom grain.delayed import delayed, run\n"
    "from grain.resource import Cores\n\n"
)
_F = "@delayed\nasync def f(): pass\n"


@pytest.mark.parametrize(
    ("program", "number", "status", "texts"),
    [row[1:] for row in PROGRAMS],
    ids=[row[0] for row in PROGRAMS],
)
def test_a_program_ends_with_its_status_and_says_why(
    program: str, number: signal.Signals | None, status: int, texts: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sweep.py").write_text(f"{IMPORTS}{_F if 'f @' in program else ''}{program}")
    with start(
        "-u",
        "sweep.py",
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "GRAIN_CPU_LOCKS": str(tmp_path / "cpus")},
        text=True,
    ) as process:
        assert process.stdout is not None
        before = ""
        if number is not None:
            while not before.endswith("begins\n"):
                before += process.stdout.readline()
            process.send_signal(number)
        printed = before + process.communicate(timeout=120)[0]

    assert (status, "") == (process.returncode, "".join(t for t in texts if t not in printed)), (
        printed
    )


def test_a_request_that_fits_no_worker_is_said_and_taken_back(tmp_path: Path) -> None:
    """The order of the tutorial: the mission is there first, then a worker, then a larger one."""
    site = Site(tmp_path)
    (tmp_path / "opt.py").write_text(
        f"{IMPORTS}@delayed\nasync def big():\n    while not os.path.exists('seen'):\n"
        "        await trio.sleep(0.01)\n\n"
        "async def main():\n    await (big @ Cores(2))()\n\nrun(main)\n"
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(site.gnaw())
        mission = stack.enter_context(site.script("opt.py"))
        stderr = mission.stderr
        assert stderr is not None

        def until(text: str) -> None:
            while text not in (line := stderr.readline()):
                assert line, f"the mission has ended without: {text}"

        until(
            "No workers are there yet; tasks wait for them. `grain up` starts one, from any shell. "
            f"Workers join at {site.address} (from {tmp_path / 'grain.toml'}).\n"
        )
        stack.enter_context(site.worker("small", Cores=1))
        until("warning: no worker that is here can ever run a task that asks for Cores(2) (small: ")
        stack.enter_context(site.worker("large", Cores=2))
        until("A worker is there now that can run tasks which ask for Cores(2).\n")
        (tmp_path / "seen").touch()
        until("1 done")


def program_of_blocking() -> str:
    """Return a program whose tasklets block, each from a function of its own."""
    tasklets = [
        f"@delayed\nasync def blocks_{number}():\n    {code}\n"
        for number, (code, *_) in enumerate(BLOCKING)
    ]
    calls = "".join(f"    await (blocks_{n} @ Cores(1))()\n" for n in range(len(BLOCKING)))
    return (
        "import subprocess, sys, time\n"
        "from grain.delayed import delayed, run\n"
        "from grain.resource import Cores\n\n"
        f"{''.join(tasklets)}\nasync def main():\n{calls}\n"
        "if sys.argv[1:]:\n    run(main, local=Cores(1), config_file=False)\nelse:\n    run(main)\n"
    )


def test_what_blocks_an_event_loop_is_named_with_its_line(tmp_path: Path) -> None:
    """For tasks of the local worker, and for those of a worker in a process of its own."""
    site = Site(tmp_path)
    program = program_of_blocking()
    (tmp_path / "sweep.py").write_text(program)
    lines = program.splitlines()

    def sweep(*words: str) -> Process:
        return start("sweep.py", *words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    with site.gnaw(), site.worker("n17", Cores=1):
        runs = {"of this process": sweep("local"), "on n17": sweep()}
        printed = {where: process.communicate(timeout=120)[1] for where, process in runs.items()}

    for where, text in printed.items():
        for number, (_, line, instead) in enumerate(BLOCKING):
            at = lines.index(f"    {line.strip('`')}") + 1
            words = (
                rf"warning: blocks_{number} blocks the event loop {where}, [2-9] s by now, at "
                rf"sweep\.py:{at}: {re.escape(line)}\. Until it returns, .* must wait\. Instead, "
                + re.escape(instead)
            )
            assert 1 == len(re.findall(words, text)), f"{words}\n{text}"


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Type a command, in this process; it must fail, as it should; return its standard error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def type_words(words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            grain(shlex.split(words)[1:], prog_name="grain")
        assert ended.value.code
        return capfd.readouterr().err

    return type_words


@pytest.mark.parametrize(("words", "text"), COMMANDS, ids=ids(COMMANDS))
def test_a_command_says_what_to_write(words: str, text: str, typed: Callable[[str], str]) -> None:
    assert text in typed(words)


def test_a_command_in_a_process_of_its_own_says_what_to_write(tmp_path: Path) -> None:
    """Without a traceback."""
    words, text = COMMANDS[0]
    done = subprocess.run(
        [sys.executable, "-m", "grain.cli", *shlex.split(words)[1:]],
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    assert "Traceback" not in done.stderr
    assert text in done.stderr


@pytest.mark.parametrize(("toml", "text", "advice"), CONFIGURATIONS, ids=ids(CONFIGURATIONS))
def test_a_configuration_is_refused_with_the_key_and_what_is_expected(
    toml: str, text: str, advice: str, tmp_path: Path, typed: Callable[[str], str]
) -> None:
    (tmp_path / "grain.toml").write_text(f"{toml}\n")

    complaint = typed("grain up")
    assert text in complaint
    assert advice in complaint
