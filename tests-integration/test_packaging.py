"""The packages fit together, and the tools that look after them work."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tools.check_docstrings import problems

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parent.parent


def tool(name: str) -> ModuleType:
    """A module of tools/, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PACKAGES = sorted(file.parent for file in ROOT.glob("packages/*/pyproject.toml"))
NAMES = [package.name for package in PACKAGES]
PLUGINS = list(tool("check_wheels").PLUGINS)
OURS = [name for name in NAMES if name not in PLUGINS]
PROJECTS = [ROOT, *PACKAGES]
per_package = pytest.mark.parametrize("package", PACKAGES, ids=NAMES)


def project(directory: Path) -> dict[str, Any]:
    toml = tomllib.loads((directory / "pyproject.toml").read_text())
    table: dict[str, Any] = toml["project"]
    return table


def pins(directory: Path) -> dict[str, str]:
    """Return the requirements of a package on its siblings, by name."""
    siblings = {}
    for requirement in project(directory)["dependencies"]:
        name, version = re.fullmatch(r"([\w-]+)(?:\[\w+\])?(.*)", requirement).groups()  # type: ignore[union-attr]
        if name in NAMES:
            siblings[name] = version
    return siblings


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the tools work on."""
    for file in (
        "pyproject.toml", ".importlinter", "CHANGELOG.md", "CITATION.cff", "README.md", "LICENSE"
    ):  # fmt: skip
        shutil.copy(ROOT / file, tmp_path)
    skip = shutil.ignore_patterns("__pycache__", "tests", "*.egg-info")
    for directory in ("packages", "tools", "changes", "tests-integration/simulation"):
        shutil.copytree(ROOT / directory, tmp_path / directory, ignore=skip)
    return tmp_path


def run(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, check=False, timeout=300
    )


def build_metapackage(checkout: Path) -> Path:
    """Build the wheel of the metapackage as pip does, and return its path."""
    build = "import sys; sys.path[:0] = ['tools/metapackage']; from build_backend import *"
    done = run(checkout, "-c", f"{build}; print(build_wheel('.'))")
    assert 0 == done.returncode, done.stderr
    return checkout / done.stdout.splitlines()[-1]


def test_versions_are_equal() -> None:
    """The packages move in lockstep."""
    assert 1 == len({project(directory)["version"] for directory in PROJECTS})


@pytest.mark.parametrize("directory", PROJECTS, ids=["grain-scheduler", *NAMES])
def test_pins_are_exact(directory: Path) -> None:
    """A package works with the siblings of its own version, so it requires exactly these."""
    version = project(directory)["version"]

    assert dict.fromkeys(pins(directory), f"=={version}") == pins(directory)


def test_metapackage_has_all() -> None:
    """grain-scheduler installs every package but the plug-ins of other programs."""
    assert OURS == sorted(pins(ROOT))


def test_in_a_checkout_the_metapackage_requires_the_siblings_beside_it(checkout: Path) -> None:
    """`pip install .` finds them there, as long as no index has them."""
    pytest.importorskip("hatchling")
    wheel = build_metapackage(checkout)

    assert f"grain_scheduler-{project(ROOT)['version']}+checkout-py3-none-any.whl" == wheel.name
    faults = tool("check_wheels").addresses(wheel)
    packages = checkout / "packages"
    named = {"grain-cli": "grain-cli[displays]"}
    wanted = [f"{named.get(n, n)} @ {(packages / n).as_uri()}" for n in OURS]
    assert [f"{wheel.name} requires {each}" for each in wanted] == faults


def test_a_metapackage_that_is_published_requires_exact_versions(checkout: Path) -> None:
    """A source distribution has no folder of siblings, and the wheel is built from it."""
    pytest.importorskip("hatchling")
    shutil.rmtree(checkout / "packages")
    wheel = build_metapackage(checkout)

    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{wheel.name.rsplit('-', 3)[0]}.dist-info/METADATA").decode()
    assert f"grain_scheduler-{project(ROOT)['version']}-py3-none-any.whl" == wheel.name
    assert [] == tool("check_wheels").addresses(wheel)
    assert project(ROOT)["dependencies"] == re.findall(r"(?m)^Requires-Dist: (.*)$", metadata)


def test_uv_takes_every_sibling_of_a_checkout_from_its_folder() -> None:
    toml = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert {n: {"path": f"packages/{n}"} for n in OURS} == toml["tool"]["uv"]["sources"]


def test_resource_requires_nothing() -> None:
    """grain-resource installs alone."""
    assert [] == project(ROOT / "packages" / "grain-resource")["dependencies"]


def test_python_versions_are_equal() -> None:
    """All of them need the same Python, but plug-ins that of their programs."""
    needed = {directory.name: project(directory)["requires-python"] for directory in PACKAGES}
    plugins = tool("check_wheels").PLUGINS
    assert {name: f">=3.{plugins.get(name, (3, 10))[1]}" for name in NAMES} == needed
    assert ">=3.10" == project(ROOT)["requires-python"]


@per_package
def test_each_package_carries_its_own_copy_of_the_licence(package: Path) -> None:
    """Each package carries the licence, as a file of its own (a link would break the sdist)."""
    assert (ROOT / "LICENSE").read_bytes() == (package / "LICENSE").read_bytes()
    assert not (package / "LICENSE").is_symlink()


@per_package
def test_each_package_has_metadata_readme_licence_types_and_tests(package: Path) -> None:
    """Each package is complete: metadata, readme, licence, typed sources, tests."""
    assert package.name == project(package)["name"]
    assert (package / "README.md").read_text().startswith(f"# {package.name}\n")
    assert any(package.glob("tests/**/test_*.py")), "no tests"
    own = package / "src" if package.name in PLUGINS else package / "src/grain"
    subpackages = [d for d in own.iterdir() if d.is_dir() and d.name[0] != "_"]
    assert subpackages
    assert [] == [d.name for d in subpackages if not (d / "py.typed").is_file()]


def test_one_owner_of_the_top_level() -> None:
    """Only grain-resource has files directly under ``grain``."""
    owners = {
        file.parents[2].name for file in ROOT.glob("packages/*/src/grain/*") if file.is_file()
    }

    assert {"grain-resource"} == owners


class TestImports:
    """The contracts of imports."""

    # That the sources keep them is for `nox -s lint`.
    def test_imports_against_a_contract_are_found_and_those_along_the_arrows_are_not(
        self, checkout: Path
    ) -> None:
        """Also inside a function, into a room of another package, and for types alone."""
        edge = checkout / "packages/grain-edge/src/grain/edge"
        (edge / "upwards.py").write_text("from grain.delayed import run\n")
        (edge / "inside.py").write_text("def f():\n    import grain.cli\n")
        (edge / "room.py").write_text("from grain.resource.base import join\n")
        circle = "if TYPE_CHECKING:\n    from grain.edge.framing import circle\n"
        (edge / "circle.py").write_text(circle)
        (edge / "framing/circle.py").write_text("import grain.edge.circle\n")
        allowed = "from grain import GVAR\nfrom grain.resource import Cores\nimport os\n"
        (checkout / "packages/grain-delayed/src/grain/util/allowed.py").write_text(allowed)

        done = run(checkout, "tools/check_imports.py")

        said = " ".join(done.stdout.split())
        assert "grain.edge is not allowed to import grain.delayed" in said
        assert "grain.edge.inside -> grain.cli (l.2)" in said
        assert "grain.edge.room -> grain.resource.base (l.1)" in said
        assert "No cycles are allowed in grain.edge" in said
        assert "allowed.py" not in said
        assert "grain.util.allowed" not in said
        assert 1 == done.returncode


class TestMaps:
    """The maps of the source folders."""

    def test_a_module_without_an_item_and_an_item_without_a_module_are_found(
        self, checkout: Path
    ) -> None:
        room = checkout / "packages/grain-head/src/grain/head/gnaw"
        (room / "pool.py").rename(room / "moved.py")
        done = run(checkout, "tools/check_maps.py")

        where = "packages/grain-head/src/grain/head/gnaw"
        assert f"{where}: the map lacks moved\n" in done.stdout
        assert f"{where}: the map names pool, which is not there\n" in done.stdout
        assert 1 == done.returncode

    def test_a_folder_with_too_many_modules_is_found(self, checkout: Path) -> None:
        for number in range(13):
            (checkout / f"packages/grain-head/src/grain/head/gnaw/m{number}.py").touch()
        done = run(checkout, "tools/check_maps.py")

        assert "more than 12; make a room of some" in done.stdout


class TestNames:
    """The names of classes."""

    def test_a_name_with_two_meanings_and_a_needless_exception_are_found(
        self, checkout: Path
    ) -> None:
        packages = checkout / "packages"
        (packages / "grain-head/src/grain/head/new.py").write_text("class Cores:\n    pass\n")
        log = packages / "grain-edge/src/grain/eventlog/schema.py"
        log.write_text(log.read_text().replace("class WorkerLeft(", "class Departed("))
        done = run(checkout, "tools/check_names.py")

        assert "Cores: a class in packages/grain-head/src/grain/head/new.py and in " in done.stdout
        assert "WorkerLeft: occurs once, so it needs no exception\n" in done.stdout
        assert 1 == done.returncode


class TestDocstrings:
    """The docstrings of the source."""

    def test_a_riddle_and_a_parameter_of_another_name_are_found(self) -> None:
        planted = (
            '"""What it is."""\n'
            "def f(new: int) -> None:\n"
            '    """Do it.\n\n    Args:\n        old: how often.\n\n'
            '    Raises:\n        OSError: it cannot be done.\n    """\n'
        )

        assert [
            "1: the docstring begins with 'What': begin with a noun",
            "3: the docstring names the parameter old, which is not there",
        ] == problems(planted)

    def test_turns_at_which_a_reader_stumbles_are_named(self) -> None:
        assert [
            "2: instead of 'anew' write: again, or from the beginning",
            "1: instead of 'is no leaf' write: is not a ...",
        ] == problems('"""It is no leaf, and there is no other one; it is no longer."""\n# anew\n')

    def test_a_message_is_read_as_a_page_is(self) -> None:
        planted = (
            'raise ValueError(f"{name!r} is no {kind}: start it " + "anew")\n'
            'key = "alone"\n'
            'print("there is no file of the user `nobody`")\n'
        )

        assert [
            "1: instead of 'is no X' in a message write: is not a ...",
            "1: instead of 'anew' in a message write: again, or from the beginning",
        ] == problems(planted)


