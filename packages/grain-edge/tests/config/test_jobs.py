"""The effect of one setting on others; setting up and cleaning up around a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.config import Config, split_defer
from grain.config.expansion import Unfit, check_defer, entries

if TYPE_CHECKING:
    from collections.abc import Callable

    Load = Callable[..., Config]


# What follows from other keys


def test_one_address_for_all(loaded: Load) -> None:
    """Without addresses of their own, head, workers and commands use the common one."""
    config = loaded("address = 'tcp://h:1'")

    assert (config.head.listen, config.worker.dial, config.worker.cli_dial) == ("tcp://h:1",) * 3


def test_commands_dial_where_workers_do(loaded: Load) -> None:
    """cli_dial follows dial, not address."""
    config = loaded("address = 'tcp://h:1'\n[worker]\ndial = 'tcp://h:2'")

    assert (config.head.listen, config.worker.cli_dial) == ("tcp://h:1", "tcp://h:2")


def test_scripts_override_key_by_key(loaded: Load) -> None:
    """[head.script] and [worker.script] replace what they name, lists as a whole."""
    config = loaded(
        """
        [script]
        queue = "common"
        walltime = 100
        cores = 4
        extra_args = ["-a", "-b"]
        [head.script]
        walltime = 200
        extra_args = []
        [worker.script]
        queue = "big"
        cores = 0
        """
    )

    head, worker = config.head.script, config.worker.script
    assert (head.queue, head.walltime, head.cores, head.extra_args) == ("common", 200, 4, ())
    assert (worker.queue, worker.walltime, worker.cores) == ("big", 100, None)
    assert worker.extra_args == ("-a", "-b")
    assert (config.script.walltime, config.script.cores) == (100, 4)


def test_the_resources_of_a_worker_are_passed_on_as_they_are_written(loaded: Load) -> None:
    """worker.res is passed on as it is written, as workers get it in JSON."""
    config = loaded("[worker.res]\nToken = { token = 'gpu' }\nCapacity = { V = 8 }\nX = [1, 2.5]")

    assert json.loads(json.dumps(config.worker.res)) == {
        "Token": {"token": "gpu"},
        "Capacity": {"V": 8},
        "X": [1, 2.5],
    }


def test_a_configuration_cannot_be_changed(loaded: Load) -> None:
    """A configuration does not change under the feet of those who read it."""
    config = loaded("")

    with pytest.raises(AttributeError):
        config.worker.reserve.memory = 1  # type: ignore[misc]


def test_empty_system_is_local(loaded: Load) -> None:
    """An empty system means processes on this machine."""
    assert loaded("system = ''").system == loaded("system = 'local'").system == "local"


# Setting up and cleaning up


def test_deferred_commands_clean_up_in_reverse_order(loaded: Load) -> None:
    """Lines marked with defer clean up, in reverse order; the others set up, in order."""
    config = loaded(
        """
        [script]
        setup_cleanup = '''
          module load x

          mkdir -p $S
          defer rm -r $S
          if true; then
            deferred_maintenance \\
              --now
          fi
          defer   cp -r $S \\
            keep
        '''
        """
    )

    assert config.worker.script.setup == (
        "module load x",
        "mkdir -p $S",
        "if true; then",
        "  deferred_maintenance \\\n    --now",
        "fi",
    )
    assert config.worker.script.cleanup == ("cp -r $S \\\n  keep", "rm -r $S")


def test_an_entry_of_an_array_is_one_command_of_any_number_of_lines(loaded: Load) -> None:
    config = loaded('[script]\nsetup_cleanup = ["a\\nb\\n", "defer c\\nd", "", "defer e"]')

    assert (config.script.setup, config.script.cleanup) == (("a\nb",), ("e", "c\nd"))


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("defer", "defer needs a command after it"),
        (
            "  defer rm x",
            (
                "'defer rm x' is indented, but defer cannot depend on a condition; "
                "write the condition into the command: defer [ CONDITION ] && COMMAND"
            ),
        ),
        ("a\ndefer b", "the line 'defer' inside 'a' must be an entry of its own"),
    ],
)
def test_defer_that_would_mislead(entry: str, hint: str) -> None:
    """A defer whose removal would break the commands around it is refused."""
    with pytest.raises(Unfit) as info:
        check_defer(entry)

    assert str(info.value) == hint


command = st.text(st.sampled_from("ab $'"), min_size=1).filter(str.strip).map(lambda s: "c" + s)


@given(st.lists(st.tuples(st.booleans(), command.map(str.strip))))
def test_every_command_sets_up_or_cleans_up(commands: list[tuple[bool, str]]) -> None:
    """Every command is in one of the halves, set-up in order, clean-up in reverse."""
    written = "\n".join(f"defer {text}" if late else text for late, text in commands)

    setup, cleanup = split_defer(entries(written))

    assert list(setup) == [text for late, text in commands if not late]
    assert list(cleanup) == [text for late, text in reversed(commands) if late]


SHAPES = """
[script]
cores = 4
extra_args = ["--account=chem"]
[worker.script]
memory = 8
[worker.res]
Token = { token = "a" }
[[shape]]
name = "cpu"
[[shape]]
name = "gpu"
cores = 16
max = 2
extra_args = ["--gres=gpu:2"]
res = { Capacity = { V = 3 } }
"""


def test_what_script_says_holds_for_all_shapes(loaded: Load) -> None:
    """A shape is [script] with [worker.script] and then its own settings over it."""
    cpu, gpu = loaded(SHAPES).shape

    assert ("cpu", 4, 8.0, ("--account=chem",), None) == (
        *(cpu.name, cpu.cores, cpu.memory),
        *(cpu.extra_args, cpu.max),
    )
    assert ("gpu", 16, 8.0, ("--gres=gpu:2",), 2) == (
        *(gpu.name, gpu.cores, gpu.memory),
        *(gpu.extra_args, gpu.max),
    )
    assert {"Token": {"token": "a"}} == cpu.res
    assert {"Token": {"token": "a"}, "Capacity": {"V": 3}} == gpu.res
