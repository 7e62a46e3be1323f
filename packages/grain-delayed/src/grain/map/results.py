"""The files, the working directory and the tag of each job: names made from templates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.inputs.errors import InputError
from grain.inputs.template import Template

if TYPE_CHECKING:
    from collections.abc import Sequence


class Files(NamedTuple):
    """The files of one job, absolute."""

    stdout: Path
    stderr: Path


class Results:
    """The files of each job.

    Args:
        name: a directory, in which each job has one named by its number; or, if there are
            replacements in it, the file for standard output, to which ``.err`` is added for
            standard error; or, if that ends in a slash, a directory for the two.

    Raises:
        TemplateError: a replacement that no input can fill.
    """

    def __init__(self, name: str, names: Sequence[str] = (), width: int | None = None) -> None:
        # A template without a replacement gets one appended: `plain` says that it had none.
        bare = Template([name or "."], names=names, width=width, path=True)
        if not bare.plain:
            self._template, self._folder = bare, name.endswith("/")
        else:
            inside = f"{name.rstrip('/') or name}/{{#}}"
            self._template = Template([inside], names=names, width=width, path=True)
            self._folder = True
        self.uses_slot = self._template.uses_slot
        self._root = _root(name)

    def files(self, seq: int, record: Sequence[str], slot: int | None = None) -> Files:
        """Return the files of one job.

        Raises:
            InputError: the input lacks a column, or leads elsewhere.
        """
        path = _within(self._root, self._template.fill(seq, record, slot))
        if self._folder:
            return Files(path / "stdout", path / "stderr")
        return Files(path, path.with_name(f"{path.name}.err"))


class WorkingDirectory:
    """The directory in which each job runs.

    Args:
        name: its name, with replacements or without; None for the current directory.

    Raises:
        TemplateError: a replacement that no input can fill.
    """

    def __init__(
        self, name: str | None, names: Sequence[str] = (), width: int | None = None
    ) -> None:
        template = Template([name or "."], names=names, width=width, path=True)
        # A name without replacements is made absolute once.
        self._directory = Path(name or ".").absolute() if template.plain else template
        self.uses_slot = template.uses_slot
        self._root = _root(name or "")

    def of(self, seq: int, record: Sequence[str], slot: int | None = None) -> Path:
        """Return the directory of one job, absolute.

        Raises:
            InputError: the input lacks a column, or leads elsewhere.
        """
        if isinstance(self._directory, Path):
            return self._directory
        return _within(self._root, self._directory.fill(seq, record, slot))


def _root(name: str) -> str:
    """Return the directory that stands before all replacements of a name; empty for none."""
    head, slash, _ = name.partition("{")[0].rpartition("/")
    return head or slash


def _within(root: str, name: str) -> Path:
    """Return the absolute path of a name, which no input may lead out of the root.

    Raises:
        InputError: it leads elsewhere.
    """
    path = Path(name).absolute()
    base = os.path.normpath(Path(root).absolute())
    if root and not f"{os.path.normpath(path)}/".startswith(f"{base.rstrip('/')}/"):
        raise InputError(
            f"{name} is not in {root}, where the files of all jobs are to be: an input has '..' in "
            "it. {/} is an input without its directories"
        )
    return path


class Tag:
    """The text that begins each line of a job's output, before a tab.

    Raises:
        TemplateError: a replacement that no input can fill.
    """

    def __init__(self, text: str, names: Sequence[str] = (), width: int | None = None) -> None:
        self._text = text
        self._template = Template([text], names=names, width=width, path=True)
        self.uses_slot = self._template.uses_slot

    def of(self, seq: int, record: Sequence[str], slot: int | None = None) -> bytes:
        """Return what begins each line of one job.

        Raises:
            InputError: the input lacks a column.
        """
        plain = self._template.plain
        return os.fsencode(f"{self._text if plain else self._template.fill(seq, record, slot)}\t")
