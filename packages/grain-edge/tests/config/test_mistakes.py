"""The mistakes in a file, and the words for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.config.errors import ConfigError, Mistake
from grain.files.batch_systems import BATCH_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grain.config import Config

    Refused = Callable[..., str]
    Load = Callable[..., Config]

SPAN = "a span of time: '[d-]hh:mm:ss', a number with units as '30m', or seconds as a whole number"


SYSTEMS = "expected one of 'local', {}, 'ssh', 'custom' or '' (local)".format(
    ", ".join(map(repr, BATCH_SYSTEMS))
)
HOSTS = "expected an array of hosts, each with its number of workers, such as ['n1', 'n2:2']"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[script]\nwalltime = 24:00:00\n",
            (
                "grain.toml:2:14: not valid TOML: "
                "Expected newline or end of document after a statement, in 'walltime = 24:00:00'"
            ),
        ),
        ("a = [1,", "grain.toml:1:8: not valid TOML: Invalid value, in 'a = [1,'"),
        (
            "[script]\n[script]\n",
            "grain.toml:2:8: not valid TOML: Cannot declare ('script',) twice, in '[script]'",
        ),
        (
            "\r\nsystem = slurm\r\n",
            "grain.toml:2:10: not valid TOML: Invalid value, in 'system = slurm'",
        ),
        ("a = " + "[" * 5000, "grain.toml: not valid TOML: nested too deeply"),
    ],
)
def test_errors_of_syntax_name_line_and_column_and_show_the_line(
    refused: Refused, text: str, expected: str
) -> None:
    assert refused(text) == expected


def test_number_of_thousands_of_digits(refused: Refused) -> None:
    """Python's own limit on digits is reported as a mistake of the file."""
    assert refused("a = " + "9" * 5000).startswith("grain.toml: not valid TOML: Exceeds the limit")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "adress = 'x'",
            (
                "adress: found an unknown key, expected at the top of the file one of address, "
                "contextmod, custom_system, head, hosts, script, shape, system, worker; "
                "did you mean address?"
            ),
        ),
        (
            "[script]\nwalltme = 1",
            (
                "script.walltme: found an unknown key, expected in [script] one of cores, "
                "extra_args, memory, memory_resource, nodes, parallel_environment, queue, "
                "setup_cleanup, shebang, walltime; "
                "did you mean script.walltime?"
            ),
        ),
        (
            "walltime = 1",
            (
                "walltime: found an unknown key, expected at the top of the file one of address, "
                "contextmod, custom_system, head, hosts, script, shape, system, worker; "
                "did you mean script.walltime?"
            ),
        ),
        (
            "[gnaw]\nmax_conn = 1",
            (
                "gnaw: found an unknown key, expected at the top of the file one of address, "
                "contextmod, custom_system, head, hosts, script, shape, system, worker; "
                "did you mean head.gnaw?"
            ),
        ),
        (
            "[worker.reserve]\ncolour = 1",
            (
                "worker.reserve.colour: found an unknown key, expected in [worker.reserve] "
                "one of memory, walltime"
            ),
        ),
        (
            "source = 'x'",
            (
                "source: found an unknown key, expected at the top of the file one of address, "
                "contextmod, custom_system, head, hosts, script, shape, system, worker"
            ),
        ),
        (
            '"a\\u001bb" = 1',
            (
                "'a\\x1bb': found an unknown key, expected at the top of the file one of address, "
                "contextmod, custom_system, head, hosts, script, shape, system, worker"
            ),
        ),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_known_one(
    refused: Refused, text: str, expected: str
) -> None:
    """The message has the keys of its table, and the nearest known key if there is one."""
    assert refused(text) == f"grain.toml: {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "system = 'pjm'",
            f"system: found the string 'pjm', {SYSTEMS}",
        ),
        *(
            (
                f"system = '{name}'",
                f"system: found the string '{name}', {SYSTEMS} (did you mean '{meant}'?)",
            )
            for name, meant in [("SLURM", "slurm"), ("Grid Engine", "sge"), ("condor", "htcondor")]
        ),
        ("hosts = 'n1'", f"hosts: found the string 'n1', {HOSTS} (in brackets)"),
        (
            "hosts = ['-oProxyCommand=x']",
            f"hosts: found an array, {HOSTS} ('-oProxyCommand=x' is not the name of a host)",
        ),
        ("hosts = ['n1:0']", f"hosts: found an array, {HOSTS} ('n1:0' is not the name of a host)"),
        (
            "hosts = ['n1', 'n1']",
            (
                f"hosts: found an array, {HOSTS} "
                "('n1' is there twice; 'n1:2' stands for two workers on n1)"
            ),
        ),
        (
            "system = 'ssh'",
            (
                "hosts: found no host, expected those of the workers, such as ['n1', 'n2:2'], as "
                "system = 'ssh' needs them"
            ),
        ),
        (
            "[custom_system]\nid_pattern = '('",
            (
                "custom_system.id_pattern: found the string '(', expected a regular expression (it "
                "is not a regular expression: missing ), unterminated subpattern at position 0)"
            ),
        ),
        (
            "[custom_system]\nphases = { QUE = 'waits' }",
            (
                "custom_system.phases: found a table, expected a table of words, each with a "
                "phase, such as { QUE = 'pending' } (QUE is one of 'pending', 'stuck', 'running', "
                "'ending', 'gone')"
            ),
        ),
        (
            "address = ''",
            "address: found the string '', expected an address such as 'edge:///shared/me/edge'",
        ),
        ("contextmod = 1", "contextmod: found the number 1, expected the path of a Python file"),
        ("script = 'x'", "script: found the string 'x', expected a table, [script]"),
        ("[[script]]\ncores = 1", "script: found an array, expected a table, [script]"),
        ("[head]\ngnaw = []", "head.gnaw: found an empty array, expected a table, [head.gnaw]"),
        (
            "[head]\nname = 'my mission'",
            "head.name: found the string 'my mission', expected a name without spaces and slashes",
        ),
        (
            "[worker]\nname = 'a/b'",
            "worker.name: found the string 'a/b', expected a name without spaces and slashes",
        ),
        (
            '[head]\ncmd = "a\\u0000"',
            "head.cmd: found the string 'a\\x00', expected a string",
        ),
        (
            "[worker]\nname = ''",
            "worker.name: found the string '', expected a name without spaces and slashes",
        ),
        (
            "[worker]\ncluster = 'my cluster'",
            (
                "worker.cluster: found the string 'my cluster', expected a name without spaces, or "
                "'' for that of the batch system"
            ),
        ),
        (
            "[worker]\nlog_file = 'w{{HHMM}}.log'",
            (
                "worker.log_file: found the string 'w{{HHMM}}.log', expected the path of a file "
                "({{HHMM}} is not a placeholder; there is only {{HHMMSS}})"
            ),
        ),
        (
            "[head.gnaw]\nenabled = 'yes'",
            "head.gnaw.enabled: found the string 'yes', expected true or false",
        ),
        (
            "[head.gnaw]\nenabled = 1",
            "head.gnaw.enabled: found the number 1, expected true or false",
        ),
        (
            "[head.gnaw]\nmax_conn = 0",
            "head.gnaw.max_conn: found the number 0, expected a whole number from 1 to 1000000",
        ),
        (
            "[head.gnaw]\npool = -1",
            (
                "head.gnaw.pool: found the number -1, expected a whole number from 0 to 1000000, "
                "or 'auto' for as many as the tasks need"
            ),
        ),
        (
            "[head.gnaw]\npool = 'Auto'",
            (
                "head.gnaw.pool: found the string 'Auto', expected a whole number from 0 to "
                "1000000, or 'auto' for as many as the tasks need"
            ),
        ),
        ("shape = 3", "shape: found the number 3, expected tables, each under [[shape]]"),
        (
            "[shape]\nname = 'a'",
            "shape: found a table, expected tables, each under [[shape]]",
        ),
        (
            "[[shape]]\nname = 'a b'",
            (
                "shape.'a b'.name: found the string 'a b', expected a word of letters, digits, '_' "
                "and '-' that begins with a letter"
            ),
        ),
        (
            "[[shape]]\nname = 'a'\ncharge = 0",
            "shape.a.charge: found the number 0, expected a number above 0",
        ),
        (
            "[[shape]]\nmax = 2",
            "shape.1.name: found nothing, expected a name for it, as in name = 'gpu'",
        ),
        (
            "[[shape]]\nname = 'a'\n[[shape]]\nname = 'a'",
            "shape.a.name: found it twice, expected different names",
        ),
        (
            "[[shape]]\nname = 'a'\nwalltime = 50",
            (
                "worker.reserve.walltime: found 00:01:00, expected less than the job's walltime "
                "(a), 00:00:50, or no time is left for tasks"
            ),
        ),
        (
            "[[shape]]\nname = 'a'\nwalltme = 50",
            (
                "shape.a.walltme: found an unknown key, expected in [[shape]] one of charge, "
                "cores, extra_args, gpus, max, memory, memory_resource, name, nodes, "
                "parallel_environment, queue, res, setup_cleanup, shebang, walltime; did you mean "
                "shape.walltime?"
            ),
        ),
        (
            f"[head.gnaw]\npool = 1{'0' * 3000}",
            (
                "head.gnaw.pool: found a number of more than 40 digits, "
                "expected a whole number from 0 to 1000000, or 'auto' for as many as the tasks need"
            ),
        ),
        (
            "[head.gnaw]\nidle_timeout = ''",
            f"head.gnaw.idle_timeout: found the string '', expected {SPAN}",
        ),
        (
            "[script]\ncores = true",
            (
                "script.cores: found the boolean true, "
                "expected a whole number from 1 to 1000000, or 0 for unset"
            ),
        ),
        (
            "[script]\ncores = 1.5",
            (
                "script.cores: found the number 1.5, "
                "expected a whole number from 1 to 1000000, or 0 for unset"
            ),
        ),
        (
            "[script]\nmemory = '60GB'",
            (
                "script.memory: found the string '60GB', expected a number of GB, or 0 for unset "
                "(without quotes and without a unit)"
            ),
        ),
        (
            "[script]\nmemory = nan",
            "script.memory: found the number nan, expected a number of GB, or 0 for unset",
        ),
        (
            "[script]\nmemory = inf",
            "script.memory: found the number inf, expected a number of GB, or 0 for unset",
        ),
        (
            "[script]\nwalltime = '30'",
            (
                f"script.walltime: found the string '30', expected {SPAN}; or '' for unset "
                "(for seconds, write the number without quotes; for minutes, add an m)"
            ),
        ),
        (
            "[script]\nwalltime = '30:00'",
            (
                f"script.walltime: found the string '30:00', expected {SPAN}; or '' for unset "
                "(hours, minutes and seconds are all needed)"
            ),
        ),
        (
            "[script]\nwalltime = 12:00:00",
            (
                f"script.walltime: found the date or time 12:00:00, expected {SPAN}; "
                "or '' for unset (put it in quotes)"
            ),
        ),
        (
            "[script]\nwalltime = -5",
            f"script.walltime: found the number -5, expected {SPAN}; or '' for unset",
        ),
        (
            "[script]\nwalltime = '3651-00:00:00'",
            (
                f"script.walltime: found the string '3651-00:00:00', expected {SPAN}; "
                "or '' for unset (at most 3650 days)"
            ),
        ),
        (
            "[script]\nshebang = '/bin/sh'",
            "script.shebang: found the string '/bin/sh', expected a line that begins with '#!'",
        ),
        (
            '[script]\nqueue = "a\\nrm -r x"',
            (
                "script.queue: found the string 'a\\nrm -r x', expected a string "
                "(it must be one line without control characters)"
            ),
        ),
        (
            "[script]\nextra_args = '--exclusive'",
            (
                "script.extra_args: found the string '--exclusive', "
                "expected an array of strings of one line each (in brackets)"
            ),
        ),
        (
            "[script]\nextra_args = [1]",
            "script.extra_args: found an array, expected an array of strings of one line each",
        ),
        (
            "[script]\nsetup_cleanup = 1",
            (
                "script.setup_cleanup: found the number 1, "
                "expected shell commands, as lines of one string or as an array"
            ),
        ),
        (
            "[worker]\nres = 'gpu'",
            (
                "worker.res: found the string 'gpu', expected a table of kinds of resource, "
                "each with its data, such as Token = { token = 'gpu' }"
            ),
        ),
        (
            "[worker.env]\nOMP_STACKSIZE = 4",
            (
                "worker.env: found a table, expected a table of environment variables, each with a "
                "string, such as XTBPATH = '/shared/xtb' (the value of OMP_STACKSIZE is a string, "
                "in quotes)"
            ),
        ),
        (
            "[worker.env]\n'A B' = 'x'",
            (
                "worker.env: found a table, expected a table of environment variables, each with a "
                "string, such as XTBPATH = '/shared/xtb' ('A B' cannot be the name of a variable)"
            ),
        ),
        (
            "[custom_system]\ntemplate = {}",
            "custom_system.template: found an empty table, expected a string",
        ),
    ],
)
def test_a_wrong_value_is_reported_with_what_was_found_and_expected(
    refused: Refused, text: str, expected: str
) -> None:
    assert refused(text) == f"grain.toml: {expected}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("'a b' = 1", "'a b' cannot be the name of a resource"),
        ("X = [1979-05-27]", "dates and times are not understood here; write a string"),
        ("X = { since = 07:32:00 }", "dates and times are not understood here; write a string"),
        ("X = inf", "inf is not an amount"),
        ("X = 9223372036854775808", "a number is too large"),
    ],
)
def test_resources_that_json_cannot_express_are_refused(
    refused: Refused, text: str, hint: str
) -> None:
    """Workers get their resources as JSON on the command line."""
    assert refused(f"[worker.res]\n{text}") == (
        "grain.toml: worker.res: found a table, expected a table of kinds of resource, "
        f"each with its data, such as Token = {{ token = 'gpu' }} ({hint})"
    )