class TestBump:
    """Setting the version."""

    def test_bump_rewrites_every_version_and_pin_and_nothing_else(self, checkout: Path) -> None:
        """Every version and every pin is the new one, and nothing else changed."""
        before = {
            d: (checkout / d.relative_to(ROOT) / "pyproject.toml").read_text() for d in PROJECTS
        }
        old = project(ROOT)["version"]
        done = run(checkout, "tools/bump.py", "7.8.9rc1")

        assert ("", 0) == (done.stderr, done.returncode)
        for directory in PROJECTS:
            copy = checkout / directory.relative_to(ROOT)
            assert "7.8.9rc1" == project(copy)["version"]
            assert dict.fromkeys(pins(directory), "==7.8.9rc1") == pins(copy)
            after = (copy / "pyproject.toml").read_text()
            changed = [
                line
                for line, new in zip(
                    before[directory].splitlines(), after.splitlines(), strict=True
                )
                if line != new
            ]
            assert 1 + len(pins(directory)) == len(changed)
            assert all(old in line for line in changed)
        assert "\nversion: 7.8.9rc1\n" in (checkout / "CITATION.cff").read_text()

    @pytest.mark.parametrize("words", [[], ["1.1"], ["v1.1.0"], ["1.1.0", "1.2.0"]])
    def test_refuses_no_version(self, checkout: Path, words: list[str]) -> None:
        """A malformed version leaves every file as it was."""
        before = project(checkout)
        done = run(checkout, "tools/bump.py", *words)

        assert 1 == done.returncode
        assert done.stderr.startswith("usage: python tools/bump.py VERSION")
        assert before == project(checkout)


