"""Templates: what the holes become, in arguments and in a line for sh."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.inputs.errors import InputError, TemplateError
from grain.inputs.template import Template

# What a program can be given as an argument.
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


# As GNU parallel 20221122 has them.
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a/b.c", ["a/b", "b.c", "a", "b"]),
        ("x.tar.gz", ["x.tar", "x.tar.gz", ".", "x.tar"]),
        ("/etc/passwd", ["/etc/passwd", "passwd", "/etc", "passwd"]),
        ("a.b/c", ["a.b/c", "c", "a.b", "c"]),
        ("a b.c", ["a b", "a b.c", ".", "a b"]),
        (".bashrc", ["", ".bashrc", ".", ""]),
        ("a.", ["a", "a.", ".", "a"]),
        ("//a", ["//a", "a", "/", "a"]),
        ("/", ["/", "", "/", ""]),
        ("", ["", "", ".", ""]),
    ],
)
def test_endings_take_extension_and_directories_away(value: str, expected: list[str]) -> None:
    assert expected == Template(["{.}", "{/}", "{//}", "{/.}"]).argv(1, [value])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["echo"], ["echo", "a", "b.c"]),
        (["echo", "{}"], ["echo", "a", "b.c"]),
        (["echo", "x{}y"], ["echo", "xa b.cy"]),
        (["echo", "{2}{1}", "{#}"], ["echo", "b.ca", "7"]),
        (["echo", "{2.}", "-o{2}.out"], ["echo", "b", "-ob.c.out"]),
        (["awk", "{print $1}", "{}"], ["awk", "{print $1}", "a", "b.c"]),
    ],
)
def test_holes_are_filled_or_the_input_is_appended(words: list[str], expected: list[str]) -> None:
    assert expected == Template(words).argv(7, ["a", "b.c"])


def test_with_a_header_columns_have_names_and_endings() -> None:
    template = Template(["run", "{file/}", "{file.}", "{T}", "{1}"], names=["file", "T"])

    assert ["run", "c.d", "/c", "300", "/c.d"] == template.argv(1, ["/c.d", "300"])


@given(st.lists(WORDS, min_size=1, max_size=3))
def test_no_value_is_read_again(values: list[str]) -> None:
    """A value with braces is not a template, and a word stays one word."""
    assert ["p", *values] == Template(["p", "{}"]).argv(1, values)
    assert ["p", values[0]] == Template(["p", "{1}"]).argv(1, values)


@given(st.lists(WORDS, min_size=1, max_size=3))
def test_command_reads_as_argv(values: list[str]) -> None:
    """The command in the log is what one would type."""
    template = Template(["p", "-{1}", "{}"])

    assert template.argv(3, values) == shlex.split(template.command(3, values))


@settings(max_examples=30, deadline=None)
@given(WORDS, WORDS)
def test_quoting_survives_sh(tmp_path_factory: pytest.TempPathFactory, one: str, two: str) -> None:
    """The shell passes any value on as it is, and runs nothing of it."""
    template = Template(["printf '%s\\0' {2} x{1}y \"$HOME\"{1} {}"], shell=True)

    printed = subprocess.run(
        template.argv(1, [one, two]),
        capture_output=True,
        check=True,
        cwd=tmp_path_factory.getbasetemp(),  # what a value that is run might write
        env={"HOME": "/h"},
    ).stdout

    assert [two, f"x{one}y", f"/h{one}", one, two, ""] == printed.decode().split("\0")


@pytest.mark.parametrize(
    "line",
    ["echo '{}'", "echo `cat {}`", 'echo "`cat {}`"', "cat <<E\n{}\nE", "cat <<-'E'\na\n\t{}\nE",
     "echo $'{}'", "echo \\{}", 'echo "\\{}"', "echo ${}", "echo ${x:-{}}", "true # {}",
     "echo 'a' {} 'b",
     'echo "{}', "echo $(cat {}", "echo $(case x in x) echo {};; esac)"],
)  # fmt: skip
def test_a_value_where_quotes_would_not_hold_is_refused(line: str) -> None:
    with pytest.raises(TemplateError):
        Template([line], shell=True)


@pytest.mark.parametrize(
    "line", ["echo it's' {}", 'echo "$(cat {})"', "echo $(cat {})", "echo \\'{}", "echo a#{}"]
)
def test_values_may_stand_where_the_shell_reads_plain_words(line: str) -> None:
    assert "'v w'" in Template([line], shell=True).command(1, ["v w"])


def test_lines_as_commands() -> None:
    """Without a template, each input is a command."""
    assert ["sh", "-c", "a | b"] == Template([], shell=True).argv(1, ["a | b"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no command"),
        (["gzip < {}"], "--shell"),
        ([""], "empty"),
        (["OMP_NUM_THREADS=1", "xtb", "{}"], "env X=1"),
        (["Memory=8", "xtb", "{}"], "part of -r"),
        (["echo", "{3}"], "2 columns"),
        (["echo", "{0}"], "counted from 1"),
        (["echo", "{= s/a/b/ =}"], "not known here"),
    ],
)
def test_a_template_that_cannot_be_meant_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        Template(words, width=2)


def test_slip_in_a_name() -> None:
    """The name of a column that nearly exists is a slip."""
    with pytest.raises(TemplateError, match="did you mean {temperature}"):
        Template(["run", "{temprature}"], names=["temperature"])
    with pytest.raises(TemplateError, match="did you mean {molecule}"):
        Template(["run", "{mol}"], names=["T", "molecule"])
    with pytest.raises(TemplateError, match="did you mean {T}"):
        Template(["run", "{t}"], names=["T", "molecule"])
    assert Template(["awk", "{print}"], names=["T", "p"]).plain


def test_two_words_for_the_shell() -> None:
    """A line for the shell is one word."""
    with pytest.raises(TemplateError, match="one word"):
        Template(["echo", "{}"], shell=True)


def test_an_input_that_lacks_a_column_is_refused_with_its_number() -> None:
    with pytest.raises(InputError, match="input 5 has only 1 column"):
        Template(["echo", "{2}"]).argv(5, ["a"])