def test_custom_system_needs_its_table(refused: Refused) -> None:
    """Missing settings of a custom system are named, key by key."""
    assert refused("system = 'custom'\n[custom_system]\nsubmit_cmd = 'bsub'") == (
        "grain.toml: 2 mistakes\n"
        "  custom_system.directory: found nothing, expected the path of a directory, "
        "as system = 'custom' needs it\n"
        "  custom_system.template: found nothing, expected a string, "
        "as system = 'custom' needs it"
    )


@pytest.mark.parametrize("system", ["local", "ssh", "lsf", "custom"])
def test_several_nodes_need_a_batch_system_in_which_workers_are_started_there(
    refused: Refused, system: str
) -> None:
    text = f"system = '{system}'\n[[shape]]\nname = 'many'\nnodes = 2\n[script]\nnodes = 3"

    why = "expected 1, as a job has workers on several nodes under Slurm, PBS and Grid Engine only"
    said = refused(text)
    assert f"shape.many.nodes: found 2, {why}" in said
    assert f"script.nodes: found 3, {why}" in said


def test_custom_table_without_custom_system(loaded: Callable[[str], object]) -> None:
    """A half-filled [custom_system] does not matter while another system is chosen."""
    loaded("[custom_system]\nsubmit_cmd = 'bsub'")


