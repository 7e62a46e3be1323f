"""Options on command lines and in directives, and the refusal of what is not known."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


class Refused(Exception):
    """A command fails.

    Attributes:
        code: Its exit code.
    """

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Answer:
    """The output of a command, and its exit code."""

    out: str = ""
    err: str = ""
    code: int = 0


@dataclass
class Asked:
    """One command as it was typed."""

    command: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: str


@dataclass
class Options:
    """The options of a command: option to key. A key that ends in "!" takes no value."""

    keys: dict[str, str]
    command: str
    code: int = 1
    values: dict[str, list[str]] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)

    def read(self, words: list[str]) -> Options:
        """Read words as getopt does: options, their values, and the rest.

        Raises:
            Refused: An option is unknown.
        """
        left = list(words)
        while left:
            word = left.pop(0)
            name, equals, value = word.partition("=")
            if not word.startswith("-") or word == "-":
                # As sbatch does: what follows the script is the script's.
                self.rest.append(word)
            elif name.startswith("--"):
                key = self._key(name)
                self._add(key, value if equals else self._value(key, left))
            else:
                key = self._key(word[:2])
                given = word[2:].removeprefix("=")
                self._add(key, given or self._value(key, left))
        return self

    def _key(self, name: str) -> str:
        if name not in self.keys:
            kind = "unrecognized option" if name.startswith("--") else "invalid option --"
            shown = f"'{name}'" if name.startswith("--") else f"'{name[1:]}'"
            raise Refused(
                f"{self.command}: {kind} {shown}\n"
                f'Try "{self.command} --help" for more information\n'
                f"(this is a fake, which knows {' '.join(sorted(self.keys))})",
                self.code,
            )
        return self.keys[name]

    def _value(self, key: str, left: list[str]) -> str:
        return "" if key.endswith("!") or not left else left.pop(0)

    def _add(self, key: str, value: str) -> None:
        self.values.setdefault(key.rstrip("!"), []).append(value)

    def get(self, key: str, default: str = "") -> str:
        """The last value given, or the default."""
        return self.values.get(key, [default])[-1]

    def has(self, key: str) -> bool:
        """Return True if the option was given."""
        return key in self.values


def directives(script: str, prefix: str, *, comments: bool) -> list[str]:
    """The words of a script's directives, up to its first command.

    Args:
        script: The script.
        prefix: What such a line begins with.
        comments: Whether a "#" outside of quotes ends a line, as in Slurm.
    """
    options: list[str] = []
    for line in script.splitlines()[1:]:
        if line.startswith(prefix + " "):
            options += split(line[len(prefix) :], comments=comments)
        elif line.strip() and not line.startswith("#"):
            break
    return options


def split(line: str, *, comments: bool) -> list[str]:
    """Split a line at spaces; quotes join, a backslash takes the next character as it is."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    characters = iter(line)
    for character in characters:
        if character == "\\":
            word = (word or "") + next(characters, "")
        elif quote:
            quote, word = ("", word) if character == quote else (quote, (word or "") + character)
        elif character in "\"'":
            quote, word = character, word or ""
        elif character == "#" and comments:
            break
        elif character.isspace():
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + character
    return words + ([] if word is None else [word])


def script_of(asked: Asked, rest: list[str], refusal: str) -> str:
    """The text of the script that a command names, or that it reads from standard input.

    Raises:
        Refused: It cannot be read.
    """
    if not rest:
        return asked.stdin
    try:
        with open(os.path.join(asked.cwd, rest[0])) as file:  # noqa: PTH118, PTH123 - words, not paths
            return file.read()
    except OSError:
        raise Refused(refusal.format(name=rest[0])) from None
