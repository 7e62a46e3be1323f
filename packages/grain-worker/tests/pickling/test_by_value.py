"""Functions and classes of a script, at another end."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
import textwrap
import threading
import types
from typing import TYPE_CHECKING, Any

import pytest

from grain.worker.pickling.by_value import Classes
from grain.worker.pickling.class_objects import silenced
from grain.worker.pickling.pickler import dumps, loads

if TYPE_CHECKING:
    from pathlib import Path


def script(text: str) -> dict[str, Any]:
    """Return the variables of a script after it ran."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    code = compile(textwrap.dedent(text), "script.py", "exec", dont_inherit=True)
    exec(code, variables)
    return variables


def elsewhere(obj: Any) -> Any:
    """Return an object as another end gets it."""
    return loads(dumps((obj,), Classes()), Classes())[0]


def test_functions_may_call_each_other() -> None:
    variables = script(
        """
        def even(n):
            return n == 0 or odd(n - 1)
        def odd(n):
            return n > 0 and even(n - 1)
        """
    )

    even = elsewhere(variables["even"])

    assert [True, False] == [even(4), even(5)]


def test_a_closure_may_call_itself() -> None:
    def outer() -> Any:
        def factorial(n: int) -> int:
            return n * factorial(n - 1) if n else 1

        return factorial

    assert 120 == elsewhere(outer())(5)


def test_functions_of_a_script_share_their_globals_as_there() -> None:
    variables = script(
        """
        count = 0
        def add():
            global count
            count += 1
        def call():
            add()
            add()
            return count
        """
    )

    assert 2 == elsewhere(variables["call"])()
    assert 0 == variables["count"]


def test_a_class_body_within_a_function_finds_globals() -> None:
    variables = script(
        """
        step = 3
        def make():
            class Inner:
                width = step
            return Inner.width
        """
    )

    assert 3 == elsewhere(variables["make"])()


def test_a_function_brings_only_the_globals_that_it_names() -> None:
    """An attribute of the same name is not a global, nor is what a function of a module names."""
    variables = script(
        """
        import textwrap
        data = bytes(10**6)
        def f(obj):
            return obj.data, textwrap.dedent
        """
    )

    assert len(dumps(variables["f"], Classes())) < 2000


def test_what_a_function_has_beside_its_code_travels() -> None:
    variables = script(
        """
        def f(a, b=2, *, c=3) -> "int":
            'Add.'
            return a + b + c
        f.unit = "eV"
        """
    )

    f = elsewhere(variables["f"])

    assert (6, "Add.", "eV") == (f(1), f.__doc__, f.unit)
    assert ({"return": "int"}, "f", "__main__") == (f.__annotations__, f.__name__, f.__module__)


def test_a_module_goes_by_its_name_without_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_module.py").write_text("big = bytes(10**6)\ndef f():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    variables = script("import own_module\ndef g():\n    return own_module.f()\n")

    data = dumps(variables["g"], Classes())

    assert len(data) < 2000
    assert 1 == loads(data, Classes())()


def test_submodules_that_a_function_means_are_imported_where_it_arrives(tmp_path: Path) -> None:
    """An import of them at the top of a script binds the package alone."""
    variables = script(
        """
        import xml.etree.ElementTree
        def tag(text):
            return xml.etree.ElementTree.fromstring(text).tag
        """
    )
    (tmp_path / "payload").write_bytes(dumps(variables["tag"], Classes()))
    other_end = textwrap.dedent(
        """
        import pathlib, sys
        from grain.worker.pickling.by_value import Classes
        from grain.worker.pickling.pickler import loads
        before = "xml.etree.ElementTree" in sys.modules
        print(before, loads(pathlib.Path(sys.argv[1]).read_bytes(), Classes())("<a/>"))
        """
    )

    argv = [sys.executable, "-c", other_end, str(tmp_path / "payload")]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    assert "False a\n" == printed


