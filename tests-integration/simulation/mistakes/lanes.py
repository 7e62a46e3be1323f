"""Slips about lanes, see `simulation.mistakes.slips`."""

from __future__ import annotations

from grain.head.hub.missions import Missions
from grain.head.hub.tasks.lanes import LaneTable
from grain.head.hub.tasks.runs import Runs
from grain.head.hub.tasks.waiting import Waiting
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
        LaneCalls,
        "close",
        "self.closed = True",
        "pass",
    ),
    "a lane takes an outcome for confirmed that it has sent": Slip(
        LaneCalls,
        "end_call",
        "self.kept[self.call] = end",
        "pass",
    ),
    "a lane does not note a call that begins": Slip(
        LaneCalls, "pop_next", "self._begun[0] = call.task", "pass"
    ),
    "a lane does not take in the function of a call": Slip(
        LaneCalls, "pop_next", "if function is not None:", "if False:"
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
        "lane.connection = None\n"
        "    for task in self._of(lane): self._session.leave_lane(task)\n"
        "    lane.calls.clear()",
    ),
    "a cancelled call goes on when the connection of its lane is lost": Slip(
        MissionLanes, "on_disconnected", "self._session.cancel(lane.number)", "pass"
    ),
    "a call is cancelled by a lane whose connection is lost": Slip(
        MissionLanes, "cancel", "lane.open and lane.connection is not None", "lane.open"
    ),
    "the crash of a lane does not count": Slip(
        MissionLanes, "_on_over", "if crashed and over.crashes and", "if False and"
    ),
    "the crash of a lane counts for the first call without an outcome": Slip(
        MissionLanes, "_on_over", "blamed in (0, task)", "True"
    ),
    "the crash of a lane counts for a call that was not sent": Slip(
        MissionLanes, "_on_over", "crashed = lane.open", "crashed = True"
    ),
    "a call that waits for its lane is not sent": Slip(
        MissionLanes, "_open_if_ready", "if self._of(lane):", "if False:"
    ),
    "the crash of a lane counts for its call and the next one": Slip(
        MissionLanes,
        "_on_over",
        "self._session.leave_lane(task, over.crashes, over.report)",
        "self._session.leave_lane(task, over.crashes, over.report)\n"
        "            for record in self._session.pending.values():\n"
        "                record.crashes = record.crashes or over.crashes",
    ),
    "the crash of a call that did not end its lane does not count": Slip(
        MissionLanes,
        "_on_ended",
        "lane.crashes[task] = CallCrash(self._crash(lane, task, ended), report)",
        "pass",
    ),
    "the outcome that a lane has kept is dropped": Slip(
        MissionLanes,
        "_on_over",
        "self._on_ended(lane, ended, payload, now)",
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
        "lane.remove(task, now)\n    lane.idle_since",
        "lane.idle_since",
    ),
    "a lane that is to end takes another call": Slip(
        MissionLanes, "_on_ended", "if not lane.over and not lane.calls:", "if not lane.calls:"
    ),
    "lanes are never recalled": Slip(
        LaneTable,
        "recall",
        "if not self._anything_waits():",
        "if True:",
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
    "a gang gets a lane": Slip(LaneTable, "ask", "if has_run or not plain:", "if has_run:"),
    "a lane waits that could not start": Slip(
        LaneTable, "start_asked", "self._scheduler.has_room(queue, now)", "True"
    ),
    "a call leaves its lane as often as that comes": Slip(
        Missions, "_comes_twice", "message.late <= mission.on_link.last_late", "False"
    ),
    "a call that leaves its lane has to ascend": Slip(
        Missions, "_comes_twice", "if message.late:", "if False:"
    ),
    "calls that leave their lanes are all the first": Slip(
        MissionSession, "_submit_late", "self._late += 1", "self._late = 1"
    ),
    "the crash of a lane counts twice": Slip(
        MissionSession,
        "leave_lane",
        "(*record.crashes, *crashes)",
        "(*record.crashes, *crashes, *crashes)",
    ),
    "a paused mission gets lanes": Slip(
        LaneTable, "start_asked", "room = lent and not task.mission.paused", "room = lent"
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
    "calls that a closed lane has not begun are dropped": Slip(
        LaneCalls,
        "close",
        "self.unsent += [(Ended(call.attempt, UNBEGUN), None) for call, _ in self.waiting]",
        "self.revoked = False",
    ),
    "a closed lane begins those that wait all the same": Slip(
        LaneCalls, "close", "self.waiting.clear()", "pass"
    ),
    "a lane begins the last of its calls first": Slip(
        LaneCalls, "pop_next", "self.waiting.popleft()", "self.waiting.pop()"
    ),
    "a call that is taken back is taken for cancelled": Slip(
        LaneCalls, "_withdraw", "UNBEGUN if message.waiting else", ""
    ),
    "a crash of a lane is that of all of its calls": Slip(
        MissionLanes,
        "_on_over",
        "if crashed and over.crashes and blamed in (0, task):",
        "if lane.open and over.crashes:",
    ),
    "a crash of a lane is that of its last call": Slip(
        MissionLanes,
        "_on_over",
        "blamed = next((crash.call for crash in over.crashes), 0)",
        "blamed = next(reversed(self._of(lane)), 0)",
    ),
    "calls that did not begin in their lane are forgotten": Slip(
        MissionLanes, "_on_over", "self._hold_again(lane, task)", "pass"
    ),
    "a call that was handed back is forgotten": Slip(
        MissionLanes, "_on_ended", "self._hold_again(lane, task)", "pass"
    ),
    "sent calls are held again when the connection is lost": Slip(
        MissionLanes,
        "on_disconnected",
        "lane.connection = None",
        "lane.connection = None\n"
        "    for task in self._of(lane): self._hold_again(lane, task)\n"
        "    lane.calls.clear()",
    ),
    "a call that was cancelled is held again": Slip(
        MissionLanes, "_hold_again", "if record.retracted:", "if False:"
    ),
    "held calls are submitted with each connection": Slip(
        MissionSession,
        "on_connected",
        "if task in self.aboard:",
        "if self.aboard.get(task):",
    ),
    "a held call that goes to the scheduler is held as well": Slip(
        MissionSession, "release", "del self.aboard[task]", "pass"
    ),
    "lanes that wait are never retracted": Slip(
        MissionLanes, "tend", "session.cancel(lane.number)", "pass"
    ),
    "a lane that is retracted takes a turn": Slip(
        Waiting,
        "_return_turn",
        "self._registry.shares.return_turn(lane.mission.share, lane.age, queue.priority)",
        "pass",
    ),
}
"""Each slip by what it does."""