def test_nothing_left_for_tasks(refused: Refused) -> None:
    """A worker cannot hold back all that its job has."""
    assert refused("[script]\nwalltime = 60\n[worker.script]\nmemory = 0.5") == (
        "grain.toml: 2 mistakes\n"
        "  worker.reserve.walltime: found 00:01:00, expected less than the job's walltime, "
        "00:01:00, or no time is left for tasks\n"
        "  worker.reserve.memory: found 0.5 GB, expected less than the job's memory, "
        "0.5 GB, or no memory is left for tasks"
    )


def test_all_mistakes_at_once(refused: Refused) -> None:
    """Several mistakes are one message, a line for each, in the file's order."""
    assert refused("[script]\ncores = '4'\n[head.gnaw]\nenabled = 0\n[worker]\nname = 1\n") == (
        "grain.toml: 3 mistakes\n"
        "  script.cores: found the string '4', "
        "expected a whole number from 1 to 1000000, or 0 for unset\n"
        "  head.gnaw.enabled: found the number 0, expected true or false\n"
        "  worker.name: found the number 1, expected a name without spaces and slashes"
    )


def test_no_more_mistakes_are_listed_than_a_user_reads(refused: Refused) -> None:
    """A file that is something else altogether is given up after twenty mistakes."""
    message = refused("\n".join(f"key{n} = {n}" for n in range(50_000)))

    assert message.startswith("grain.toml: the first 20 mistakes\n")
    assert message.count("\n") == 20