def test_functions_with_a_cache_travel_without_what_is_in_it() -> None:
    variables = script(
        """
        import functools
        @functools.lru_cache(maxsize=7)
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)
        """
    )
    variables["fib"](30)

    fib = elsewhere(variables["fib"])

    assert 0 == fib.cache_info().currsize
    assert (5, 7) == (fib(5), fib.cache_info().maxsize)


def test_a_function_by_type_of_its_argument_travels_with_all_its_cases() -> None:
    variables = script(
        """
        import functools
        @functools.singledispatch
        def describe(x):
            return "any"
        @describe.register
        def _(x: int):
            return "number, not " + describe("")
        """
    )

    assert "number, not any" == elsewhere(variables["describe"])(1)


def test_a_class_registers_itself_in_a_table_that_its_methods_use() -> None:
    variables = script(
        """
        TABLE = {}
        class Method:
            def __init_subclass__(cls):
                TABLE[cls.short] = cls
            def others(self):
                return sorted(TABLE)
        class HartreeFock(Method):
            short = "HF"
        class DensityFunctional(Method):
            short = "DFT"
            def cheaper(self):
                return HartreeFock()
        """
    )

    cheaper = elsewhere(variables["DensityFunctional"])().cheaper()

    assert ("HF", ["DFT", "HF"]) == (cheaper.short, cheaper.others())


def test_a_class_is_made_by_its_own_metaclass_with_descriptors_as_they_were() -> None:
    variables = script(
        """
        class Field:
            def __set_name__(self, owner, name):
                self.name = name
            def __get__(self, obj, owner):
                return self.name
        class Meta(type):
            def __new__(meta, name, bases, body):
                return super().__new__(meta, name.upper(), bases, body)
            def __len__(cls):
                return 4
        class Molecule(metaclass=Meta):
            charge = Field()
            def copy(self):
                return Molecule(), super().__repr__()
        """
    )

    molecule = elsewhere(variables["Molecule"])

    assert (4, "charge", molecule) == (len(molecule), molecule.charge, type(molecule().copy()[0]))


def test_abstract_classes_keep_their_rules_and_their_virtual_subclasses() -> None:
    variables = script(
        """
        import abc
        class Engine(abc.ABC):
            @abc.abstractmethod
            def run(self): ...
        class Xtb(Engine):
            def run(self):
                return isinstance(self, Engine), isinstance(1, Engine), isinstance("", Engine)
        Engine.register(int)
        """
    )

    xtb = elsewhere(variables["Xtb"])

    assert (True, True, False) == xtb().run()
    with pytest.raises(TypeError, match="abstract"):
        xtb.__mro__[1]()


def test_named_tuples_and_dataclasses_have_their_methods() -> None:
    variables = script(
        """
        import dataclasses, typing
        class Point(typing.NamedTuple):
            x: int
            y: int = 2
            def mirrored(self):
                return Point(self.y, self.x)
        @dataclasses.dataclass(frozen=True, slots=True)
        class Cell:
            at: Point
            tags: list = dataclasses.field(default_factory=list)
            def moved(self):
                return dataclasses.replace(self, at=self.at.mirrored())
        """
    )

    cell = elsewhere(variables["Cell"](variables["Point"](1)))

    assert ((2, 1), []) == (tuple(cell.moved().at), cell.moved().tags)
    assert [("at", "Point"), ("tags", "list")] == [
        (name, one.type.__name__) for name, one in type(cell).__dataclass_fields__.items()
    ]
    assert {"at", "tags"} == set(dataclasses.asdict(cell))


def test_classes_and_functions_with_type_variables_travel() -> None:
    variables = script(
        """
        from typing import Generic, NewType, TypeVar
        T = TypeVar("T", int, str)
        Energy = NewType("Energy", float)
        class Stack(Generic[T]):
            def of(self, kind):
                return Stack[kind], T, Energy(1.5)
        """
    )

    kind, variable, energy = elsewhere(variables["Stack"])().of(int)

    assert ((int,), "T", (int, str)) == (kind.__args__, variable.__name__, variable.__constraints__)
    assert 1.5 == energy


