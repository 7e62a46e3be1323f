"""`grain run`, `missions`, `attach`, `resume` and `cancel` with real processes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import pytest

from grain.cli.batch import JobPhase, JobRecord, JobState
from grain.cli.mission_names import starts
from grain.cli.mission_records import (
    End,
    MissionStart,
    Process,
    StartRecord,
    make,
    missions_folder,
    read,
    remove_old,
    write,
)
from grain.cli.missions.attach import begin_at
from grain.cli.workers.jobs import OwnJob
from grain.edge.questions import FoundAnswer
from grain_testkit import states
from grain_testkit.command_line import grain
from grain_testkit.local_processes import stop

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITS = """
import os, signal, sys, time
def end(number, frame):
    print("ended", flush=True)
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, end)
print("begins", *sys.argv[1:], os.environ.get("GRAIN_MISSION"), flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
print("done", flush=True)
"""


@pytest.fixture
def folder(alone: Path) -> Iterator[Path]:
    """A directory with a program that waits for a file, and a state directory; none is left."""
    (alone / "opt.py").write_text(WAITS)
    # What keeps a program handles its signals, for as long as its process lives: this one.
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield alone
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    for one in listed(everything=True):
        if one["state"] == "running":
            os.kill(one["pid"], signal.SIGKILL)


def listed(*, everything: bool = False) -> list[dict[str, Any]]:
    words = ["--all"] if everything else []
    return list(json.loads(grain("missions", "--json", *words).stdout))


def until(state: str, label: str = "opt@1") -> dict[str, Any]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        one = next(one for one in listed() if one["label"] == label)
        if one["state"] == state:
            return one
        time.sleep(0.05)
    raise AssertionError(f"{label} is {one['state']}")


def until_there(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)


def until_printed(one: dict[str, Any], text: str) -> None:
    end = time.monotonic() + 60
    while text not in Path(one["output"]).read_text():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_detached_mission_goes_on_and_its_end_is_known(folder: Path) -> None:
    """In a session of its own; with its arguments, in its directory, under its name."""
    started = grain("run", "-d", "--name", "night", "opt.py", "a", "b c")
    assert (0, True) == (started.exit_code, started.stdout.startswith("night runs on, "))

    one = until("running", "night@1")
    until_printed(one, "begins")
    assert os.getsid(one["pid"]) != os.getsid(0)
    # The end can be written also if the disk is full by then.
    assert 256 == (folder / "state/grain/started/night@1/.end.json").stat().st_size
    (folder / "go").touch()
    followed = grain("attach", "night")

    assert "begins a b c night@1\ndone\n" == followed.stdout, followed.output
    assert (0, "night@1 is done\n") == (followed.exit_code, followed.stderr)
    one = until("done", "night@1")
    assert (0, [sys.executable, "opt.py", "a", "b c"]) == (one["status"], one["command"])
    assert ["done", one["host"]] == grain("missions").stdout.splitlines()[2].split()[-2:]


def test_ctrl_c_detaches_and_the_mission_goes_on(folder: Path) -> None:
    assert 0 == grain("run", "-d", "opt.py").exit_code
    one = until("running")
    until_printed(one, "begins")

    attached = subprocess.Popen(
        [sys.executable, "-m", "grain.cli", "attach", "opt"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert attached.stdout is not None
    assert "begins opt@1\n" == attached.stdout.readline()
    attached.send_signal(signal.SIGINT)
    _, err = attached.communicate(timeout=60)

    again = "`grain attach opt@1` follows it again, `grain cancel opt@1` ends it"
    assert (130, f"\ndetached: opt@1 goes on: {again}\n") == (attached.returncode, err)
    assert "running" == until("running")["state"]


def test_a_mission_that_was_killed_is_resumed(folder: Path) -> None:
    """With the same arguments; a further start of the same name is refused while it runs."""
    os.environ["OMP_STACKSIZE"] = "1G"
    try:
        assert 0 == grain("run", "-d", "opt.py", "x").exit_code
    finally:
        del os.environ["OMP_STACKSIZE"]
    one = until("running")
    assert "opt@1 runs on" in grain("resume", "opt").output
    refused = grain("run", "-d", "opt.py")
    assert (1, True) == (refused.exit_code, "a mission opt is there already" in refused.output)
    os.kill(one["pid"], signal.SIGKILL)
    assert "was killed by SIGKILL" == until("killed")["detail"]

    assert 0 == grain("resume", "opt").exit_code
    again = until("running", "opt@2")
    until_printed(again, "begins x opt")
    variables = Path(f"/proc/{again['pid']}/environ").read_bytes().split(b"\0")
    assert b"OMP_STACKSIZE=1G" in variables
    (folder / "go").touch()
    until("done", "opt@2")
    assert "is done: there is nothing to resume" in grain("resume", "opt").output


def test_an_exit_status_is_not_lost_where_the_end_of_children_is_ignored(folder: Path) -> None:
    """As a shell leaves it to its commands after `trap '' CHLD`."""
    code = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, '-m', 'grain.cli', *sys.argv[1:]])"
    )
    words = ["run", "--name", "opt", "sh", "-c", "exit 3"]
    ended = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, check=False)

    assert 3 == ended.returncode


def test_a_killed_keeper_leaves_a_mission_that_runs_and_is_lost_in_the_end(folder: Path) -> None:
    assert 0 == grain("run", "-d", "opt.py").exit_code
    one = until("running")
    files = folder / "state/grain/started/opt@1"
    keeper = json.loads((files / "process.json").read_text())["keeper"]
    os.kill(keeper, signal.SIGKILL)
    assert "running" == until("running")["state"]
    os.kill(one["pid"], signal.SIGKILL)
    assert "was killed on " in until("killed")["detail"]
    assert 0 == grain("resume", "opt").exit_code


def test_a_program_with_words_and_variables_that_are_no_utf_8_is_started(folder: Path) -> None:
    odd = os.fsdecode(b"x\xff")
    os.environ["ODD"] = odd
    try:
        assert 0 == grain("run", "-d", "opt.py", odd).exit_code
    finally:
        del os.environ["ODD"]
    one = until("running")
    environ = Path(f"/proc/{one['pid']}/environ").read_bytes().split(b"\0")
    assert b"ODD=x\xff" in environ
    assert b"x\xff" in Path(f"/proc/{one['pid']}/cmdline").read_bytes().split(b"\0")
    assert "opt.py 'x?'" in grain("missions").stdout
    (folder / "go").touch()
    until("done")


def test_a_mission_on_a_silent_host_is_resumed_only_by_who_says_that_it_is_lost(
    folder: Path,
) -> None:
    """Its keeper may be stopped: that cannot be seen from here."""
    assert 0 == grain("run", "-d", "opt.py").exit_code
    until("running")
    files = folder / "state/grain/started/opt@1"
    process = json.loads((files / "process.json").read_text())
    elsewhere = {**process, "host": "login9", "kernel": "other/1"}
    try:
        (files / "process.json").write_text(json.dumps(elsewhere))
        assert "opt@1 runs on login9" in grain("resume", "--lost", "opt").output
        stop(process["keeper"])
        os.utime(files / "alive", (0, 0))

        refused = grain("resume", "opt")
        assert 1 == refused.exit_code
        assert "was killed or stopped on login9, or that host was rebooted" in refused.output
        assert "`grain resume --lost opt` starts the mission again" in refused.output
        assert 0 == grain("resume", "--lost", "opt").exit_code
        assert "opt@2" == until("running", "opt@2")["label"]
    finally:
        (files / "process.json").write_text(json.dumps(process))
        os.kill(process["keeper"], signal.SIGKILL)


def test_a_start_is_not_resumed_beside_a_later_one_that_may_still_run(folder: Path) -> None:
    """Nor does it run beside that one where the user names the earlier start."""
    start = MissionStart(
        name="opt", command=("true",), directory=str(folder), environment={}, at=1e9
    )
    earlier = make(missions_folder(), start)
    later = make(missions_folder(), start)
    write(earlier.folder, "end.json", End(status=1, at=1e9))
    elsewhere = Process(host="login9", kernel="other/1", pid=1, began=1, keeper=1, keeper_began=1)
    write(later.folder, "process.json", elsewhere)
    (later.folder / "alive").touch()
    os.utime(later.folder / "alive", (time.time() - 600,) * 2)

    refused = grain("resume", "opt@1")
    assert 1 == refused.exit_code
    assert re.search(r"opt@2 has given no sign of life for (599|60\d) s", refused.output)
    assert "`grain resume --lost opt@1` starts the mission again" in refused.output
    assert 0 == grain("resume", "--lost", "opt@1").exit_code
    assert "done" == next(one for one in listed() if one["label"] == "opt@3")["state"]


def test_lines_that_come_while_the_last_ones_are_looked_for_are_not_lost(tmp_path: Path) -> None:
    """A file of /proc stands for one that grows: its size is 0, and there is something in it."""
    start = MissionStart(name="opt", command=("opt",), directory="/", environment={}, at=0)
    record = StartRecord(tmp_path, 1, start, None, None, 0)
    record.output.symlink_to("/proc/self/limits")
    lines = record.output.read_bytes().splitlines(keepends=True)

    assert len(b"".join(lines[:-3])) == begin_at(record, 3)


def test_cancel_ends_a_mission_that_no_scheduler_has(folder: Path) -> None:
    """After a question; by SIGTERM, which a mission answers by ending its tasks."""
    assert 0 == grain("run", "-d", "opt.py").exit_code
    until_printed(until("running"), "begins")

    assert 1 == grain("cancel", "opt", typed="n\n").exit_code
    assert "running" == until("running")["state"]
    done = grain("cancel", "-y", "opt")

    assert (0, "mission opt@1 is told to end\n") == (done.exit_code, done.output)
    one = until("interrupted")
    assert "was ended by SIGTERM" == one["detail"]
    until_printed(one, "ended")
    again = grain("cancel", "-y", "opt")
    assert (1, True) == (again.exit_code, "opt@1 does not run: it was ended" in again.output)


def test_a_start_that_a_scheduler_has_is_cancelled_by_its_label_and_no_other_one(
    folder: Path, answering: Any
) -> None:
    """It needs no log of it: the scheduler knows its number."""
    (folder / "opt.py").write_text("")
    assert 0 == grain("run", "opt.py").exit_code
    (folder / "opt.py").write_text(WAITS.replace("128 + number", "1"))
    assert 0 == grain("run", "-d", "opt.py").exit_code
    one = until("running", "opt@2")
    until_printed(one, "begins")
    (folder / "s").mkdir(mode=0o700)
    address = f"unix://{folder}/s/s"
    (folder / "grain.toml").write_text(f'address = "{address}"\n')
    here = states.state(missions=[states.mission("opt", id="ab12", number=2, running=1)])
    opt = FoundAnswer(here.missions[0])

    words = ("cancel", "-y", "--patience", "60")
    with answering(address, state=here, find=opt, cancel=opt) as scheduler:
        ended = grain(*words, "opt@1")
        running = grain(*words, "opt@2")

    assert (1, True) == (ended.exit_code, "opt@1 does not run: it is done" in ended.output)
    assert 0 == running.exit_code, running.output
    assert ["state", "state", "find", "cancel"] == [ask.about for ask in scheduler.asked]
    assert ["opt@2", "ab12"] == [ask.mission for ask in scheduler.asked[2:]]
    os.kill(one["pid"], signal.SIGTERM)
    assert "was cancelled by " in until("interrupted", "opt@2")["detail"]


def test_a_program_that_is_gone_or_changed_is_not_resumed(folder: Path) -> None:
    (folder / "opt.py").write_text("raise SystemExit(3)")
    assert 0 == grain("run", "-d", "opt.py").exit_code
    until("failed")
    (folder / "opt.py").write_text("print('changed')")

    refused = grain("resume", "opt")
    program = f"the program of opt@1, {folder / 'opt.py'},"
    assert (1, True) == (refused.exit_code, f"{program} has changed since" in refused.output)
    assert ["opt@1"] == [one["label"] for one in listed()]
    assert 0 == grain("resume", "--changed", "opt@1").exit_code
    until("done", "opt@2")
    (folder / "opt.py").unlink()
    assert f"{program} is not there any more" in grain("resume", "opt@1").output
    assert ["opt@1", "opt@2"] == sorted(one["label"] for one in listed())


def test_a_mission_whose_directory_is_gone_is_not_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "run").mkdir()
    monkeypatch.chdir(folder / "run")
    assert 0 == grain("run", "-d", "--name", "opt", "false").exit_code
    until("failed")
    monkeypatch.chdir(folder)
    (folder / "run").rmdir()

    refused = grain("resume", "opt")
    assert (
        f"Error: the directory of opt@1, {folder / 'run'}, is not there any more\n"
    ) == refused.output


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nope.py"], "there is no program "),
        (["nope"], "there is no program nope, here or on PATH"),
        (["--name", "a b", "opt.py"], "'a b' cannot name a mission"),
        (["--name", "../x", "opt.py"], "'../x' cannot name a mission"),
        (["./plain"], "is neither a Python program (*.py) nor executable"),
        (["./broken"], "cannot be started in "),
        (["hidden/opt.py"], "hidden/grain.py hides the package `grain` from your program: give "),
        (["hidden/grain.py"], "hidden/grain.py hides the package `grain` from your program"),
        (["hidden"], "hidden/grain.py hides the package `grain` from your program"),
        ([], "name a program, as in: grain run opt.py"),
    ],
)
def test_what_cannot_be_started_leaves_nothing(words: list[str], error: str, folder: Path) -> None:
    (folder / "plain").touch()
    (folder / "broken").write_text("#!/no/such/interpreter\n")
    (folder / "broken").chmod(0o755)
    (folder / "hidden").mkdir()
    for name in ("grain.py", "opt.py", "__main__.py"):
        (folder / "hidden" / name).touch()

    for detached in ([], ["-d"]):
        refused = grain("run", *detached, *words)
        assert refused.exit_code in (1, 2)
        assert error in refused.output
        assert [] == listed()
    started = folder / "state/grain/started"
    assert not started.exists() or not list(started.iterdir())


def test_python_looks_beside_the_program_and_not_beside_a_link_to_it(folder: Path) -> None:
    (folder / "linked").mkdir()
    (folder / "linked/grain.py").touch()
    (folder / "end.py").touch()
    (folder / "linked/end.py").symlink_to(folder / "end.py")
    assert 0 == grain("run", "linked/end.py").exit_code

    (folder / "grain.py").touch()
    assert f"{folder}/grain.py hides the package" in grain("run", "linked/end.py").output


def test_a_mission_in_the_terminal_has_its_exit_status(folder: Path) -> None:
    (folder / "fails.py").write_text("import os; os.kill(os.getpid(), 9)")
    ran = subprocess.run(
        [sys.executable, "-m", "grain.cli", "run", "fails.py"], check=False, capture_output=True
    )
    assert 137 == ran.returncode
    assert "was killed by SIGKILL" == until("killed", "fails@1")["detail"]
    assert "in a terminal: its output is there" in grain("attach", "fails").output


def test_only_the_owner_may_read_files_of_a_start(folder: Path) -> None:
    """The environment of the user is in them."""
    mask = os.umask(0)
    try:
        assert 0 == grain("run", "-d", "opt.py").exit_code
    finally:
        os.umask(mask)
    one = until("running")
    until_printed(one, "begins")
    files = folder / "state/grain/started/opt@1"
    until_there(files / "alive")
    assert 0o700 == files.stat().st_mode & 0o777
    modes = {path.name: path.stat().st_mode & 0o777 for path in files.iterdir()}
    assert {"start.json", "process.json", "alive", "output"} <= set(modes)
    assert {0o600} == set(modes.values())


def test_torn_files_are_skipped(folder: Path) -> None:
    broken = folder / "state/grain/started/other@1"
    broken.mkdir(parents=True)
    (broken / "start.json").write_text('{"name": "oth')
    assert [] == listed()
    assert "no mission other was started by `grain run`" in grain("attach", "other").output


def test_a_start_that_another_user_may_have_written_is_not_run(folder: Path) -> None:
    """`grain resume` would run its command."""
    (folder / "opt.py").write_text("raise SystemExit(3)")
    assert 0 == grain("run", "-d", "opt.py").exit_code
    until("failed")
    (folder / "state/grain/started/opt@1").chmod(0o777)
    assert [] == listed()
    assert "no mission opt was started" in grain("resume", "opt").output


def test_starts_in_a_directory_that_another_user_could_exchange_are_not_believed(
    folder: Path,
) -> None:
    """`grain cancel` would end the process that one names.

    Tried: Plant records of jobs and missions in a state directory that others share, so that
    `grain drain` or `grain cancel` ends another process of the user.
    Result: not believed.
    """
    started = folder / "state/grain/started"
    make(started, MissionStart(name="opt", command=("x",), directory="/", environment={}, at=1.0))
    assert ["opt"] == [one.start.name for one in starts()]
    (folder / "state").chmod(0o777)
    assert [] == starts()
    for look in (read, remove_old):
        with pytest.raises(PermissionError, match=f"every user may write to {folder}/state"):
            look(started)
    assert f"every user may write to {folder}/state" in grain("missions").output
    (folder / "state").chmod(0o700)


def test_a_detached_mission_with_a_wrong_configuration_is_not_started(folder: Path) -> None:
    (folder / "grain.toml").write_text('adress = "edge:///shared/me/edge"\n')

    refused = grain("run", "-d", "opt.py")

    assert (1, True) == (refused.exit_code, "adress" in refused.stderr)
    assert [] == listed(everything=True)


def test_missions_are_listed_with_a_wrong_configuration(folder: Path) -> None:
    """They stand in the state directory; the batch system alone cannot be asked."""
    assert 0 == grain("run", "-d", "opt.py").exit_code
    until("running")
    (folder / "grain.toml").write_text('adress = "edge:///shared/me/edge"\n')

    done = grain("missions")

    assert 0 == done.exit_code
    assert "opt@1" in done.stdout
    [note] = done.stderr.splitlines()
    assert note.startswith("Note: the batch system is not asked for missions: ")
    assert "adress" in note
    assert ["opt@1"] == [one["label"] for one in listed()]


def test_the_folder_in_which_one_stands_names_its_mission(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "opt").mkdir()
    (folder / "opt/__main__.py").write_text("")
    monkeypatch.chdir(folder / "opt")
    assert 0 == grain("run", ".").exit_code
    assert ["opt@1"] == [one["label"] for one in listed()]


@pytest.mark.parametrize("changed", [[], ["--changed"]])
def test_what_to_do_about_a_second_mission_of_a_name_is_what_the_command_takes(
    folder: Path, changed: list[str]
) -> None:
    program = (folder / "opt.py").read_text()
    (folder / "opt.py").write_text("raise SystemExit(3)")
    assert 0 == grain("run", "-d", "opt.py").exit_code
    until("failed")
    (folder / "opt.py").write_text(program)
    assert 0 == grain("resume", "--changed", "opt").exit_code
    until_printed(until("running", "opt@2"), "begins")
    if not changed:
        (folder / "opt.py").write_text("raise SystemExit(3)")

    resumed = grain("resume", *changed, "opt@1")
    started = grain("run", "-d", "opt.py")

    for refused in (resumed, started):
        assert (1, True) == (refused.exit_code, "a mission opt is there" in refused.stderr)
    words = " ".join(["grain", "resume", *changed, "opt@1"])
    assert f"ends it, and then `{words}` starts this one\n" in resumed.stderr
    assert "--name" not in resumed.stderr
    assert "--name gives this one another name\n" in started.stderr


@pytest.mark.parametrize("words", [["run", "-d", "opt.py"], ["up"], ["start"]])
def test_nothing_is_started_with_a_key_that_others_may_read(folder: Path, words: list[str]) -> None:
    key = folder / "bridge.key"
    key.write_text(grain("bridge", "key").stdout)
    key.chmod(0o644)
    (folder / "grain.toml").write_text(
        f'system = "local"\naddress = "bridge://@{key}@127.0.0.1:1"\nhead.cmd = "true"\n'
    )

    refused = grain(*words)

    assert 1 == refused.exit_code
    assert f"Run `chmod 600 {shlex.quote(str(key))}`" in refused.stderr
    assert [] == listed(everything=True)
    assert [] == list(folder.glob("*.log"))


@contextmanager
def answering(data: bytes) -> Iterator[int]:
    """Something on loopback that sends some bytes to whoever connects; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(ConnectionError):
                    connection.sendall(data)
                    connection.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


GREETING = msgspec.msgpack.encode({"is": "Greeting", "version": 9, "challenge": bytes(32)})


def configure_bridge(folder: Path, port: int) -> None:
    key = folder / "bridge.key"
    key.touch(0o600)
    key.write_text(grain("bridge", "key").stdout)
    (folder / "grain.toml").write_text(
        f'system = "local"\naddress = "bridge://@{key}@127.0.0.1:{port}"\nhead.cmd = "true"\n'
    )


@pytest.mark.parametrize("words", [["run", "-d", "opt.py"], ["up"], ["start"]])
@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            len(GREETING).to_bytes(4, "big") + GREETING,
            "speaks version 9 of its protocol, this Grain version 2",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what answers there is no bridge of Grain"),
    ],
    ids=["another version", "another server"],
)
def test_nothing_is_started_with_a_bridge_that_cannot_be_used(
    folder: Path, words: list[str], data: bytes, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.cli.options._BRIDGE", 60.0)  # for a busy machine
    with answering(data) as port:
        configure_bridge(folder, port)
        refused = grain(*words)

    assert 1 == refused.exit_code
    assert f"the bridge at 127.0.0.1:{port} " in refused.stderr
    assert error in refused.stderr
    assert [] == listed(everything=True)
    assert [] == list(folder.glob("*.log"))


def test_a_mission_is_started_before_its_bridge(folder: Path) -> None:
    """Either side may come first."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and listens not
        configure_bridge(folder, unused.getsockname()[1])
        assert 0 == grain("run", "-d", "opt.py").exit_code
        until("running")


def test_a_mission_that_waits_as_a_job_stands_above_those_that_have_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`grain attach` says that it waits. Jobs that have ended are listed, too."""
    (folder / "go").touch()
    assert 0 == grain("run", "opt.py").exit_code
    recorded = JobRecord("6", "slurm", "night", f"{folder}/night.log", "", "", 1.0, kind="mission")
    job = OwnJob(recorded, JobState(JobPhase.PENDING, "Resources"))
    ended = OwnJob(dataclasses.replace(recorded, name="old", id="5"), JobState(JobPhase.GONE))
    monkeypatch.setattr("grain.cli.missions.jobs.mission_jobs", lambda _: [ended, job])

    rows = [line.split() for line in grain("missions").stdout.splitlines()[1:]]
    names = [row[0] for row in rows if row[0] in ("night", "opt@1", "old")]
    monkeypatch.setattr("grain.cli.workers.logs.logs", click.Command("logs", callback=follow))

    assert ["night", "opt@1", "old"] == names
    assert (
        f"night is job 6, which waits in the batch system; output in {folder}/night.log\n"
    ) == grain("attach", "night").stderr


def follow(**_: object) -> None:
    """Follow nothing."""