def test_long_values_are_cut(refused: Refused) -> None:
    """A message shows the beginning of a long value and a long key."""
    assert refused(f"system = '{'x' * 1000}'").startswith(
        f"grain.toml: system: found the string '{'x' * 60}' and 940 more, expected"
    )
    assert refused(f"{'k' * 1000} = 1").startswith(f"grain.toml: '{'k' * 60}': found an unknown")


def test_an_error_has_file_keys_and_texts_apart() -> None:
    """A program that prints them in another way finds file, keys and texts apart."""
    error = ConfigError("f", (Mistake("a", "x"), Mistake("", "y")))

    assert str(error) == "f: 2 mistakes\n  a: x\n  y"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "address = 'tcp://login1'",
            (
                "address: found the string 'tcp://login1', expected an address such as "
                "'edge:///shared/me/edge' ('tcp://login1': a port from 1 to 65535 must follow the"
            ),
        ),
        ("address = 'login1:4000'", "('login1:4000' is not an address: expected edge:///absolute"),
        (
            "address = 'tcp://login1:0'",
            "(port 0 is another port at each start, so workers cannot find it",
        ),
        (
            "[worker]\ndial = 'tcp://::1:4000'",
            (
                "worker.dial: found the string 'tcp://::1:4000', expected an address, or '' for "
                "the usual one ('tcp://::1:4000': write IPv6 numbers in brackets"
            ),
        ),
        ("[head]\nlisten = 'edge://x'", "head.listen: found the string 'edge://x', expected"),
        ("[worker]\ncli_dial = 'http://x'", "worker.cli_dial: found the string 'http://x', "),
        (
            "system = 'pbs'\naddress = 'tcp://:4000'",
            (
                "address: found 'tcp://:4000', which names no host, expected tcp://HOST:PORT, as "
                "workers on other nodes have to dial it; only head.listen may leave the host out"
            ),
        ),
        ("system = 'pbs'\n[worker]\ndial = 'tcp://:4000'", "worker.dial: found 'tcp://:4000', "),
    ],
)
def test_an_address_that_missions_refuse_is_a_mistake_of_the_file(
    refused: Refused, text: str, expected: str
) -> None:
    assert expected in refused(text)


