"""The table of batch systems, and what there is of each elsewhere: no less, and no more."""

from __future__ import annotations

import pkgutil
import re
from typing import TYPE_CHECKING

import pytest
from fake_batch.start import COMMANDS, HERE

from grain.cli.batch import BatchSystem
from grain.cli.batch import systems as modules
from grain.cli.batch.opening import commands_of, open_named
from grain.cli.init import survey as looking
from grain.config import ConfigError, load
from grain.files.batch_systems import BATCH_SYSTEMS
from grain.worker.auto import batch_system

if TYPE_CHECKING:
    from pathlib import Path

DOCS = HERE.parent / "docs"
OTHERS = {"ssh", "local", "custom"}
FAKES = {
    **{name: HERE / f"fake_batch/{name}.py" for name in COMMANDS},
    **{
        path.stem: path
        for path in (HERE / "fake_small").glob("*.py")
        if "\nCOMMANDS = {" in path.read_text()
    },
}

each = pytest.mark.parametrize("system", BATCH_SYSTEMS)


def test_each_has_a_module_and_a_fake_and_nothing_else_has() -> None:
    found = {one.name for one in pkgutil.iter_modules(modules.__path__)}

    assert {*BATCH_SYSTEMS, *OTHERS} == found
    assert {*BATCH_SYSTEMS} == {*FAKES}


@each
def test_its_module_does_all_that_is_asked_of_a_batch_system(system: str) -> None:
    asked = [name for name in vars(BatchSystem) if not name.startswith("_")]
    opened = type(open_named(system))

    assert "submit" in asked
    assert [] == [name for name in asked if getattr(opened, name) is getattr(BatchSystem, name)]
    assert system == commands_of(system).system
    assert commands_of(system).names


@each
def test_the_configuration_accepts_its_name_and_knows_its_others(
    system: str, tmp_path: Path
) -> None:
    file = tmp_path / "grain.toml"
    file.write_text(f'system = "{system}"\n')

    assert system == load(file).system
    for alias in BATCH_SYSTEMS[system].aliases:
        file.write_text(f'system = "{alias}"\n')
        with pytest.raises(ConfigError, match=f"did you mean '{system}'"):
            load(file)


@each
def test_grain_init_finds_it_by_its_commands(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = BATCH_SYSTEMS[system].commands
    monkeypatch.setattr(looking, "system_command", lambda name: name in commands)
    monkeypatch.setattr(looking, "_LOOKS", {})

    assert system == looking.survey({}).system


@each
def test_a_job_of_its_fake_has_the_marks_by_which_a_worker_knows_it(system: str) -> None:
    facts, text = BATCH_SYSTEMS[system], FAKES[system].read_text()

    assert system == batch_system({facts.mark: "7"})
    assert [] == [name for name in (facts.mark, facts.number) if name and f'"{name}":' not in text]


def test_pages_name_each() -> None:
    page = (DOCS / "batch-systems.md").read_text("utf-8")
    reference = (DOCS / "grain.reference.toml").read_text("utf-8")

    assert {*BATCH_SYSTEMS, *OTHERS} == set(re.findall(r'(?m)^\| `"(\w+)"`', page))
    assert [] == [name for name in BATCH_SYSTEMS if f'"{name}"' not in reference]
