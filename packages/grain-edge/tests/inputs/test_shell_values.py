"""Values in a line for sh: no value of a stranger's file name runs, in any shell and place."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from grain.inputs.errors import InputError, TemplateError
from grain.inputs.shell import code_words
from grain.inputs.template import Template

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
    "-v a[$(touch ran)]",
    "PATH=$(touch ran)",
    "touch ran",
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
    "while read n; do echo $((n)); done < <(echo {})", ": {}; echo $((_))", ": {}; ((_))",
    "env x={} bash -c '((x))'", "env x={} sh -c 'echo $((x))'", "sh -c 'echo $(($1))' sh {}",
    "x={}; [ $x ]", "x={}; test $x", "x={}; printf $x", "[ {1} {2} ]", "printf {} x", "wait {}",
    "x={}; wait $x", "PS4={}; set -x; :", "PS4={} bash -xc :", "BASH_ENV={} bash -c :",
    "xargs sh -c {} < /dev/null", "echo {} | xargs -I% sh -c %", "bash <<< {}",
    ". /dev/stdin <<< {}",
    "echo {} | bash /dev/stdin", "source <(echo {})", "sh <(echo {})",
    "mapfile -C {} -c1 < /bin/sh",
    "compgen -C {}", "compgen -W {}", "echo \"${a[{}]}\"", "echo \"$(( {} ))\"", "echo \"x{}\"`{}`",
    'echo "$(echo "{}")" "{}"', "f() { echo \"$1\" {}; }; f {}; set -- {}; echo $1",
    "echo $x{}\"{}\"",
    'eval "echo {}"', 'sh -c "echo {}"', 'x="{}"; eval $x', 'let "x={}"', '[ "{}" -eq 1 ]',
    '(("{}"))',
    "for x in {}; do eval echo $x; done", "cat <<E {}\nE\n{}", "cat <<E\nE\necho {}",
    "echo $((1<<2)) {}",
    "if {}; then :; fi", "echo \\\\{}", "echo \\\n{}", "echo a#{} #{}", "coproc {}", "exec {}",
]  # fmt: skip


def filled(line: str, value: str) -> str:
    record = [value, "x"] if "{2}" in line else [value]
    return Template([line], shell=True).command(1, record)


def sh_in(folder: Path, shell: str) -> Path:
    """Make a folder for PATH in which sh is this shell."""
    programs = folder / "bin"
    programs.mkdir()
    found = shutil.which(shell)
    assert found is not None
    (programs / "sh").symlink_to(found)
    return programs


def run_script(programs: Path, script: str, folder: Path) -> bytes:
    """Run a script in a folder; return its output."""
    (folder / "script").write_bytes(os.fsencode(script))
    return subprocess.run(
        [str(programs / "sh"), str(folder / "script")],
        cwd=folder,
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=300,
        check=False,
    ).stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_no_value_runs_in_any_place_of_a_line(shell: str, tmp_path: Path) -> None:
    """A line is refused for a value, or the value does nothing, whichever shell is sh.

    Nor does it do anything where somebody types what the log has.

    Tried: Names of files that are commands, in every place of a line of `--shell`.
    Result: a parameter of sh, or refused.
    """
    accepted = []
    for line in LINES:
        try:
            template = Template([line], shell=True)
        except TemplateError:
            continue
        for attack in ATTACKS:
            record = [attack, attack] if "{2}" in line else [attack]
            try:
                argv, typed = template.argv(1, record), template.command(1, record)
            except InputError:
                continue
            assert attack not in argv[2]
            accepted.append((line, attack, argv))
            if attack in ATTACKS[::3]:  # a start of a shell costs milliseconds
                accepted.append((line, attack, ["sh", "-c", typed]))
    # One script for all: thousands of starts of a shell would take a minute.
    run_script(sh_in(tmp_path, shell), _script([argv for *_, argv in accepted]), tmp_path)

    assert (tmp_path / "ended").exists()
    ran = [int(note.name) for note in (tmp_path / "notes").iterdir()]
    assert [] == [accepted[i] for i in ran]


def _script(commands: list[list[str]]) -> str:
    """Return a script that runs each command in a directory, and notes which made a file `ran`.

    The words are in single quotes, so that none can leave its place.
    """
    lines = ["mkdir notes dir; cd dir"]
    for i, argv in enumerate(commands):
        lines.append(f"{shlex.join(argv)}; [ -e ran ] && touch ../notes/{i} && rm -r ran")
    return "\n".join([*lines, "touch ../ended", ""])


HOLES = [
    "while read n; do echo $((n)); done < <(echo {})",
    "env x={} bash -c '((x))'",
    ": {}; echo $((_))",
    "x={}; [ $x ]",
    "a=([{}]=1)",
    "PS4={}; set -x; :",
    "echo x >& {}.log",
    "x={}; echo x 2>&$x",
    "RANDOM={}; echo $RANDOM",
    "for OPTIND in {}; do :; done",
    "select SECONDS in {}; do :; done",
    "$0 -c {}",
    '"$0" -c "echo; $x" {}',
    "env $0 -ec {}",
    "/proc/self/exe -c {}",
]


@pytest.mark.parametrize("line", HOLES)
@pytest.mark.parametrize("attack", ["a[$(touch ran)]", "$(touch ran)", "`touch ran`", "-v a[`x`]"])
def test_values_that_bash_would_evaluate_are_refused(line: str, attack: str) -> None:
    """Tried: Names of files that arithmetic would evaluate.
    Result: refused.
    Tried: The same after `>&`, which bash expands twice, and assigned to `RANDOM` and other
    integers of bash.
    Result: refused.
    """
    with pytest.raises(InputError, match=r"\{\} of input 1 is .*, and the command has .*script"):
        filled(line, attack)


@pytest.mark.parametrize(
    ("words", "value", "accepted"),
    [
        (["sh", "-c", "echo $(($1))", "sh", "{}"], "a[$(touch ran)]", False),
        (["sh", "-c", "echo $(($1))", "sh", "{}"], "my list.txt", True),
        (["sh", "-c", "echo $(($1))", "sh", "{}"], "010", False),
        (["sh", "-c", "echo $(($1))", "sh", "{}"], "10", True),
        (["env", "x={}", "bash", "-c", "((x))"], "a[$(touch ran)]", False),
        (["env", "x={}", "bash", "-c", "((x))"], "x", False),
        (["sh", "-c", 'eval "$1"', "sh", "{}"], "ls", False),
        (["sh", "-c", 'bash -c "$1"', "sh", "{}"], "ls", False),
        (["env", "PS4={}", "bash", "-xc", ":"], "$(touch ran)", False),
        (["sh", "-c", 'wc -l < "$1"', "sh", "{}"], "a[$(touch ran)]", True),
        (["sh", "-c", '[ -s "$1" ] && cat "$1"', "sh", "{}"], "a[$(touch ran)]", True),
        (["bash", "run.sh", "(({}", "{}"], "a[$(touch ran)]", True),
        (["echo", "((", "{}"], "a[$(touch ran)]", True),
    ],
)
def test_a_command_with_a_script_takes_values_that_the_script_cannot_evaluate(
    words: list[str], value: str, accepted: bool
) -> None:
    """Tried: The same as arguments of `sh -c`.
    Result: refused.
    """
    template = Template(words)

    if accepted:
        assert value in template.argv(1, [value])[-1]
    else:
        with pytest.raises(InputError, match="and the command has|octal"):
            template.argv(1, [value])


def test_the_shell_gets_values_as_parameters_and_the_log_has_them_in_quotes() -> None:
    template = Template(['sort {} "of {}" {2/} {#} > "{1}.x"'], shell=True)

    prefix = "_grain1=${1} _grain2=${2} _grain3=${3}; shift 3; "
    line = (
        'sort "${_grain1}" "${_grain2}" "of ${_grain1} ${_grain2}" "${_grain3}" 7 > "${_grain1}.x"'
    )
    assert [
        "sh",
        "-c",
        prefix + line,
        "sh",
        "a b",
        "c/d",
        "d",
    ] == template.argv(7, ["a b", "c/d"])
    assert 'sort \'a b\' c/d "of a b c/d" d 7 > "a b.x"' == template.command(7, ["a b", "c/d"])
    assert '"${_grain_1}"' in Template(["sort {} $_grain"], shell=True).argv(1, ["a"])[2]
    assert r"""echo "of a\"\$\`\\"'!'"" """.strip() == filled('echo "of {}"', 'a"$`\\!')
    assert ["sh", "-c", "ls 3"] == Template(["ls {#}"], shell=True).argv(3, ["a"])


# Each prints the value once, between brackets, in every shell.
FRAGMENTS = [
    "p {}", 'p "{}"', "x={}; p \"$x\"", 'x="{}"; p "$x"', 'x="$(printf %s. {})"; p "${x%.}"',
    "f() { p {}; }; f", 'f() { p "$1"; }; f {}', 'f() { p "{}"; }; f other', "set -- a b; p {}",
    'set -- {}; p "$1"', "printf %s {} | q", 'printf %s "{}" | q', "printf '%s' {} | cat | q",
    "for x in {}; do p \"$x\"; done", "(cd /; p {})", "{ p {}; }", "if true; then p {}; fi",
    "case x in x) p {};; esac", "case x in (x) p \"{}\";; esac", "true && p {}", "false || p {}",
    "p ''{}\"\"", "p {}'' # {#}", "p \"\"{}", "echo it\\'s >&2; p {}", "p \"${y-}{}\"", "p ${y-}{}",
    "cat <<E >&2\n$(echo ')')\nE\np {}", "p \\\n{}", 'p "\\"{}" | sed \'s/^\\[\\"/[/\'',
    "echo $((1 << 2)) >&2; p {}", "x=$(echo \"$(echo ')')\"); p {}", "p {} > f; cat f",
    "env p={} env >&2; p {}",
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from([*ATTACKS, "-n", "", " ", "a  b", "*", "~", "'", '"', "\\", "\n", "a\n\n", "!x",
                     "$_grain1", "{}", "\x81\x82", "\udc81\udc88", "\u00e9", "a{#}", "%s"]),
    st.text(st.sampled_from("ab $`\\'\"()[]{}<>;&|*?~#!%=\n\t-\u00e9"), max_size=8),
)  # fmt: skip
PRELUDE = "p() { printf '[%s]' \"$1\"; }; q() { printf '['; cat; printf ']'; }; "


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=8, deadline=None, phases=[Phase.generate])
@given(cases=st.lists(st.tuples(st.sampled_from(FRAGMENTS), VALUES), min_size=20, max_size=40))
def test_a_program_gets_exactly_the_value_or_the_line_is_refused(
    tmp_path_factory: pytest.TempPathFactory, shell: str, cases: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("values")
    script, expected = "", []
    for line, value in cases:
        template = Template([PRELUDE + line], shell=True)
        try:
            argv, typed = template.argv(1, [value]), template.command(1, [value])
        except InputError:
            continue
        # The shell that reads the log's command does not read it in the middle of a word.
        script += f"{shlex.join(argv)}\nprintf '\\0'\nsh -c {shlex.quote(typed)}\nprintf '\\0'\n"
        expected += [(line, b"[%s]" % os.fsencode(value))] * 2

    printed = run_script(sh_in(folder, shell), script, folder).split(b"\0")[:-1]

    assert expected == [(line, one) for (line, _), one in zip(expected, printed, strict=True)]
    assert not (folder / "ran").exists()


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
        ("echo $(( {} ))", "a", "Only a plain number"),
        ("let x={}", "a[1]", "has 'let', .* no value with a '\\['.* Write a script of your own"),
        ("let x={}", "x", "has 'let', .* `x` may be a variable"),
        ("let x={}", "08", "octal. Write 8"),
        ("let name=n{}", "am", "`am` may be a variable"),
        ("x={}; echo $((x))", "a(1).xyz", "no value with a '\\('"),
        ("x={}; echo $((x))", "PATH=5", "no value with a '='"),
        ("read {} < file", "PATH", "has 'read {}', .* only a plain number"),
        ("x={}; read -r $x < file", "PATH", "has .*read -r \\$x?', .* only a plain number"),
        ("declare -n r={}; r=.", "PATH", "has 'declare -n', .* only a plain number"),
        ("printf -v {} .", "PATH", "has 'printf -v {}', .* only a plain number"),
        ("printf -v x %s {}", "a[1]", "has 'printf -v', .* no value with"),
        ("printf {} x", "-v PATH", "has 'printf {}', .* only a plain number"),
        ("wait -p {}", "PATH", "has 'wait -p {}', .* only a plain number"),
        ("wait {}", "-pa[1]", "has 'wait {}', .* no value with"),
        ("mapfile -C {} -c 1 x < file", "touch ran", "has 'mapfile -C .* only a plain number"),
        ("x={}; echo ${!x}", "HOME", r"has '\$\{!', .* only a plain number"),
        ("x={}; echo ${x@P}", "a b", r"has '\$\{x@', .* only a plain number"),
        ("sh -c {}", "a", "has 'sh', .* only a plain number"),
        ("[ {} -eq 1 ]", "a[1]", r"has '\[', .* no value with a '\['"),
    ],
)
def test_a_value_that_would_be_evaluated_is_refused_with_its_place(
    line: str, value: str, message: str
) -> None:
    """Tried: Names of files that arithmetic would evaluate.
    Result: refused.
    """
    with pytest.raises(InputError, match=re.sub(r"(\{2?\})", r"\\\1", message)):
        filled(line, value)


@pytest.mark.parametrize(
    "line",
    ["n=$(wc -l < {}); echo $((n + 1))", "echo $((1 + 2)) {}", "x={}; echo \"$x\"; ls $((3))",
     "[ -e {} ] && cat {}", "[[ {} == *.xyz ]]", "export X={}; prog", "i=1; sort {} > $((i)).txt",
     'echo "$(date)" {}', 'echo "${HOME}" {}', "x=abc; echo ${x:0:2} {}", "echo ${x:-y} {}",
     "while read x; do echo $((x)); done < {}", "printf '%s\\n' {}",
     "case {} in *.gz) zcat {};; esac",
     "(cd /; ls) | cat - {}", "[ {} = a ] || exit 3", "declare x={}", "local_x={}; ls \"$local_x\"",
     "echo {} # $((x))", "bash -eu run.sh {}", "samtools read {}", "find . -name {}",
     "n=$(wc -l < {}); [ \"$n\" -gt 1 ] || exit $n", "echo let {}", "./run.sh {} > {.}.sh"],
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
        with pytest.raises(TemplateError, match="the shell would not fill it in"):
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
