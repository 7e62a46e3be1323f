"""The translation between the runner and the wire, and its requests to the operating system."""

from __future__ import annotations

import decimal
import os
import resource
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import outcome
import pytest
import trio

from grain.edge.version import INTERPRETER
from grain.resource import Cores, to_data
from grain.worker.errors import PayloadError
from grain.worker.messages import DefineFunction, ForgetFunctions, StartRun
from grain.worker.node.limits import raise_open_files
from grain.worker.node.signals import on_signals
from grain.worker.payload import Payloads
from grain.worker.runner import wire_translation
from grain.worker.runner.wire_translation import _OBJECT, WireTranslation

if TYPE_CHECKING:
    from pathlib import Path


async def add(a: int, b: int) -> int:
    return a + b


def run(function: bytes) -> StartRun:
    return StartRun((1, 1), to_data(Cores([2])), None, function)


def test_a_call_is_made_of_its_function_arguments_and_resources() -> None:
    mission, wire = Payloads(), WireTranslation("w1")
    function = mission.dump_function(add)
    wire.learn(DefineFunction(function.digest), function.payload)

    call, res, _ = wire.decode(run(function.digest), mission.dump_arguments((1,), {"b": 2}))

    assert Cores([2]) == res
    assert (add, (1,), {"b": 2}) == tuple(call)
    wire.learn(ForgetFunctions((function.digest,)), None)
    with pytest.raises(PayloadError, match="never came"):
        wire.decode(run(function.digest), b"")


class Precise:
    """An argument that sets the precision of decimals when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return set_precision, (77,)


def set_precision(digits: int) -> int:
    decimal.setcontext(decimal.Context(prec=digits))
    return digits


def test_what_a_call_sets_while_it_is_loaded_is_not_for_others() -> None:
    mission, wire = Payloads(), WireTranslation("w1")
    function = mission.dump_function(add)
    wire.learn(DefineFunction(function.digest), function.payload)

    call, *_ = wire.decode(run(function.digest), mission.dump_arguments((Precise(), 2), {}))

    assert (77, 2) == call.args
    assert 77 != decimal.getcontext().prec


def test_functions_that_only_lanes_bring_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missions come and go, and no head has those of their lanes forgotten."""
    mission, wire = Payloads(), WireTranslation("w1")
    functions = [mission.dump_function(partial(add, number)) for number in range(5)]
    size = _OBJECT + len(functions[0].payload)
    monkeypatch.setattr(wire_translation, "FROM_LANES", 2 * size)

    def known(number: int) -> bool:
        arguments = mission.dump_arguments((), {})
        try:
            wire.decode(run(functions[number].digest), arguments)
        except PayloadError:
            return False
        return True

    def call_in_lane(number: int) -> None:
        wire.learn_once(functions[number].digest, functions[number].payload)
        assert known(number)

    wire.learn(DefineFunction(functions[0].digest), functions[0].payload)
    call_in_lane(0)  # it is the agent's, which forgets it at the word of a head
    call_in_lane(1)
    call_in_lane(2)
    call_in_lane(1)
    call_in_lane(3)
    assert [True, True, False, True] == [known(number) for number in range(4)]
    wire.learn(DefineFunction(functions[1].digest), functions[1].payload)
    call_in_lane(2)  # it is sent again
    call_in_lane(4)
    assert [True, True, True, False, True] == [known(number) for number in range(5)]


def test_a_function_or_arguments_that_come_without_a_payload_fail_only_their_task() -> None:
    wire, function = WireTranslation("w1"), Payloads().dump_function(add)
    wire.learn(DefineFunction(function.digest), function.payload)
    wire.learn(DefineFunction(b"empty"), None)

    with pytest.raises(PayloadError, match="without its arguments"):
        wire.decode(run(function.digest), None)
    with pytest.raises(PayloadError, match="never came"):
        wire.decode(run(b"empty"), b"")


def test_bytecode_of_another_python_fails_each_task_that_calls_it() -> None:
    """The runner does not load it, whichever head sent it here."""
    mission, wire = Payloads(), WireTranslation("w1")
    function = mission.dump_function(lambda: add)
    foreign = function.payload.replace(INTERPRETER.encode(), f"{INTERPRETER[:-2]}99".encode())
    wire.learn(DefineFunction(function.digest), foreign)

    for _ in range(2):
        with pytest.raises(PayloadError, match="bytecode of Python .*99"):
            wire.decode(run(function.digest), mission.dump_arguments((), {}))


