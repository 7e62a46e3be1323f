"""A Gnaw that served a peer leaves a log; an unwanted one leaves none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.eventlog.reader import read
from grain.eventlog.schema import LogEnded, LogStarted, MissionJoined
from grain.eventlog.store import LogStore
from grain.head.gnaw.event_log import EventLogOptions, recording
from grain.head.gnaw.main import make_parser

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def options(tmp_path: Path) -> EventLogOptions:
    return EventLogOptions(str(tmp_path), 86400.0, 1.0)


async def test_the_log_of_gnaw_begins_with_its_first_peer_and_ends_with_it(
    options: EventLogOptions, tmp_path: Path
) -> None:
    with recording(options, "edge:///here") as log:
        assert log is not None
        assert [] == list(tmp_path.iterdir())
        log.mission_joined("m1", "opt")
    (stored,) = LogStore(tmp_path / "schedulers").logs()
    first, joined, end = read(stored.folder)
    assert isinstance(first, LogStarted)
    assert ("scheduler", "gnaw", "edge:///here") == (first.source, first.name, first.address)
    assert isinstance(joined, MissionJoined)
    assert isinstance(end, LogEnded)
    assert "done" == end.status


async def test_a_gnaw_that_fails_says_so_in_its_log(
    options: EventLogOptions, tmp_path: Path
) -> None:
    with pytest.raises(OSError), recording(options, "") as log:
        assert log is not None
        log.mission_joined("m1", "opt")
        raise OSError
    (stored,) = LogStore(tmp_path / "schedulers").logs()
    end = stored.end()
    assert end is not None
    assert "failed" == end.status


def test_a_gnaw_that_was_not_asked_for_a_log_has_none() -> None:
    with recording(None, "") as log:
        assert log is None
    assert make_parser().parse_args([]).event_log is None
    assert "" == make_parser().parse_args(["--event-log="]).event_log
