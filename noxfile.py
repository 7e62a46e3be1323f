"""The one task runner: `nox -l` lists the sessions; each installs what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import nox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "uv|virtualenv"
# A session whose Python is missing is skipped, and nox says so.
nox.options.error_on_missing_interpreters = False
nox.options.download_python = "never"

# Tests start thousands of Pythons. Where this variable is set, as in many images of containers,
# each of them would compile all its modules again, which takes half of its time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).parent
PACKAGES = sorted(p.parent.name for p in ROOT.glob("packages/*/pyproject.toml"))
# Their programs pin many libraries, so they are tested in environments of their own, and no other
# environment has them.
APART = ["aiida-grain"]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
OLDEST, NEWEST = PYTHONS[0], PYTHONS[-1]


def oldest(package: str) -> str:
    """Return the oldest Python of a package; a plug-in has that of its program."""
    toml = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")
    return str(toml["project"]["requires-python"]).removeprefix(">=")


def packages_on(session: nox.Session) -> list[str]:
    """Return the packages that share an environment, on the Python of a session."""
    together = [package for package in PACKAGES if package not in APART]
    running = "{}.{}".format(*sys.version_info)
    version = session.python if isinstance(session.python, str) else running
    version = next((name for name, path in HERE.items() if path == version), version)
    if version not in PYTHONS:
        return together
    place = PYTHONS.index(version)
    return [package for package in together if PYTHONS.index(oldest(package)) <= place]


# ---- interpreters


def interpreters() -> dict[str, str]:
    """Return the interpreter of each version that is on PATH or that pyenv has built."""
    # pyenv puts a command for every version that it has built on PATH (its "shims"), but most of
    # them only print an error.
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    folders = [d for d in os.environ["PATH"].split(os.pathsep) if Path(d) != pyenv / "shims"]
    path = os.pathsep.join([*folders, *map(str, pyenv.glob("versions/*/bin"))])
    paths = {version: shutil.which(f"python{version}", path=path) for version in PYTHONS}
    running = "{}.{}".format(*sys.version_info)
    if running in paths:
        paths[running] = sys.executable
    return {version: command for version, command in paths.items() if command}


HERE = interpreters()


def on_each_python(function: Callable[..., None]) -> None:
    """Register a session for nox's own Python, and one for each version, as in `tests-3.13`."""
    nox.session(function)
    for version in PYTHONS:
        name = f"{function.__name__}-{version}"
        nox.session(name=name, python=HERE.get(version, version))(function)


# What a change has to pass; `nightly` has the rest.
nox.options.sessions = ["suite"]
NIGHTLY = [
    "wheels",
    "types-all",
    "lowest",
    *(f"isolated-{version}" for version in PYTHONS if version in HERE),
    "slow",
    "real-tools",
    "explore",
    "worlds",
    "chaos",
]


# ---- what to install


def group(name: str, package: str | None = None) -> list[str]:
    """Return a dependency group of a package, or of the root."""
    folder = ROOT / "packages" / package if package else ROOT
    toml = nox.project.load_toml(folder / "pyproject.toml")
    return nox.project.dependency_groups(toml, name)


def closure(name: str) -> list[str]:
    """Return a package and those of its siblings that it declares, directly or not."""
    names = [name]
    for package in names:
        toml = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")
        for requirement in toml["project"]["dependencies"]:
            sibling = requirement.split("==")[0]
            if sibling in PACKAGES and sibling not in names:
                names.append(sibling)
    return names


def editable(names: list[str]) -> list[str]:
    """Return the options that install packages by one command, so that no index looks up pins.

    Their extras come with them: the tests are those of all that a package can do.
    """
    words = []
    for name in names:
        toml = nox.project.load_toml(ROOT / "packages" / name / "pyproject.toml")
        extras = ",".join(toml["project"].get("optional-dependencies", {}))
        words += ["-e", f"packages/{name}[{extras}]" if extras else f"packages/{name}"]
    return words


def install_declared(session: nox.Session, package: str, *options: str) -> None:
    """Install one package with its declared dependencies, and what its tests need."""
    needs = group("test", package)
    # A plug-in needs no package of Grain, but its tests run the commands.
    siblings = [name for each in needs if (name := each.split("==")[0]) in PACKAGES]
    names = dict.fromkeys(each for one in [package, *siblings] for each in closure(one))
    session.install(*editable([*names]), "-e", "tools/testkit", *needs, *options)


def install_all(session: nox.Session, *requirements: str) -> None:
    """Install every package, and what their tests need."""
    packages = editable(packages_on(session))
    session.install(*packages, "-e", "tools/testkit", *group("test"), *requirements)


# ---- what runs side by side


@contextmanager
def beside(session: nox.Session, *sessions: str) -> Iterator[None]:
    """Run sessions in a process of their own while the block runs; fail with them.

    Their output is printed when they have ended, so that two outputs do not mix.
    """
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "nox", "-f", __file__, "-s", *sessions]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            yield
        except KeyboardInterrupt:
            process.terminate()
            raise
        finally:  # also where the block has failed: one run names all that is red
            status = process.wait()
            output.seek(0)
            sys.stdout.flush()
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.flush()
    if status:
        session.error(f"failed: {', '.join(sessions)}; its output is above")


