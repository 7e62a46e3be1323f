"""One value is one word of one line, whatever is in it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grain.cli.batch import BatchError, BatchJob
from grain.cli.batch.scripts.directives import amount, word
from grain.cli.batch.systems.slurm import script

if TYPE_CHECKING:
    from collections.abc import Callable

printable = st.text().filter(str.isprintable)


@example(text="\\")
@example(text='a\\"b\\')
@given(text=printable)
def test_word_is_one_word(text: str) -> None:
    """Reading it as sbatch and qsub do gives back the value."""
    expected = [text] if text else [""]

    assert expected == shlex.split(word(text))


@given(text=printable)
def test_word_hides_comments(text: str) -> None:
    """A "#" stands between quotes, as Slurm would end the line there."""
    assert "#" not in text or word(text).startswith('"')


@pytest.mark.parametrize("text", ["a\nrm -r /", "a\rb", "a\x1bb", "\u2028"])
def test_a_word_with_a_line_break_is_refused(text: str) -> None:
    """Tried: Word with a line break in a directive of a batch script.
    Result: refused.
    """
    with pytest.raises(BatchError, match="does not fit on one line"):
        word(text)


@pytest.mark.parametrize(
    ("memory", "text"), [(60.0, "60G"), (3.5, "3584M"), (0.25, "256M"), (0.0001, "1M")]
)
def test_whole_amounts_of_memory_stay_as_written(memory: float, text: str) -> None:
    """Whole numbers stay as the user wrote them."""
    assert text == amount(memory, "G", "M")


def test_options_come_last(job_of: Callable[..., BatchJob]) -> None:
    """The user's options follow Grain's, those of the command line last, so that they win."""
    job = job_of('[script]\nextra_args = ["-A chem", ""]', "--mem=0", "--comment=a b")

    lines = [line for line in script(job).splitlines() if line.startswith("#SBATCH")]
    assert ["#SBATCH -A chem", '#SBATCH --mem=0 "--comment=a b"'] == lines[-2:]


def test_option_that_is_none(job_of: Callable[..., BatchJob]) -> None:
    """An entry that is not an option would be lost or taken for a script."""
    with pytest.raises(BatchError) as info:
        script(job_of('[script]\nextra_args = ["chem"]'))

    assert (
        "script.extra_args: found 'chem', expected an option with its value\n"
        "An option begins with '-', as in '--account=chem' or '-A chem'."
    ) == str(info.value)
