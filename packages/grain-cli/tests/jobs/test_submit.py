"""`grain submit`: what gets into the queue, and what is printed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from grain.cli.jobs.submit import _INSTEAD, submit
from grain.queue.patterns import Facts
from grain.queue.records import ArraySpec, Dependency
from grain_testkit.states import state, worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from grain.queue.records import TaskInput
    from grain_testkit.job_commands import JobCommands

SCRIPT = """\
#!/bin/sh
#GRAIN --name opt -r Cores=4
#GRAIN --time 2h  # a comment
echo begun
#GRAIN --hold
"""


@contextmanager
def ended_at_once(jobs: JobCommands, number: int, **how: Any) -> Iterator[None]:
    """Have a job end as soon as it is there."""

    def end() -> None:
        while not jobs.queue.jobs.has(number):
            time.sleep(0.01)
        jobs.end(number, **how)

    thread = threading.Thread(target=end)
    thread.start()
    yield
    thread.join()


def test_a_command_is_submitted_as_it_is_typed(jobs: JobCommands) -> None:
    assert "job 1\n" == jobs.done("submit", "sh", "-c", "echo $HOME --hold")

    job = jobs.queue.job(1)
    assert ("sh", "-c", "echo $HOME --hold") == job.command
    assert ("sh", str(jobs.home), "job-%j.out") == (job.name, job.directory, job.stdout)
    assert os.environ["PATH"] == job.environment["PATH"]


def test_options_reach_the_job(jobs: JobCommands) -> None:
    jobs.submit()
    (jobs.home / "in").write_text("1\n")
    (jobs.home / "sub").mkdir()
    jobs.done(
        "submit", "-J", "name", "-r", "Cores=2,Memory=4", "-t", "1:30:00", "-a", "1-9:2%3",
        "--after", "1:any", "--begin", "2030-01-01T00:00+00:00", "-H", "--priority", "7",
        "--retries", "2", "--halt", "fail=3", "--no-requeue", "--signal", "USR2@30", "-D", "sub",
        "--env", "A=b=c", "-o", "%x.out", "-e", "%x.err", "--append", "-i", "in",
        "--scratch", "--", "true", "-H",
    )  # fmt: skip

    job = jobs.queue.job(2)
    assert ("name", ("true", "-H"), str(jobs.home / "sub")) == (
        job.name,
        job.command,
        job.directory,
    )
    assert ({"Cores": 2, "Memory": 4}, 5400.0) == (job.request, job.timeout)
    assert ArraySpec(ranges=((1, 9, 2),), at_once=3) == job.array
    assert (Dependency(jobs=(1,), until="any"),) == job.after
    assert (1893456000.0, True, 7, 2, 3, False) == (
        job.not_before,
        job.held,
        job.priority,
        job.retries,
        job.halt,
        job.requeue,
    )
    assert (signal.SIGUSR2, 30.0) == (job.signal, job.signal_before)
    assert ("b=c", "%x.out", "%x.err") == (job.environment["A"], job.stdout, job.stderr)
    assert (True, "in", True) == (job.append, job.stdin, job.scratch)


def test_a_script_is_copied_with_its_directives_before_the_first_command(jobs: JobCommands) -> None:
    (jobs.home / "job.sh").write_text(SCRIPT)
    jobs.done("submit", "job.sh", "mol.xyz", "-H")
    (jobs.home / "job.sh").unlink()

    job = jobs.queue.job(1)
    assert (SCRIPT, ("mol.xyz", "-H"), "opt") == (job.script, job.command, job.name)
    assert ({"Cores": 4}, 7200.0, False) == (job.request, job.timeout, job.held)


def test_a_script_names_its_queue_unless_the_command_line_does(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAIN_QUEUE", "dawn")
    (jobs.home / "job.sh").write_text("#!/bin/sh\n#GRAIN --queue night\n")
    submitted = [
        json.loads(jobs.grain("submit", "--json", *words).stdout)
        for words in (["job.sh"], ["--queue", "noon", "job.sh"], ["true"])
    ]
    assert ["night", "noon", "dawn"] == [one["queue"] for one in submitted]


def test_ranks_share_the_cores(jobs: JobCommands) -> None:
    jobs.done("submit", "-n", "2", "-r", "Cores=5", "true")
    (jobs.home / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 4 -c 2\n")
    jobs.done("submit", "job.sh")
    jobs.done("submit", "-r", "Cores=2", "job.sh")

    command, script, fewer = (jobs.queue.job(number) for number in (1, 2, 3))
    assert {"ntasks": "2", "cpus-per-task": "2"} == command.options
    assert ({"Cores": 8}, {"ntasks": "4", "cpus-per-task": "2"}) == (script.request, script.options)
    jobs.done("submit", "-n", "2", "-r", "Cores=all", "true")
    assert {"ntasks": "2"} == jobs.queue.job(4).options
    # The ranks belonged to cores that are not asked for any more.
    assert ({"Cores": 2}, {}) == (fewer.request, fewer.options)


def test_a_clean_environment_has_what_a_login_has(jobs: JobCommands) -> None:
    jobs.done("submit", "--clean-env", "--env", "A=b", "true")

    variables = jobs.queue.job(1).environment
    assert {"HOME": str(jobs.home), "A": "b"}.items() <= variables.items()
    assert "/usr/local/bin:/usr/bin:/bin" == variables["PATH"]
    assert variables.keys() <= {"A", "HOME", "LOGNAME", "PATH", "SHELL", "USER"}


def test_the_command_line_goes_before_directives(jobs: JobCommands) -> None:
    (jobs.home / "job.sh").write_text(SCRIPT)
    jobs.done("submit", "-J", "mine", "job.sh")
    jobs.done("submit", "--directives", "off", "job.sh")

    mine, off = jobs.queue.job(1), jobs.queue.job(2)
    assert ("mine", {"Cores": 4}) == (mine.name, mine.request)
    assert ("job.sh", {"Cores": 1}) == (off.name, off.request)


def test_standard_input_goes_along(jobs: JobCommands) -> None:
    jobs.done("submit", "-i", "-", "cat", input="piped\n")

    path = jobs.queue.stdin(jobs.queue.job(1), Facts(1, None, "", "", ""))
    assert path is not None
    assert "piped\n" == path.read_text()


def test_each_task_of_an_array_may_read_a_file_of_its_own(jobs: JobCommands) -> None:
    (jobs.home / "in.7").touch()
    jobs.done("submit", "-a", "7-8", "-i", "in.%a", "cat")
    jobs.done("submit", "-i", "%j.in", "cat")  # whose name is not known yet

    assert ("in.%a", "%j.in") == (jobs.queue.job(1).stdin, jobs.queue.job(2).stdin)


def inputs(jobs: JobCommands, number: int) -> list[tuple[int, TaskInput]]:
    """Return the inputs of a job."""
    return list(jobs.queue.inputs(jobs.queue.job(number)))


def test_each_line_of_a_file_is_a_task(jobs: JobCommands) -> None:
    (jobs.home / "mols").write_bytes(b"H2O.xyz\r\n\nC H 4\n  \nd/C2H6\xff")
    jobs.done("submit", "--each-line", "mols", "--", "echo", "a-{}", "{/.}", "{#}")
    jobs.done("submit", "--each-line", "-", "-a", "2-3%1", "--", "echo", input="a\nb\nc\n")
    (jobs.home / "mols").unlink()

    first, second = jobs.queue.job(1), jobs.queue.job(2)
    assert ArraySpec(ranges=((1, 3, 1),)) == first.array
    assert ("echo", "a-{}", "{/.}", "{#}") == first.command
    assert [
        (1, ("H2O.xyz", ("H2O.xyz",), ("echo", "a-H2O.xyz", "H2O", "1"))),
        (2, ("C H 4", ("C H 4",), ("echo", "a-C H 4", "C H 4", "2"))),
        (3, ("d/C2H6\udcff", ("d/C2H6\udcff",), ("echo", "a-d/C2H6\udcff", "C2H6\udcff", "3"))),
    ] == inputs(jobs, 1)
    assert ArraySpec(ranges=((2, 3, 1),), at_once=1) == second.array
    assert [(2, ("b", ("b",), ("echo",))), (3, ("c", ("c",), ("echo",)))] == inputs(jobs, 2)
    assert ("c", ("c",), ("echo",)) == jobs.queue.input(second, 3)


def test_each_row_of_a_table_is_a_task_and_a_script_gets_its_columns(jobs: JobCommands) -> None:
    (jobs.home / "job.sh").write_text("#!/bin/sh\n#GRAIN --each-line other\n")
    (jobs.home / "runs.csv").write_text('molecule,T\n"my\nwater",300\nethanol,350\n')
    jobs.done("submit", "--csv", "runs.csv", "--header", ":", "job.sh", "{molecule}", "{2}")
    jobs.done("submit", "--csv", "-", "echo", "{}", "x{}", input="a,b\nc,d\n")

    assert ("molecule", "T") == jobs.queue.job(1).columns
    assert [
        (1, ('"my\nwater",300', ("my\nwater", "300"), ("my\nwater", "300"))),
        (2, ("ethanol,350", ("ethanol", "350"), ("ethanol", "350"))),
    ] == inputs(jobs, 1)
    assert [("echo", "a", "b", "xa b"), ("echo", "c", "d", "xc d")] == [
        one.command for _, one in inputs(jobs, 2)
    ]


def test_each_item_of_a_list_is_a_task(jobs: JobCommands) -> None:
    (jobs.home / "a.json").write_text('[{"x": 1.5, "name": "ü"}, {"name": [1, null], "x": true}]')
    jobs.done("submit", "--from-json", "a.json", "echo", "{name}", "{x}")
    jobs.done("submit", "--from-json", "-", "echo", "{}", input='["a.b", 2]')

    assert [
        (1, ('{"x": 1.5, "name": "ü"}', ("1.5", "ü"), ("echo", "ü", "1.5"))),
        (
            2,
            (
                '{"name": [1, null], "x": true}',
                ("true", "[1, null]"),
                ("echo", "[1, null]", "true"),
            ),
        ),
    ] == inputs(jobs, 1)
    assert [(1, ("a.b", ("a.b",), ("echo", "a.b"))), (2, ("2", ("2",), ("echo", "2")))] == inputs(
        jobs, 2
    )


def test_the_number_is_printed_for_programs(jobs: JobCommands) -> None:
    assert "1\n" == jobs.done("submit", "--parsable", "true")
    assert {"job": 2, "queue": "queue"} == json.loads(jobs.done("submit", "--json", "true"))


def test_a_queue_of_another_name_is_made(jobs: JobCommands) -> None:
    assert jobs.done("submit", "--queue", "night", "-H", "true").startswith("job 1\n")
    assert 1 == jobs.queue.jobs.end()
    assert "on hold" in jobs.done("jobs", "--queue", "night")


def test_a_job_stays_submitted_if_no_dispatcher_can_be_started(idle: JobCommands) -> None:
    done = idle.grain("submit", "true")

    assert (0, "job 1\n") == (done.exit_code, done.stdout)
    assert done.stderr.startswith("job 1 waits: no dispatcher could be started, so ")
    assert "true" == idle.queue.job(1).name


def test_a_wrong_configuration_is_named_and_the_job_stays_submitted(idle: JobCommands) -> None:
    (idle.home / "grain.toml").write_text("nonsense = 1\n")
    done = idle.grain("submit", "true")

    assert (0, "job 1\n") == (done.exit_code, done.stdout)
    assert "nonsense" in done.stderr
    assert done.stderr.startswith("job 1 waits: no dispatcher could be started, so ")


def test_a_user_who_begins_learns_that_there_are_no_workers(
    idle: JobCommands, address: str, answering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "job 1 waits: there are no workers: `grain up` starts one\n"
    monkeypatch.setattr("grain.cli.jobs.dispatcher.wake_dispatcher", lambda *_: "")
    assert idle.grain("submit", "true").stderr == ""
    monkeypatch.setattr("grain.cli.jobs.submit._on_terminal", lambda: True)
    assert idle.grain("submit", "true").stderr == note.replace("1", "2", 1)
    with answering(address, state=state()):
        assert "there are no workers" in idle.grain("submit", "true").stderr
    with answering(address, state=state(workers=[worker()])):
        assert idle.grain("submit", "true").stderr == ""
    idle.dispatch()
    assert idle.grain("submit", "true").stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a script or a command, as in: grain submit job.sh"),
        (("no-such-program",), "no-such-program: there is no such script here, and no such"),
        (("text",), "text is not a script: write #! and an interpreter into its"),
        (("dos.sh",), "dos.sh has line ends of Windows: run dos2unix dos.sh"),
        (("null.sh",), "null.sh is not a text"),
        (("option.sh",), "in a line #GRAIN: No such option"),
        (("word.sh",), "in a line #GRAIN: true is not an option"),
        (("wait.sh",), "in a line #GRAIN: give --wait on the command line"),
        (("quote.sh",), "line 2 has a quote that is not closed"),
        (("-a", "1-2000000", "true"), "are at most 999,999, and a job has at most 100,000"),
        (("-a", "x", "true"), "--array 'x': 'x' is neither a number nor a range"),
        (("-a", "0-999998", "true"), "it has 999,999 tasks, and a job has at most 100,000"),
        (("--after", "1", "true"), "there is no job 1 to wait for"),
        (("--after", "0", "true"), "there is no job 0 to wait for"),
        (("-t", "soon", "true"), "--time soon: write a span of time"),
        (("-r", "Cores=x", "true"), "-r Cores=x"),
        (
            ("-n", "4", "-r", "Cores=2", "true"),
            "each rank needs a core of its own: ask for -r Cores=4",
        ),
        (("-n", "2", "-r", "Memory=2", "true"), "each rank needs a core of its own"),
        (("-n", "1", "-r", "Cores=0.5", "true"), "each rank needs a core of its own"),
        (("--signal", "USR2", "true"), "add --time"),
        (("--each-line", "empty", "true"), "--each-line empty: there is no line in it"),
        (("--each-line", "null.sh", "true"), "--each-line null.sh: there is a null character"),
        (("--each-line", "many", "true"), "has 100,001 lines, and a job has at most 100,000 tasks"),
        (("--each-line", "missing", "true"), "missing"),
        (("--each-line", "text", "-a", "1-2", "true"), "--each-line text has the inputs 1 to 1"),
        (("--each-line", "text", "-a", "0-1", "true"), "--each-line text has the inputs 1 to 1"),
        (("--each-line", "-", "-i", "-", "cat"), "both read what is piped"),
        (("--each-line", "text", "sh", "-c", "cat {}"), "a shell would run commands that are in"),
        (("--each-line", "text", "echo", "{%}"), "{%}: a task of a job has no slot"),
        (("--each-line", "text", "echo", "{2}"), "{2}: an input has 1 column, counted from 1"),
        (("--each-line", "wide", "echo", *["{}"] * 20), "are longer than 100 MB: put what is the"),
        (("--each-line", "long", "echo", "x{}"), "input 1 makes a word of more than 131 kB"),
        (("--each-line", "long", "true"), "input 1 makes a word of more than 131 kB, and no"),
        (("gone/job.sh",), "gone/job.sh: there is no such file here"),
        (("sub",), "sub is a directory: name a script or a program in it"),
        (("",), "the name of the script or program is empty"),
        (("program",), "program is a program, and you may not execute it: chmod +x program"),
        (("-D", "gone", "true"), "--cwd: there is no directory"),
        (("-D", "text", "true"), "--cwd: there is no directory"),
        (("-i", "gone", "cat"), "/gone does not exist"),
        (("-i", "gone%a", "-a", "7-8", "cat"), "/gone7 does not exist"),
        (("-J", "x" * 201, "true"), "--name: a name has at most 200 characters"),
        (("--priority", "1000000001", "true"), "1000000001 is not in the range"),
        (("--after", "1", "-D", "gone", "true"), "there is no job 1 to wait for"),
        (("--each-line", "text", "--csv", "text", "true"), "--each-line and --csv both make an"),
        (("--header", ":", "true"), "--header : names the columns of --csv FILE"),
        (("--csv", "a.csv", "echo", "{3}"), "{3}: input 2 has only 2 columns"),
        (("--csv", "a.csv", "--header", ":", "true"), "row 1 has 2 columns, where the header has"),
        (("--csv", "b.csv", "--header", ":", "true"), "the name 'x' of a column in b.csv is there"),
        (("--csv", "c.csv", "true"), "the file ends within a quoted column"),
        (("--csv", "c.csv", "--header", "x", "true"), "'x' is not ':'"),
        (("--from-json", "text", "true"), "--from-json text: it is not JSON"),
        (("--from-json", "a.json", "true"), "--from-json a.json: it has to be a list"),
        (("--from-json", "b.json", "true"), "item 2 has other keys than item 1, which has x"),
        (("--from-json", "c.json", "true"), "--from-json c.json: there is no item in it"),
        (("--from-json", "d.json", "true"), "item 1 has a null character in it"),
        (("--from-json", "e.json", "true"), "item 2 has half of a character in it"),
        (("--each-line", "/dev/zero", "true"), "--each-line /dev/zero: it is longer than 10 MB"),
        (("--halt", "fail=1", "true"), "--halt fail=1 is for arrays: add --array or --each-line"),
        (("--halt", "soon,fail=3", "-a", "1-9", "true"), "write fail and a number, as fail=3"),
        (("--env", "A", "true"), "--env A: write NAME=VALUE"),
        (("--queue", "../x", "true"), "cannot be the name of a queue"),
    ],
)
def test_a_submission_that_makes_no_sense_submits_nothing(
    jobs: JobCommands, words: tuple[str, ...], message: str
) -> None:
    files = {
        "text": "a text\n",
        "empty": "\n \n",
        "many": "x\n" * 100_001,
        "wide": f"{'x' * 130_000}\n" * 50,
        "long": "ü" * 65_530 + "\n",
        "program": "\x7fELF\x02",
        "a.csv": "a,b,c\n1,2\n",
        "b.csv": "x,x\n1,2\n",
        "c.csv": '"a\n',
        "a.json": '{"x": 1}',
        "b.json": '[{"x": 1}, {"y": 1}]',
        "c.json": "[]",
        "d.json": '["\\u0000"]',
        "e.json": '["\\ud83d\\ude00", "\\ud83d"]',
        "dos.sh": "#!/bin/sh\r\ntrue\r\n",
        "null.sh": "#!/bin/sh\n\0\n",
        "option.sh": "#!/bin/sh\n#GRAIN --no-such\n",
        "word.sh": "#!/bin/sh\n#GRAIN true\n",
        "wait.sh": "#!/bin/sh\n#GRAIN --wait\n",
        "quote.sh": "#!/bin/sh\n#GRAIN --name 'a\n",
    }
    (jobs.home / "sub").mkdir()
    for name, text in files.items():
        (jobs.home / name).write_bytes(text.encode())

    assert message in jobs.refused("submit", *words)
    assert 1 == jobs.queue.jobs.end()


def test_what_another_job_may_make_is_not_looked_for(jobs: JobCommands) -> None:
    jobs.submit()
    for later in (("--after", "1"), ("--begin", "+1h"), ("-H",)):
        jobs.done("submit", *later, "-D", "later", "-i", "in", "cat")


def test_a_directory_that_was_removed_is_named(
    jobs: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = jobs.home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert "this directory was removed" in jobs.refused("submit", "true")
    monkeypatch.chdir(jobs.home)


def test_a_submission_that_waits_says_how_its_job_ended(jobs: JobCommands) -> None:
    """The job is the second one, which has its end before: numbers are given in order."""
    jobs.submit()
    done = jobs.grain("submit", "-W", "--begin", "soon", "true")
    assert 255 == done.exit_code

    with ended_at_once(jobs, 2, status=3):
        done = jobs.grain("submit", "-W", "true")
    assert (1, "job 2\n") == (done.exit_code, done.stdout)
    assert "job 2 (true) failed: exit status 3\n" == done.stderr


def test_an_output_that_all_tasks_share_is_named_with_their_inputs(jobs: JobCommands) -> None:
    (jobs.home / "in").write_text("H2O\nCH4\n")
    done = jobs.grain("submit", "--each-line", "in", "-o", "all.txt", "--", "echo", "{}")
    assert 0 == done.exit_code
    assert done.stderr.startswith(
        f"grain submit: all 2 tasks write to {jobs.home}/all.txt, as task 1 (H2O) and task 2 "
        "(CH4): they append to it, and what is in it stays. With %a in its name, as in "
        "all-%a.txt, each has its own\n"
    )
    for words in (["-o", "%a"], ["-o", "all.txt", "--append"], ["-o", "/dev/null"]):
        done = jobs.grain("submit", "-a", "1-3", *words, "--", "true")
        assert "tasks write to" not in done.stderr


def test_a_warning_that_all_tasks_of_an_array_get_is_said(jobs: JobCommands) -> None:
    (jobs.home / "in").write_text("H2O\nCH4\n")
    warn = ["submit", "--each-line", "in", "-t", "1h", "--warn"]
    done = jobs.grain(*warn, "EXIT=now", "--", "true")
    assert 0 == done.exit_code
    assert done.stderr.startswith(
        "grain submit: --warn EXIT is one file for all 2 tasks: the warning of task 1 (H2O) stops "
        "task 2 (CH4), too, if it runs then. With %a in its name, as in EXIT-%a, or "
    )
    for words in (["EXIT-%a"], ["SIGTERM"], ["EXIT", "-a", "1-2%1"], ["EXIT", "-a", "2"]):
        assert "one file" not in jobs.grain(*warn, *words, "--", "true").stderr


def test_a_warning_that_another_job_of_the_directory_gets_is_said(jobs: JobCommands) -> None:
    def said(*words: str) -> str:
        return jobs.grain("submit", "-J", "opt", "-t", "1h", *words, "--", "true").stderr

    assert "" == said("--warn", "EXIT")
    assert said("--warn", "EXIT").startswith(
        "grain submit: --warn EXIT is also the file of job 1 (opt) in this directory: the warning "
        "of one stops the other, too, if both run. With %j in its name, as in EXIT-%j, each has "
    )
    (jobs.home / "b").mkdir()
    for words in (["EXIT-%j"], ["STOP"], ["EXIT", "-D", "b"], ["EXIT", "--after", "2,1:any"]):
        assert "is also" not in said("--warn", *words)
    # Two parts later.
    assert "" == said("--warn", "x")
    assert "" == said("--warn", "x", "--after", "7:any")
    assert "" == said("--warn", "x", "--after", "8:any")
    for number in range(1, 7):
        jobs.end(number)
    assert "" == said("--warn", "EXIT")


def test_outputs_that_are_one_file_by_a_link_are_refused(jobs: JobCommands) -> None:
    (jobs.home / "d1").mkdir()
    (jobs.home / "d2").symlink_to("d1")
    for name in ("h1", "7-h1"):
        (jobs.home / name).touch()
        (jobs.home / name.replace("h1", "h2")).hardlink_to(jobs.home / name)
    for words in (["-o", "d%a/out"], ["-o", "d%a/x", "-e", "d%a/err"], ["-o", "h%a"]):
        command = ["submit", "-a", "1-3", *words, "--", "true"]
        assert " are one file, by a link: give each task its own" in jobs.refused(*command)
        assert 0 == jobs.grain("submit", "--append", *command[1:]).exit_code
    refused = jobs.refused("submit", "-a", "1,11", "-o", "d1/1%a", "-e", "d2/%a", "--", "true")
    assert "d1/11, to which task 1 writes, and " in refused
    assert "d2/11 of task 11 are one file" in refused
    for words in (
        ["-o", "d1/%a"],
        ["-o", "d1/%a", "-e", "d2/%a"],
        ["-o", "/dev/null"],
        ["-o", "%j-h%a"],
    ):
        assert 0 == jobs.grain("submit", "-a", "1-3", *words, "--", "true").exit_code


def test_a_task_that_would_empty_the_output_of_another_is_refused(jobs: JobCommands) -> None:
    words = ("submit", "-a", "1-20", "-o", "out%a", "-e", "out1%a", "--", "true")
    assert (
        f"{jobs.home}/out11 is the output of task 11 and the file for standard error of task 1"
    ) in jobs.refused(*words)
    assert 1 == jobs.queue.jobs.end()


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("-c 4", "-c 4: there is no such configuration file; for cores use -r Cores=4"),
        ("-c no.toml", "-c no.toml: there is no such configuration file"),
        ("--cpus=4", "there is no --cpus here: use -r Cores=4"),
        ("--mem 4G", "there is no --mem here: use -r Memory=8, in GB"),
        ("-p main", "there is no -p here: use [script] of grain.toml"),
        ("-d afterok:1", "there is no -d here: use --after 12"),
        ("--pty bash", "there is no --pty here: use --wait, as no terminal reaches a worker"),
        ("--wrap true", "there is no --wrap here: use the command after --"),
    ],
)
def test_words_of_sbatch_and_hq_lead_to_the_right_option(
    jobs: JobCommands, words: str, instead: str
) -> None:
    assert f"Error: {instead}" in jobs.refused("submit", *words.split(), "--", "true")
    assert jobs.queue.jobs.end() == 1


def test_what_leads_to_an_option_is_none_itself() -> None:
    own = {name for option in submit.params for name in option.opts}
    assert not own & _INSTEAD.keys()