def nox_again(session: nox.Session, *sessions: str) -> None:
    """Run sessions one after the other, each in the environment that it makes."""
    session.run(sys.executable, "-m", "nox", "-f", __file__, "-s", *sessions, external=True)


@nox.session(venv_backend="none")
def suite(session: nox.Session) -> None:
    """Run every test once, with lint, types and documentation: what a change has to pass."""
    # Tests that wait fill the gaps of what computes.
    with beside(session, "integration"), beside(session, "lint", "types", "docs"):
        nox_again(session, "packages", *(f"isolated({package})" for package in APART))


@nox.session(venv_backend="none")
def check(session: nox.Session) -> None:
    """Run lint, types, and the tests of what changed since the main branch, in three minutes."""
    with beside(session, "lint", "types"):
        nox_again(session, "changed")


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Run what `suite` leaves out: other Pythons, long cuts, real batch systems, many worlds."""
    for name in NIGHTLY:
        session.notify(name)


# ---- sessions for every day


@nox.session
def demo(session: nox.Session) -> None:
    """Run the main job: factor Mersenne numbers with an external program on all cores."""
    session.install(*editable(packages_on(session)))
    session.run("python", "docs/examples/factor.py", *session.posargs)


@on_each_python
def tests(session: nox.Session) -> None:
    """Run the tests that are named, or all, with every package installed."""
    install_all(session)
    session.run("pytest", *(session.posargs or ["packages", "tests-integration"]))


@nox.session
def packages(session: nox.Session) -> None:
    """Run the tests of all packages, with every package installed."""
    install_all(session)
    # One process compiles the tests' modules, which takes twelve seconds, or each of three would.
    session.run("pytest", "-q", "--collect-only", "packages", silent=True)
    # More processes than cores, as some tests wait; not many more, as each collects all tests.
    aside = ["-q", "-n", "3", "--durations=25"]
    session.run("pytest", *aside, "packages", *session.posargs)


@nox.session
def integration(session: nox.Session) -> None:
    """Run the tests that cross packages, with every package installed."""
    install_all(session)
    # They wait most of the time: for programs, workers and batch systems. Each file has one
    # process, as the batch systems and hosts that it starts are for all of its tests.
    aside = ["-q", "-n", "4", "--dist", "loadfile", "--durations=25"]
    session.run("pytest", *aside, "tests-integration", *session.posargs)


@nox.session
def changed(session: nox.Session) -> None:
    """Run the tests of what changed since the main branch, and of the packages that need it."""
    install_all(session)
    paths = session.run("python", "tools/changed.py", silent=True, log=False).split()
    if not paths:
        session.skip("nothing changed since the main branch that has tests")
    session.run("pytest", "-q", "-n", "2", *paths, *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy --strict, as on the oldest Python."""
    check_types(session, OLDEST)


def check_types(session: nox.Session, version: str) -> None:
    """Run mypy over all sources at once, then over each package's tests."""
    install_all(session, *group("types"))
    # The tutorial's programs are for newcomers: they are run, not typed.
    typed = ["disks.py", "factor.py", "restarts.py", "xtb_conformers.py"]
    sources = [f"packages/{package}/src" for package in PACKAGES]
    others = ["tests-integration", "tools", *(f"docs/examples/{name}" for name in typed)]
    session.run("mypy", "--python-version", version, *sources, *others)
    # Modules of two packages' tests may have one name, so each package has a run.
    for package in PACKAGES:
        session.run("mypy", "--python-version", version, f"packages/{package}/tests")


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, rules, spelling, imports, maps, names, docstrings, prose and changelog."""
    session.install(*group("lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("typos")
    session.run("python", "tools/check_imports.py")
    session.run("python", "tools/check_maps.py")
    session.run("python", "tools/check_names.py")
    session.run("python", "-m", "tools.check_docstrings")
    session.run("python", "tools/check_prose.py")
    session.run("python", "tools/bump.py", "--check")
    session.run("towncrier", "build", "--draft", "--version", "next", silent=True)
    for schema, files in SCHEMAS.items():
        paths = sorted(str(file.relative_to(ROOT)) for file in ROOT.glob(files))
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *paths)


SCHEMAS = {
    "citation-file-format": "CITATION.cff",
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "dependabot": ".github/dependabot.yml",
}


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site, into build/docs: no warnings, no dead links."""
    session.install(*editable(packages_on(session)), "-e", "tools/testkit", *group("docs"))
    site = ROOT / "build/docs"
    shutil.rmtree(site, ignore_errors=True)
    session.run("python", "tools/check_links.py")
    session.run("python", "tools/check_messages.py")
    strict = ["-W", "--keep-going", "-q", "-d", str(ROOT / "build/doctrees")]
    session.run("python", "-m", "sphinx", *strict, "docs", str(site))
    session.run("python", "tools/check_site.py", str(site))


# ---- sessions for every night, and for .ci/run as far as its time allows