def test_an_outcome_too_large_to_travel_fails_with_both_sizes_and_advice() -> None:
    wire = WireTranslation("w1", largest=1000)

    small, failed = wire.encode(outcome.Value("x" * 500), None)
    assert not failed
    assert "x" * 500 == Payloads().load_outcome(small).unwrap()
    large, failed = wire.encode(outcome.Value("x" * 5000), None)
    assert failed
    with pytest.raises(PayloadError, match=r"5\d\d\d bytes, 1000 can travel.*return the path"):
        Payloads().load_outcome(large).unwrap()


def test_the_limit_of_open_files_is_raised_as_far_as_the_hard_limit_allows() -> None:
    """It is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        assert min(hard, 4000) == raise_open_files(4000)
        assert min(hard, 4000) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert min(hard, 4000) == raise_open_files(100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_signals_are_handled_in_trios_thread_while_the_block_lasts() -> None:
    """Afterwards they mean what they meant before."""
    reports: list[int] = []
    before = signal.getsignal(signal.SIGUSR1)

    with on_signals(reports.append, signal.SIGUSR1):
        os.kill(os.getpid(), signal.SIGUSR1)
        await trio.testing.wait_all_tasks_blocked()
        assert [signal.SIGUSR1] == reports

    assert before == signal.getsignal(signal.SIGUSR1)


SCRIPT = """
import abc, dataclasses, enum, functools, sys
import outcome, trio
from grain import GVAR
from grain.resource import Cores, to_data
from grain.worker.messages import StartRun
from grain.worker.payload import Payloads
from grain.worker.agent.functions import FunctionStore
from grain.worker.agent.runner_process import RunnerProcess

class Colour(enum.Enum):
    RED = 1
    def other(self): return Colour.RED

@dataclasses.dataclass
class Molecule:
    atoms: list
    def first(self): return Atom(self)

class Atom:
    def __init__(self, of): self.of = of
    def molecule(self): return Molecule([self])

class Shape(abc.ABC):
    __slots__ = ("n",)
    @abc.abstractmethod
    def area(self): ...

class Square(Shape):
    def area(self): return super().__init__ and 4

class Unstable(Exception):
    def __init__(self, molecule, why):
        super().__init__(why)
        self.molecule = molecule

def factorial(n): return 1 if n < 2 else n * factorial(n - 1)

async def fine(molecule, colour, shape):
    await trio.sleep(0)
    assert sys.modules["grain.head"] is None
    assert isinstance(molecule, Molecule) and colour.other() is Colour.RED and shape.area() == 4
    return molecule.first(), colour, factorial(5), repr(GVAR.res)

async def fails(molecule):
    raise Unstable(molecule, "too hot")

class Witness:
    def __init__(self): self.left = {}
    def ended(self, runs):
        for ended, payload in runs: self.left.pop(ended.attempt)(payload)
    async def is_ending(self, _): return False
    def died(self, death): sys.exit(str(death))
    def blocked(self, *_): pass  # nor does it get a processor at times
    def unblocked(self, *_): pass
    def blocking(self, *_): pass

async def main():
    me, witness, functions = Payloads("mission"), Witness(), FunctionStore()
    async with RunnerProcess("w1", witness, functions) as runner:
        async def run(fn, *args):
            f, done, got = me.dump_function(fn), trio.Event(), []
            attempt = (1, id(done))
            witness.left[attempt] = lambda payload: (got.append(payload), done.set())
            functions.define(f.digest, f.payload)
            run = StartRun(attempt, to_data(Cores([1])), None, f.digest)
            runner.post([(run, me.dump_arguments(args, {}))])
            await done.wait()
            return me.load_outcome(got[0]).unwrap()

        atom, colour, product, res = await run(fine, Molecule([]), Colour.RED, Square())
        assert type(atom) is Atom and type(atom.of) is Molecule and colour is Colour.RED
        assert product == 120 and res == "CPU_Cores([1])", (product, res)
        assert await run(functools.partial(fine, Molecule([])), Colour.RED, Square())
        try:
            await run(fails, Molecule([3]))
        except Unstable as error:
            assert error.args == ("too hot",) and error.molecule == Molecule([3])
            assert type(error.molecule) is Molecule
            assert "in fails" in error.__notes__[-1]
        else:
            raise AssertionError
    print("all is well")

trio.run(main)
"""


def test_a_scripts_own_functions_and_classes_work_on_a_worker_only_install(
    tmp_path: Path,
) -> None:
    """Objects of `__main__` reach a runner that has no package of Grain but its own."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # Seen by every Python below: these two are as if they were not installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfor name in ('head', 'delayed'):\n    sys.modules['grain.' + name] = None\n"
    )

    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert "" == done.stderr
    assert "all is well\n" == done.stdout
