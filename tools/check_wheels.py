"""Check built wheels, as in: python tools/check_wheels.py dist.

No path is in two wheels, every subpackage is typed, no wheel requires a folder of this machine, and
each way of installing gives what belongs. The last way is `pip install .` in the checkout.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
FACADE = {"grain/__init__.py", "grain/py.typed"}
# What is installed, and the modules that must not come with it.
INSTALLS = {
    "grain-resource": ["trio", "grain.edge"],
    "grain-worker": ["click", "grain.cli", "grain.combine", "grain.delayed", "grain.head"],
    "grain-cli": ["dill", "grain.head", "grain.worker", "jinja2", "rich", "textual"],
    "grain-scheduler": [],
    "snakemake-executor-plugin-grain": ["snakemake"],
}
# Plug-ins of other programs have one package of their own, by whose name these find them, and need
# a Python that these need. The metapackage does not bring them.
PLUGINS = {"aiida-grain": (3, 10), "snakemake-executor-plugin-grain": (3, 11)}
# Adapters to libraries that Grain does not install: if you import one, you have its library.
ADAPTERS = ["grain.joblib", "grain.parsl"]
# Run with the modules that must be there, and the ones that must not.
PROBE = """
import importlib, importlib.util, sys
for name in sys.argv[1].split():
    importlib.import_module(name)
from grain import GVAR
assert str(GVAR.res) == chr(216), GVAR
strangers = [name for name in sys.argv[2].split() if importlib.util.find_spec(name)]
assert not strangers, f"should not be here: {strangers}"
"""


def contents(wheel: Path) -> set[str]:
    """Return the paths that a wheel installs, without its own metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def addresses(wheel: Path) -> list[str]:
    """Return a line for each requirement of a wheel that is an address and not a version."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    required = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    return [f"{wheel.name} requires {each}" for each in required if "@" in each]


def problems(wheels: dict[str, set[str]]) -> list[str]:
    """Return a line for each file that is in the wrong wheel, in two, or missing."""
    out: list[str] = []
    owner: dict[str, str] = {}
    for package, paths in wheels.items():
        for path in sorted(paths):
            if path in owner:
                out.append(f"{path} is in {owner[path]} and in {package}")
            owner[path] = package
            top, *rest = path.split("/")
            if package in PLUGINS:
                if top != package.replace("-", "_"):
                    out.append(f"{path} is in {package}, but lies outside of its package")
            elif top != "grain" or (len(rest) == 1 and package != "grain-resource"):
                out.append(f"{path} is in {package}, but lies outside of its subpackages")
        if package in PLUGINS:
            if f"{package.replace('-', '_')}/py.typed" not in paths:
                out.append(f"{package} lacks py.typed")
            continue
        subs = sorted({path.split("/")[1] for path in paths if path.count("/") > 1})
        untyped = [sub for sub in subs if f"grain/{sub}/py.typed" not in paths]
        out += [f"{package} lacks grain/{sub}/py.typed" for sub in untyped]
    missing = sorted(FACADE - wheels.get("grain-resource", set()))
    return out + [f"grain-resource lacks {path}" for path in missing]


def check_install(name: str, version: str, dist: Path, wheels: dict[str, set[str]]) -> None:
    """Install one package into a fresh environment and try it there."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    with tempfile.TemporaryDirectory() as temp:
        python = Path(temp, "bin", "python")
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, temp], check=True)
        pip = [uv, "pip", "install", "-q", "--python", str(python), "--find-links", str(dist)]
        # uv would take a wheel of the same version from its cache.
        pip += [f"--refresh-package={package}" for package in wheels]
        subprocess.run([*pip, f"{name}=={version}"], check=True)
        frozen = output([uv, "pip", "freeze", "-q", "--python", str(python)])
        came = [wheels.get(p, set()) for p in re.findall(r"[\w-]+(?===)", frozen)]
        try_installed(name, python, version, set().union(*came), INSTALLS[name])


def check_checkout(version: str, wheels: dict[str, set[str]]) -> None:
    """Install the checkout by pip into a fresh environment and try it there."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    with tempfile.TemporaryDirectory() as temp:
        python = Path(temp, "bin", "python")
        subprocess.run([uv, "venv", "-q", "--seed", "--python", sys.executable, temp], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "."], check=True, cwd=ROOT)
        paths = set().union(*(of for name, of in wheels.items() if name not in PLUGINS))
        try_installed("the checkout", python, version, paths, [])


def try_installed(
    name: str, python: Path, version: str, paths: set[str], strangers: list[str]
) -> None:
    """Import every subpackage that an installation should have, and none that it should not."""
    inits = sorted(path for path in paths if path.endswith("/__init__.py"))
    here = [str(Path(path).parent).replace("/", ".") for path in inits]
    here = [name for name in here if name not in ADAPTERS]
    output([str(python), "-I", "-c", PROBE, " ".join(here), " ".join(strangers)])
    if "grain.cli" in here:
        printed = output([str(python.with_name("grain")), "--version"])
        assert version in printed, f"grain --version says {printed!r}"
    print(f"{name}: {', '.join(here)}")


def output(command: list[str]) -> str:
    """Return the output of a command, run where no source can be imported by accident."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd="/").stdout


def main(dist: Path) -> None:
    """Check all wheels of a directory."""
    files = {file.name.split("-")[0].replace("_", "-"): file for file in dist.glob("*.whl")}
    wheels = {name: contents(file) for name, file in sorted(files.items())}
    faults = problems(wheels) + [line for file in files.values() for line in addresses(file)]
    if faults or not INSTALLS.keys() <= files.keys():
        sys.exit("\n".join(faults) or f"wheels are missing: {', '.join(INSTALLS.keys() - files)}")
    for name in INSTALLS:
        if sys.version_info < PLUGINS.get(name, (3, 10)):
            print(f"{name}: not on this Python")
            continue
        check_install(name, files[name].name.split("-")[1], dist.resolve(), wheels)
    check_checkout(files["grain-scheduler"].name.split("-")[1], wheels)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
