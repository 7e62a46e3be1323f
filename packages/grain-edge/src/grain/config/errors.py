"""The mistakes of a configuration, as values and as one exception."""

from __future__ import annotations

from typing import NamedTuple

# A user does not read more at a time; a file with thousands of unknown keys is not a configuration.
MOST_MISTAKES = 20


class Mistake(NamedTuple):
    """A mistake in a configuration.

    Attributes:
        key: the key's path as in the file, for instance ``script.walltime``; empty where the file
            as a whole is meant.
        text: the value found there, the values expected, and the remedy.
    """

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}" if self.key else self.text


class ConfigError(Exception):
    """The configuration cannot be used, and its author can change that.

    One exception carries every mistake found, as users repair a file in one sitting. Programs show
    its text as it is, without a traceback.

    Attributes:
        file: the file as the user named it, with line and column where they are known.
        mistakes: at least one, in the order in which they were found.
    """

    def __init__(self, file: str, mistakes: tuple[Mistake, ...]) -> None:
        # The arguments are kept as they are, so that the exception pickles.
        super().__init__(file, mistakes)
        self.file = file
        self.mistakes = mistakes

    def __str__(self) -> str:
        if len(self.mistakes) == 1:
            return f"{self.file}: {self.mistakes[0]}"
        lines = "".join(f"\n  {mistake}" for mistake in self.mistakes)
        first = "the first " if len(self.mistakes) >= MOST_MISTAKES else ""
        return f"{self.file}: {first}{len(self.mistakes)} mistakes{lines}"
