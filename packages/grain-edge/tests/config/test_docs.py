"""The reference names every key with its default; the samples and the page are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grain.config import Config, ConfigError, Mistake, load
from grain.config.check import all_keys, check
from grain.config.kinds import ExpansionContext

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCS = Path(__file__).parents[4] / "docs"
ENV = {"HOME": "/home/me", "USER": "me"}
with_docs = pytest.mark.skipif(
    not (DOCS / "grain.reference.toml").exists(), reason="docs/ is not part of a source package"
)


def uncommented() -> str:
    text = (DOCS / "grain.reference.toml").read_text(encoding="utf-8")
    return re.sub(r"^#(?=\w)", "", text, flags=re.MULTILINE)


def paths(table: dict[str, Any], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    keys = {(*above, key) for key in table}
    for key, value in table.items():
        if isinstance(value, dict):
            keys |= paths(value, (*above, key))
    return keys


def without_source(config: Config) -> Config:
    return msgspec.structs.replace(config, source=None)


@with_docs
def test_reference_names_every_key() -> None:
    """No key is missing, none is made up; what [x.script] takes stands in [script] alone."""
    expected = {
        key
        for key in all_keys()
        if not (key[0] != "script" and "script" in key[:-1]) and key[:-1] != ("shape",)
    }

    assert paths(tomllib.loads(uncommented())) == expected


@with_docs
def test_the_example_of_a_shape_names_the_keys_that_script_lacks() -> None:
    """It stands in a comment, as there is no shape by default, and it loads."""
    text = (DOCS / "grain.reference.toml").read_text(encoding="utf-8")
    example = re.search(r"(?m)^#     \[\[shape\]\]\n(?:#     .*\n)+", text)
    assert example is not None
    shown = re.sub(r"(?m)^#     ", "", example[0])

    mistakes: list[Mistake] = []
    [shape] = tomllib.loads(shown)["shape"]

    assert {"name", "max", "charge", "gpus", "res"} <= shape.keys()
    assert check({"shape": [shape]}, ExpansionContext(ENV, Path("/")))[1] == mistakes


@with_docs
def test_reference_shows_the_defaults(tmp_path: Path) -> None:
    """Its commented lines say what holds without them, value by value."""
    (tmp_path / "x.toml").write_text(uncommented(), encoding="utf-8")

    shown = load(tmp_path / "x.toml", env=ENV)

    assert without_source(shown) == load(False, env=ENV)


@with_docs
def test_reference_as_it_is_changes_nothing() -> None:
    """Somebody who copies the whole file gets the defaults."""
    copied = load(DOCS / "grain.reference.toml", env=ENV)

    assert without_source(copied) == load(False, env=ENV)


@with_docs
@pytest.mark.parametrize("system", ["slurm", "pbs"])
def test_the_samples_load_and_state_what_a_batch_system_asks_for(system: str) -> None:
    config = load(DOCS / "examples" / f"grain.{system}.toml", env=ENV)

    script = config.worker.script
    assert config.system == system
    assert script.queue
    assert script.setup
    assert script.cleanup
    assert None not in (script.walltime, script.cores, script.memory)


@with_docs
def test_the_page_on_several_nodes_describes_a_node_of_slurm_and_of_pbs(tmp_path: Path) -> None:
    text = (DOCS / "gangs.md").read_text(encoding="utf-8")
    for system, block in zip(
        ["slurm", "pbs"], re.findall(r"```toml\n(.*?)```", text, re.DOTALL), strict=True
    ):
        (tmp_path / "grain.toml").write_text(block)

        config = load(env=ENV, cwd=tmp_path)

        assert (system, 32) == (config.system, config.worker.script.cores)
        assert "module load openmpi quantum-espresso" in config.worker.script.setup


@with_docs
def test_page_shows_a_real_message(tmp_path: Path) -> None:
    """The example of a message on the page is what one gets."""
    (tmp_path / "grain.toml").write_text("[script]\nwalltme = 1\nmemory = '60GB'\n")

    with pytest.raises(ConfigError) as info:
        load(env=ENV, cwd=tmp_path)

    assert f"\n{info.value}\n" in (DOCS / "config.md").read_text(encoding="utf-8")


def test_the_import_loads_neither_toml_reader_nor_trio_nor_difflib() -> None:
    code = (
        "import sys; from grain.config import load; load(False);"
        "print(sorted({'tomllib', 'tomli', 'trio', 'difflib', 'grain.edge'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
