r"""The command template: what stands in braces is replaced by the input.

The replacements have GNU parallel's names and meanings (its manual, section OPTIONS):

==========  ==================================================================================
``{}``      the input; all columns, if there are several
``{.}``     without its extension
``{/}``     without its directories
``{//}``    its directory
``{/.}``    without both
``{#}``     the sequence number of the job, from 1
``{%}``     the slot of the job: no two jobs that run at a time have the same
``{2}``     the second column, also as ``{2.}``, ``{2/}``, ``{2//}``, ``{2/.}``
``{name}``  the column of this name, where there is a header; with the same endings
==========  ==================================================================================

Without any of them, ``{}`` is appended, if that is wanted. A template is either the words of an
argument vector, which no shell ever sees, or one line for ``sh``, which gets values as parameters:
see `shell`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.inputs.errors import InputError, TemplateError
from grain.inputs.shell import (
    HOLE,
    Danger,
    PlaceKind,
    ValuePlace,
    code_words,
    find_danger,
    find_danger_in_words,
    find_places,
    is_number,
)
from grain.resource.figures import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ENDINGS = r"(?P<ending>//|/\.|/|\.)?"
_PLAIN = re.compile(r"\{(?:(?P<mark>[#%])|(?P<number>[0-9]+)?" + _ENDINGS + r")\}")
# Replacements of GNU parallel that are missing here: leaving them as they stand would be a silent
# mistake.
_FOREIGN = re.compile(r"\{(?:=.*?=|\+\+?[/.]+|-[0-9]+[/.]*|[0-9]*(?:\.\.|/\.\.)\.?)\}", re.DOTALL)


SEQ, SLOT = -1, -2

_NO_PLACE = ValuePlace(PlaceKind.WORD)
_SCRIPT = 'Write a script of your own, which takes the value as "$1"'
_ARGUMENT = (
    "Give the value to the script as an argument, as in sh -c '... \"$1\"' sh {}; with `grain map` "
    "you can also use --shell instead of sh -c"
)


@dataclass(frozen=True)
class Hole:
    """A place to fill in.

    Attributes:
        column: the index of the column; None for all columns, `SEQ` for the sequence number, `SLOT`
            for the slot.
        ending: the change to the value: "", ".", "/", "//" or "/.".
    """

    column: int | None
    ending: str
    written: str

    @property
    def is_number(self) -> bool:
        """True for the number of the job or its slot, which comes from no input."""
        return self.column in (SEQ, SLOT)


class Template:
    """A command with holes.

    Args:
        words: the program and its arguments; with ``shell`` one word, a line for ``sh``. No words
            with ``shell``: each input is such a line.
        path: True if the template is one word, the name of a file, and no command.
        append: True to append ``{}`` to a template that is written without holes.

    Attributes:
        plain: True if it was written without holes.
        uses_slot: True if there is a `{%}` in it.
        uses_seq: True if there is a `{#}` in it.

    Raises:
        TemplateError: no program, a hole that no input can fill, or a hole that cannot be quoted.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        shell: bool = False,
        names: Sequence[str] = (),
        width: int | None = None,
        path: bool = False,
        append: bool = True,
    ) -> None:
        self.shell = shell
        self._as_line = shell and not words
        if not path:
            self._check(words)
        self._names = {name: i for i, name in enumerate(names)}
        self._width = width
        self._words = [self._parse(word) for word in words]
        everything = Hole(None, "", "{}")
        self.plain = not any(isinstance(part, Hole) for word in self._words for part in word)
        if append and not self._as_line and self.plain:
            self._words = (
                [[*self._words[0], " ", everything]] if shell else [*self._words, [everything]]
            )
        holes = [part for word in self._words for part in word if isinstance(part, Hole)]
        self.uses_slot = any(hole.column == SLOT for hole in holes)
        self.uses_seq = any(hole.column == SEQ for hole in holes)
        self._places: list[ValuePlace] = []
        # The words that a shell reads as a script, though the template is none.
        self._scripts: set[int] = set()
        # What evaluates text: for inputs of one column, and of several.
        self._dangers: tuple[Danger | None, Danger | None] = (None, None)
        if shell and words:
            self._places = find_places(_text(self._words[0]))
            for hole, place in zip(holes, self._places, strict=True):
                _check_place(hole, place)
            one, several = (_text(self._words[0], wide=wide) for wide in (False, True))
            self._dangers = find_danger(one), find_danger(several)
            self._variable = "_grain"
            while self._variable in one:
                self._variable += "_"
        elif not shell and not path:
            self._scripts = code_words(words)
            danger = find_danger_in_words([_text(word) for word in self._words])
            self._dangers = danger, danger

    def argv(self, seq: int, record: Sequence[str], slot: int | None = None) -> list[str]:
        """Return the argument vector of one job.

        Args:
            slot: the slot of the job; None leaves ``{%}`` as it is.

        Raises:
            InputError: the input lacks a column, or may not stand where it would.
        """
        if self._as_line:
            return ["sh", "-c", " ".join(record)]
        if self.shell:
            return self._shell_argv(seq, record, slot)
        self._check_values(seq, record)
        return [text for word in self._words for text in self._arguments(word, seq, record, slot)]

    def command(self, seq: int, record: Sequence[str], slot: int | None = None) -> str:
        """Return the command of one job as one would type it, for the result log.

        Arguments and errors are those of `argv`.
        """
        if self._as_line:
            return " ".join(record)
        if not self.shell:
            return shlex.join(self.argv(seq, record, slot))
        self._check_values(seq, record)
        return "".join(
            part
            if isinstance(part, str)
            else " ".join(
                # What stands for the slot of a job in the log is not a word of the shell.
                value if part.column == SLOT and slot is None else place.written(value)
                for value in self._values(part, seq, record, slot)
            )
            for part, place in self._placed()
        )

    def fill(self, seq: int, record: Sequence[str], slot: int | None = None) -> str:
        """Return all words joined, with nothing quoted, for the names of files and for tags."""
        return " ".join(self._joined(word, seq, record, slot) for word in self._words)

    def _shell_argv(self, seq: int, record: Sequence[str], slot: int | None) -> list[str]:
        """Return the arguments of sh: its line without values, and the values as parameters."""
        self._check_values(seq, record)
        numbers: dict[str, int] = {}  # of the variables of values
        texts = []
        for part, place in self._placed():
            if isinstance(part, str):
                texts.append(part)
                continue
            values = self._values(part, seq, record, slot)
            if part.is_number:
                texts += [place.written(value) for value in values]
            else:
                at = [numbers.setdefault(value, len(numbers) + 1) for value in values]
                texts.append(" ".join(place.expansion(f"{self._variable}{i}") for i in at))
        if not numbers:
            return ["sh", "-c", "".join(texts)]
        # Functions and `set --` of the line have parameters of their own.
        sets = " ".join(f"{self._variable}{i}=${{{i}}}" for i in numbers.values())
        line = f"{sets}; shift {len(numbers)}; {''.join(texts)}"
        return ["sh", "-c", line, "sh", *numbers]

    def _placed(self) -> Iterator[tuple[str | Hole, ValuePlace]]:
        """Yield the parts of the line for sh, and the places of holes."""
        places = iter(self._places)
        for part in self._words[0]:
            yield part, _NO_PLACE if isinstance(part, str) else next(places)

    def _check_values(self, seq: int, record: Sequence[str]) -> None:
        """Refuse values that a shell would evaluate.

        Raises:
            InputError: there is one, or the input lacks a column.
        """
        danger = self._dangers[len(record) > 1]
        if danger is None and not self._scripts and not self._places:
            return
        places = iter(self._places)
        for i, word in enumerate(self._words):
            for hole in (part for part in word if isinstance(part, Hole)):
                place = next(places) if self.shell else _NO_PLACE
                if hole.is_number:
                    continue
                for value in self._values(hole, seq, record, None):
                    if i in self._scripts:
                        _check_number(hole, seq, value, "the script of another shell", _ARGUMENT)
                    elif place.kind is PlaceKind.NUMBER:
                        _check_number(hole, seq, value, place.where, _SCRIPT)
                    elif danger is not None and (objection := danger.objection(value)):
                        raise InputError(
                            f"{hole.written} of input {seq} is {_quoted(value)}, and the command "
                            f"has {danger.part!r}, where a shell may evaluate values: {objection}. "
                            f"{_SCRIPT}"
                        )

    def _arguments(
        self, word: list[str | Hole], seq: int, record: Sequence[str], slot: int | None
    ) -> list[str]:
        first = word[0] if word else ""
        if len(word) == 1 and isinstance(first, Hole) and first.column is None:
            # A word for each column, as a shell would make them.
            return [_ended(value, first.ending) for value in record]
        return [self._joined(word, seq, record, slot)]

    def _joined(
        self, word: list[str | Hole], seq: int, record: Sequence[str], slot: int | None
    ) -> str:
        return "".join(
            part if isinstance(part, str) else " ".join(self._values(part, seq, record, slot))
            for part in word
        )

    def _values(
        self, hole: Hole, seq: int, record: Sequence[str], slot: int | None
    ) -> Sequence[str]:
        if hole.column is None:
            return [_ended(value, hole.ending) for value in record]
        if hole.column == SEQ:
            return [str(seq)]
        if hole.column == SLOT:
            return [hole.written if slot is None else str(slot)]
        if hole.column >= len(record):
            raise InputError(
                f"{hole.written}: input {seq} has only {counted(len(record), 'column')}: "
                f"{' '.join(record)[:200]!r}"
            )
        return [_ended(record[hole.column], hole.ending)]

    def _check(self, words: Sequence[str]) -> None:
        if self.shell:
            if len(words) > 1:
                raise TemplateError(
                    "--shell takes the command as one word, in quotes, as in "
                    "--shell 'sort {} | uniq > {.}.txt'"
                )
            return
        if not words:
            raise TemplateError(
                "no command. Write one, as in: grain map wc -l {} ::: a.txt b.txt; or, to run "
                "every line of the input as a command of its own, add --shell"
            )
        if len(words) == 1 and re.search(r"\s", words[0]):
            raise TemplateError(
                f"{words[0]!r} is one word, so it would be the name of a program. Write it "
                f"without the quotes around it; or, for pipes and redirections, with --shell"
            )
        if not words[0]:
            raise TemplateError("the name of the program is empty")
        if re.match(r"\w+=", words[0], re.ASCII):
            raise TemplateError(
                f"{words[0]!r} would be the name of a program. If it is a variable, write it after "
                "`env`, as in: env X=1 prog {}. If it is a resource, it is part of -r, as in "
                "-r Cores=4,Memory=8"
            )

    def _parse(self, word: str) -> list[str | Hole]:
        """Split a word at its holes."""
        if foreign := _FOREIGN.search(word):
            raise TemplateError(
                f"{foreign[0]} is not known here; there are {{}}, {{.}}, {{/}}, {{//}}, {{/.}}, "
                "{#}, {%}, and with the number or name of a column {2}, {2.}, {name/}"
            )
        parts: list[str | Hole] = []
        position = 0
        for match in self._pattern().finditer(word):
            if match.start() > position:
                parts.append(word[position : match.start()])
            parts.append(self._hole(match))
            position = match.end()
        if position < len(word) or not parts:
            parts.append(word[position:])
        self._suspect([part for part in parts if isinstance(part, str)])
        return parts

    def _pattern(self) -> re.Pattern[str]:
        if not self._names:
            return _PLAIN
        longest = sorted(map(re.escape, self._names), key=len, reverse=True)
        return re.compile(
            r"\{(?:(?P<mark>[#%])|(?:(?P<name>" + "|".join(longest) + ")|(?P<number>[0-9]+))?"
            + _ENDINGS + r")\}"
        )  # fmt: skip

    def _hole(self, match: re.Match[str]) -> Hole:
        groups = match.groupdict()
        column: int | None = None
        if groups["mark"]:
            column = SEQ if groups["mark"] == "#" else SLOT
        elif groups.get("name") is not None:
            column = self._names[groups["name"]]
        elif groups["number"]:
            column = int(groups["number"]) - 1
            if column < 0 or (self._width is not None and column >= self._width):
                has = (
                    "at least one column" if self._width is None else counted(self._width, "column")
                )
                raise TemplateError(f"{match[0]}: an input has {has}, counted from 1")
        return Hole(column, groups["ending"] or "", match[0])

    def _suspect(self, literals: Sequence[str]) -> None:
        """Refuse a hole that looks like a misspelt name of a column."""
        if not self._names:
            return
        from difflib import get_close_matches  # only with a header

        for literal in literals:
            for braced in re.finditer(r"\{([^\W\d]\w*)(?:[/.]*)\}", literal):
                word = braced[1]
                near = get_close_matches(word, self._names, n=1, cutoff=0.7) or [
                    name for name in self._names if name.casefold().startswith(word.casefold())
                ]
                if near:
                    raise TemplateError(
                        f"{braced[0]}: no column has this name; did you mean {{{near[0]}}}? "
                        f"(If the braces are meant, write a space into them.)"
                    )