def test_a_scheduler_may_listen_on_every_interface(loaded: Load) -> None:
    """Workers dial its host."""
    text = "system = 'pbs'\naddress = 'tcp://login1:4000'\n[head]\nlisten = 'tcp://:4000'"

    assert "tcp://:4000" == loaded(text).head.listen
    assert "tcp://:4000" == loaded("address = 'tcp://:4000'").worker.dial


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Licences = -2", "Licences = -2 is negative: state how many there are, 0 or more"),
        ("Licences = { vasp = -1 }", "Licences.vasp = -1 is negative"),
        ("Licences = 1.5", "a number of licences is a whole number"),
        ("Cores = 4", "Cores belongs to a worker: state it in [script], or in [worker.res]"),
        ("Token = 'a'", "Token belongs to a worker: state it in [worker.res]"),
        (
            "Licences = { command = 'lmstat', vasp = 5 }",
            "Licences has a command and vasp: state one of them, a command or a number",
        ),
        ("Licences = { pattern = '(?P<total>.)' }", "Licences: the command is one line"),
        ('Licences = { command = "a\\nb" }', "Licences: the command is one line"),
        (
            "Licences.vasp = { command = 'lmstat', pattern = 'Total of (.*)' }",
            "Licences.vasp: the pattern has a group total, as in",
        ),
        ("Licences = { command = 'lmstat', pattern = '(' }", "is not a regular expression"),
        ("Licences = { command = 'lmstat', every = 0 }", "every, is a span of time of 1 s or more"),
        ("Licences = { command = 'lmstat', every = 'soon' }", "every, is a span of time"),
    ],
)
def test_resources_of_the_cluster_that_cannot_be(
    refused: Refused, text: str, expected: str
) -> None:
    said = refused(f"[head.res]\n{text}\n")

    assert said.startswith(
        "grain.toml: head.res: found a table, expected a table of kinds of resource"
    )
    assert expected in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Licences = -2", "a number of licences cannot be negative"),
        ("GPUs = 0.5", "a worker offers whole GPUs, as in GPUs(4)"),
        ("GPUs = 'all'", "a worker offers whole GPUs, as in GPUs(4)"),
        ("Gang = { count = 2, of = { GPUs = 1 } }", "is what a task asks for"),
        ("Either = [{ GPUs = 1 }, { GPUs = 2 }]", "which no worker can have"),
    ],
)
@pytest.mark.parametrize("where", ["[worker.res]", "[[shape]]\nname = 'a'\n[shape.res]"])
def test_resources_that_no_worker_can_have_are_refused_before_a_job_is_submitted(
    refused: Refused, where: str, text: str, expected: str
) -> None:
    assert expected in refused(f"{where}\n{text}\n")