def test_slots_properties_and_other_members_travel() -> None:
    variables = script(
        """
        import functools
        factor = 2
        class Job:
            __slots__ = ("cores", "__hidden", "__dict__")
            def __init__(self):
                self.cores, self.__hidden = 4, 1
            @property
            def hidden(self):
                return self.__hidden
            @functools.cached_property
            def double(self):
                return factor * self.cores
            @classmethod
            def new(cls):
                return cls()
            @staticmethod
            def made():
                return Job.new()
        """
    )

    job = elsewhere(variables["Job"]).made()

    assert (4, 1, 8) == (job.cores, job.hidden, job.double)


@pytest.mark.parametrize(
    "base", ["", "int, ", "str, "], ids=["of its own", "of integers", "of strings"]
)
def test_enumerations_may_compute_their_members(base: str) -> None:
    """Neither `__new__` nor `__init__` runs again, as they would compute from what is computed."""
    variables = script(
        f"""
        import enum
        scale = 3
        class Spin({base}enum.Enum):
            UP = 1
            DOWN = 2
            ALSO_UP = 1
            def __new__(cls, value):
                one = cls._made(value * scale)
                one._value_ = value * scale
                return one
            @classmethod
            def _made(cls, value):
                return object.__new__(cls) if {not base} else cls.__mro__[1].__new__(cls, value)
            def __init__(self, value):
                self.given = value
            def other(self):
                return Spin.UP if self is Spin.DOWN else Spin.DOWN
        """
    )

    spin = type(elsewhere(variables["Spin"].UP))

    assert ["UP", "DOWN", "ALSO_UP"] == list(spin.__members__)
    assert [(3, 1), (6, 2)] == [(member.value, member.given) for member in spin]
    assert spin.UP is spin.DOWN.other() is spin.ALSO_UP
    assert spin.UP is spin(3)
    if base:
        assert spin.UP == (3 if "int" in base else "3")


def test_members_of_an_enumeration_keep_what_their_values_were_taken_apart_to() -> None:
    variables = script(
        """
        import enum
        class Element(enum.Enum):
            H = 1, 1.008
            O = 8, 15.999
            def __init__(self, number, mass):
                self.number, self.mass = number, mass
        """
    )

    oxygen = elsewhere(variables["Element"].O)

    assert (8, 15.999, (8, 15.999)) == (oxygen.number, oxygen.mass, oxygen.value)


@pytest.mark.parametrize(
    "text",
    [
        """
        from typing import NamedTuple
        class Point(NamedTuple):
            x: float
            y: float = 0.0
            def right(self):
                return Point(self.x + 1, Point.ORIGIN.y)
        Point.ORIGIN = Point(1)
        def result():
            return tuple(Point.ORIGIN.right())
        """,
        """
        from dataclasses import dataclass
        @dataclass(frozen=True, slots=True)
        class Unit:
            factor: float
        Unit.BASE = Unit(2)
        def result():
            return Unit.BASE.factor, Unit(2) == Unit.BASE
        """,
        """
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class Element:
            number: int
            def next(self):
                return Element.TABLE[Element(self.number + 1)]
        Element.TABLE = {Element(i): i for i in range(3)}
        def result():
            return Element(0).next(), Element(1).next()
        """,
        """
        class Species:
            def __init__(self, name):
                self.name = name
            def __eq__(self, other):
                return self.name == other.name
            def __hash__(self):
                return hash(self.name)
            def charge(self):
                return CHARGES[self]
        CHARGES = {Species("a"): 1, Species("b"): 2}
        def result():
            return Species("a").charge(), Species("b").charge()
        """,
        """
        class Money:
            def __new__(cls, amount, currency):
                one = super().__new__(cls)
                one.amount, one.currency = amount, currency
                return one
            def __getnewargs__(self):
                return self.amount, self.currency
            def __getstate__(self):
                return (self.currency,)
            def __setstate__(self, state):
                self.currency, = state
        Money.NOTHING = Money(1, 2)
        def result():
            return Money.NOTHING.amount, Money.NOTHING.currency
        """,
    ],
    ids=["named tuple", "slots", "frozen", "global table", "own constructor"],
)
def test_a_class_may_have_its_own_objects_among_its_variables(text: str) -> None:
    result = script(text)["result"]

    assert result() == elsewhere(result)()