def _text(word: Sequence[str | Hole], *, wide: bool = False) -> str:
    """Return the text of a word, with a character for each hole.

    Args:
        wide: True for two words instead of a hole for all columns.
    """
    return "".join(
        part
        if isinstance(part, str)
        else (f"{HOLE} {HOLE}" if wide and part.column is None else HOLE)
        for part in word
    )


def _check_place(hole: Hole, place: ValuePlace) -> None:
    """Refuse a template with a hole where no value may stand."""
    if place.kind is PlaceKind.NOTHING or (place.kind is PlaceKind.REFUSED and not hole.is_number):
        raise TemplateError(
            f"{hole.written} stands in {place.where}, where the shell would not fill it in. Write "
            f"it without quotes or in double quotes, as in 'prog {{}} \"of {{}}\"'; or set a "
            f"variable before, as in 'x={{}}; ...'"
        )


def _check_number(hole: Hole, seq: int, value: str, where: str, advice: str) -> None:
    """Refuse a value that is not a plain number."""
    if is_number(value):
        return
    begin = f"{hole.written} of input {seq} is {_quoted(value)}, and stands in {where}, where"
    if re.fullmatch(r"[+-]?[0-9]+", value):
        plain = int(value[:300])
        raise InputError(f"{begin} zeros before a number make it octal. Write {plain}")
    raise InputError(
        f"{begin} a shell would run commands that are in it. Only a plain number, as 7 or -12, may "
        f"stand there. {advice}"
    )


def _quoted(value: str) -> str:
    return repr(value if len(value) <= 200 else f"{value[:200]}...")


def _ended(value: str, ending: str) -> str:
    """Return a value without extension, directories or both; or its directory."""
    if ending == "//":
        head, slash, _ = value.rstrip("/").rpartition("/")
        root = slash or (value[:1] if not value.strip("/") else "")
        return head.rstrip("/") or root or "."
    if "/" in ending:
        value = value.rpartition("/")[2]
    if "." in ending:
        value = re.sub(r"\.[^/.]*\Z", "", value)
    return value
