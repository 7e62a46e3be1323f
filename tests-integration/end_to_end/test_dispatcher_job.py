"""The dispatcher as a batch job: it hands over to its successor, and jobs notice nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from end_to_end.place import MARK
from fake_batch.start import until

if TYPE_CHECKING:
    from end_to_end.place import Place

# A dispatcher has ten seconds: a minute is for its end. It submits the next one after some.
CONFIG = """\
system = "slurm"
[script]
walltime = "00:30:00"
cores = 4
memory = 4
setup_cleanup = ["export {mark}={folder}"]
[worker.res]
Cores = 4
[head.script]
walltime = "00:01:10"
[head.gnaw]
idle_timeout = "3m"
"""
SCRIPT = """\
#!/bin/sh
echo begun >> log
until [ -e go ]; do sleep 0.1; done
echo ended >> log
"""


def status(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.typed("queue", "status", "--json").stdout)
    return found


def dispatchers(place: Place) -> list[dict[str, Any]]:
    return [one for one in place.records() if one["kind"] == "dispatcher" and one["id"][0] != "?"]


def test_jobs_survive_the_end_of_the_job_that_dispatches_them(place: Place) -> None:
    place.configure(CONFIG.format(mark=MARK, folder=place.folder))
    (place.work / "job.sh").write_text(SCRIPT)
    log = place.work / "log"

    assert " of slurm, output in " in place.grain("queue", "start", "--as-job")
    place.grain("submit", "job.sh")
    place.up()
    until(log.exists)
    first = dispatchers(place)[0]["id"]
    until(lambda: first not in [one["id"] for one in status(place)["jobs"]])
    # The next one has the run: it is in charge, and sees the end.
    (place.work / "go").touch()
    place.grain("wait", "1")

    assert "begun\nended\n" == log.read_text()
    output = Path(dispatchers(place)[0]["log_file"]).read_text()
    assert "has taken over: this one ends" in output or "another dispatcher serves it" in output
    assert "the dispatcher has stopped" in place.grain("queue", "stop")
    until(lambda: not status(place)["jobs"])
    assert status(place)["dispatcher"] is None
