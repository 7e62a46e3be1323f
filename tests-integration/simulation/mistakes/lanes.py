"""Slips about lanes, see `simulation.mistakes.slips`."""

from __future__ import annotations

from grain.head.hub.missions import Missions
from grain.head.hub.tasks.lanes import LaneTable
from grain.head.hub.tasks.runs import Runs
from grain.remote_exer import MissionSession
from grain.remote_exer.lanes import MissionLanes
from grain.worker.agent.session import WorkerSession
from grain.worker.lanes.calls import LaneCalls
from simulation.mistakes.slips import Slip

LANE_SLIPS: dict[str, Slip] = {
    "a worker ignores that a lane is recalled": Slip(
        WorkerSession,
        "on_message",
        "self._recall([r for r in [self.runs.get(message.attempt)] if r is not None])",
        "pass",
    ),
    "a worker that drains keeps its lanes": Slip(
        WorkerSession,
        "drain",
        "self._recall([run for run in self.runs.values() if run.lease.function == LANE])",
        "pass",
    ),
    "a recalled lane is over for its head before its call is": Slip(
        WorkerSession,
        "on_message",
        "self._recall([r for r in [self.runs.get(message.attempt)] if r is not None])",
        "self._end(self.runs[message.attempt], 'returned', None, now, b'')",
    ),
    "a lane begins a call after it was recalled": Slip(
        LaneCalls, "on_message", "if self.call is None and not self.closed and ", "if "
    ),
    "a lane takes an outcome for confirmed that it has sent": Slip(
        LaneCalls,
        "end_call",
        "self.call = None\n    return self.kept",
        "self.call, self.kept, kept = None, None, self.kept\n    return kept",
    ),
    "a lane does not take in the function of a call": Slip(
        LaneCalls, "_begin_call", "if function is not None:", "if False:"
    ),
    "a lane ignores that its call is cancelled": Slip(
        LaneCalls, "on_message", "self._cancel()", "pass"
    ),
    "a lane reports its calls by the attempt of its run": Slip(
        LaneCalls, "end_call", "msgspec.structs.replace(ended, attempt=self.call)", "ended"
    ),
    "a call leaves its lane when the connection is lost": Slip(
        MissionLanes,
        "on_disconnected",
        "lane.connection = None",
        "lane.connection = None\n    if self._has(lane): self._session.leave_lane(lane.task)",
    ),
    "a cancelled call goes on when the connection of its lane is lost": Slip(
        MissionLanes, "on_disconnected", "self._session.cancel(lane.number)", "pass"
    ),
    "a call is cancelled by a lane whose connection is lost": Slip(
        MissionLanes, "cancel", "lane.open and not lane.over", "lane.open"
    ),
    "the crash of a lane does not count": Slip(
        MissionLanes, "_on_over", "crashes, report = over.crashes, over.report", "pass"
    ),
    "the crash of a lane counts for a call that was not sent": Slip(
        MissionLanes, "_on_over", "elif lane.open and not crashes:", "elif not crashes:"
    ),
    "a call that waits for its lane is not sent": Slip(
        MissionLanes, "_open_if_ready", "if self._has(lane):", "if False:"
    ),
    "a call that waits for its lane waits for ever when the connection is lost": Slip(
        MissionSession, "_end_lanes", "self.leave_lane(task)", "pass"
    ),
    "the crash of a lane counts for its call and the next one": Slip(
        MissionLanes,
        "_on_over",
        "self._session.leave_lane(lane.task, crashes, report)",
        "self._session.leave_lane(lane.task, crashes, report)\n"
        "        for task, record in self._session.pending.items():\n"
        "            record.crashes = record.crashes or crashes",
    ),
    "the crash of a call that did not end its lane does not count": Slip(
        MissionLanes,
        "_on_ended",
        "lane.call_crash = (self._crash(lane, ended.crash),), report",
        "pass",
    ),
    "the outcome that a lane has kept is dropped": Slip(
        MissionLanes,
        "_on_over",
        "self._on_ended(lane, outcome.ended, outcome.payload, now)",
        "pass",
    ),
    "a lane without a call is kept": Slip(MissionLanes, "close_idle", "self._close(lane)", "pass"),
    "a lane takes calls before its runner has come": Slip(
        MissionLanes,
        "_open_if_ready",
        "elif lane.connection is not None and not",
        "elif not",
    ),
    "a call that is over counts as in its lane": Slip(
        MissionLanes,
        "_on_ended",
        "lane.unconfirmed, lane.task, lane.idle_since = task, 0, now",
        "pass",
    ),
    "a lane that is to end takes another call": Slip(
        MissionLanes, "_on_ended", "if not lane.over:", "if True:"
    ),
    "lanes are never recalled": Slip(
        LaneTable,
        "recall",
        "if self._anything_waits():",
        "if False:",
    ),
    "lanes are not recalled for tasks that are to run alone": Slip(
        LaneTable, "_anything_waits", " or bool(self._quarantine.waiting)", ""
    ),
    "a recall that was lost is not repeated": Slip(
        Runs, "confirm", "lease.recalled = False  # likewise", "pass"
    ),
    "a lane is not known as one whose run is reported later": Slip(
        Runs, "_run_as_reported", "self._lanes.on_run(lease)", "pass"
    ),
    "a lane is not known as one before its mission has come back": Slip(
        Runs, "adopt", 'LANE if held.lane else b""', 'b""'
    ),
    "a lane starts that may have run": Slip(
        LaneTable, "ask", "if has_run or not plain:", "if not plain:"
    ),
    "a lane is lent while tasks wait": Slip(
        LaneTable,
        "start_asked",
        "lent = not self._anything_waits()",
        "lent = True",
    ),
    "a paused mission gets lanes": Slip(
        LaneTable, "start_asked", "room = lent and not task.mission.paused", "room = lent"
    ),
    "a gang gets a lane": Slip(LaneTable, "ask", "if has_run or not plain:", "if has_run:"),
    "a lane waits that could not start": Slip(
        LaneTable, "start_asked", "self._scheduler.has_room(queue, now)", "True"
    ),
    "a call leaves its lane as often as that comes": Slip(
        LaneTable, "admits", "mission.left_lanes.add(message.lane)", "pass"
    ),
    "a call that leaves its lane with a larger number is not noted": Slip(
        Missions,
        "_comes_twice",
        "if message.lane:",
        "if message.lane and message.task <= mission.on_link.last_submitted:",
    ),
    "a call that leaves its lane has to ascend": Slip(
        LaneTable, "admits", "return True", "return False"
    ),
    "a call that leaves its lane does not name it": Slip(
        MissionSession, "leave_lane", "record.urgency, lane", "record.urgency, 0"
    ),
    "the crash of a lane counts twice": Slip(
        MissionSession,
        "leave_lane",
        "(*record.crashes, *crashes)",
        "(*record.crashes, *crashes, *crashes)",
    ),
    "a cancelled call that leaves its lane is submitted": Slip(
        MissionSession, "leave_lane", "if record.retracted:", "if False:"
    ),
    "calls in lanes are submitted with each connection": Slip(
        MissionSession,
        "on_connected",
        "if task in self.aboard:",
        "if False:",
    ),
    "a call in a lane is retracted as a task": Slip(
        MissionSession, "cancel", "if task not in self.aboard:", "if True:"
    ),
    "a lane is asked for again with each connection": Slip(
        MissionSession,
        "on_connected",
        "if r.function is LANE and not r.worker]",
        "if False]",
    ),
}
"""Each slip by what it does."""
