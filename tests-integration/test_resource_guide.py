"""docs/resources.md: its example runs, keeps the laws, and is quoted as it is."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_site import Site, running

from grain.resource import Cores, Fit, Infeasible, Insufficient, Supply, from_data, to_data
from grain.resource.testing import check_kind

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs/examples/disks.py"
PAGE = ROOT / "docs/resources.md"
README = ROOT / "packages/grain-resource/README.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def disks() -> Any:
    """The class of the example; the module is defined again, as a notebook does."""
    spec = importlib.util.spec_from_file_location("disks", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Disks


def test_a_kind_of_resource_takes_fewer_than_thirty_lines() -> None:
    """A kind of resource takes fewer than thirty lines."""
    assert len(EXAMPLE.read_text().splitlines()) < 30


def test_the_page_quotes_the_example_file() -> None:
    """The page shows the file as it is."""
    quoted = [code for language, code in FENCE.findall(PAGE.read_text()) if language == "python"]

    assert EXAMPLE.read_text() in quoted


def test_handed_out_by_name(disks: Any) -> None:
    """A task asks for a number and gets names, which no other task has until they are back."""
    supply = Supply(Cores(8) & disks(["nvme1", "nvme2", "nvme3"]))
    one = supply.alloc(Cores(1) & disks(2))
    other = supply.alloc(Cores(1) & disks(1))

    assert (["nvme1", "nvme2"], ["nvme3"]) == (one.names, other.names)
    assert {"Cores": (6, 8), "Disks": (0, 3)} == supply.free.stat()
    with pytest.raises(Insufficient, match=re.escape("Disks([]) cannot give Disks(['0']) now")):
        supply.alloc(disks(1))
    with pytest.raises(Infeasible):
        supply.alloc(disks(4))
    supply.dealloc(one)
    assert Fit.NOW is supply.fit(disks(2))
    assert Fit.NEVER is Supply(Cores(8)).fit(disks(1))


def test_stated_in_a_configuration(disks: Any) -> None:
    """The value of the key in ``[worker.res]`` is what the class takes."""
    assert disks(["nvme2", "nvme1"]) == from_data({"Disks": ["nvme1", "nvme2"]})
    assert {"Disks": {"names": ["nvme1", "nvme2"]}} == to_data(disks(["nvme2", "nvme1"]))


def test_the_example_kind_keeps_the_laws(disks: Any) -> None:
    """The example keeps the laws, alone and next to cores."""
    check_kind(
        lambda: disks(["c", "a", "b"]) & Cores(12),
        lambda rng: disks(rng.randint(0, 4)) & Cores(rng.randint(0, 5)),
        identities=lambda res: [*res.names, *res.c],
    )
    check_kind(
        lambda: disks(20),
        lambda rng: disks(rng.randint(0, 9)),
        identities=lambda res: res.names,
        seed=1,
    )


@pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
def test_every_example_of_the_page_runs(page: Path) -> None:
    """Every Python example of the page runs, in order, in one namespace."""
    names: dict[str, object] = {"__name__": "disks"}
    for language, code in FENCE.findall(page.read_text()):
        if language == "python":
            exec(compile(code, str(page), "exec"), names)


def test_the_kind_of_few_lines_takes_some_fifteen_and_keeps_the_laws() -> None:
    names: dict[str, Any] = {"__name__": "disks"}  # as when the whole page runs
    source = _ports()
    exec(compile(source, str(PAGE), "exec"), names)

    assert len(source.splitlines()) <= 15
    check_kind(
        lambda: names["Ports"]([7001, 7002, 7004]) & Cores(4),
        lambda rng: names["Ports"](rng.randint(1, 4)) & Cores(rng.randint(0, 5)),
        identities=lambda res: [*(("port", one) for one in res.parts()["Ports"].ids), *res.c],
    )


async def test_the_commands_of_the_guide_print_the_ports_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ourlab").mkdir()
    (tmp_path / "ourlab/ports.py").write_text(_ports())
    info = tmp_path / "ourlab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ourlab\nVersion: 1.0\n")
    (points,) = (code for kind, code in _fences() if 'entry-points."grain.resources"' in code)
    point = re.findall('^Ports = "(.*)"$', points, re.MULTILINE)[0]
    (info / "entry_points.txt").write_text(f"[grain.resources]\nPorts = {point}\n")
    (commands,) = (code for _, code in _fences() if "grain submit" in code)
    worker, job = (shlex.split(line) for line in commands.splitlines())
    said = re.findall(r"^`ports.txt` then has `(.*)`\.", PAGE.read_text(), re.MULTILINE)

    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    site = Site(tmp_path)
    with site.gnaw(), running("grain.worker", "--url", site.address, *worker[1:]):
        done = await site.grain(*job[1:])
    assert 0 == done.returncode, done.stderr
    assert said == (tmp_path / "ports.txt").read_text().splitlines()


def _fences() -> list[tuple[str, str]]:
    """Return language and text of each block of the page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def _ports() -> str:
    """Return the source of the kind of few lines."""
    (source,) = (code for _, code in _fences() if "class Ports" in code)
    return source


def test_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The comments of the readme's example show what it prints."""
    test_every_example_of_the_page_runs(README)

    expected = [
        line.partition(": ")[2] if "these: " in line else line.rpartition("# ")[2]
        for line in README.read_text().splitlines()
        if "print(" in line
    ]
    assert expected == capsys.readouterr().out.splitlines()
