"""The import surface: what the distribution offers, and what importing it costs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import grain
import grain.resource

NAMES = {
    "Capacity", "Cores", "DuplicateKind", "Either", "Fit", "GPU_LISTS", "GPUs", "Gang",
    "Host", "Identities", "Infeasible", "Insufficient", "LAST_ATTEMPT", "Licences", "Limits",
    "Member", "Memory", "Node", "ONE_INSTANCE", "Opaque", "Resource", "ResourceError",
    "RootAllocation",
    "RunTimes", "SLOTS", "Supply", "THREADS", "Token", "UnknownKind", "WTime", "ZERO",
    "check_offer", "clock_seconds", "cpus_of", "from_data", "from_text", "gang", "gpu_ids",
    "gpu_variables", "learned", "learns", "named_by_numbers", "programs", "resource_kind",
    "to_data", "unit_seconds", "variables_of", "with_group",
}  # fmt: skip
SOURCE = Path(grain.resource.__file__).parent


def python(code: str) -> str:
    """Run code in a fresh interpreter and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert "" == done.stderr
    return done.stdout.strip()


def test_exactly_these_names_are_public() -> None:
    import grain.resource.figures
    import grain.resource.testing

    public = {name for name in vars(grain.resource) if not name.startswith("_")}
    modules = {file.stem for file in SOURCE.glob("*.py")} - {"__init__"}

    assert NAMES | modules == public


def test_a_star_import_works_without_grain_head_and_gives_gvar() -> None:
    assert "['GVAR']" == python(
        "import sys; sys.modules['grain.head'] = None\n"
        "names = {}; exec('from grain import *', names)\n"
        "print([name for name in names if not name.startswith('__')])"
    )


def test_where_grain_head_is_missing_the_error_names_it() -> None:
    assert "grain.head" == python(
        "import sys; sys.modules['grain.head'] = None\n"
        "try:\n    from grain import GrainExecutor\n"
        "except ModuleNotFoundError as error:\n    print(error.name)"
    )


def test_grain_head_is_imported_only_when_its_executor_is_asked_for() -> None:
    assert "False here" == python(
        "import sys, types, grain\n"
        "lazy = 'grain.head' in sys.modules\n"
        "head = sys.modules['grain.head'] = types.ModuleType('grain.head')\n"
        "head.GrainExecutor = 'here'\n"
        "print(lazy, grain.GrainExecutor)"
    )


def test_a_name_that_the_facade_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'grain' has no attribute 'Bogus'$"):
        _ = grain.Bogus  # type: ignore[attr-defined]


def test_importing_the_package_imports_the_standard_library_only() -> None:
    assert "[]" == python(
        "import sys\n"
        "before = set(sys.modules)\n"
        "import grain.resource, grain.resource.testing\n"
        "grain.resource.from_data({'Cores': 1})\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names - {'grain'}))"
    )


def test_source_imports_stdlib_only() -> None:
    """No import statement of the source that runs names anything outside the standard library."""
    for file in [*SOURCE.glob("*.py"), *SOURCE.parent.glob("*.py")]:
        for name in re.findall(r"^(?:from|import) (\w+)", file.read_text(), re.MULTILINE):
            assert name in sys.stdlib_module_names | {"grain"}, file


def test_gvar_by_itself_is_light() -> None:
    """``from grain import GVAR`` does not import the algebra, which every tasklet would pay."""
    assert "False" == python(
        "import sys; from grain import GVAR; print('grain.resource' in sys.modules)"
    )


def test_gvar_res_without_import() -> None:
    """GVAR has no resources, even where the algebra is not imported."""
    assert r"\xd8" == python("from grain import GVAR; print(ascii(GVAR.res))")


def test_testing_is_not_imported() -> None:
    """The check for authors of kinds costs no other user."""
    assert "False" == python(
        "import sys, grain.resource; print('grain.resource.testing' in sys.modules)"
    )


def test_subpackages_of_grain_are_found_wherever_they_lie_on_the_path(tmp_path: Path) -> None:
    portion = tmp_path / "grain" / "elsewhere"
    portion.mkdir(parents=True)
    (portion / "__init__.py").write_text("here = True\n")

    assert "True" == python(
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import grain.elsewhere; print(grain.elsewhere.here)"
    )
