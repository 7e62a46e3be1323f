"""What every display shows of one campaign, with a queue and a gang, as files in `displays`.

A difference is not a fault by itself: look whether the new text is the true one, and have the files
written again with ``REWRITE_DISPLAYS=1``. The files hold what is shown today, mistakes included.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from slurm_site import SlurmSite

from grain.cli import main
from grain.cli.queue.rows import job_row, jobs_text, task_rows, tasks_text
from grain.cli.report.collecting import collect
from grain.cli.report.trace import trace
from grain.cli.status.ls_text import state_text
from grain.cli.top.plain import text as top_text
from grain.cli.top.tables.picture import ASCII
from grain.edge.questions import OverviewAnswer, unpack
from grain.eventlog.causes import NO_FAILURE, RunFailure
from grain.eventlog.reader import read
from grain.eventlog.schema import (
    BriefTasks,
    CachedResults,
    LogEnded,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
)
from grain.eventlog.usage import MemberUsage, RunMember, Usage
from grain.head.gnaw.metrics import Exposition
from grain.head.messages import AckTasks, Request, Submit, Synced
from grain.queue.book import Blocks, Book
from grain.queue.records import Begun, Ended
from grain.queue.selectors import Selected
from grain.resource import Cores, to_data
from grain.worker.messages import CoresComputed, Lease
from grain_testkit.campaign import Campaign
from grain_testkit.event_logs import write_log
from grain_testkit.hub_harness import F, HubHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain.eventlog.schema import AnyLine

FOLDER = Path(__file__).parent / "displays"
WIDTHS = (50, 80, 120)
LOG = "20260105-080000-campaign@1-5ca1ab1e0ddba11"
BEGAN = 1_767_700_000.0


def same(name: str, shown: str) -> None:
    """Compare a display with its file."""
    file = FOLDER / name
    if os.environ.get("REWRITE_DISPLAYS"):
        file.write_text(shown)
    assert file.read_text().splitlines() == shown.splitlines()


def at_widths(show: Callable[[int], str]) -> str:
    return "".join(f"==== {width} columns\n{show(width)}" for width in WIDTHS)


def campaign_lines() -> Iterator[AnyLine]:
    """Yield a campaign, and at its end a gang, brief calls, cached ones, and a job's attempts."""
    *lines, end = Campaign(40, gpu_tasks=2).lines()
    yield from lines
    assert isinstance(end, LogEnded)
    now = end.time
    gang: dict[str, Any] = {"function": "md", "request": {"Cores": 2}, "members": (2,)}
    yield TaskSubmitted(time=now, task=9001, request_text="2 * Cores(2)", **gang)
    yield TaskStarted(time=now + 1, task=9001, worker="n01", members=("n01", "n03"))
    yield RunEnded(
        time=now + 31, task=9001, outcome="value", worker="n01", host="node1", started=now + 1,
        ended=now + 31, cpus=(0, 1), usage=Usage(
            user=100.0, peak_memory=1.5, measured_by="cgroup", programs=2, members=(
                MemberUsage(user=55.0, peak_memory=0.9, measured_by="cgroup", programs=1),
                MemberUsage(user=45.0, peak_memory=1.5, measured_by="cgroup", programs=1))),
        members=(RunMember(worker="n01", host="node1", cpus=(0, 1)),
                 RunMember(worker="n03", host="node3", cpus=(2, 3))),
    )  # fmt: skip
    yield BriefTasks(
        time=now + 32, function="score", tasks=4000, began=now + 31, seconds=0.068, waited=900.0,
        request={"Cores": 1}, request_text="Cores(1)",
    )  # fmt: skip
    yield CachedResults(time=now + 33, function="score", results=12)
    why = "Error in routine: charge is wrong"
    message = "/scratch/a b/pw.x -in si.in: exit code 3; on host node3; the last lines of stderr: "
    charge = RunFailure("JobFailed", f"{message}{why}", "pw.x", 3, line=why)
    for attempt, exit_status in ((1, 3), (2, 0)):
        at = now + 30 + 10 * attempt
        yield TaskSubmitted(
            time=at, task=9001 + attempt, function="job.sh", request={"Cores": 1},
            request_text="Cores(1)", retry_of=9002 if attempt == 2 else 0,
        )  # fmt: skip
        yield TaskStarted(time=at, task=9001 + attempt, worker="n03")
        yield RunEnded(
            time=at + 5, task=9001 + attempt, outcome="error" if exit_status else "value",
            worker="n03", host="node3", started=at, ended=at + 5, cpus=(1,),
            failure=charge if exit_status else NO_FAILURE,
            usage=Usage(user=4.0, programs=1, exit_statuses={exit_status: 1}),
        )  # fmt: skip
    yield LogEnded(time=now + 60, status="done")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the log of the campaign."""
    for name, value in {
        "HOME": tmp_path,
        "XDG_STATE_HOME": tmp_path / "state",
        "XDG_CACHE_HOME": tmp_path / "cache",
        "TZ": "UTC",
    }.items():
        monkeypatch.setenv(name, str(value))
    time.tzset()
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grain.toml").write_text("")
    write_log(tmp_path / "state/grain/missions" / LOG, campaign_lines())
    return tmp_path


def grain(*words: str, columns: int = 80) -> str:
    done = CliRunner().invoke(main, words, catch_exceptions=False, env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("history", ["history"]),
        ("mission", ["history", "campaign"]),
        ("failures", ["history", "--failed", "campaign"]),
    ],
)
def test_the_past_is_shown_as_ever(name: str, words: list[str]) -> None:
    same(f"{name}.txt", at_widths(lambda columns: grain(*words, columns=columns)))


@pytest.mark.usefixtures("home")
def test_data_of_the_past_are_as_ever() -> None:
    shown = grain("history", "--json", "campaign")
    same("mission.json", json.dumps(json.loads(shown), indent=1, sort_keys=True))
    same("history.csv", grain("history", "--csv"))
    same("runs.csv", "\n".join(grain("history", "--csv", "campaign").splitlines()[-30:]))
    same("calls.txt", grain("history", "--calls", "campaign"))
    same("whatif.txt", grain("whatif", "campaign"))
    same(
        "why.txt",
        "".join(grain("why", "--patience", "0.1", f"campaign:{task}") for task in (9001, 9002)),
    )


def test_a_report_has_the_figures_that_it_ever_had(home: Path) -> None:
    log = home / "state/grain/missions" / LOG
    report = collect(read(log))
    grain("report", "-o", "page.html", "campaign")
    page = Path("page.html").read_text()
    page = re.sub(r"(?s)<(style|script|svg|title)\b.*?</\1>", "", page)
    words = re.sub(r"<[^>]+>", "\n", page)
    same("report.txt", "\n".join(line.strip() for line in words.splitlines() if line.strip()))
    workers = {
        one.name: {
            "runs": one.runs,
            "core_seconds": round(one.core_seconds, 3),
            "offered": round(one.offered, 3),
            "sent_back": one.sent_back,
        }
        for one in report.workers
    }
    same("report-workers.json", json.dumps(workers, indent=1))
    events = json.loads("".join(trace(read(log))))["traceEvents"]
    kinds: dict[str, int] = {}
    for event in events:
        key = f"{event['ph']} {event.get('cat', '')}"
        kinds[key] = kinds.get(key, 0) + 1
    same("trace.json", json.dumps(kinds, indent=1, sort_keys=True))


def scheduler() -> HubHarness:
    """Return a hub with a gang, a queue of waiting tasks, failures, a lost worker."""
    harness = HubHarness(wall=BEGAN)
    for name in ("n01", "n02", "n03"):
        harness.worker(name, 2)
    mission = harness.mission("screening", number=2)
    harness.send(mission, Request(1, to_data(2 * Cores(2))), Synced())
    harness.submit(mission, 1)
    lease = next(lease for name in ("n01", "n02", "n03") for lease in harness.sent(name, Lease))
    [name] = [
        one.name for one in harness.hub.registry.workers.values() if lease.attempt in one.leases
    ]
    harness.wait(20)
    harness.send(
        name,
        harness.ended(lease, "error", failure=RunFailure("ValueError", "no")),
        payload=b"x",
    )
    harness.send(mission, AckTasks((1,)))
    harness.send(mission, Submit(2, 1, F), payload=b"args")
    harness.submit(mission, *range(3, 12))
    harness.wait(10)
    harness.lose("n02", 5.0)
    harness.wait(90)
    for link in ("n01", "n03"):
        harness.send(link, CoresComputed(1.2))
    harness.wait(5)
    return harness


def test_the_present_is_shown_as_ever() -> None:
    harness = scheduler()
    state = harness.hub.snapshot(harness.now)
    same("ls.txt", at_widths(lambda columns: state_text(state, columns)))
    answer = unpack(harness.hub.overview.packed(harness.now), OverviewAnswer)
    shown = at_widths(lambda columns: top_text(answer, columns, ASCII))
    same("top.txt", re.sub(r"\d\d:\d\d:\d\d  ", "HH:MM:SS  ", shown))
    metrics = Exposition(harness.hub, 1.0).text().decode()
    ours = [one for one in metrics.splitlines() if one.startswith("grain_")]
    same("metrics.txt", "\n".join(ours))


@pytest.fixture
def jobs(home: Path) -> SlurmSite:
    """A queue with an array, retries, a gang, and jobs of every end."""
    site = SlurmSite(home)
    made = BEGAN
    script = ("--wrap", "true")
    site.submit("-J", "array", "-a", "1-4", *script)
    site.submit("-J", "retried", *script)
    site.submit("-J", "wide", "-N", "2", *script)
    site.submit("-J", "waits", "-d", "afterok:2", *script)
    site.submit("-J", "a-name-that-is-rather-long-for-a-table", *script)

    def begin(number: int, task: int | None, attempt: int = 1, **more: Any) -> None:
        begun = Begun(at=made, host="n7.site", worker="w7", pid=1, **more)
        assert site.queue.begin(number, task, attempt, begun)

    def end(number: int, task: int | None, attempt: int = 1, **more: Any) -> None:
        ended = Ended(**{"how": "exit", "at": made + 90, "elapsed": 90.0, **more})
        assert site.queue.end(number, task, attempt, ended)

    ends: tuple[dict[str, Any], ...] = (
        {}, {"status": 2}, {"how": "timeout", "signal": 15}, {"how": "memory", "signal": 9},
    )  # fmt: skip
    for task, how in enumerate(ends, 1):
        begin(1, task)
        end(1, task, **how)
    begin(2, None)
    end(2, None, how="lost", message="its worker is gone")
    begin(2, None, 2)
    usage = Usage(user=80.0, system=2.0, peak_memory=0.5, measured_by="cgroup", programs=1)
    end(2, None, 2, usage=usage)
    begin(3, None, others=("n8.site",), cpus=2)
    end(3, None, how="signal", signal=11)
    return site


def fixed(text: str) -> str:
    """Return a text without the time of its making and the names of this machine."""
    text = re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d", "DATE", text)
    text = re.sub(r"/\S*/(pytest-\S+?|popen\S*?)/[^/\s]*0", "HOME", text)
    return text.replace(socket.gethostname(), "HOST")


def test_jobs_are_shown_as_ever(jobs: SlurmSite) -> None:
    book = Book.read(jobs.queue)
    now = BEGAN + 500
    blocks = Blocks(book)
    rows = [job_row(book, entry, now, blocks) for entry in book.entries.values()]
    one = task_rows(book, book.entries[1], Selected(1, 1), now, blocks)

    same("jobs.txt", at_widths(lambda columns: jobs_text("queue", rows, columns)))
    same("job.txt", at_widths(lambda columns: tasks_text(1, "array", one, columns)))
    table = list(csv.reader(io.StringIO(grain("jobs", "--all", "--csv"))))
    same("jobs.csv", "\n".join(",".join(row[:9]) for row in table))
    data = json.loads(grain("jobs", "--all", "--json"))
    for job in data:
        for key in ("submitted", "user", "directory"):
            del job[key]
    same("jobs.json", json.dumps(data, indent=1))


def test_commands_of_others_show_jobs_as_ever(jobs: SlurmSite) -> None:
    user = jobs.out("squeue", "-h", "-o", "%u").split()[0]
    shown = [jobs.out("squeue"), jobs.out("squeue", "-t", "all", "-l", "-h")]
    shown.append(jobs.out("squeue", "-o", "%i|%F|%K|%j|%t|%M|%l|%D|%C|%R|%E"))
    form = "JobID,JobName,State,ExitCode,Elapsed,TotalCPU,MaxRSS,NodeList,AllocCPUS"
    shown.append(jobs.out("sacct", "-S", "2020-01-01", "-o", form))
    shown.append(jobs.out("sacct", "-S", "2020-01-01", "-P", "-o", form))
    texts = "\n".join(shown).replace(f"{user:>8}", "    USER").replace(user, "USER")
    same("slurm.txt", fixed(texts))
    # What depends on this machine, and on when the jobs were made.
    varied = ("User", "Path", "StdErr", "StdOut", "StdIn", "WorkDir", "Group", "Time", "Alloc")
    fields = [
        field
        for number in "45"
        for field in jobs.out("scontrol", "show", "job", number).split()
        if not any(word in field.partition("=")[0] for word in varied)
    ]
    same("scontrol.txt", "\n".join(fields))
