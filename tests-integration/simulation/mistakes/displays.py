"""Slips about what heads show of missions, and what missions log."""

from __future__ import annotations

from grain.facts.fold import Fold
from grain.head.hub.answers.overview import Overview
from grain.head.hub.missions import Missions
from grain.head.run_log import RunLog
from grain.remote_exer import MissionSession
from simulation.mistakes.slips import Slip

DISPLAY_SLIPS: dict[str, Slip] = {
    "lanes without a call are shown as tasks that run": Slip(
        Overview,
        "_mission",
        "running[mission.number] - mission.idle_lanes",
        "running[mission.number]",
    ),
    "calls that are held wait in no queue that is shown": Slip(
        Overview, "_count_queues", "if count > 0 and queue.rank is None", "if False"
    ),
    "the log has no end of a run that came to nothing": Slip(
        RunLog, "_on_start", "self._write_end(task, run, self._log.time_of(now), call)", "pass"
    ),
    "of a run that came to nothing the rows say that it goes on": Slip(
        Fold, "_ended", "started=None,", "started=task.started,"
    ),
    "an ended task stays in the rows of open tasks": Slip(
        Fold, "_ended", "self._remove(line.task)", "pass"
    ),
    "a mission that comes back learns of no seats": Slip(
        Missions, "_report_run", "self._reports.on_gang(task.lease)", "pass"
    ),
    "members that changed unseen are not logged": Slip(
        RunLog, "seated", "run.listed = False", "pass"
    ),
    "a call that is held again is logged as one that runs": Slip(
        MissionSession, "leave", 'self._report(Started("", (task,)))', "pass"
    ),
}
"""Each slip by what it does."""
