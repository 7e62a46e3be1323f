"""The template of a batch system of the user's own."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from grain.cli.batch.systems.custom import script
from grain.config import Config, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.batch import BatchJob

NOW = datetime.datetime(2026, 3, 4, 9, 30, 15)
SYSTEM = """
system = "custom"
[worker]
name = "{{HHMMSS}}"
[custom_system]
submit_cmd = "x"
directory = "/x"
template = '%s'
"""


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{name}}", "found no {{body}}, expected it on a line of its own: it starts the worker"),
        ("{{body}}{{cores}}", "found {{cores}}, expected script.cores to be set then"),
        (
            "{{ boddy }}",
            (
                "found {{boddy}}, expected one of {{body}}, {{name}}, {{log_file}}, {{shebang}}, "
                "{{queue}}, {{walltime}}, {{seconds}}, {{cores}}, {{memory}}, {{gpus}}, "
                "{{extra_args}}, {{HHMMSS}}"
            ),
        ),
    ],
)
def test_a_mistake_in_the_template_names_its_key(
    configure: Callable[[str], Config], job_of: Callable[..., BatchJob], template: str, message: str
) -> None:
    """A mistake in the template is one of the configuration, and names the key."""
    text = SYSTEM % template
    config = configure(text)

    with pytest.raises(ConfigError) as info:
        script(job_of(text), config, NOW)

    assert f"{config.source}: custom_system.template: {message}" == str(info.value)


def test_values_are_not_filled_in_again(
    configure: Callable[[str], Config], job_of: Callable[..., BatchJob]
) -> None:
    """Braces in a shell command of the user stay as they are."""
    text = SYSTEM % "{{name}} {{body}}" + "[script]\nsetup_cleanup = ['echo {{name}}']"

    assert "\necho {{name}}\n" in script(job_of(text), configure(text), NOW)