class TestVersions:
    """The check of versions and of the changelog, on copies that are spoilt."""

    FRAGMENT = "changes/grain-edge/+faster.fixed.md"

    def faults(self, checkout: Path, *tag: str) -> list[str]:
        done = run(checkout, "tools/bump.py", "--check", *tag)
        assert bool(done.stderr) == bool(done.returncode)
        return done.stderr.splitlines()

    @staticmethod
    def edit(file: Path, old: str, new: str) -> None:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def test_the_checkout_has_one_version_and_a_changelog(self) -> None:
        assert [] == self.faults(ROOT)

    def test_a_version_or_a_pin_that_differs_is_named_with_its_place(self, checkout: Path) -> None:
        version = project(ROOT)["version"]
        head = checkout / "packages/grain-head/pyproject.toml"
        self.edit(head, f"grain-worker=={version}", "grain-worker==0.0.9")
        self.edit(checkout / "CITATION.cff", f"\nversion: {version}\n", "\nversion: 0.0.8\n")

        assert [
            f"CITATION.cff: 0.0.8, not {version}",
            f"packages/grain-head/pyproject.toml, grain-worker: 0.0.9, not {version}",
        ] == self.faults(checkout)

    @pytest.mark.parametrize(
        ("fragment", "text", "wrong"),
        [
            ("changes/+faster.fixed.md", "Faster.\n", "is not in the folder of a package"),
            ("changes/grain-ege/+faster.fixed.md", "Faster.\n", "is not in the folder of"),
            ("changes/grain-edge/+faster.better.md", "Faster.\n", "is not named"),
            ("changes/grain-edge/faster.fixed.md", "Faster.\n", "is not named"),
            (FRAGMENT, "", "is not a sentence"),
            (FRAGMENT, "- faster\n", "is not a sentence"),
        ],
    )
    def test_a_malformed_fragment_is_named(
        self, checkout: Path, fragment: str, text: str, wrong: str
    ) -> None:
        file = checkout / fragment
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        (fault,) = self.faults(checkout)

        assert fault.startswith(f"{fragment} {wrong}")

    def test_a_version_needs_a_section_or_fragments(self, checkout: Path) -> None:
        shutil.rmtree(checkout / "changes")
        run(checkout, "tools/bump.py", "7.8.9")
        assert ["CHANGELOG.md: no section 7.8.9, and no fragments in changes"] == self.faults(
            checkout
        )

        (checkout / self.FRAGMENT).parent.mkdir(parents=True)
        (checkout / self.FRAGMENT).write_text("`dial` is faster (see docs/edge.md).\n")
        assert [] == self.faults(checkout)

    def test_a_release_needs_its_tag_a_dated_section_and_no_fragments(self, checkout: Path) -> None:
        run(checkout, "tools/bump.py", "7.8.9")
        shutil.rmtree(checkout / "changes")
        (checkout / self.FRAGMENT).parent.mkdir(parents=True)
        (checkout / self.FRAGMENT).write_text("`dial` is faster.\n")
        assert [
            "the tag v7.8.8 is not v7.8.9",
            "CHANGELOG.md: the section 7.8.9 has no date: none",
            "changes: 1 fragments are left; run towncrier build",
        ] == self.faults(checkout, "v7.8.8")

        (checkout / self.FRAGMENT).unlink()
        log = checkout / "CHANGELOG.md"
        log.write_text(f"{log.read_text()}\n## 7.8.9 (2026-12-01)\n")
        assert [] == self.faults(checkout, "v7.8.9")