@nox.session(name="types-all")
def types_all(session: nox.Session) -> None:
    """Check types as on the newest Python; `types` has the oldest."""
    check_types(session, NEWEST)


@on_each_python
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def isolated(session: nox.Session, package: str) -> None:
    """Run the tests of one package, with nothing installed but what it declares."""
    if package not in [*packages_on(session), *APART]:
        session.skip(f"{package} needs Python {oldest(package)}")
    install_declared(session, package)
    session.run("pytest", "-q", "-n", "2", f"packages/{package}", *session.posargs)


@nox.session
@nox.parametrize(
    "python,package",
    [(HERE.get(oldest(package), oldest(package)), package) for package in PACKAGES],
    ids=PACKAGES,
)
def lowest(session: nox.Session, package: str) -> None:
    """Run them on the oldest Python, with the lowest versions that pyproject.toml allows."""
    if session.venv_backend != "uv":
        session.skip("only uv installs the lowest versions")
    install_declared(session, package, "--resolution", "lowest-direct")
    session.run("pytest", "-q", "-n", "2", f"packages/{package}", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build everything, then try the five ways to install it."""
    session.install("build", "uv", *backends())
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for source in [".", *(f"packages/{name}" for name in PACKAGES)]:
        session.run("python", "-m", "build", "--no-isolation", "-q", "-o", str(dist), source)
    session.run("python", "tools/check_wheels.py", str(dist))


def backends() -> list[str]:
    """Return what the distributions need to be built, so that one environment builds them all."""
    files = [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]
    needs = (nox.project.load_toml(file)["build-system"]["requires"] for file in files)
    return sorted({requirement for each in needs for requirement in each})


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests that the suite leaves out: long cuts, whole matrices, real batch systems."""
    install_all(session)
    aside = ["-q", "-n", "4", "--dist", "loadfile", "--durations=25"]
    paths = session.posargs or ["packages", "tests-integration"]
    session.run("pytest", *aside, "--nightly", "-m", "nightly", *paths)


@nox.session(name="real-tools")
def real_tools(session: nox.Session) -> None:
    """Run tools that speak Slurm on Grain's commands: nox -s real-tools -- [-k TOOL]."""
    install_all(session)
    # Each file has one process, as its scheduler and worker are for all of its tests.
    aside = ["-q", "-n", "2", "--dist", "loadfile", "--durations=25"]
    words = ["--real-tools", "tests-integration/real_tools"]
    session.run("pytest", *aside, *words, *session.posargs)


@nox.session
def explore(session: nox.Session) -> None:
    """Run the property tests with other examples than every day: nox -s explore -- [PATH ...]."""
    install_all(session)
    profile = ["--hypothesis-profile=explore", "-m", "hypothesis"]
    session.run("pytest", "-q", "-n", "2", *profile, *(session.posargs or ["packages"]))


@nox.session
def worlds(session: nox.Session) -> None:
    """Simulate 5,000 worlds, from a new first seed each time; it is printed."""
    run_simulation(session, "--seeds", "5000", "--first", "random", *session.posargs)


# ---- sessions for now and then


@nox.session
def coverage(session: nox.Session) -> None:
    """Report the lines that no test runs, in the terminal and in htmlcov: no threshold."""
    install_all(session, *group("coverage"))
    words = session.posargs or ["-n", "2", "packages"]
    session.run("pytest", "--cov", "--cov-report=term", "--cov-report=html", *words)


@nox.session
def simulate(session: nox.Session) -> None:
    """Simulate the protocol under every fault: nox -s simulate -- [--seed N | --seeds COUNT]."""
    run_simulation(session, *session.posargs)


def run_simulation(session: nox.Session, *words: str) -> None:
    """Install what the simulation needs, and run it."""
    session.install(*editable(closure("grain-head")))
    env = {"PYTHONPATH": str(ROOT / "tests-integration")}
    session.run("python", "-m", "simulation", *words, env=env)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Send random messages of every kind to all that hears them: nox -s fuzz -- [--messages N]."""
    install_declared(session, "grain-head")
    session.run("python", "-m", "tools.fuzz", *session.posargs)


@nox.session
def chaos(session: nox.Session) -> None:
    """Kill, stop and cut off real processes for ten minutes: nox -s chaos -- [--seconds S]."""
    session.install(*editable(packages_on(session)), *group("chaos"))
    session.run("python", "-m", "tools.chaos", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Drive a million tasks through one Gnaw, and compare memory: nox -s soak -- [--tasks N]."""
    session.install(*editable(packages_on(session)), *group("chaos"))
    session.run("python", "-m", "tools.soak", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure performance, as JSON lines or a table: nox -s bench -- [NAME ...] [--OPTION ...]."""
    # uv: the benchmark `peers` makes environments of other tools.
    session.install(*editable(packages_on(session)), "-e", "tools/testkit", "numpy", "uv")
    session.run("python", "-m", "tools.bench", *session.posargs)


@nox.session
def changelog(session: nox.Session) -> None:
    """Print what the next release changes, from the fragments in changes/."""
    session.install(*group("lint"))
    session.run("towncrier", "build", "--draft", "--version", "next", *session.posargs)