def test_what_makes_subclasses_of_a_script_known_does_not_run_again() -> None:
    variables = script(
        """
        class Plugin:
            count = 0
            all = []
            def __init_subclass__(cls, unit):
                Plugin.all.append(cls.__name__)
                cls.unit, cls.number = unit, Plugin.count
                Plugin.count += 1
        class First(Plugin, unit="eV"): pass
        class Second(Plugin, unit="Ha"): pass
        def result():
            class Third(Plugin, unit="K"): pass
            return First.number, First.unit, Second.number, Third.number, Plugin.all
        """
    )

    result = elsewhere(variables["result"])

    assert (0, "eV", 1, 2, ["First", "Second", "Third"]) == result()


def test_classes_that_other_threads_make_are_made_as_ever_while_one_is_loaded() -> None:
    made: list[str] = []

    class Plugin:
        def __init_subclass__(cls, unit: str = "") -> None:
            made.append(f"{cls.__name__} {unit}")

    def make(name: str) -> None:
        types.new_class(name, (Plugin,), {"unit": "eV"})

    with silenced(Plugin):
        make("Loaded")
        thread = threading.Thread(target=make, args=("OfAnotherThread",))
        thread.start()
        thread.join()
    make("Later")

    assert ["OfAnotherThread eV", "Later eV"] == made


def test_threads_that_load_subclasses_of_one_base_leave_it_as_it_was() -> None:
    class Plugin:
        def __init_subclass__(cls) -> None:
            """Do nothing that counts."""

    before = vars(Plugin)["__init_subclass__"]
    first_is_over = threading.Event()

    def load() -> None:
        with silenced(Plugin):
            inside.set()
            first_is_over.wait(60)

    inside = threading.Event()
    thread = threading.Thread(target=load)
    with silenced(Plugin):
        thread.start()
        inside.wait(0.1)  # in vain, unless it does not wait for this one
    first_is_over.set()
    thread.join()

    assert before is vars(Plugin)["__init_subclass__"]


def test_a_metaclass_of_a_script_does_not_run_again() -> None:
    variables = script(
        """
        class Meta(type):
            made = []
            def __new__(meta, name, bases, body, tag):
                cls = super().__new__(meta, name, bases, body)
                cls.tag = tag
                Meta.made.append(name)
                return cls
            def __init__(cls, name, bases, body, tag):
                super().__init__(name, bases, body)
        class Molecule(metaclass=Meta, tag="m"): pass
        """
    )

    molecule = elsewhere(variables["Molecule"])

    assert ("m", ["Molecule"]) == (molecule.tag, type(molecule).made)


def test_typed_dicts_travel_with_those_that_they_extend() -> None:
    variables = script(
        """
        from typing import TypedDict
        class Result(TypedDict):
            energy: float
        class Optimised(Result, total=False):
            steps: int
        def result():
            return Optimised(energy=1.0), Optimised.__total__, sorted(Optimised.__required_keys__)
        """
    )

    assert ({"energy": 1.0}, False, ["energy"]) == elsewhere(variables["result"])()


def test_enumerations_keep_variables_that_are_no_members() -> None:
    variables = script(
        """
        from enum import Enum
        class State(Enum):
            "States of a run."
            WAITING = 1
            RUNNING = 2
            def following(self):
                return State.NEXT.get(self)
        State.NEXT = {State.WAITING: State.RUNNING}
        """
    )

    state = elsewhere(variables["State"])

    assert (state.RUNNING, None) == (state.WAITING.following(), state.RUNNING.following())
    assert ("States of a run.", 2) == (state.__doc__, len(state))


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="flags have no boundaries before Python 3.11"
)
def test_flags_keep_what_they_do_with_unknown_bits() -> None:
    variables = script(
        """
        import enum
        class Mode(enum.Flag, boundary=enum.KEEP):
            READ = 1
        """
    )

    assert 9 == elsewhere(variables["Mode"])(9).value
