"""Command lines as getopt_long(3) reads them, with its very messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class BadUse(Exception):
    """A command line that cannot be understood; the text is what Slurm prints.

    Attributes:
        status: the exit status; None for that of the command.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


def error_status(environment: Mapping[str, str]) -> int:
    """Return the exit status of sbatch and srun where Slurm refuses what they ask for."""
    text = environment.get("SLURM_EXIT_ERROR", "")
    return int(text) % 256 if text.isascii() and text.isdecimal() else 1


def umask_of(environment: Mapping[str, str], umask: int) -> int:
    """Return the umask of a job or step: that of ``SLURM_UMASK``, if it is an octal number.

    Args:
        umask: that of the process.
    """
    try:
        return int(environment["SLURM_UMASK"], 8) & 0o777
    except (KeyError, ValueError):
        return umask


def is_set(value: str) -> bool:
    """Return True if a variable gives a flag: by "yes", a number other than 0, or nothing."""
    digits = value.lstrip().lstrip("+-")
    rest = digits.lstrip("0123456789")  # which does not matter, as strtol(3) reads numbers
    return value.lower() in ("", "yes") or bool(digits[: len(digits) - len(rest)].strip("0"))


class SlurmOption(NamedTuple):
    """An option of a command.

    Attributes:
        name: the long one, without dashes; "" if there is none.
        short: one letter; "" if there is none.
        takes: whether it has an argument.
    """

    name: str
    short: str = ""
    takes: Literal["no", "one", "maybe"] = "one"


class Parsed(NamedTuple):
    """A command line.

    Attributes:
        given: options with their arguments, in their order; "" for none.
        rest: the other words.
    """

    given: list[tuple[str, str]]
    rest: list[str]

    def all(self, name: str) -> list[str]:
        """Return the arguments of an option, as often as it was given."""
        return [value for given, value in self.given if given == name]

    def last(self, name: str, default: str = "") -> str:
        """Return the argument of an option that was given last."""
        return ([default, *self.all(name)])[-1]

    def words(self, *names: str, otherwise: str = "") -> set[str]:
        """Return the words in the lists that options give; those of a text if none is given."""
        text = ",".join(self.last(name) for name in names if self.has(name)) or otherwise
        return {word for word in text.split(",") if word}

    def has(self, name: str) -> bool:
        """Return True if an option was given."""
        return any(given == name for given, _ in self.given)


def options(text: str) -> tuple[SlurmOption, ...]:
    """Return options from a table in which each is a word.

    Args:
        text: as ``name,n= other,O flag only=?``: after a comma comes the short one; ``=`` is for an
            argument, and ``=?`` for one that may be left out.
    """
    found = []
    for word in text.split():
        names, equals, maybe = word.partition("=")
        name, _, short = names.partition(",")
        takes: Literal["no", "one", "maybe"] = "maybe" if maybe else "one" if equals else "no"
        found.append(SlurmOption(name, short, takes))
    return tuple(found)


def parse(
    command: str, words: Sequence[str], table: Iterable[SlurmOption], *, permute: bool = True
) -> Parsed:
    """Return the options and the other words of a command line.

    Args:
        command: its name, for messages.
        words: without the command itself.
        table: its options; a long one may be abbreviated where that is unique.
        permute: True if options may follow other words.

    Raises:
        BadUse: as getopt_long(3) says it.
    """
    by_name = {option.name: option for option in table if option.name}
    by_letter = {option.short: option for option in table if option.short}
    given: list[tuple[str, str]] = []
    rest: list[str] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        if word == "--":
            rest += reversed(left)
            break
        if word.startswith("--"):
            _long(command, word, by_name, left, given)
        elif word.startswith("-") and word != "-":
            _short(command, word, by_letter, left, given)
        else:
            rest.append(word)
            if not permute:
                rest += reversed(left)
                break
    return Parsed(given, rest)


def _long(
    command: str,
    word: str,
    table: dict[str, SlurmOption],
    left: list[str],
    given: list[tuple[str, str]],
) -> None:
    name, equals, value = word[2:].partition("=")
    found = [table[name]] if name in table else [o for n, o in table.items() if n.startswith(name)]
    if not found:
        raise _advised(command, f"unrecognized option '{word}'")
    if len(found) > 1:
        several = " ".join(f"'--{option.name}'" for option in found)
        raise _advised(command, f"option '{word}' is ambiguous; possibilities: {several}")
    option = found[0]
    if equals and option.takes == "no":
        raise _advised(command, f"option '--{option.name}' doesn't allow an argument")
    if not equals and option.takes == "one":
        if not left:
            raise _advised(command, f"option '--{option.name}' requires an argument")
        value = left.pop()
    given.append((option.name or option.short, value))


def _short(
    command: str,
    word: str,
    table: dict[str, SlurmOption],
    left: list[str],
    given: list[tuple[str, str]],
) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = table.get(letter)
        if option is None:
            raise _advised(command, f"invalid option -- '{letter}'")
        value = ""
        if option.takes != "no":
            value, letters = letters, ""
            if not value and option.takes == "one":
                if not left:
                    raise _advised(command, f"option requires an argument -- '{letter}'")
                value = left.pop()
        given.append((option.name or option.short, value))


def _advised(command: str, text: str) -> BadUse:
    return BadUse(f'{command}: {text}\nTry "{command} --help" for more information')
