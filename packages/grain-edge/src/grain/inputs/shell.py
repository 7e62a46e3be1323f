r"""Values in a line for sh(1): passed as parameters, and never as a part of its text.

The shell gets ``_grain1=$1; shift 1; TEXT``, in which TEXT is the line with ``"${_grain1}"`` in the
place of a value, and the values as arguments. It does not read the result of an expansion as
commands, so a value cannot be run by being there, whatever its bytes are.

Two things decide about a value:

- `find_places` says whether a place is within double quotes, and refuses those where the shell
  expands nothing. It is a small lexer. A mistake of it can never run a value: only split it in
  words, or print the variable's name in its place.
- `find_danger` searches the text for what evaluates text once more: in bash, ``$((x))`` runs the
  program in ``x='a[$(program)]'``. It parses nothing, as what it does not find would run: it
  searches for words and characters anywhere, and refuses values that it could allow.

(POSIX.1-2017, Shell Command Language, 2.2 Quoting, 2.3 Token Recognition, 2.6 Word Expansions;
bash(1), ARITHMETIC EVALUATION, Arrays, ``[[``, SHELL BUILTIN COMMANDS.)
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from grain.inputs.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Sequence

# A hole in the text of a line; no argument of a program contains this character.
HOLE = "\0"
_SAFE = r"A-Za-z0-9_./:@%+\-"
_BARE = re.compile(rf"[{_SAFE}]+", re.ASCII)
_BEFORE = re.compile(rf"\A|[{_SAFE}=\s;|&(]", re.ASCII)
_AFTER = re.compile(rf"\Z|[{_SAFE}\s;|&)]", re.ASCII)
_ASSIGNMENTS = r"(?:\w+\+?=[^\s;&|()]*\s+)*"
# The end of a text after which a word is read as the name of a command: it may be reserved there.
_COMMAND = re.compile(
    r"(?:\A|[;&|(]|(?<!\\)\n|(?<!\S)(?:if|then|else|elif|do|while|until|time|coproc|for|"
    rf"select|!|\{{)\s)\s*{_ASSIGNMENTS}[^\s;&|()<>\"'$=]*\Z"
)
_INDEX = re.compile(r"\w+(?::(?![-=?+])|\[).*", re.DOTALL)


class PlaceKind(Enum):
    """The kinds of places for a value in a line for sh."""

    WORD = "outside of quotes"
    QUOTED = "in double quotes"
    NUMBER = "where only a plain number may stand"
    REFUSED = "where only the numbers of jobs and slots may stand, as text"
    NOTHING = "where nothing may stand"


class ValuePlace(NamedTuple):
    """The place of one value.

    Attributes:
        where: the place, as part of a sentence: "single quotes".
        bare: True if a value that the shell reads as it is may be written without quotes.
    """

    kind: PlaceKind
    where: str = ""
    bare: bool = True

    def expansion(self, variable: str) -> str:
        """Return the expansion of a variable in this place."""
        return f'"${{{variable}}}"' if self.kind is PlaceKind.WORD else f"${{{variable}}}"

    def written(self, value: str) -> str:
        """Return a value as one would type it in this place."""
        if self.kind is PlaceKind.QUOTED:
            # In an interactive bash, "!" stands for an earlier command in double quotes, too.
            return re.sub(r'([$`"\\])', r"\\\1", value).replace("!", "\"'!'\"")
        if self.kind is not PlaceKind.WORD or (self.bare and _BARE.fullmatch(value)):
            return value
        return "'" + value.replace("'", "'\"'\"'") + "'"


def is_number(value: str) -> bool:
    """Return True for a plain number: whole, and without zeros before it, which make it octal."""
    return re.fullmatch(r"[+-]?(?:0|[1-9][0-9]*)", value) is not None


def find_places(line: str) -> list[ValuePlace]:
    """Return the place of each `HOLE` in a line for sh.

    Raises:
        TemplateError: the line ends within quotes or an expansion.
    """
    return _Lexer(line).places()


class _Lexer:
    """A reader of one line for sh, as far as it takes to know what is quoted.

    `_frames` are the syntaxes that are open, by what begins them: `"`, `$(`, `$((` or `${`; each
    with its position. `_depths` are the numbers of parentheses that are open in them. Commands are
    read in `$(` and outside of all (`""`). After what it cannot follow (`_lost`), every place is
    refused. `_begin` is where the text begins that can say whether a command's name is next.
    """

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._places: list[ValuePlace] = []
        self._frames: list[tuple[str, int]] = [("", 0)]
        self._depths = [0]
        self._lost = ""
        self._begin = 0
        self._here_documents: list[tuple[str, bool]] = []

    def places(self) -> list[ValuePlace]:
        """Read the line, and return the places of its holes."""
        while self._at < len(self._line) and not self._lost:
            self._step()
        if self._lost:
            self._pass(len(self._line), f"what follows {self._lost}, which grain map cannot read")
        elif opener := self._frames[-1][0]:
            self._refuse_open(opener)
        return self._places

    def _step(self) -> None:
        char, (opener, _) = self._line[self._at], self._frames[-1]
        if char == HOLE:
            self._hole(opener)
        elif char == "\\":
            if self._line[self._at + 1 : self._at + 2] == HOLE:
                self._places.append(ValuePlace(PlaceKind.NOTHING, r"the place after a \ "[:-1]))
            self._at += 2
        elif char == "`":
            self._quotes(r"`(?:\\.|[^`\\])*`", "backquotes")
        elif char == "$":
            self._dollar(in_quotes=opener == '"')
        elif opener == '"':
            self._at += 1
            if char == '"':
                self._close()
        elif opener == "${":
            self._lost = f"{char} in ${{ }}" if char in "'\"" else ""
            self._at += 1
            if char == "}":
                self._close()
        elif char in "()":
            self._parenthesis(char, opener)
        elif opener == "$((":
            self._lost = f"{char} in $(( ))" if char in "'\"" else ""
            self._at += 1
        else:
            self._command(char, opener)

    def _command(self, char: str, opener: str) -> None:
        line, at = self._line, self._at
        begins_word = at == 0 or line[at - 1] in " \t\n;|&()"
        if char == "'":
            self._quotes(r"'[^']*'", "single quotes")
        elif char == '"':
            self._open('"')
        elif char == "#" and begins_word:
            end = line.find("\n", at)
            self._pass(len(line) if end < 0 else end, "a comment")
        elif line.startswith("<<", at):
            self._here_document()
        elif char == "\n":
            self._at += 1
            self._bodies()
        elif opener and begins_word and re.compile(r"case\s").match(line, at):
            self._lost = "`case` in $( )"  # the parentheses of its patterns have no partners
        else:
            self._at += 1

    def _hole(self, opener: str) -> None:
        line, at = self._line, self._at
        if opener == '"':
            place = ValuePlace(PlaceKind.QUOTED)
        elif opener == "$((":
            place = ValuePlace(PlaceKind.NUMBER, "arithmetic")
        elif opener == "${" and _INDEX.fullmatch(line, self._frames[-1][1] + 2, at):
            place = ValuePlace(PlaceKind.NUMBER, "an index")
        elif opener == "${":
            place = ValuePlace(PlaceKind.REFUSED, "${ }")
        else:
            before = line[:at]
            place = ValuePlace(
                PlaceKind.WORD,
                bare=_BEFORE.fullmatch(before[-1:]) is not None
                and _AFTER.fullmatch(line[at + 1 : at + 2]) is not None
                and _COMMAND.search(before[self._begin :]) is None
                and before.rfind("[[ ") <= before.rfind(" ]]"),
            )
        self._places.append(place)
        self._at += 1

    def _dollar(self, *, in_quotes: bool) -> None:
        rest = self._line[self._at : self._at + 3]
        if rest[1:2] == HOLE:
            self._places.append(ValuePlace(PlaceKind.NOTHING, "the place after a $"))
            self._at += 2
        elif rest.startswith("$'") and not in_quotes:
            self._quotes(r"\$'(?:\\.|[^'\\])*'", "$'...'")
        else:
            opener = next((one for one in ("$((", "$(", "${") if rest.startswith(one)), "")
            if opener:
                self._open(opener)
            else:
                self._at += 1

    def _parenthesis(self, char: str, opener: str) -> None:
        self._at += 1
        if char == "(":
            self._depths[-1] += 1
        elif self._depths[-1]:
            self._depths[-1] -= 1
        elif opener == "$((":
            if self._line[self._at : self._at + 1] != ")":
                self._lost = "$(( that is not arithmetic"
            self._at += 1
            self._close()
        elif opener:
            self._close()
        else:  # of a pattern of `case`, which a command follows
            self._begin = self._at

    def _open(self, opener: str) -> None:
        self._frames.append((opener, self._at))
        self._depths.append(0)
        self._at += len(opener)

    def _close(self) -> None:
        self._frames.pop()
        self._depths.pop()

    def _quotes(self, pattern: str, where: str) -> None:
        """Go on after quotes in which nothing is expanded."""
        quotes = re.compile(pattern, re.DOTALL).match(self._line, self._at)
        if quotes is None:
            self._refuse_open(where)
        else:
            self._pass(quotes.end(), where)

    def _here_document(self) -> None:
        word = re.compile(r"<<(-?)[ \t]*(['\"\\]?[\w.-]+['\"]?)(?![^\s;&|<>()])").match(
            self._line, self._at
        )
        if self._line.startswith("<<<", self._at):
            self._at += 3
        elif word is None:
            self._lost = "<<"
        else:
            self._here_documents.append((word[2].strip("'\"\\"), bool(word[1])))
            self._at = word.end()

    def _bodies(self) -> None:
        """Go on after the bodies of the here-documents that begin at this line."""
        for word, tabs in self._here_documents:
            last = re.compile(rf"^{chr(9) + '*' if tabs else ''}{re.escape(word)}$", re.MULTILINE)
            end = last.search(self._line, self._at)
            self._pass(end.end() if end else len(self._line), "a here-document")
        self._here_documents = []

    def _pass(self, end: int, where: str) -> None:
        """Go on at a position, with a place for no value where one is on the way."""
        for hole in re.compile(HOLE).finditer(self._line, self._at, end):
            escaped = self._line[hole.start() - 1] in "$\\" and where != "single quotes"
            self._places.append(
                ValuePlace(PlaceKind.NOTHING if escaped else PlaceKind.REFUSED, where)
            )
        self._at = end

    def _refuse_open(self, what: str) -> None:
        raise TemplateError(
            f"the line for sh ends within {what}, which nothing closes: "
            f"{self._line.replace(HOLE, '{}')}"
        )


# Words that are shells, and parts of a line that evaluate text.
_SHELLS = r"(?:[bd]?ash|sh|[mk]?ksh|pdksh|yash|zsh|t?csh|fish|rbash|busybox)(?:-?\d[\d.]*|-static)?"
_SHELL = rf"(?<![\w.-]){_SHELLS}(?![\w-]|\.\w)"
# A shell that runs a script of the user's: its arguments are those of a program.
_OWN_SCRIPT = re.compile(
    rf"(?<![\w.-])(?!busybox){_SHELLS}(?:[ \t]+-[aefuvx]+)*[ \t]+"
    rf"(?!-|/dev|/proc|{_SHELLS}(?!\S))[\w./+-]+(?=[\s;&|)<>]|\Z)"
)
_DECLARE = r"(?:declare|typeset|local|readonly|export)"
_NAMING = rf"(?:{_DECLARE}|unset|read|mapfile|readarray|getopts)"
_REST = r"[^;|&<>()\n]*"  # of a command
_START = (
    r"(?:\A|[;&|(){}`!\n]|(?<![\w-])(?:if|then|elif|else|do|while|until|time|command|builtin|exec)"
    rf"\s)\s*{_ASSIGNMENTS}"
)
_INTEGERS = r"(?:S?RANDOM|SECONDS|OPTIND|HISTCMD|LINENO|BASHPID|EPOCHSECONDS)"
_NUMBERS_ONLY = [
    _SHELL,
    r"(?<![\w./-])(?:eval|trap|source|alias)(?![\w./-])",
    rf"(?<![\w./-])(?:fc|bind|complete|compgen|enable|jobs)\s+[-$`{HOLE}]",
    rf"{_START}\.[ \t]",
    r"(?<!\w)(?:PS\d|PROMPT_COMMAND|BASH_ENV|ENV|SHELL|BASH)(?!\w)",
    # The shell that reads the line, by its own name or its own file.
    rf"{_START}\$0(?!\w)",
    r"\$0\s+-",
    r"/proc/[^\s/]*/exe(?!\w)",
    r"\$\{!",
    r"\$\{[^}]*@",
    rf"\b(?:mapfile|readarray)\b{_REST}\s-\w*[cC]",
    rf"\b{_DECLARE}\b{_REST}\s[-+]\w*n\b",
    # A variable whose name is an expansion.
    rf"{_START}{_NAMING}(?:\s+[^\s;|&<>()]+)*?\s+[^\s=;|&<>()]*[$`{HOLE}]",
    rf"\b(?:printf\s+-v|wait\s+-\w*p)\s*[^\s=;|&<>()]*[$`{HOLE}]",
    # After `>&`, bash expands a word that is not a descriptor, and then expands the result again.
    r"[<>]&(?!\s*(?:\d+-?|-)(?![^\s;|&<>()`}]))",
    # A format may be an option.
    rf"\bprintf\s+(?:-v\s*\S+\s+)?[$`{HOLE}]",
]
_TEXT_ONLY = [
    r"\(\(",
    r"\$\[",
    r"\[\[",
    r"\w\[",
    r"=\(",
    r"\$\{(?!#?\w+(?:\}|:[-+]|[-+%#/]))",
    # Variables that are integers: bash evaluates what is assigned to them.
    rf"(?<!\w){_INTEGERS}\+?=",
    rf"\b(?:for|select)\s+{_INTEGERS}(?!\w)",
    rf"(?<![\w./-])(?:let|{_NAMING})(?![\w./-])",
    r"\bprintf\s+-\w*v",
    rf"\bwait\s{_REST}[-${HOLE}]",
    # `test -v` evaluates subscripts, and values may be `-v`.
    r"(?<![\w./-])test\s",
    r"(?<![^\s;&|(){}!`])\[\s",
]
_WORD = rf"(?:[\w./:@%+{HOLE}-]+|\"(?:[^\"`$\\]|\$\w+|\$\{{\w+\}})*\")"
# Tests whose words have one meaning, as their number is known.
_HARMLESS_TEST = re.compile(
    rf"(?<!\S)(?P<bracket>\[)?(?(bracket)|test)[ \t]+(?:![ \t]+)?"
    rf"(?:-[bcdefghknprsuwxzLOSGN][ \t]+{_WORD}|{_WORD}[ \t]+!?==?[ \t]+{_WORD})"
    rf"(?(bracket)[ \t]+\]|)(?=[ \t]*(?:[;&|)}}\n]|\Z))"
)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
# What shells put into these comes from other places than the line.
_SPECIAL = {"_", "REPLY", "MAPFILE", "OPTARG", "BASH_REMATCH", "COPROC"}
_FORBIDDEN = re.compile(r"""[$`\[\]()\\"'<>;&|{}!#*?~=\x00-\x1f\x7f]""")


class Danger(NamedTuple):
    """A part of a text that evaluates text.

    Attributes:
        numbers_only: True if only plain numbers may be near it; else text is harmless that has no
            special characters and no names of the line.
        touching: True if a value stands beside a letter or another value, and makes a name with it.
    """

    part: str
    numbers_only: bool
    names: frozenset[str] = frozenset()
    touching: bool = False

    def objection(self, value: str) -> str:
        """Return a clause on what is wrong with a value, or an empty one if it may be there."""
        if is_number(value):
            return ""
        if self.numbers_only:
            return "only a plain number, as 7 or -12, may be in such a command"
        if re.fullmatch(r"[+-]?[0-9]+", value):
            return f"zeros before a number make it octal. Write {int(value[:300])}"
        if special := _FORBIDDEN.search(value):
            return f"no value with a {special[0]!r} may be in such a command"
        for name in _IDENTIFIER.findall(value):
            if name in self.names or (self.touching and any(name in one for one in self.names)):
                return f"`{name}` may be a variable of the command"
        return ""


def find_danger(text: str) -> Danger | None:
    """Return the worst part of a text for shells that evaluates text; None if there is none.

    Args:
        text: the text, with `HOLE` for each value.
    """
    plain, untested = _plain(text), _plain(_HARMLESS_TEST.sub(" ", text))
    for patterns, searched, numbers_only in (
        (_NUMBERS_ONLY, _OWN_SCRIPT.sub(" ", plain), True),
        (_TEXT_ONLY, untested, False),
    ):
        for pattern in patterns:
            if found := re.search(pattern, searched):
                names = re.findall(r"(?<![\w.])(?<!\s-)(?<!\s--)[^\W\d]\w*", plain)
                touching = re.search(rf"\w{HOLE}|{HOLE}[\w{HOLE}]", plain) is not None
                part = found[0].replace(HOLE, "{}").strip()
                return Danger(part, numbers_only, frozenset({*names, *_SPECIAL}), touching)
    return None


def _plain(text: str) -> str:
    """Return a text without quotes and backslashes, only to find words that these would hide.

    An expansion before a word may be empty: $1eval and $x'eval' may be eval.
    """
    return re.sub(r"\\\n|[\\'\"]", "", re.sub(r"(\$\w+(?=[\\'\"])|\$\d)", r"\1 ", text))


def code_words(words: Sequence[str]) -> set[int]:
    """Return the indices of those words of a command that a shell reads as a script.

    They follow ``-c`` of a shell, as in ``env sh -ec SCRIPT``.
    """
    scripts: set[int] = set()
    for i, word in enumerate(words):
        if not _is_shell(word):
            continue
        script, j = False, i + 1
        while j < len(words) and (words[j][:1] in ("-", "+") or _is_shell(words[j])):
            script |= re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*|--command", words[j]) is not None
            # The name of an option is a word of its own, as in -euo pipefail.
            takes_word = r"[-+][A-Za-z]*[oO]|--rcfile|--init-file"
            j += 2 if re.fullmatch(takes_word, words[j]) else 1
        if script and j < len(words):
            scripts.add(j)
    return scripts


def find_danger_in_words(words: Sequence[str]) -> Danger | None:
    """Return the worst part of a command that gives scripts to shells; None if there is none."""
    scripts = code_words(words)
    if not scripts:
        return None
    texts = [word for i, word in enumerate(words) if i in scripts or not _is_shell(word)]
    return find_danger("\n".join(texts))


def _is_shell(word: str) -> bool:
    return re.fullmatch(_SHELLS, word.rpartition("/")[2]) is not None