def test_pre_commit_runs_the_tools_of_lint_in_their_versions() -> None:
    toml = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    used = set(re.findall(r"additional_dependencies: \[(.*)\]", hooks))

    assert used
    assert used <= set(toml["dependency-groups"]["lint"])


class TestWheels:
    """The check of built wheels, on lists of paths; `nox -s wheels` runs it on real ones."""

    FACADE = frozenset({"grain/__init__.py", "grain/py.typed", "grain/_gvar.py"})

    def problems(self, **wheels: set[str]) -> list[str]:
        resource = self.FACADE | wheels.pop("resource", set())
        faults: list[str] = tool("check_wheels").problems({"grain-resource": resource, **wheels})
        return faults

    def test_disjoint_typed_wheels_have_no_problem(self) -> None:
        """Disjoint, typed wheels have no problem."""
        assert [] == self.problems(a={"grain/a/__init__.py", "grain/a/py.typed"})

    def test_a_path_in_two_wheels_names_both(self) -> None:
        """A path in two wheels names both."""
        both = {"grain/a/__init__.py", "grain/a/py.typed"}

        assert "grain/a/py.typed is in a and in b" in self.problems(a=both, b=both)

    def test_a_subpackage_without_py_typed_is_named(self) -> None:
        """A subpackage without py.typed is named."""
        assert ["a lacks grain/a/py.typed"] == self.problems(a={"grain/a/__init__.py"})

    def test_files_outside_of_a_subpackage_are_named(self) -> None:
        """Files directly under grain, or outside of it, are named."""
        faults = self.problems(a={"grain/b.py", "tests/test_a.py"})

        assert [
            "grain/b.py is in a, but lies outside of its subpackages",
            "tests/test_a.py is in a, but lies outside of its subpackages",
        ] == faults[:2]

    def test_a_plug_in_has_one_typed_package_of_its_name(self) -> None:
        plugin, top = "aiida-grain", "aiida_grain"
        assert [] == self.problems(**{plugin: {f"{top}/__init__.py", f"{top}/py.typed"}})
        assert [
            f"grain/x/py.typed is in {plugin}, but lies outside of its package",
            f"{plugin} lacks py.typed",
        ] == self.problems(**{plugin: {f"{top}/__init__.py", "grain/x/py.typed"}})

    def test_wheels_without_the_facade_are_refused(self) -> None:
        """Without the facade there is no `from grain import GVAR`."""
        faults = tool("check_wheels").problems({"grain-resource": {"grain/_gvar.py"}})

        assert [
            "grain-resource lacks grain/__init__.py",
            "grain-resource lacks grain/py.typed",
        ] == faults
