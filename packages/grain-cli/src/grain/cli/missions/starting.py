"""A start of a mission: its folder, its keeper, and the first word of it; and its end."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grain.cli.mission_records import (
    MissionStart,
    last_line,
    make,
    missions_folder,
    name_error,
    read,
    remove_old,
    time_of_files,
)
from grain.cli.missions.environment import kept
from grain.cli.missions.keeper import keep
from grain.cli.missions.logout import at_logout
from grain.cli.missions.state import Phase, State, judge
from grain.cli.options import check_bridges
from grain.cli.show import clean
from grain.files.processes import PeerProcess, start_time, this_process
from grain.files.trust import open_appended, python_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grain.cli.mission_records import StartRecord

LABEL = "GRAIN_MISSION"
"""The variable that has the label of a mission, and so the name of one whose program gives none."""


def described(
    program: Sequence[str],
    *,
    name: str | None,
    directory: str,
    env: Mapping[str, str],
    detached: bool,
    config: str = "",
) -> MissionStart:
    """Return what is to run, when a user has typed a program and its arguments.

    Raises:
        click.ClickException: there is no such program, or it cannot be run; or the name is none.
    """
    first, *rest = program
    path = Path(directory, first)
    if first.endswith(".py") or path.is_dir():
        if not path.exists():
            raise click.ClickException(f"there is no program {clean(path)}")
        # Where Python looks first: beside the program itself, and not beside a link to it.
        _refuse_namesake(path if path.is_dir() else path.resolve().parent)
        command = (sys.executable, first, *rest)
    elif "/" in first or path.is_file():
        if not path.exists():
            raise click.ClickException(f"there is no program {clean(path)}")
        if not os.access(path, os.X_OK):
            raise click.ClickException(
                f"{clean(path)} is neither a Python program (*.py) nor executable: chmod +x it"
            )
        command = (str(path), *rest)
    else:
        if shutil.which(first, path=env.get("PATH")) is None:
            raise click.ClickException(f"there is no program {clean(first)}, here or on PATH")
        command, path = (first, *rest), Path()
    name = name if name is not None else Path(first).stem or path.resolve().stem  # of `.`
    if error := name_error(name):
        raise click.ClickException(f"{clean(name)!r} cannot name a mission: {error}; use --name")
    file = path / "__main__.py" if path.is_dir() else path
    is_file = file.is_file()
    return MissionStart(
        name=name,
        command=command,
        directory=directory,
        environment=kept(env),
        at=time.time(),
        detached=detached,
        program=str(file) if is_file else "",
        digest=digest(file) if is_file else "",
        config=config,
    )


def _refuse_namesake(folder: Path) -> None:
    """Refuse a Python program beside which something has the name of this package.

    Python looks there first: the program would import that, or itself.
    """
    from grain.cli.doctor.installed import NAMESAKES

    for name in NAMESAKES:
        if (folder / name).exists():
            raise click.ClickException(
                f"{clean(folder / name)} hides the package `grain` from your program: give "
                f"{Path(name).parts[0]} another name"
            )


def digest(file: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def state_of(record: StartRecord) -> State:
    """Return what has become of a start."""
    now = partial(time_of_files, record.folder.parent)
    me = this_process()
    return judge(record, host=me.host, kernel=me.kernel, now=now, began=start_time)


def begin(start: MissionStart, env: Mapping[str, str], *, otherwise: str) -> int:
    """Start a mission; without ``detached``, return its exit status when it has ended.

    Args:
        otherwise: the end of a sentence: what the user may do where one of that name runs.

    Raises:
        click.ClickException: one of that name runs, or the program cannot be run: nothing is
            started, and nothing is left of it.
        ConfigError, EdgeError: a detached mission has a wrong configuration, or a bridge whose key
            or version cannot be used; nothing is started either.
        OSError: the state directory cannot be written.
    """
    if start.detached:
        _check_config(start, env)
    folder = missions_folder()
    remove_old(folder)
    prefix = _prefix_at_logout() if start.detached else ()
    _refuse_second(start.name, read(folder, start.name), otherwise)
    with _made(folder, start) as record:
        # Of two that begin at the same moment both have made their folders.
        earlier = [one for one in read(folder, start.name) if one.number < record.number]
        _refuse_second(start.name, earlier, otherwise)
        environment = {**env, LABEL: record.label}
        if not start.detached:
            return _keep_here(record, environment)
        _keep_detached(record, environment, prefix)
    click.echo(
        f"{start.name} runs on, also when you log out; `grain attach {start.name}` shows its "
        f"output, which is in {clean(record.output)}"
    )
    return 0


def begin_another(start: MissionStart, env: Mapping[str, str], *, otherwise: str) -> None:
    """Start a detached mission that may run beside others of its name, and print nothing.

    Args:
        otherwise: the end of a sentence: what the user may do where nothing survives the logout.

    Raises:
        click.ClickException: the program cannot be run: nothing is started.
        ConfigError, EdgeError: as for `begin`.
        OSError: the state directory cannot be written.
    """
    _check_config(start, env)
    prefix = _prefix_at_logout(otherwise)
    folder = missions_folder()
    remove_old(folder)
    with _made(folder, start) as record:
        _keep_detached(record, {**env, LABEL: record.label}, prefix)


def _prefix_at_logout(
    otherwise: str = "submit the mission as a job: `grain start`",
) -> tuple[str, ...]:
    """Return what a detached mission is started with, so that it survives the user's logout.

    Args:
        otherwise: the end of a sentence: what the user may do where nothing survives it.

    Raises:
        click.ClickException: nothing survives that here.
    """
    logout = at_logout()
    if problem := logout.problem(otherwise):
        raise click.ClickException(problem)
    return logout.prefix


@contextmanager
def _made(folder: Path, start: MissionStart) -> Iterator[StartRecord]:
    """Make the folder of a start; remove it if the block fails before the program runs."""
    record = make(folder, start)
    try:
        yield record
    except BaseException:
        if not (record.folder / "process.json").exists():
            shutil.rmtree(record.folder, ignore_errors=True)
        raise


def _check_config(start: MissionStart, env: Mapping[str, str]) -> None:
    """Check what the program is about to read, as its failure may go unseen."""
    from grain.config import load

    config = load(env=env, cwd=start.directory)
    check_bridges(config.head.listen, config.worker.cli_dial)


def _refuse_second(name: str, records: Sequence[StartRecord], otherwise: str) -> None:
    """Refuse to start a mission while one of its name runs."""
    for other in records:
        state = state_of(other)
        if state.phase.alive:
            raise click.ClickException(
                f"a mission {name} is there already: {other.label} {state.detail}; `grain attach "
                f"{name}` follows it, `grain cancel {name}` ends it, {otherwise}"
            )


def _keep_here(record: StartRecord, env: dict[str, str]) -> int:
    start = record.start
    try:
        status = keep(record.folder, start, lambda: None, terminal=True, env=env)
    except OSError as error:
        raise click.ClickException(_failure(start, f"{error.strerror}")) from None
    return status if status >= 0 else 128 - status


def _keep_detached(record: StartRecord, env: dict[str, str], prefix: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    try:
        with os.fdopen(open_appended(str(record.output)), "ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own module
                [*prefix, *python_command("grain.cli.missions.keeper"), record.folder, str(writer)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
                start_new_session=True,
            )
    finally:
        os.close(writer)
    with os.fdopen(reader, "rb") as first_word:
        error = first_word.read().decode(errors="replace")
    if not (record.folder / "process.json").exists():
        process.wait()
        # A keeper that could not begin at all has printed why, as has systemd-run.
        raise click.ClickException(_failure(record.start, error or last_line(record)))
    # It outlives this command, which does not wait for it.
    process.returncode = 0


def _failure(start: MissionStart, why: str) -> str:
    return f"{clean(start.command[0])} cannot be started in {clean(start.directory)}: {clean(why)}"


def end(record: StartRecord) -> None:
    """Send SIGTERM to a mission of this host, which ends its tasks and then itself.

    Raises:
        click.ClickException: it does not run, or it runs on another host.
    """
    state = state_of(record)
    process = record.process
    if state.phase is Phase.STARTING:
        raise click.ClickException(f"{record.label} {state.detail}: try again")
    if not state.phase.alive or process is None:
        raise click.ClickException(f"{record.label} does not run: it {state.detail}")
    if process.kernel != this_process().kernel:
        raise click.ClickException(
            f"{record.label} {state.detail}, and no scheduler reaches it from here; log in there "
            f"and repeat: grain cancel {record.label}"
        )
    if PeerProcess(process.pid, process.began).alive:
        os.kill(process.pid, signal.SIGTERM)
