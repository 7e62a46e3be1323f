"""docs/workers.md and docs/batch-systems.md are true."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import BatchJob, worker_job
from grain.cli.batch.systems import custom, slurm
from grain.config import Config, load

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[4] / "docs"
NOW = datetime.datetime(2026, 3, 4, 9, 30, 15)
pytestmark = pytest.mark.skipif(
    not (DOCS / "workers.md").exists(), reason="docs/ is not part of a source package"
)


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_directives_on_the_page_are_those_of_its_configuration(
    job_of: Callable[..., BatchJob],
) -> None:
    (directives,) = blocks("workers.md", "bash")

    assert slurm.script(job_of(blocks("workers.md", "toml")[0])).startswith(directives + "\n")


def test_the_template_on_the_page_works(
    configure: Callable[[str], Config], job_of: Callable[..., BatchJob]
) -> None:
    """The template on the page works."""
    [text] = [block for block in blocks("batch-systems.md", "toml") if "custom_system" in block]

    script = custom.script(job_of(text), configure(text), NOW)

    assert "#PJM -L node=1,node-mem=120Gi\n#PJM -L elapse=12:00:00\n" in script
    assert "{{" not in script


@pytest.mark.parametrize("name", ["batch-systems.md", "grain.reference.toml"])
def test_the_page_names_every_placeholder_and_no_other(
    name: str, job_of: Callable[..., BatchJob]
) -> None:
    """Page and reference name every placeholder, and none that there is not."""
    text = (DOCS / name).read_text(encoding="utf-8")

    names = set(re.findall(r"\{\{(\w+)\}\}", text))

    assert set(custom.values(job_of(""), NOW)) == names


@pytest.mark.parametrize("system", ["slurm", "pbs"])
def test_the_sample_configurations_make_scripts(system: str) -> None:
    """The samples make scripts."""
    config = load(DOCS / "examples" / f"grain.{system}.toml", env={"HOME": "/h", "USER": "me"})

    job = worker_job(config, now=NOW, folder="/run")

    assert "--res" in job.main
    assert job.script.setup
