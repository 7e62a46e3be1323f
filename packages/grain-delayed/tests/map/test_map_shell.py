"""Values in a line for sh: no value of a stranger's file name runs, in any shell and place."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from grain.map import InputError, TemplateError
from grain.map.inputs.shell import code_words
from grain.map.inputs.template import Template

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]

# Each makes the file `ran` in one place or another if it is evaluated.
ATTACKS = [
    "a[$(touch ran)]",
    "a[`touch ran`]+1",
    "$(touch ran)",
    "`touch ran`",
    "'; touch ran; '",
    '"; touch ran; "',
    "; touch ran",
    "\\'; touch ran #",
    "x=a[$(touch ran)]",
    "1)); touch ran; echo $((1",
    "]]; touch ran; [[ 1",
    "}; touch ran; {",
    "\n touch ran\n",
    "'$(touch ran)'",
    "ran[$(touch ran)]=1",
    "E\ntouch ran",
]

# Lines whose place for a value is quoted, evaluated or stored, and evaluated later.
LINES = [
    "echo {}", "echo x{}y", "echo {}>out", "echo 2>{}", "cat < {}", "ls [{}]*", "x={} true", "{} x",
    "echo $(( {} ))", "echo $((1+{}))", "echo $[ {} ]", "(( {} ))", "((x={})) ; true", "let {}",
    "let x={}", "'let' x={}", "l\\et x={}", "command let {}", "builtin let {}",
    "if let {}; then :; fi",
    "! let {}", "x=1 let {}", "{ let {}; }", "true && let {}", "true | let {}", "echo $(let {})",
    "[[ {} -eq 1 ]]", "[[ 1 -lt {} ]]", "[[ x && {} -eq 1 ]]", "[[ ( {} -ne 1 ) ]]", "[[ -v {} ]]",
    "[ -v {} ]", "test -v {}", "[ {} -eq 1 ]", "test {} -le 2", "[ {} = a ]", "[[ {} == a ]]",
    "[[ {} < b ]]", "[[ {1} {2} ]]",
    "declare -i x={}", "typeset -i x={}", "declare -i x; x={}", "f() { local -i x={}; }; f",
    "declare {}", "declare a[{}]=1", "declare x={}; declare -i y=x", "readonly -i x={}",
    "export {}", "export X={}; echo $((X))", "declare -n r={}; echo $r", "declare -a a={}",
    "printf -v {} x", "printf -v x %s {}; echo $((x))", "printf {}", "printf %d {}",
    "a[{}]=1", "a=([{}]=1)", "a=({}); echo $((a))", "echo ${a[{}]}",
    "echo ${x:{}}", "echo ${x:0:{}}",
    "x=abc; echo ${x:{}:1}", "echo ${x:-{}}", "echo ${{}}", "echo ${!{}}",
    "eval {}", "eval echo {}", "eval \"$(echo {})\"", "eval $(echo {})", "x={}; eval \"$x\"",
    "trap {} EXIT", "x={}; trap \"$x\" EXIT", "alias a={}\na", "unset {}", "x={}; unset \"$x\"",
    "read {} < /dev/null", "mapfile -C {} -c 1 a < /dev/null", "wait -p {}",
    "x={}; echo $((x))", "x={}; y=x; echo $((y))", "x=$(echo {}); echo $((x))",
    "x=a{}; echo $(( x + 1 ))", "x=$( (echo {}) ); echo $((x))",
    "for x in {}; do echo $((x)); done",
    "set -- {}; echo $(( $1 ))", "f() { echo $(( $1 )); }; f {}", "f() { let $1; }\nf {}",
    "function f { echo $(( $1 )); }; f {}",
    "echo {} | while read x; do echo $((x)); done", "echo {} | { read x; echo $((x)); }",
    "x={}; [[ $x -eq 1 ]]", "x={}; [[ x -eq 1 ]]", "x={}; echo ${!x}", "x={}; echo ${x@P}",
    "x={}; y=abc; echo ${y:x}", "x={}; y=abc; echo ${y:$x:1}", "x={}; echo ${a[x]}",
    "x={}; a[x]=1", "x={}; a[$x]=1", "x={}; a[${x}]=1", "x={}; declare -i y=$x", "x={}; let y=x",
    "export x={}; bash -c 'echo $((x))'", "x={}; sh -c \"echo $x\"", "x={}; bash -ec \"$x\"",
    "sh -c {}", "bash -c {}", "bash -euo pipefail -c {}", "env A=1 sh -ec {}", "/bin/sh -c x{}",
    "sh -c \"echo {}\"", "sh -c 'echo {}'", "sh -c $(echo {})", "bash --norc -c {}",
    "echo '{}'", 'echo "{}"', 'echo "$(cat {})"', "echo `cat {}`", "echo \\{}", "echo ${}",
    "echo $'{}'", 'echo $"{}"', "cat <<E\n{}\nE", "cat <<'E'\n{}\nE", "cat <<< {}", "true # {}",
    "echo \"a\" {} 'b'", 'echo "${x}" {}', 'echo "$(date)" {}', 'echo "a`date`b" {}',
    'echo "$(case x in x) echo "a {}";; esac)"', "case {} in a) echo {};; esac",
    "case a in {}) echo b;; esac", "echo $(case x in x) echo {};; esac)",
    'x={}; cat <<E\n$((x))\nE', "x={}; echo `eval echo $x`", "x={}; echo $'a' $((x))",
    "echo \"$(( {} + 1 ))\"", "echo \"$((1)) {}\"", "echo $(( $(echo {}) ))", "echo $(( \"{}\" ))",
    "echo $((')' + {}))", "echo $(( (1) + {} )) {}", "echo <(echo {})", ". <(echo {})",
    "for {} in 1; do :; done", "select x in {}; do break; done < /dev/null", "exit {}", "shift {}",
    "f={}; x=1; echo $((x+1)) \"$f\"", "~{} x", "echo ~{}", "echo a,{} {a,{}}", "time {}",
    "echo $ {}",
    "x={}; eval 'echo $((x))'", "x={}; trap 'echo $((x))' EXIT", "for ((i=0;i<{};i++)); do :; done",
    "x={}; for ((i=0;i<x;i++)); do :; done", "x={}; printf -v \"$x\" a", "x={}; test -v \"$x\"",
    "x={}; [[ -v $x ]]", "x={}; declare \"$x\"", "x={}; read \"$x\" < /dev/null", "x={}; unset $x",
    "echo {} | sh", "echo {} | bash -e", "x={}; echo $x | sh", "x={}; echo x{} | (cd .; sh)",
    "x={}; while (( x < 1 )); do break; done", "x={}; (( y = x ))", "x={}; : $[x]", "x+={}; let x",
    "x={}; a=(1 2); echo ${a[$x]}", "x={}; a=(1 2); echo ${#a[x]}", "x={}; echo ${x@Q} ${x@P}",
    "PS4={}; set -x; :", "x=\"a\"{}; echo $((x))", "IFS={}; echo $(( IFS ))", "x={} y=1 ; ((x))",
    "x={} eval 'echo $((x))'", "x=1; x={} f() { :; }", "case a in a) let {};; esac",
    "x=${y:={}}; echo $((y))", "x={}&& ((x))", "x={}\n((x))", "{ x={}; ((x)); }", "(x={}; ((x)))",
    "if true; then x={}; fi; ((x))", "echo $(x={}; echo $((x)))", "echo \"$(x={}; echo $((x)))\"",
    "$1eval {}", '"$x"eval export {}', "$x'eval' {}", "x={}; $@eval \"$x\"", "${x}let {}",
    "{}`{}", "\\{}{}", "`{}` {}",
    "if {}; then :; fi", "echo \\\\{}", "echo \\\n{}", "echo a#{} #{}", "coproc {}", "exec {}",
]  # fmt: skip


def filled(line: str, value: str) -> str:
    record = [value, "x"] if "{2}" in line else [value]
    return Template([line], shell=True).command(1, record)


def attempts() -> list[tuple[str, str]]:
    return list(itertools.product(LINES, ATTACKS))


@pytest.mark.parametrize("shell", SHELLS)
def test_no_value_runs_in_any_place_of_a_line(shell: str, tmp_path: Path) -> None:
    """A line is refused for a value, or the value does nothing, whichever shell is sh."""
    programs = tmp_path / "bin"
    programs.mkdir()
    found = shutil.which(shell)
    assert found is not None
    (programs / "sh").symlink_to(found)
    accepted = []
    for line, attack in attempts():
        try:
            accepted.append((line, attack, filled(line, attack)))
        except (TemplateError, InputError):
            continue
    # One script, and a subshell for each: thousands of starts of a shell would take a minute.
    script = tmp_path / "script"
    script.write_text(_script([command for *_, command in accepted]))

    subprocess.run(
        [str(programs / "sh"), str(script)],
        cwd=tmp_path,
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )

    assert (tmp_path / "ended").exists()
    ran = [int(note.name) for note in (tmp_path / "notes").iterdir()]
    assert [] == [accepted[i][:2] for i in ran]


def _script(commands: list[str]) -> str:
    """Return a script that evaluates each command in a directory of its own, and notes which ran.

    The commands are in single quotes, so that none can leave its place.
    """
    lines = ["mkdir notes dir; cd dir"]
    for i, command in enumerate(commands):
        quoted = "'" + command.replace("'", "'\\''") + "'"
        lines.append(f"sh -c {quoted}; [ -e ran ] && touch ../notes/{i} && rm ran")
    return "\n".join([*lines, "touch ../ended", ""])


@pytest.mark.parametrize("value", ["0", "7", "-12", "+3", "100"])
def test_a_plain_number_stands_in_every_evaluated_place(value: str) -> None:
    for line in ("echo $(( {} * 2 ))", "let x={}", 'echo "$(( {} ))"', "[ {} -eq 1 ]", "eval {}",
                 "declare -i x={}", "x={}; echo $((x))", "echo ${x:{}}", "sh -c {}"):  # fmt: skip
        assert line.replace("{}", value) == filled(line, value)


def test_arithmetic_with_values_has_its_result() -> None:
    line = "echo $(( {1} + {2} )) {1}"
    argv = Template([line], shell=True).argv(1, ["40", "2"])

    assert "42 40\n" == subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("line", "value", "message"),
    [
        ("echo $(( {} ))", "010", "'010', and stands in arithmetic, .* octal. Write 10"),
        ("echo $(( {} ))", "-08", "Write -8"),
        ("echo $(( {} ))", "1.5", "Only a plain number, as 7 or -12"),
        ("echo $(( {} ))", "", "Only a plain number"),
        ("echo $(( {} ))", "1\n", "Only a plain number"),
        ("echo $(( {} ))", "\u0661", "Only a plain number"),
        ("echo $(( {2} ))", "7", "{2} of input 1 is 'x'"),
        ("let x={}", "a", "the arguments of `let`.* would run commands"),
        ("x={}; echo $((x))", "a.xyz", "what is in a variable.* may be read by < {}"),
        ("sh -c {}", "a", "the script of another shell, where .* Use --shell instead of sh -c"),
        ("[ {} -eq 1 ]", "a", "the arguments of `\\[`"),
    ],
)
def test_a_value_that_would_be_evaluated_is_refused_with_its_place(
    line: str, value: str, message: str
) -> None:
    with pytest.raises(InputError, match=message.replace("{2}", r"\{2\}")):
        filled(line, value)


@pytest.mark.parametrize(
    "line",
    ["n=$(wc -l < {}); echo $((n + 1))", "echo $((1 + 2)) {}", "x={}; echo \"$x\"; ls $((3))",
     "[ -e {} ] && cat {}", "[[ {} == *.xyz ]]", "export X={}; prog", "i=1; sort {} > $((i)).txt",
     'echo "$(date)" {}', 'echo "${HOME}" {}', "x=abc; echo ${x:0:2} {}", "echo ${x:-y} {}",
     "while read x; do echo $((x)); done < {}", "printf '%s\\n' {}",
     "case {} in *.gz) zcat {};; esac",
     "(cd /; ls) | cat - {}", "[ {} = a ] || exit 3", "declare x={}", "local_x={}; ls \"$local_x\"",
     "echo {} # $((x))", "sh -c 'echo \"$1\"' sh {}", "grep eval {}", "samtools read {}",
     "echo let {}"],
)  # fmt: skip
def test_lines_that_evaluate_no_value_take_any(line: str) -> None:
    assert "'a b.xyz'" in Template([line], shell=True).command(1, ["a b.xyz"])


@pytest.mark.parametrize(
    ("line", "value", "expected"),
    [
        ("xtb {} --opt", "a/b-1.xyz", "xtb a/b-1.xyz --opt"),
        ("echo {}>out", "2", "echo '2'>out"),
        ("echo {} >out", "2", "echo 2 >out"),
        ("echo {1}{1}>out", "2", "echo '2''2'>out"),
        ("{} x", "if", "'if' x"),
        ("X=1 {} x", "a=b", "X=1 'a=b' x"),
        ("then {}", "done", "then 'done'"),
        ("{}=3 x", "PATH", "'PATH'=3 x"),
        ("prog --n={}", "3", "prog --n=3"),
        ("echo ~{}", "root", "echo ~'root'"),
        ("echo {{},b}", "1..3", "echo {'1..3',b}"),
        ("echo {}", "a,b", "echo 'a,b'"),
        ("echo {}", "~root", "echo '~root'"),
        ("echo {}", "", "echo ''"),
        ("[[ {} == a ]]", "-f", "[[ '-f' == a ]]"),
        ("for {} in 1; do :; done", "PATH", "for 'PATH' in 1; do :; done"),
    ],
)
def test_a_value_is_quoted_where_the_shell_would_read_something_else(
    line: str, value: str, expected: str
) -> None:
    assert expected == filled(line, value)


def test_the_numbers_of_jobs_and_slots_may_stand_in_quotes_and_arithmetic() -> None:
    template = Template(["echo \"job {#} in {%}\" '{#}' $(( {#} + {%} )) {#}>{%}"], shell=True)

    assert "echo \"job 7 in 2\" '7' $(( 7 + 2 )) '7'>'2'" == template.command(7, [], 2)
    assert "{%}" in template.command(7, [])
    assert template.uses_slot
    for line in ("echo ${#}", "echo \\{%}"):
        with pytest.raises(TemplateError, match="no value can be quoted"):
            Template([line], shell=True)


@pytest.mark.parametrize(
    ("words", "scripts"),
    [
        (["sh", "-c", "a", "b"], {2}),
        (["env", "X=1", "bash", "-euo", "pipefail", "-c", "a"], {6}),
        (["/bin/bash", "-ceo", "pipefail", "a"], {3}),
        (["busybox", "sh", "-c", "a"], {3}),
        (["bash", "--norc", "-lc", "--", "a"], {4}),
        (["bash", "script", "-c", "a"], set()),
        (["gcc", "-c", "a"], set()),
        (["sh", "-c"], set()),
    ],
)
def test_the_script_of_a_shell_is_the_word_after_its_options(
    words: list[str], scripts: set[int]
) -> None:
    assert scripts == code_words(words)


def test_a_value_in_the_script_of_a_shell_is_refused_without_shell_too() -> None:
    template = Template(["sh", "-c", "wc < {} > {#}.txt", "{}"])

    with pytest.raises(InputError, match=r"{} of input 2 is 'a; b'.* sh -c '... \"\$1\"' sh {}"):
        template.argv(2, ["a; b"])
    assert ["sh", "-c", "wc < 7 > 3.txt", "7"] == template.argv(3, ["7"])
    assert ["sh", "-c", "cat $1", "sh", "a; b"] == Template(
        ["sh", "-c", "cat $1", "sh", "{}"]
    ).argv(1, ["a; b"])
