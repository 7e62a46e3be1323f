"""The one task runner: `nox -l` lists what there is; each session installs what it needs."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "isolated", "integration", "docs", "wheels"]
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
PACKAGES = sorted(p.parent.name for p in ROOT.glob("packages/*/pyproject.toml"))


def project(name: str) -> dict:
    return nox.project.load_toml(ROOT / "packages" / name / "pyproject.toml")


def test_tools(toml: dict) -> list[str]:
    return nox.project.dependency_groups(toml, "test")


def closure(name: str) -> list[str]:
    """A package and those of its siblings that it declares, directly or not."""
    found = [name]
    for package in found:
        for requirement in project(package)["project"]["dependencies"]:
            sibling = requirement.split("==")[0]
            if sibling in PACKAGES and sibling not in found:
                found.append(sibling)
    return found


def editable(names: list[str]) -> list[str]:
    """All in one command: one by one, the pins would be looked up on the package index."""
    return [word for name in names for word in ("-e", f"packages/{name}")]


@nox.session
def demo(session: nox.Session) -> None:
    """The main job: factor Mersenne numbers with an external program on all cores."""
    session.install(*editable(PACKAGES))
    session.run("python", "docs/examples/factor.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Every test, with every package installed; or those that are named."""
    run_with_all(session, *(session.posargs or ["packages", "tests-integration"]))


@nox.session
def integration(session: nox.Session) -> None:
    """What crosses packages, with every package installed."""
    # They wait most of the time: for time limits, cut networks, nodes that are lost. Each file has
    # one process, as the batch systems and hosts that it starts are for all of its tests.
    aside = ["-n", "3", "--dist", "loadfile"]
    run_with_all(session, *aside, "tests-integration", *session.posargs)


def run_with_all(session: nox.Session, *words: str) -> None:
    """pytest, with every package installed."""
    toml = nox.project.load_toml(ROOT / "pyproject.toml")
    session.install(*editable(PACKAGES), *test_tools(toml))
    session.run("pytest", *words)


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def isolated(session: nox.Session, package: str) -> None:
    """The tests of one package, with nothing installed but what it declares."""
    session.install(*editable(closure(package)), *test_tools(project(package)))
    session.run("pytest", "-q", f"packages/{package}", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict, one run per package (a single run would check one portion of `grain`)."""
    toml = nox.project.load_toml(ROOT / "pyproject.toml")
    session.install(
        *editable(PACKAGES), *test_tools(toml), *nox.project.dependency_groups(toml, "types")
    )
    for package in PACKAGES:
        session.run("mypy", f"packages/{package}/src", f"packages/{package}/tests")
    # The tutorial's programs are for newcomers: they are run, not typed.
    typed = ["factor.py", "licences.py", "xtb_conformers.py"]
    examples = [f"docs/examples/{name}" for name in typed]
    session.run("mypy", "tests-integration", "tools", *examples)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, rules, imports between packages and rooms, maps of folders."""
    toml = nox.project.load_toml(ROOT / "pyproject.toml")
    session.install(*nox.project.dependency_groups(toml, "lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("python", "tools/check_imports.py")
    session.run("python", "tools/check_maps.py")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site, into build/docs: no warnings, no dead links."""
    toml = nox.project.load_toml(ROOT / "pyproject.toml")
    session.install(*editable(PACKAGES), *nox.project.dependency_groups(toml, "docs"))
    site = ROOT / "build/docs"
    shutil.rmtree(site, ignore_errors=True)
    session.run("python", "tools/check_links.py")
    strict = ["-W", "--keep-going", "-q", "-d", str(ROOT / "build/doctrees")]
    session.run("python", "-m", "sphinx", *strict, "docs", str(site))
    session.run("python", "tools/check_site.py", str(site))


@nox.session
def simulate(session: nox.Session) -> None:
    """The protocol under every fault, in virtual time: nox -s simulate -- [--seed N]."""
    session.install(*editable(closure("grain-head")))
    env = {"PYTHONPATH": str(ROOT / "tests-integration")}
    session.run("python", "-m", "simulation", *session.posargs, env=env)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build everything, then try the four ways in which people install it."""
    session.install("build", "uv")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for source in [".", *(f"packages/{name}" for name in PACKAGES)]:
        session.run("python", "-m", "build", "--installer", "uv", "-q", "-o", str(dist), source)
    session.run("python", "tools/check_wheels.py", str(dist))


@nox.session
def bench(session: nox.Session) -> None:
    """Performance, as JSON lines on standard output: nox -s bench -- [NAME ...]."""
    session.install(*editable(PACKAGES), "numpy")
    session.run("python", "-m", "tools.bench", *session.posargs)
