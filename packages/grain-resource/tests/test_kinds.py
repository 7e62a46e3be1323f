"""Registering kinds, and resources as plain data."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from grain.resource import (
    Cores,
    DuplicateKind,
    Fit,
    Infeasible,
    Insufficient,
    Memory,
    Node,
    Opaque,
    Resource,
    ResourceError,
    Supply,
    Token,
    UnknownKind,
    from_data,
    resource_kind,
    to_data,
)

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

BuiltInMemory = Memory


class Counted(Resource):
    """A kind with the five methods and an attribute; each test has a subclass of its own."""

    def __init__(self, n: int) -> None:
        if n < 0:
            raise ValueError("not below zero")
        self.n = n

    def _request(self, res: Self) -> bool:
        return res.n <= self.n

    def _alloc(self, res: Self) -> Self:
        self.n -= res.n
        return res

    def _dealloc(self, res: Self) -> None:
        self.n += res.n

    def _repr(self) -> str:
        return f"{type(self).__name__}({self.n})"

    def _stat(self) -> tuple[int, int]:
        return self.n, self.n


class TestDecorator:
    """Registering by `resource_kind`."""

    def test_works_as_built_in(self) -> None:
        """A registered kind combines, is allocated, and goes through plain data."""

        @resource_kind("KindPlain")
        class Plain(Counted):
            pass

        supply = Supply(Cores(4) & Plain(3))
        got = supply.alloc(Plain(2) & Cores(1))

        assert 2 == got.n
        assert "CPU_Cores([1-3]) & Plain(1)" == repr(supply.free)
        assert {"KindPlain": {"n": 2}, "Cores": 1} == to_data(got)
        assert got == from_data(to_data(got))
        assert Plain(2) == got.get(Plain)

    def test_a_resource_is_made_of_arguments_by_name_or_of_the_only_one(self) -> None:
        @resource_kind("KindForms")
        class Forms(Counted):
            pass

        assert Forms(3) == from_data({"KindForms": {"n": 3}}) == from_data({"KindForms": 3})

    def test_data_that_the_class_refuses_are_named_with_kind_and_reason(self) -> None:
        @resource_kind("KindBad")
        class Bad(Counted):
            pass

        with pytest.raises(ValueError) as raised:
            from_data({"KindBad": -1})

        assert "KindBad = -1 is not a resource: not below zero" == str(raised.value)

    def test_a_decorated_class_that_is_defined_again_replaces_the_former(self) -> None:
        """A class that is defined once more, as in a notebook, replaces the former one."""

        def cell() -> Any:
            @resource_kind("KindCell")
            class Cell(Counted):
                pass

            return Cell

        first, second = cell(), cell()

        assert second is type(from_data({"KindCell": 1}))
        assert first is not second

    def test_another_class_cannot_take_a_kind_that_has_one(self) -> None:
        @resource_kind("KindTaken")
        class First(Counted):
            pass

        class Second(Counted):
            pass

        with pytest.raises(DuplicateKind) as raised:
            resource_kind("KindTaken")(Second)

        where = (
            f"{__name__}.TestDecorator.test_another_class_cannot_take_a_kind_that_has_one.<locals>"
        )
        assert (
            f"the kind KindTaken is {where}.First already; give {where}.Second another name, "
            'as with @resource_kind("MyKindTaken")' == str(raised.value)
        )
        assert First is type(from_data({"KindTaken": 1}))

    def test_built_in_kinds_are_taken(self) -> None:
        """No class takes the place of a built-in kind."""
        with pytest.raises(
            DuplicateKind,
            match=r"^the kind Cores is grain\.resource\.identities\.Cores already; give ",
        ):

            @resource_kind("Cores")
            class Mine(Counted):
                pass

    @pytest.mark.parametrize("name", ["", "two words", "1st", None, Counted])
    def test_the_name_of_a_kind_is_an_identifier(self, name: Any) -> None:
        """The name of a kind is an identifier; a decorator without a name says so, too."""
        with pytest.raises(TypeError) as raised:
            resource_kind(name)

        assert f'the name of a kind is an identifier, as in "Licences", not {name!r}' == str(
            raised.value
        )

    def test_decorating_a_class_that_lacks_part_of_the_interface_names_the_part(self) -> None:
        """The message names the methods that the class lacks."""

        class Half(Resource):
            def _repr(self) -> str:
                return "half"

            def _request(self, res: Self) -> bool:
                return res is self

        with pytest.raises(
            TypeError, match=r"Half is not a kind of resource: it lacks _alloc, _dealloc, _stat$"
        ):
            resource_kind("KindHalf")(Half)

    def test_a_class_of_something_else_cannot_be_a_kind(self) -> None:
        with pytest.raises(TypeError, match=r"<class 'int'> is not a subclass of grain.resource"):
            resource_kind("KindInt")(int)  # type: ignore[type-var]

    def test_a_decorator_may_repeat_the_name_of_the_class(self) -> None:
        @resource_kind("RepeatsItsName")
        class RepeatsItsName(Counted):
            pass

        assert {"RepeatsItsName": {"n": 1}} == to_data(RepeatsItsName(1))

    def test_a_renamed_class_leaves_the_name_of_the_class_to_others(self) -> None:
        @resource_kind("KindRenamed")
        class GoesByAnother(Counted):
            pass

        assert {"KindRenamed": {"n": 1}} == to_data(GoesByAnother(1))
        with pytest.raises(UnknownKind):
            from_data({"GoesByAnother": 1})

    def test_a_given_name_is_not_changed(self) -> None:
        @resource_kind("KindFirst")
        class Named(Counted):
            pass

        with pytest.raises(DuplicateKind, match=r"Named is of the kind KindFirst already, not "):
            resource_kind("KindSecond")(Named)
        with pytest.raises(DuplicateKind, match=r"Cores is of the kind Cores already, not "):
            resource_kind("KindSecond")(Cores)

    def test_the_decorator_helps_a_class_whose_name_is_taken(self) -> None:
        @resource_kind("LabMemory")
        class Memory(Counted):
            pass

        assert {"LabMemory": {"n": 3}, "Memory": 4} == to_data(Memory(3) & BuiltInMemory(4))


class Undecorated(Counted):
    """A kind by its definition alone, in a module, so that it pickles."""


class TestNameOfTheClass:
    """Kinds without a decorator."""

    def test_a_class_with_the_five_methods_is_a_kind_named_after_it(self) -> None:
        supply = Supply(Cores(4) & Undecorated(3))
        got = supply.alloc(Undecorated(2) & Cores(1))

        assert 2 == got.n
        assert "CPU_Cores([1-3]) & Undecorated(1)" == repr(supply.free)
        assert {"Undecorated": {"n": 2}, "Cores": 1} == to_data(got)
        assert got == from_data({"Undecorated": 2, "Cores": 1})
        assert Undecorated(2) == got.get(Undecorated)

    def test_it_pickles_and_copies_as_a_built_in_kind(self) -> None:
        both = Cores(2) & Undecorated(3)

        assert both == pickle.loads(pickle.dumps(both)) == copy.deepcopy(both)

    def test_a_class_that_is_rebuilt_from_its_parts_replaces_the_former(self) -> None:
        """As a pickler does that sends a class by value."""

        def parts() -> tuple[Any, ...]:
            class Rebuilt(Counted):
                pass

            return Rebuilt.__name__, Rebuilt.__bases__, dict(Rebuilt.__dict__)

        name, bases, content = parts()
        full = type(name, bases, content)
        assert full is type(from_data({"Rebuilt": 1}))

        bare = type(name, bases, {"__module__": __name__, "__qualname__": full.__qualname__})
        assert bare is type(from_data({"Rebuilt": 1}))

    def test_a_subclass_of_a_kind_is_a_kind_of_its_own(self) -> None:
        class Narrow(Undecorated):
            pass

        class FastMemory(BuiltInMemory):
            pass

        both = Narrow(1) & Undecorated(2) & FastMemory(3) & BuiltInMemory(4)

        assert {"Narrow": {"n": 1}, "Undecorated": {"n": 2}, "FastMemory": 3, "Memory": 4} == (
            to_data(both)
        )
        assert not Supply(Undecorated(5)).free.request(Narrow(1))

    def test_a_class_that_lacks_a_method_is_a_helper_and_says_so_where_it_is_used(self) -> None:
        class Helper(Resource):
            def _repr(self) -> str:
                return "helper"

            def _request(self, res: Self) -> bool:
                return res is self

        for use in (lambda r: r & Cores(1), to_data, hash, Cores(1).request):
            with pytest.raises(TypeError) as raised:
                use(Helper())

            assert str(raised.value).endswith(
                "Helper is not a kind of resource: it lacks _alloc, _dealloc, _stat"
            )
        assert "helper" == repr(Helper())
        with pytest.raises(UnknownKind):
            from_data({"Helper": 1})

    def test_a_subclass_that_completes_a_helper_is_a_kind(self) -> None:
        class HalfWay(Resource):
            _request = Counted._request
            _alloc = Counted._alloc
            _dealloc = Counted._dealloc

        class AllTheWay(HalfWay):
            __init__ = Counted.__init__
            _repr = Counted._repr
            _stat = Counted._stat

        assert {"AllTheWay": {"n": 2}} == to_data(AllTheWay(2))

    def test_a_name_that_is_taken_is_an_error_at_the_first_use(self) -> None:
        """Not at the definition, since a decorator may follow; the first class is not harmed."""

        class Memory(Counted):
            pass

        for use in (lambda r: r & Cores(1), to_data, hash, Supply):
            with pytest.raises(DuplicateKind) as raised:
                use(Memory(1))

            where = f"{__name__}.TestNameOfTheClass."
            assert str(raised.value).startswith(
                f"the kind Memory is grain.resource.amounts.Memory already; give {where}"
            )
            assert str(raised.value).endswith('another name, as with @resource_kind("MyMemory")')
        assert BuiltInMemory is type(from_data({"Memory": 1}))

    def test_a_class_that_is_defined_again_in_a_notebook_replaces_the_former(self) -> None:
        def cell() -> Any:
            class InACell(Counted):
                pass

            return InACell

        first, second = cell(), cell()

        assert second is type(from_data({"InACell": 1}))
        assert first is not second

    def test_a_name_in_the_class_body_counts_as_given(self) -> None:
        class ByBody(Counted):
            _kind = "KindByBody"

        assert {"KindByBody": {"n": 1}} == to_data(ByBody(1))
        with pytest.raises(DuplicateKind, match="ByBody is of the kind KindByBody already"):
            resource_kind("KindElse")(ByBody)

    def test_options_of_the_class_statement_reach_the_other_bases(self) -> None:
        class Other:
            colour: ClassVar[str]

            def __init_subclass__(cls, colour: str = "") -> None:
                cls.colour = colour

        class Coloured(Counted, Other, colour="red"):
            pass

        assert "red" == Coloured.colour
        assert {"Coloured": {"n": 1}} == to_data(Coloured(1))


class TestImpossibleRequests:
    """Requests that cannot be allocated."""

    @pytest.mark.parametrize("wanted", [Cores(2), Cores(3), Cores(5), Token("a")])
    def test_what_cannot_be_allocated_is_a_value_error(self, wanted: Resource) -> None:
        supply = Supply(Cores(4))
        supply.alloc(Cores(3))

        for refuse in (supply.alloc, supply.free.alloc, Cores(1).alloc):
            with pytest.raises(ValueError) as raised:
                refuse(wanted)
            assert isinstance(raised.value, Insufficient | Infeasible)
            assert isinstance(raised.value, ResourceError)


def install(site: Path, distribution: str, module: str, kind: str, cls: str = "Tool") -> None:
    """An installed distribution with one module, which offers one kind."""
    (site / f"{module}.py").write_text(
        "from grain.resource import Memory\n\n\nclass Tool(Memory):\n    pass\n"
    )
    info = site / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[grain.resources]\n{kind} = {module}:{cls}\n")


class TestEntryPoint:
    """Kinds of installed packages."""

    def test_a_kind_is_imported_from_its_package_when_data_first_name_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path, "kindpack", "kind_pack_module", "KindPacked")
        monkeypatch.syspath_prepend(tmp_path)

        assert "kind_pack_module" not in sys.modules
        res = from_data({"KindPacked": 3, "Cores": 1})

        assert "kind_pack_module" in sys.modules
        assert {"KindPacked": 3, "Cores": 1} == to_data(res)
        assert res == from_data(to_data(res))

    def test_one_class_that_is_found_twice_on_the_path_is_one_offer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for site in (tmp_path / "a", tmp_path / "b"):
            site.mkdir()
            install(site, "kindtwice", "kind_twice_module", "KindTwice")
            monkeypatch.syspath_prepend(site)

        assert {"KindTwice": 1} == to_data(from_data({"KindTwice": 1}))

    def test_two_packages_that_claim_one_kind_are_named_and_neither_wins(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path, "rivala", "kind_rival_a", "KindRival")
        install(tmp_path, "rivalb", "kind_rival_b", "KindRival")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(DuplicateKind) as raised:
            from_data({"KindRival": 1})

        assert (
            "several installed packages claim the kind KindRival: "
            "kind_rival_a:Tool, kind_rival_b:Tool; uninstall all but one" == str(raised.value)
        )

    def test_an_entry_point_that_disagrees_with_the_decorator_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An entry point that disagrees with the decorator is an error: a class has one kind."""
        install(tmp_path, "kindother", "kind_other_module", "KindAlias")
        module = tmp_path / "kind_other_module.py"
        module.write_text(
            "from grain.resource import Memory, resource_kind\n\n"
            "@resource_kind('KindOther')\nclass Tool(Memory):\n    pass\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(DuplicateKind) as raised:
            from_data({"KindAlias": 1})

        assert "kind_other_module.Tool is of the kind KindOther already, not KindAlias" == str(
            raised.value
        )
        assert {"KindOther": 1} == to_data(from_data({"KindOther": 1}))


class TestUnknown:
    """Kinds without a class."""

    def test_an_unknown_kind_is_named_with_those_that_are_known_and_the_remedy(self) -> None:
        with pytest.raises(UnknownKind) as raised:
            from_data({"Cores": 1, "Bananas": 3})

        text = str(raised.value)
        assert text.startswith("unknown kind of resource 'Bananas'; known are ")
        known = text.partition("known are ")[2].partition(". ")[0].split(", ")
        assert {"Capacity", "Cores", "GPUs", "Memory", "Token", "WTime"} <= set(known)
        assert sorted(known) == known
        assert text.endswith(
            ". Import the module that defines it, or install the package "
            "that has it as an entry point"
        )
        assert isinstance(raised.value, ResourceError)
        assert isinstance(raised.value, LookupError)

    def test_an_opaque_resource_is_shown_and_passed_on_as_it_came(self) -> None:
        data = {"Cores": 2, "Bananas": {"ripe": [1, 2]}}
        res = from_data(data, unknown="keep")

        assert data == to_data(res)
        assert 'CPU_Cores([0-1]) & Bananas({"ripe": [1, 2]})' == repr(res)
        assert res == from_data(data, unknown="keep")
        assert hash(res) == hash(from_data(data, unknown="keep"))

    def test_an_opaque_resource_meets_nothing_and_nothing_meets_it(self) -> None:
        bananas = Opaque("Bananas", 3)

        assert Fit.NEVER is Supply(Cores(2) & bananas).fit(Opaque("Bananas", 1))
        assert Fit.NOW is Supply(Cores(2) & bananas).fit(Cores(1))
        with pytest.raises(Infeasible, match="it has no Bananas at all"):
            Supply(Node(2, 4)).alloc(bananas)
        assert {"Bananas": (0, 1)} == bananas.stat()

    def test_opaque_resources_of_different_kinds_combine(self) -> None:
        """Opaque resources of different kinds combine, of the same kind they do not."""
        assert {"A": 1, "B": 2} == to_data(Opaque("A", 1) & Opaque("B", 2))
        with pytest.raises(ValueError, match="both are of the kind A"):
            Opaque("A", 1) & Opaque("A", 2)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"Cores": -1}, "Cores = -1 is not a resource: Cores(-1): a number of cores cannot be "),
        ({"Memory": "8GB"}, "Memory = '8GB' is not a resource: Memory('8GB'): give the memory"),
        ({"Cores": {"n": 1}}, "Cores = {'n': 1} is not a resource: "),
        ({"Token": None}, "Token = None is not a resource: Token(None): a tag is a str"),
    ],
)
def test_bad_data_of_a_built_in_kind_name_kind_data_and_reason(
    data: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError) as raised:
        from_data(data)

    assert str(raised.value).startswith(text)


def test_the_arguments_may_be_given_by_name() -> None:
    """The arguments may be given by name, as in a table of a configuration file."""
    assert Cores([0, 2]) & Memory(4) == from_data({"Cores": {"N": [0, 2]}, "Memory": {"M": 4}})
