"""The files, the working directory and the tag of each job: names made from templates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.files.trust import file_at
from grain.inputs.errors import InputError
from grain.inputs.template import Template
from grain.map.failures import job_text, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOKED_AT = 1000  # jobs whose files are looked up on the disk


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
        self.uses_slot, self.uses_seq = self._template.uses_slot, self._template.uses_seq
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

    Attributes:
        is_one: True if it is the same for all jobs.

    Raises:
        TemplateError: a replacement that no input can fill.
    """

    def __init__(
        self, name: str | None, names: Sequence[str] = (), width: int | None = None
    ) -> None:
        template = Template([name or "."], names=names, width=width, path=True)
        # A name without replacements is made absolute once.
        self._directory = Path(name or ".").absolute() if template.plain else template
        self.uses_slot, self.uses_seq = template.uses_slot, template.uses_seq
        self.is_one = template.plain
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


class JobPlaces:
    """The files and directories that the jobs so far use, to find any that two jobs share.

    The number of a slot does not count: jobs one after the other have the same.

    Args:
        results: the files of jobs; None if they have none.
        where: their directories.
        warned: the name of the file that warns a job, in its directory; "" for none.

    Attributes:
        remark: a line on the first directory that two jobs share; "" for none. Where all have one,
            they share it on purpose, but not the warning.
    """

    def __init__(self, results: Results | None, where: WorkingDirectory, warned: str = "") -> None:
        self.remark = ""
        self._warned = warned
        # With the number of the job in the name each has its own.
        self._results = None if results is None or results.uses_seq else results
        self._where: WorkingDirectory | None = where
        if (where.is_one and not warned) or where.uses_seq or where.uses_slot:
            self._where = None
        self._files: dict[object, tuple[int, Sequence[str]]] = {}
        self._directories: dict[str, tuple[int, Sequence[str]]] = {}

    @property
    def can_be_shared(self) -> bool:
        """True if there is anything to look at."""
        return self._results is not None or self._where is not None

    def add(self, seq: int, record: Sequence[str]) -> None:
        """Note the places of a job.

        Raises:
            InputError: it would overwrite a file of another job, or a name leads elsewhere.
        """
        job = seq, record
        for path in self._results.files(seq, record) if self._results else ():
            # Links are looked for in the first ones only, as the disk may be slow.
            for name in (os.path.normpath(path), file_at(path) if seq <= _LOOKED_AT else None):
                if name is None:
                    continue
                if (other := self._files.setdefault(name, job))[0] != seq:
                    raise InputError(
                        f"{_both(other, job)} would write to one file, {path}. Put {{#}}, the "
                        "number of the job, into the name, and each gets its own file: "
                        "--results 'out/{#}.log'"
                    )
        if self._where is not None:
            path = self._where.of(seq, record)
            other = self._directories.setdefault(os.path.normpath(path), job)
            if other[0] != seq and not self.remark:
                why = "files of the same name overwrite each other"
                if self._warned:
                    why = f"{self._warned}, the warning of one, stops the others, too"
                self.remark = (
                    f"{_both(other, job)} run in one directory, {path}, where {why}. {{#}} is the "
                    "number of the job, as in --wd 'work/{#}'"
                )


def _both(*jobs: tuple[int, Sequence[str]]) -> str:
    return " and ".join(job_text(seq, shortened(record)) for seq, record in jobs)


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