def test_resources_that_a_worker_detects_or_only_it_knows_are_passed_on(loaded: Load) -> None:
    text = "GPUs = 'auto'\nDisks = 0.5\nCores = { auto = { most = 4 } }\n"

    assert loaded(f"[worker.res]\n{text}").worker.res.keys() == {"GPUs", "Disks", "Cores"}


@pytest.mark.parametrize("table", ["worker.res", "head.res"])
def test_a_kind_whose_package_cannot_be_imported_here_is_passed_on(
    loaded: Load, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a login node, a module that it needs may be missing."""
    package = tmp_path / "streams-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: streams\nVersion: 1\n")
    text = "[grain.resources]\nNodeStreams = grain_no_such_module:NodeStreams\n"
    (package / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    config = loaded(f"[{table}]\nNodeStreams = 3\n")
    found = config.worker.res if table == "worker.res" else config.head.res
    assert {"NodeStreams": 3} == found


@pytest.mark.parametrize("where", ["[worker.res]", "[[shape]]\nname = 'a'\n[shape.res]"])
def test_a_kind_has_one_owner(refused: Refused, where: str) -> None:
    text = f"[head.res]\nLicences = 5\n{where}\nLicences = 2\n"

    assert "head.res.Licences: found it in " in refused(text)


def test_a_count_of_the_cluster_is_complete(loaded: Load) -> None:
    config = loaded("[head.res]\nLicences = { a = 2, b = { command = 'c ' } }\nDisks = ['x']\n")

    count = {"command": "c", "pattern": "(?P<total>[0-9]+)", "every": 60}
    assert {"Licences": {"a": 2, "b": count}, "Disks": ["x"]} == config.head.res
