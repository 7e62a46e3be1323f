"""joblib, and scikit-learn by it, with Grain's workers as a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_tools.tool_site import ToolSite, tool_site

from grain_testkit.tool_environments import GRAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.real_tools

TOOL = ("joblib==1.6.0", "scikit-learn", *GRAIN)

START = """\
import os, time
from joblib import Parallel, delayed, parallel_config
from grain.delayed import Executor
from grain.joblib import GrainBackend
from grain.resource import Cores

def square(x):
    return x * x, os.getpid(), len(os.sched_getaffinity(0))

def fail(x):
    open(f"fail.{x}", "w").close()
    if x == 3:
        raise ValueError("three")
    time.sleep(0.2 if x < 3 else 600)

def on_workers(n_jobs=4, request=Cores(1)):
    return parallel_config(GrainBackend(executor @ request), n_jobs=n_jobs)
"""


@pytest.fixture(scope="module")
def site(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolSite]:
    """A site whose worker has joblib, too."""
    with tool_site(tmp_path_factory.mktemp("tool") / "home", python) as site:
        yield site


def test_calls_of_joblib(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
def nested(n):
    return sum(Parallel(n_jobs=2)(delayed(abs)(i) for i in range(n)))

if __name__ == "__main__":
    with Executor(progress=False) as executor:
        with on_workers():
            found = Parallel()(delayed(square)(i) for i in range(2000))
            print([one[0] for one in found] == [i * i for i in range(2000)])
            print(os.getpid() in {one[1] for one in found}, {one[2] for one in found})
            print(sum(Parallel(return_as="generator")(delayed(pow)(i, 2) for i in range(4))))
            print(Parallel()(delayed(nested)(i) for i in range(4)))
        with on_workers(request=Cores(2)):
            print(Parallel()(delayed(square)(i) for i in range(1))[0][2])
        with on_workers(n_jobs=-1):
            try:
                Parallel()(delayed(square)(i) for i in range(2))
            except ValueError as error:
                print(error)
"""
    )
    *said, error = site.python(python, program).splitlines()[-6:]
    assert said == ["True", "False {1}", "14", "[0, 0, 1, 3]", "2"]
    assert error.startswith("n_jobs=-1: workers come and go")


def test_a_call_that_fails_ends_the_others(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
if __name__ == "__main__":
    with Executor(progress=False) as executor, on_workers():
        try:
            Parallel(batch_size=1)(delayed(fail)(i) for i in range(100))
        except ValueError as error:
            print(error)
"""
    )
    assert site.python(python, program).splitlines()[-1] == "three"
    assert len(list(site.home.glob("fail.*"))) < 10


def test_a_search_of_scikit_learn(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

if __name__ == "__main__":
    with Executor(progress=False) as executor, on_workers():
        data = make_classification(200, random_state=1)
        tree = DecisionTreeClassifier(random_state=1)
        print(GridSearchCV(tree, {"max_depth": [2, 4]}, cv=3).fit(*data).best_score_ > 0.6)
"""
    )
    assert site.python(python, program).splitlines()[-1] == "True"
