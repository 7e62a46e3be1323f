"""Which tests `nox -s check` runs for a change."""

from __future__ import annotations

import pytest
from tools.changed import asked_for, declarations, dependents

DECLARED: dict[str, list[str]] = {
    "grain-cli": ["grain-edge"],
    "grain-edge": ["grain-resource"],
    "grain-head": ["grain-worker"],
    "grain-resource": [],
    "grain-worker": ["grain-edge"],
}


def test_packages_depend_on_a_sibling_directly_or_not() -> None:
    found = dependents(DECLARED, "grain-edge")

    assert ["grain-cli", "grain-edge", "grain-head", "grain-worker"] == found


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(
            "packages/grain-worker/src/grain/worker/call.py",
            ["packages/grain-head", "packages/grain-worker"],
            id="a package asks for itself and what needs it",
        ),
        pytest.param(
            "packages/grain-edge/tests/test_address.py",
            ["packages/grain-edge"],
            id="a package's tests ask for themselves",
        ),
        pytest.param(
            "tools/testkit/src/grain_testkit/plugin.py",
            [f"packages/{name}" for name in DECLARED],
            id="shared fixtures ask for all packages",
        ),
        pytest.param(
            "tests-integration/batch/test_up.py",
            ["tests-integration/batch/test_up.py"],
            id="a test that crosses packages asks for itself",
        ),
        pytest.param("tests-integration/fake_batch/model.py", [], id="a fake has no tests"),
        pytest.param("docs/index.md", [], id="a page has no tests"),
    ],
)
def test_a_changed_path_asks_for_tests(path: str, expected: list[str]) -> None:
    assert expected == asked_for([path], DECLARED)


def test_several_changed_paths_ask_for_each_test_once() -> None:
    paths = ["packages/grain-cli/README.md", "packages/grain-cli/tests/test_main.py"]

    assert ["packages/grain-cli"] == asked_for(paths, DECLARED)


def test_the_declared_siblings_are_those_of_the_packages() -> None:
    assert ["grain-resource"] == declarations()["grain-edge"]
    assert "grain-cli" not in dependents(declarations(), "grain-head")
