"""Several sorts of workers in one file: the choice of one, and the GPUs that it asks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from grain.cli import main
from grain.cli.scaling.configured import gpus_asked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Put = Callable[[str, str], Path]

TEXT = """\
system = "slurm"
[worker]
name = "w"
log_file = ""
[script]
cores = 4
extra_args = ["--account=chem"]
[[shape]]
name = "cpu"
[[shape]]
name = "gpu"
cores = 16
queue = "gpu"
extra_args = ["--gres=gpu:2"]
[[shape]]
name = "gpu-big"
queue = "big"
"""


@pytest.fixture
def run(alone: Path) -> Callable[..., tuple[int, str]]:
    """Write a configuration, type a command; its exit code and its output."""
    (alone / "grain.toml").write_text(TEXT)

    def typed(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, [*words], catch_exceptions=False)
        return done.exit_code, done.output.replace(str(alone), "")

    return typed


def test_a_shape_is_submitted_by_its_name_and_recorded(
    alone: Path, command: Put, run: Callable[..., tuple[int, str]]
) -> None:
    command("sbatch", f"cat > '{alone}/read'; echo 6")

    code, _ = run("up", "-s", "gpu", "-n", "2")

    assert 0 == code
    lines = (alone / "read").read_text().splitlines()
    assert {"#SBATCH --partition=gpu", "#SBATCH --cpus-per-task=16"} < set(lines)
    assert "#SBATCH --gres=gpu:2" in lines
    assert "#SBATCH --account=chem" not in lines  # a list replaces the list
    [file] = (alone / "state/grain/jobs").iterdir()
    assert ["gpu", "gpu"] == [json.loads(line)["shape"] for line in file.read_text().splitlines()]


def test_the_beginning_of_a_name_will_do_if_it_is_that_of_one(
    run: Callable[..., tuple[int, str]],
) -> None:
    code, printed = run("up", "--dry", "-s", "c")

    assert 0 == code
    assert "#SBATCH --account=chem\n" in printed
    assert "#SBATCH --cpus-per-task=4\n" in printed


def test_a_dry_run_without_a_name_shows_all_shapes(run: Callable[..., tuple[int, str]]) -> None:
    code, printed = run("up", "--dry")

    heads = [line for line in printed.splitlines() if line.startswith("# ----")]
    assert 0 == code
    assert [f"# ---- grain up -s {name}" for name in ("cpu", "gpu", "gpu-big")] == heads


@pytest.mark.parametrize("command", [("up",), ("scale", "2")])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "/grain.toml has 3 shapes of workers, cpu, gpu, gpu-big; name one, as in -s cpu"),
        (
            ("-s", "nope"),
            "there is no shape 'nope'; /grain.toml has cpu, gpu, gpu-big",
        ),
        (
            ("-s", "gpus"),
            "there is no shape 'gpus'; /grain.toml has cpu, gpu, gpu-big; did you mean 'gpu'?",
        ),
        (("-s", "g"), "'g' may be each of the shapes gpu, gpu-big; write the name out"),
    ],
)
def test_an_unknown_or_ambiguous_shape_is_an_error_that_names_those_there_are(
    run: Callable[..., tuple[int, str]],
    command: tuple[str, ...],
    words: tuple[str, ...],
    expected: str,
) -> None:
    assert (1, f"Error: {expected}\n") == run(*command, *words)


def test_without_shapes_none_can_be_named(alone: Path, run: Callable[..., tuple[int, str]]) -> None:
    (alone / "grain.toml").write_text('system = "slurm"')
    expected = "there is no shape 'gpu', as /grain.toml has no [[shape]]; leave out -s gpu"

    assert (1, f"Error: {expected}\n") == run("up", "-s", "gpu")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--account=chem"], 0),
        (["--gres=gpu:2"], 2),
        (["--gres=gpu:a100:4"], 4),
        (["--gres=gpu"], 1),
        (["--gres=gpu:a100"], 1),
        (["--gres=lustre:1,gpu:3"], 3),
        (["--gpus=2"], 2),
        (["--gpus-per-node=a100:2"], 2),
        (["-G 2"], 2),
        (["-l select=1:ncpus=4:ngpus=2"], 2),
        (["-l nodes=1:ppn=4:gpus=1"], 1),
        (["-l gpu=2"], 2),
        (['-gpu "num=2:mode=shared"'], 2),
        (["-g1"], 1),
        (["request_gpus = 2"], 2),
        (["--partition=gpu"], 0),
        (["--qos=gpu"], 0),
        (["-p gpu"], 0),
    ],
)
def test_the_number_of_gpus_is_read_off_the_options(options: list[str], expected: int) -> None:
    assert expected == gpus_asked(options)
