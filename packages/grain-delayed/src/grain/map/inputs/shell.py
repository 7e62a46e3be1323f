"""The places in a line for sh(1) where a value may stand, and how it is written there.

A value is data, whatever its bytes are: file names come from strangers. Where the shell reads plain
words, quotes make it one word. Three other kinds of places exist:

- Quotes, comments, backquotes, here-documents: the quotes around a value would end those of the
  template. Such a place is refused, as it is never needed: words may touch, as in
  ``"result of "{}``.
- Places that the shell evaluates once more: arithmetic, subscripts, ``eval``, the script of
  ``sh -c``. In bash the value ``a[$(program)]`` in ``$(( ))`` runs the program, quoted or not. Only
  a plain number may stand there.
- Variables, where the line has such an evaluation: in bash, ``$((x))`` evaluates the text of x. A
  value that may get into a variable has to be a plain number, too. The target of a redirection
  cannot get there, so ``n=$(wc -l < {}); echo $((n + 1))`` takes any file name.

`sh` may be dash, bash or busybox, so the rules are those of all of them. Where the scanner cannot
follow the line (backquotes, here-documents), everything that comes later is refused.
(POSIX.1-2017, Shell Command Language, 2.2 Quoting, 2.3 Token Recognition, 2.6.4 Arithmetic
Expansion; bash(1), ARITHMETIC EVALUATION, Arrays, ``[[``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# A hole in the text of a line; no argument of a program contains this character.
HOLE = "\0"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PARAMETER = re.compile(rf"{_NAME}|[0-9@*#?$!-]", re.ASCII)
_SAFE = r"A-Za-z0-9_./:@%+\-"
_BARE = re.compile(rf"[{_SAFE}]+", re.ASCII)
_BEFORE = re.compile(rf"[{_SAFE}=\s;|&(]", re.ASCII)
_AFTER = re.compile(rf"[{_SAFE}\s;|&)]", re.ASCII)
_ASSIGNMENT = re.compile(rf"{_NAME}(?:\[(?P<subscript>[^\]]*)\]?)?\+?=", re.ASCII)
# ${x:offset}, ${x[subscript]}: their text is arithmetic.
_INDEXED = re.compile(rf"#?{_NAME}(?::(?![-=?+])|\[(?![@*]\]))(?P<arithmetic>.*)", re.DOTALL)
# The beginnings of whatever evaluates variables, in text that is not scanned.
_MAY_EVALUATE = re.compile(
    r"\(\(|\$\[|\[\[|\$\{!|\$\{\w+[:\[]|@P|(?<!\w)(?:eval|let|declare|typeset|local|unset|read|"
    r"mapfile|readarray|printf|trap|alias|source|sh|\.)\s"
)

_RESERVED = {
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "esac", "!", "{", "}",
    "time", "coproc",
}  # fmt: skip
_PREFIXES = {"builtin", "command", "exec"}
_SHELLS = {
    "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "yash", "zsh",
}  # fmt: skip
# Commands of shells that evaluate their arguments, or subscripts in them.
_EVALUATING = {
    "alias", "bind", "compgen", "complete", "eval", "fc", "getopts", "let", "mapfile", "read",
    "readarray", "trap", "unset", "wait",
}  # fmt: skip
_DECLARING = {"declare", "export", "local", "readonly", "typeset"}
_READING = {"getopts", "mapfile", "read", "readarray"}
_COUNTING = {"exit", "return", "shift", "break", "continue"}
# Variables in which the shell itself runs substitutions.
_PROMPTS = re.compile(r"(?:PS[0-9]|ENV|BASH_ENV|PROMPT_COMMAND)\+?=")
_NUMERIC = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
_NAMED = {"-v", "-R"}


class Kind(Enum):
    """The kinds of places for a value in a line for sh."""

    WORD = "any value, quoted where it needs it"
    DIGITS = "digits, with a sign or without; zeros may lead"
    NUMBER = "a plain number"
    REFUSED = "no value but the numbers of jobs and slots"
    NOTHING = "nothing"


class Place(NamedTuple):
    """The place of one value.

    Attributes:
        kind: the values that may stand there.
        where: the place, as part of a sentence: "stands in arithmetic".
        advice: the sentence on what to write instead.
        bare: True if a value that the shell reads as it is may stand without quotes.
    """

    kind: Kind
    where: str = ""
    advice: str = ""
    bare: bool = False

    def accepts(self, value: str) -> bool:
        """Return True if a value may stand here."""
        if self.kind is Kind.NUMBER:
            return re.fullmatch(r"[+-]?(?:0|[1-9][0-9]*)", value) is not None
        if self.kind is Kind.DIGITS:
            return re.fullmatch(r"[+-]?[0-9]+", value) is not None
        return self.kind is Kind.WORD

    def written(self, value: str) -> str:
        """Return a value that is accepted as sh has to read it."""
        if self.bare and _BARE.fullmatch(value):
            return value
        return "'" + value.replace("'", "'\"'\"'") + "'"


_SCRIPT = 'Write a script that takes the value as "$1"'
_WITHOUT = "The value is quoted already: leave out the quotes around it"


def code_words(words: Sequence[str]) -> set[int]:
    """Return the indices of those words of a command that a shell reads as a script.

    They follow ``-c`` of a shell, as in ``env sh -ec SCRIPT``.
    """
    scripts: set[int] = set()
    for i, word in enumerate(words):
        if word.rpartition("/")[2] not in _SHELLS:
            continue
        script, j = False, i + 1
        while j < len(words) and (words[j][:1] in ("-", "+") or words[j] in _SHELLS):
            script |= re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*|--command", words[j]) is not None
            # The name of an option is a word of its own, as in -euo pipefail.
            takes_word = r"[-+][A-Za-z]*[oO]|--rcfile|--init-file"
            j += 2 if re.fullmatch(takes_word, words[j]) else 1
        if script and j < len(words):
            scripts.add(j)
    return scripts


def script_place() -> Place:
    """Return the place of a value in the script of a ``sh -c``."""
    return Place(
        Kind.NUMBER,
        "the script of another shell",
        "Use --shell instead of sh -c; or give the value to the script as an argument: "
        "sh -c '... \"$1\"' sh {}",
    )


def find_places(parts: Sequence[str | None]) -> list[Place]:
    """Return the place of each value in a line for sh.

    Args:
        parts: the text of the template; None for a value.
    """
    return _Scanner("".join(HOLE if part is None else part for part in parts)).places()


@dataclass
class _Word:
    """A word of a command, as far as it was read.

    Attributes:
        text: its text without quotes; `HOLE` for a value.
        holes: the values in it.
        inner: the values in command substitutions in it.
        expands: True if it contains an expansion.
        quoted: True if a part of it is quoted.
        target: True if it is the target of a redirection.
    """

    text: str = ""
    holes: list[int] = field(default_factory=list)
    inner: list[int] = field(default_factory=list)
    expands: bool = False
    quoted: bool = False
    target: bool = False

    @property
    def all(self) -> list[int]:
        """The values that are in it in any way."""
        return self.holes + self.inner


class _Syntax(Enum):
    COMMANDS = "commands"
    DOUBLE = "double quotes"
    ARITHMETIC = "arithmetic"
    PARAMETER = "a parameter expansion"
    ARRAY = "the list of an array"


@dataclass
class _Frame:
    """A part of the line with a syntax of its own, up to what closes it.

    Attributes:
        syntax: its syntax.
        closer: the character that closes it.
        substitution: True for ``$(``, whose output becomes part of a word.
        depth: the number of closers that are still to come, for arithmetic.
        text: what was read, for arithmetic and parameters.
        words: the words of the command that is being read.
        word: the word that is being read.
        target: True if the next word is the target of a redirection.
        conditional: True between ``[[`` and ``]]``.
        leaks: the values that commands in it get as arguments.
    """

    syntax: _Syntax
    closer: str = ""
    substitution: bool = False
    depth: int = 1
    text: str = ""
    words: list[_Word] = field(default_factory=list)
    word: _Word | None = None
    target: bool = False
    conditional: bool = False
    leaks: list[int] = field(default_factory=list)


class _Scanner:
    """A reader of one line for sh, which decides what may stand in its holes.

    Every hole gets a place when it is read, by the innermost syntax; the end of a command, and that
    of the line, may make it stricter. `_lost` is what the scanner cannot follow: with it, reading
    stops.
    """

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._places: list[Place] = []
        self._frames = [_Frame(_Syntax.COMMANDS)]
        self._lost = ""
        # Values that get into variables, and whether anything evaluates variables.
        self._stored: set[int] = set()
        self._evaluates = False
        self._passes_all = False

    def places(self) -> list[Place]:
        """Read the line, and return the places of its holes."""
        while self._at < len(self._line) and not self._lost:
            self._step()
        if self._lost:
            rest = self._line[self._at :]
            for at in (i for i in range(self._at, len(self._line)) if self._line[i] == HOLE):
                escaped = self._line[:at][-1:] in ("$", "\\")
                self._places.append(
                    Place(
                        Kind.NOTHING if escaped else Kind.REFUSED,
                        f"the shell command after {self._lost}",
                        "Use a variable, as in --shell 'x={}; ...', or put the command into a "
                        "script",
                        bare=True,
                    )
                )
            self._evaluates |= bool(_MAY_EVALUATE.search(rest))
            self._passes_all |= bool(_MAY_EVALUATE.search(rest))
        while len(self._frames) > 1:
            self._pop()
        self._end_command()
        if self._evaluates:
            stored = self._stored | set(self._frames[0].leaks if self._passes_all else ())
            for hole in stored:
                self._demand(
                    hole,
                    Kind.NUMBER,
                    "a line that evaluates what is in a variable or comes through a pipe, by "
                    "$(( )), eval, sh or the like",
                    "A file may be read by < {}, as in n=$(wc -l < {}); else write a script that "
                    'takes the value as "$1"',
                )
        return self._places

    # Characters.

    def _step(self) -> None:
        frame = self._frames[-1]
        if frame.syntax is _Syntax.DOUBLE:
            self._in_double_quotes(frame)
        elif frame.syntax is _Syntax.ARITHMETIC:
            self._in_arithmetic(frame)
        elif frame.syntax is _Syntax.PARAMETER:
            self._in_parameter(frame)
        else:
            self._in_commands(frame)

    def _in_commands(self, frame: _Frame) -> None:
        char = self._line[self._at]
        if char in _READERS:
            _READERS[char](self)
        elif char == '"':
            self._word().quoted = True
            self._push(_Frame(_Syntax.DOUBLE, '"'), 1)
        elif char == "#" and frame.word is None:
            end = self._line.find("\n", self._at)
            self._skip(len(self._line) if end < 0 else end, "a comment", "Leave it out")
        elif char in " \t":
            self._end_word()
            self._at += 1
        elif char in "\n;|&)":
            self._separator(frame, char)
        else:
            self._word().text += char
            self._at += 1

    def _in_double_quotes(self, _frame: _Frame) -> None:
        char = self._line[self._at]
        if char == '"':
            self._pop()
            self._at += 1
        elif char in _READERS and char not in "'<>(":
            _READERS[char](self)
        else:
            self._word().text += char
            self._at += 1

    def _in_arithmetic(self, frame: _Frame) -> None:
        char = self._line[self._at]
        opener = "[" if frame.closer == "]" else "("
        if char == HOLE:
            self._hole()
        elif char == "\\":
            self._backslash()
        elif char == "$":
            frame.text += "$"
            self._dollar()
        elif char in "'`":
            self._lose("quotes in arithmetic")
        else:
            frame.text += char
            frame.depth += (char == opener) - (char == frame.closer)
            self._at += 1
            if not frame.depth:
                self._pop()

    def _in_parameter(self, frame: _Frame) -> None:
        char = self._line[self._at]
        if char == HOLE:
            self._hole()
        elif char == "}":
            self._pop()
            self._at += 1
        elif char == "\\":
            self._backslash()
        elif char == "$":
            frame.text += "$"
            self._dollar()
        elif char in "'\"`":
            # Their meaning depends on the quotes around the expansion, and on the shell.
            self._lose("quotes in ${ }")
        else:
            frame.text += char
            self._at += 1

    def _separator(self, frame: _Frame, char: str) -> None:
        if frame.conditional:
            self._end_word()
            self._at += 1
            return
        self._end_command()
        self._at += 1
        if char == ")" and not self._lost and len(self._frames) > 1:
            self._pop()

    def _backquote(self) -> None:
        self._lose("a backquote")

    def _backslash(self) -> None:
        following = self._line[self._at + 1 : self._at + 2]
        if following == HOLE:
            self._at += 1
            self._lose("a \\")
            return
        if following != "\n":
            word = self._word()
            word.text += following
            word.quoted = True
        self._at += 1 + len(following)

    def _single_quotes(self) -> None:
        word = self._word()
        word.quoted = True
        end = self._line.find("'", self._at + 1)
        end = len(self._line) if end < 0 else end
        word.text += self._line[self._at + 1 : end]
        self._skip(end, "single quotes", _WITHOUT)
        self._at = end + 1

    def _skip(self, end: int, where: str, advice: str) -> None:
        """Go on at a position, with a place for no value where one is on the way."""
        count = self._line.count(HOLE, self._at, end)
        place = Place(Kind.REFUSED, f"{where} of the shell command", advice, bare=True)
        self._places += [place] * count
        self._at = end

    def _dollar(self) -> None:
        line, at = self._line, self._at
        following = line[at + 1 : at + 2]
        quoted = self._frames[-1].syntax is _Syntax.DOUBLE
        if following == HOLE:
            self._at += 1
            self._lose("a $")
        elif following == "'" and not quoted:
            self._lose("$'")
        elif line.startswith("$((", at):
            self._push(_Frame(_Syntax.ARITHMETIC, ")", depth=2), 3)
        elif following == "[":
            self._push(_Frame(_Syntax.ARITHMETIC, "]"), 2)
        elif following == "(":
            self._push(_Frame(_Syntax.COMMANDS, ")", substitution=True), 2)
        elif following == "{":
            self._push(_Frame(_Syntax.PARAMETER, "}"), 2)
        elif name := _PARAMETER.match(line, at + 1):
            # It is no part of the word's text, and may stand for nothing: "$x"eval is eval.
            self._word().expands = True
            self._at += 1 + len(name[0])
        else:
            self._word().text += "$"
            self._at += 1

    def _redirection(self) -> None:
        frame = self._frames[-1]
        if self._line.startswith("<<", self._at):
            self._lose("a here-document (<<)")
        elif self._line.startswith(("<(", ">("), self._at):
            self._word()
            self._push(_Frame(_Syntax.COMMANDS, ")", substitution=True), 2)
        elif frame.conditional:  # a comparison
            self._end_word()
            self._at += 1
        else:
            if frame.word is not None and frame.word.text.isdigit():
                frame.word = None  # the number of a file descriptor
            self._end_word()
            while self._line[self._at : self._at + 1] in ("<", ">", "&", "|"):
                self._at += 1
            frame.target = True

    def _open_parenthesis(self) -> None:
        frame = self._frames[-1]
        if frame.conditional:
            self._end_word()
            self._at += 1
        elif self._line.startswith("((", self._at):
            self._end_command()
            self._push(_Frame(_Syntax.ARITHMETIC, ")", depth=2), 2)
        elif frame.word is not None and frame.word.text.endswith("="):
            self._push(_Frame(_Syntax.ARRAY, ")"), 1)
        else:
            # The parameters of a function are variables, too.
            self._passes_all |= re.match(r"\(\s*\)", self._line[self._at :]) is not None
            self._end_command()
            self._push(_Frame(_Syntax.COMMANDS, ")"), 1)

    def _hole(self) -> None:
        frame = self._frames[-1]
        hole = len(self._places)
        syntaxes = {one.syntax for one in self._frames}
        if frame.syntax in (_Syntax.ARITHMETIC, _Syntax.PARAMETER, _Syntax.ARRAY):
            place = Place(Kind.NUMBER, frame.syntax.value, _SCRIPT, bare=True)
        elif _Syntax.DOUBLE in syntaxes:
            nested = frame.syntax is not _Syntax.DOUBLE
            advice = "Leave out the double quotes around $( )" if nested else _WITHOUT
            place = Place(Kind.REFUSED, "double quotes of the shell command", advice, bare=True)
        elif len(syntaxes) > 1:
            place = Place(Kind.NUMBER, "arithmetic or an expansion", _SCRIPT, bare=True)
        else:
            before, after = self._line[: self._at][-1:], self._line[self._at + 1 :][:1]
            bare = all(
                not char or rule.fullmatch(char)
                for char, rule in ((before, _BEFORE), (after, _AFTER))
            )
            place = Place(Kind.WORD, bare=bare)
        self._places.append(place)
        word = self._word()
        word.text += HOLE
        word.holes.append(hole)
        self._at += 1

    # Frames, words and commands.

    def _lose(self, what: str) -> None:
        self._lost = what

    def _word(self) -> _Word:
        """Return the word that is being read: that of the innermost commands."""
        frame = next(one for one in reversed(self._frames) if one.syntax in _WORDED)
        if frame.word is None:
            frame.word = _Word(target=frame.target)
            frame.target = False
        return frame.word

    def _push(self, frame: _Frame, length: int) -> None:
        if frame.substitution or frame.syntax in (_Syntax.ARITHMETIC, _Syntax.PARAMETER):
            self._word().expands = True
        self._frames.append(frame)
        self._at += length

    def _pop(self) -> None:
        frame = self._frames[-1]
        if frame.syntax in _WORDED:
            self._end_command()
        self._frames.pop()
        if frame.syntax is _Syntax.ARITHMETIC:
            self._evaluates |= _mentions_variables(frame.text)
        elif frame.syntax is _Syntax.PARAMETER:
            indexed = _INDEXED.fullmatch(frame.text)
            self._evaluates |= (
                frame.text.startswith("!")
                or frame.text.endswith("@P")
                or (indexed is not None and _mentions_variables(indexed["arithmetic"]))
            )
        elif frame.substitution or frame.syntax is _Syntax.ARRAY:
            self._word().inner += frame.leaks
        elif frame.syntax is _Syntax.COMMANDS:
            self._frames[-1].leaks += frame.leaks

    def _end_word(self) -> None:
        frame = self._frames[-1]
        word, frame.word = frame.word, None
        if word is None:
            return
        frame.words.append(word)
        if word.quoted:
            return
        if word.text == "[[":
            frame.conditional = True
        elif word.text == "]]" and frame.conditional:
            frame.conditional = False
            self._end_command()
        elif word.text == "case" and len(self._frames) > 1:
            # The parentheses of its patterns have no partners.
            self._lose("`case` in $( )")

    def _end_command(self) -> None:
        frame = self._frames[-1]
        self._end_word()
        words, frame.words, frame.conditional = frame.words, [], False
        frame.leaks += [hole for one in words if not one.target for hole in one.all]
        arguments = [one for one in words if not one.target]
        while arguments and self._is_before_command(arguments[0]):
            del arguments[0]
        if arguments:
            for hole in arguments[0].holes:
                self._never_bare(hole)  # quoted it is neither a reserved word nor an assignment
            self._judge(arguments)

    def _is_before_command(self, word: _Word) -> bool:
        """Return True for a reserved word or an assignment, which the command's name follows."""
        assignment = _ASSIGNMENT.match(word.text)
        if assignment is None:
            return not word.quoted and word.text in _RESERVED
        self._stored.update(word.all)
        self._evaluates |= _PROMPTS.match(word.text) is not None
        subscript = assignment["subscript"]
        if subscript is not None:
            for hole in word.holes[: subscript.count(HOLE)]:
                self._demand(hole, Kind.NUMBER, "a subscript", _SCRIPT)
            self._evaluates |= word.expands or _mentions_variables(subscript)
        return True

    def _judge(self, words: list[_Word]) -> None:
        """Demand what a command needs of the values in its arguments."""
        while len(words) > 1 and (words[0].text in _PREFIXES or words[0].text[:1] == "-"):
            del words[0]
        name, arguments = words[0].text, words[1:]
        if name in ("[[", "[", "test"):
            self._judge_test(name, arguments)
        elif name in _DECLARING:
            self._judge_declaration(name, arguments)
        elif name in _EVALUATING or (
            name == "printf" and any(one.text.startswith("-v") for one in arguments)
        ):
            self._passes_all |= name in _READING
            self._evaluates |= name == "let" or any(_may_evaluate(one) for one in arguments)
            self._demand_all(arguments, Kind.NUMBER, name)
        elif name in _COUNTING:
            self._demand_all(arguments, Kind.DIGITS, name)
        else:
            self._judge_storing(name, arguments)
        self._judge_scripts(words)

    def _judge_storing(self, name: str, arguments: list[_Word]) -> None:
        """Note the values that a command may put into variables."""
        if name == "function":
            self._passes_all = True  # the parameters of a function are variables, too
        elif name in ("for", "select", "set"):
            for word in arguments:
                self._stored.update(word.all)
            if name != "set" and arguments:
                for hole in arguments[0].holes:
                    self._never_bare(hole)
        elif name in (".", "source"):
            for word in arguments:
                for hole in word.inner:
                    self._demand(hole, Kind.NUMBER, f"the arguments of `{name}`", _SCRIPT)

    def _judge_scripts(self, words: list[_Word]) -> None:
        """Demand numbers in what a shell gets as its script."""
        texts = [one.text for one in words]
        if texts[0].rpartition("/")[2] in _SHELLS and all(one[:1] == "-" for one in texts[1:]):
            self._evaluates = self._passes_all = True  # its script comes through a pipe
        place = script_place()
        for index in code_words(texts):
            self._evaluates |= _may_evaluate(words[index])
            for hole in words[index].all:
                self._demand(hole, place.kind, place.where, place.advice)

    def _judge_test(self, name: str, arguments: list[_Word]) -> None:
        operators = {one.text for one in arguments if not one.quoted}
        if name == "[[":
            for word in arguments:
                for hole in word.holes:
                    self._never_bare(hole)
        if operators & _NAMED or (name == "[[" and operators & _NUMERIC):
            self._evaluates = True
            self._demand_all(arguments, Kind.NUMBER, name)
        elif operators & _NUMERIC:
            self._demand_all(arguments, Kind.DIGITS, name)

    def _judge_declaration(self, name: str, arguments: list[_Word]) -> None:
        flags = "".join(one.text[1:] for one in arguments if one.text[:1] in ("-", "+"))
        for word in arguments:
            assignment = _ASSIGNMENT.match(word.text)
            if set(flags) & set("inaA") or assignment is None or assignment["subscript"]:
                self._evaluates |= word.expands or "i" in flags or "n" in flags
                self._demand_all([word], Kind.NUMBER, name)
            else:
                self._stored.update(word.all)

    def _demand_all(self, arguments: list[_Word], kind: Kind, name: str) -> None:
        for word in arguments:
            for hole in word.all:
                self._demand(hole, kind, f"the arguments of `{name}`", _SCRIPT)

    def _demand(self, hole: int, kind: Kind, where: str, advice: str) -> None:
        """Make a place as strict as this kind, unless it is stricter."""
        kinds = list(Kind)  # the laxest first
        place = self._places[hole]
        if kinds.index(kind) > kinds.index(place.kind):
            self._places[hole] = Place(kind, where, advice, place.bare)

    def _never_bare(self, hole: int) -> None:
        self._places[hole] = self._places[hole]._replace(bare=False)


_READERS = {
    HOLE: _Scanner._hole,
    "\\": _Scanner._backslash,
    "'": _Scanner._single_quotes,
    "`": _Scanner._backquote,
    "$": _Scanner._dollar,
    "<": _Scanner._redirection,
    ">": _Scanner._redirection,
    "(": _Scanner._open_parenthesis,
}
_WORDED = (_Syntax.COMMANDS, _Syntax.ARRAY)


def _may_evaluate(script: _Word) -> bool:
    """Return True if a script that is an argument may evaluate variables."""
    return script.expands or _MAY_EVALUATE.search(script.text) is not None


def _mentions_variables(arithmetic: str) -> bool:
    """Return True if an arithmetic expression has more in it than numbers."""
    numbers = r"(?<!\w)(?:0[xX][0-9A-Fa-f]+|[0-9]+(?:#[0-9A-Za-z@_]+)?)(?!\w)"
    return re.search(r"[A-Za-z_$`]", re.sub(numbers, "", arithmetic)) is not None
