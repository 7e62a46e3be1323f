"""Slips: deliberate mistakes in one line, such as a tired engineer makes.

Each replaces some words of a method of the product, which have to be there exactly once. Where they
are not any more, the message says which slip to mend.
"""

from __future__ import annotations
import __future__ as future

import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from grain.edge.bridge.leader import Leader
from grain.edge.relay.switchboard import Switchboard
from grain.head.hub.functions import FunctionTable
from grain.head.hub.hub import Hub
from grain.head.hub.missions import Missions
from grain.head.hub.tasks.gangs import Gangs
from grain.head.hub.tasks.outcomes import Outcomes
from grain.head.hub.tasks.quarantine import Quarantine
from grain.head.hub.tasks.runs import Runs
from grain.head.hub.tasks.waiting import Waiting
from grain.head.hub.workers import Workers
from grain.head.scheduler.cluster import ClusterPool
from grain.head.scheduler.guard.starvation_guard import StarvationGuard
from grain.remote_exer import MissionSession
from grain.remote_exer.session.registration import Registration
from grain.worker.agent.session import WorkerSession
from grain.worker.agent.session.delayed import ArrivedLeases
from simulation.cast import faulty

if TYPE_CHECKING:
    from simulation.cast import Cast


class Slip(NamedTuple):
    """One line that is wrong.

    Attributes:
        kind: the class.
        method: its method.
        right: words of that, which occur there once.
        wrong: those in their place.
    """

    kind: type
    method: str
    right: str
    wrong: str

    def cast(self) -> Cast:
        """Return the classes of a world that has it.

        Raises:
            ValueError: the words are not there.
        """
        source = textwrap.dedent(inspect.getsource(getattr(self.kind, self.method)))
        if source.count(self.right) != 1:
            raise ValueError(
                f"{self.kind.__name__}.{self.method} has {self.right!r} {source.count(self.right)} "
                "times, and not once: mend this in tests-integration/simulation/mistakes"
            )
        names = dict(vars(sys.modules[self.kind.__module__]))
        flags = future.annotations.compiler_flag
        wrong = source.replace(self.right, self.wrong)
        exec(compile(wrong, f"<{self.method}>", "exec", flags, dont_inherit=True), names)
        return faulty(self.kind, **{self.method: names[self.method]})


SLIPS: dict[str, Slip] = {
    "a new head hands out licences at once": Slip(
        Missions, "__init__", "self._scheduler.cluster.shut(self._limbo_ends)", "pass"
    ),
    "adopted runs use no licences": Slip(
        Runs,
        "_hold",
        "space = split_time(resources_of(held.res))[1]\n    if",
        "space = self._scheduler.cluster.split(split_time(resources_of(held.res))[1])[0]\n    if",
    ),
    "licences that are given back are handed out only when others are": Slip(
        ClusterPool, "give_back", "self.changed = True", "pass"
    ),
    "a task that ends gives one kind of licences back": Slip(
        ClusterPool, "give_back", "self._supplies[kind].dealloc(part)", "pass"
    ),
    "licences that runs of an earlier head hold are handed out": Slip(
        ClusterPool, "reclaim", "if kind in self._supplies:", "if False:"
    ),
    "nothing has licences after the time in which a new head hands out none": Slip(
        ClusterPool, "open", "self.changed = True", "pass"
    ),
    "a new head says that it hands out no licences, and does": Slip(
        ClusterPool, "shut", "self.opens = until", "pass"
    ),
    "licences are not kept for the oldest task that lacks them": Slip(
        ClusterPool, "share_out", "elif not queue.bits & ~closed:", "elif False:"
    ),
    "what is kept for a suspect is handed out": Slip(
        ClusterPool, "share_out", "for kept in self._kept.values():", "for kept in ():"
    ),
    "licences stay kept for a suspect that has started": Slip(
        ClusterPool, "release", "self._kept.pop(key, None) is not None", "False"
    ),
    "a task starts again on the word of its gang's root": Slip(
        Gangs, "_settle", "if gang.seats:", "if False:"
    ),
    "the seats of a gang go on without its root": Slip(
        Gangs,
        "on_root_ended",
        "if not seat.revoked:\n            self._outgoing.revoke(seat)",
        "pass",
    ),
    "one seat of a gang is not leased": Slip(
        Runs, "_start_gang", "enumerate(start.seats, 1)", "enumerate(start.seats[1:], 1)"
    ),
    "a due gang gets no workers that are reserved for tasks after it": Slip(
        StarvationGuard, "_gather", "later = self._reserved_after(rank)", "later = set()"
    ),
    "a due gang waits until as many workers as it needs are reserved for no task": Slip(
        StarvationGuard,
        "_to_gather",
        "return [worker for",
        "return () if len(best) < by.count else [worker for",
    ),
    "a gang keeps its workers where too few could serve it": Slip(
        StarvationGuard, "_gather", "if party:\n            self.end(party[0])", "pass"
    ),
    "a new head does not wait for the seats of a root that has ended": Slip(
        Gangs, "hold_back", "self._waiting.await_seats(task)", "pass"
    ),
    "workers that do not reach each other are not remembered": Slip(
        Gangs,
        "on_absent",
        "self._scheduler.on_apart(workers[0].number, workers[1].number, how, now)",
        "pass",
    ),
    "a task waits for the seats of a gang that has not begun": Slip(
        Gangs, "_hold", "if gang.absent or never_began(task.crashes, gang.root):", "if False:"
    ),
    "a gang that dies before it begins has crashed": Slip(
        WorkerSession, "_end", "run.news is None", "False"
    ),
    "adopted seats hold nothing": Slip(
        Runs, "_adopt_seat", "self._hold(lease, held, mission, None, now)", "pass"
    ),
    "a mission learns only of first alternatives": Slip(
        Runs, "alternative", "else taken.index", "else 0"
    ),
    "a mission forgets which alternative a task has taken": Slip(
        MissionSession, "_started", "record.alternative = message.alternative", "pass"
    ),
    "a suspect runs by its first alternative, possible or not": Slip(
        Runs, "start_alone", "emptied.by,", "emptied.by.queue.alternatives[0],"
    ),
    "a revocation that was lost is not repeated": Slip(
        Runs,
        "confirm",
        "self._outgoing.revoke(lease)  # again: the first message may be lost",
        "pass",
    ),
    "a run that was retracted is not revoked": Slip(
        Outcomes, "retract", "elif not task.lease.revoked:", "elif False:"
    ),
    "one crash is counted twice": Slip(
        Outcomes,
        "_count_crash",
        "if all(earlier.attempt != crash.attempt for earlier in task.crashes):",
        "if True:",
    ),
    "what awaits the report of a worker that has reported waits": Slip(
        Workers, "_on_inventory_end", "self._runs.gangs.on_worker_over(worker.id, now)", "pass"
    ),
    "what awaits the report of a worker that has left waits": Slip(
        Missions,
        "_has_reported",
        "worker in self._registry.left if record is None",
        "False if record is None",
    ),
    "the time in which a new head holds tasks back never ends": Slip(
        Missions, "on_tick", "if self._limbo_ends > now:", "if True:"
    ),
    "a new head holds nothing back": Slip(
        Missions,
        "_submit",
        "self._claim(task, ran_on, now",
        'self._claim(task, "", now',
    ),
    "of two runs of one task both go on": Slip(
        Runs, "_choose_run", "if not ended:\n        self._outcomes.dismiss(lease, task)", "pass"
    ),
    "a mission does not learn that an older run goes on": Slip(
        Runs,
        "_choose_run",
        "self._run_as_reported(task, lease)\n        lease = other",
        "task.lease, lease = lease, other",
    ),
    "a mission does not learn of crashes while it was away": Slip(
        Missions, "_join_crashes", "for crash in more:", "for crash in ():"
    ),
    "crashes that a mission reports are dropped": Slip(
        Missions, "_join_crashes", "task.alter().crashes = (*known, *more)", "pass"
    ),
    "crashes that a head has counted are dropped": Slip(
        Missions,
        "_join_crashes",
        "task.alter().crashes = (*known, *more)",
        "task.alter().crashes = known or task.crashes",
    ),
    "a mission forgets where its tasks run": Slip(
        MissionSession,
        "_send_task",
        "record.worker",
        '""',
    ),
    "a mission forgets crashes": Slip(MissionSession, "_send_task", "record.crashes", "()"),
    "a mission ignores where its tasks run": Slip(
        MissionSession, "_started", "record.worker = message.worker", "pass"
    ),
    "a mission ignores crashes": Slip(
        MissionSession, "on_message", "record.crashes = (*record.crashes, message.crash)", "pass"
    ),
    "a cancelled task resolves with its value": Slip(
        MissionSession,
        "_resolve",
        'if record.retracted or ending == "cancelled":',
        'if ending == "cancelled":',
    ),
    "a mission retracts only its first task again": Slip(
        MissionSession,
        "on_connected",
        "retracted[at : at + AT_ONCE]",
        "retracted[:1]",
    ),
    "a worker does not send its outcomes again": Slip(
        WorkerSession,
        "on_connected",
        "for ended, payload, _ in self.kept.by_attempt.values():",
        "for ended, payload, _ in ():",
    ),
    "a worker does not report the outcomes that it keeps": Slip(
        WorkerSession,
        "on_connected",
        "for *_, lease in self.kept.by_attempt.values()]",
        "for *_, lease in ()]",
    ),
    "a worker does not report what it runs": Slip(
        WorkerSession, "on_connected", "for r in self.runs.values()]\n", "for r in ()]\n"
    ),
    "a worker counts leases of its last connection": Slip(
        WorkerSession, "on_connected", "self._arrived.restart()", "pass"
    ),
    "a worker does not count leases": Slip(ArrivedLeases, "take", "self.count += 1", "pass"),
    "a revoked run that dies counts as crashed": Slip(
        WorkerSession, "on_runner_crashed", "if run.wish is Wish.CANCEL:", "if False:"
    ),
    "a worker leaves before its outcomes have arrived": Slip(
        WorkerSession,
        "on_tick",
        "if not self.kept.by_attempt or now >= self._flush_until:",
        "if True:",
    ),
    "a worker that drains keeps its runs for ever": Slip(
        WorkerSession, "on_tick", "self.to_runner.append((Cancel(attempt), None))", "pass"
    ),
    "a worker does not say that it drains": Slip(
        WorkerSession, "drain", "self._send(DrainingMessage(self._why))", "pass"
    ),
    "a worker ignores the order to leave": Slip(
        WorkerSession, "on_message", "self.drain(now, now if message.at_once else math.inf)", "pass"
    ),
    "a worker that registers serves from the last time": Slip(
        Workers, "_register", "worker.serving = False", "pass"
    ),
    "leases are counted from one connection to the next": Slip(
        Workers, "_register", "worker.sent = worker.arrived = 0", "worker.sent = 0"
    ),
    "a worker that drained may be blamed when it is lost": Slip(
        Workers, "_lose", "ended = worker.draining or", "ended ="
    ),
    "a worker that is away is waited for for ever": Slip(
        Workers, "on_link_lost", "worker.deadline = now + self._grace", "pass"
    ),
    "a worker that comes back is given up all the same": Slip(
        Workers,
        "_register",
        "worker.deadline = worker.away_since = worker.heard = math.inf",
        "pass",
    ),
    "a worker that is away when it is to leave stays": Slip(
        Workers, "_on_inventory_end", "if worker.told_to_drain is not None:", "if False:"
    ),
    "leases that were lost are waited for": Slip(
        Workers, "_on_inventory_end", "if lease.session < worker.session:", "if False:"
    ),
    "time in which the head was stopped counts against workers": Slip(
        Workers, "postpone", "worker.deadline += seconds", "pass"
    ),
    "time in which the head was stopped counts against missions": Slip(
        Missions, "postpone", "mission.deadline += seconds", "pass"
    ),
    "the head does not notice that it was stopped": Slip(
        Hub, "_look", "if gap > _STOPPED:", "if False:"
    ),
    "a mission that is away is waited for for ever": Slip(
        Missions, "on_link_lost", "mission.deadline = now + self._grace", "pass"
    ),
    "a mission that comes back is given up all the same": Slip(
        Missions,
        "_register",
        "mission.deadline = now + self._grace if mission.lasts else math.inf",
        "pass",
    ),
    "what waits of a mission that is away stays in the queue": Slip(
        Missions, "_detach", "self._waiting.withdraw(task)", "pass"
    ),
    "a cancelled mission keeps its runs": Slip(
        Missions, "cancel", "self._outcomes.retract(mission, task.number)", "pass"
    ),
    "a cancelled task is not retracted": Slip(
        Missions, "cancel_task", "self._outcomes.retract(task.mission, task.number)", "pass"
    ),
    "a mission that was away does not learn that it is cancelled": Slip(
        Missions, "_register", "if mission.cancelled_by:", "if False:"
    ),
    "a mission that was given up is not cancelled any more": Slip(
        Missions,
        "_give_up",
        "if mission.cancelled_by or mission.cancelled or mission.retracted:",
        "if False:",
    ),
    "a worker stays reserved for a task that is over": Slip(
        Quarantine, "_give_up_reservations", "self._scheduler.on_worker_back(worker.number)", "pass"
    ),
    "a suspect starts on a worker that is not empty": Slip(
        Quarantine, "ready", "emptied is not None and not any(", "emptied is not None and bool("
    ),
    "a worker that leaves keeps its reservation": Slip(
        Quarantine, "ready", "and not self._suffice(emptied, task, now)", "and False"
    ),
    "workers have leases before missions know": Slip(
        Hub, "take", "key=lambda link: link not in missions", "key=lambda link: link in missions"
    ),
    "a peer that was disconnected stays attached": Slip(
        Hub, "disconnect", "self.on_link_lost(link, now)", "pass"
    ),
    "messages are not checked": Slip(Hub, "on_message", "check_message(message)", "pass"),
    "a worker is taken to have functions that it has forgotten": Slip(
        FunctionTable, "_forget_all_but", "worker.functions -= left", "pass"
    ),
    "functions are never forgotten": Slip(
        FunctionTable, "on_changed", "self._swept = False", "self._swept = True"
    ),
    "a paused mission is never looked at again": Slip(
        Outcomes, "discard", "self._backlogs[mission] = None", "pass"
    ),
    "confirmed outcomes count as unconfirmed": Slip(
        Outcomes, "discard", "mission.unconfirmed -= 1", "pass"
    ),
    "a mission is never paused": Slip(
        Outcomes, "resolve", "self._backlogs[mission] = None", "pass"
    ),
    "suspects of a paused mission start": Slip(Waiting, "pause", " or t.suspect", ""),
    "tasks of a paused mission start": Slip(
        Waiting, "pause", "for task in reversed(waiting):", "for task in ():"
    ),
    "a paused mission goes on without its tasks": Slip(
        Waiting,
        "resume",
        "for task in sorted(mission.parked, key=lambda task: task.age):",
        "for task in ():",
    ),
    "a repeated outcome is acknowledged before its mission has it": Slip(
        Runs,
        "on_run_ended",
        "if task is None or task.kept_by != (worker.id, ended.attempt):",
        "if True:",
    ),
    "what comes after the resolution is not acknowledged": Slip(
        Runs,
        "_on_outcome",
        "ending is not None:\n        self._outgoing.acknowledge(worker.link, ended.attempt)",
        "ending is not None:\n        pass",
    ),
    "a retracted task runs again when its run is lost": Slip(
        Outcomes, "run_again", "if task.retracted:", "if False:"
    ),
    "a mission does not learn that its task waits again": Slip(
        Waiting,
        "enqueue_again",
        "self._registry.outgoing.post(task.mission.link, again)",
        "pass",
    ),
    "runs that never began are blamed": Slip(Runs, "on_run_lost", "how if ran else None", "how"),
    "of a suspect gang the root runs by itself": Slip(
        Runs, "_start_gang", "now, root.alone", "now, False"
    ),
    "a suspect starts beside a run that has not ended, though it is over": Slip(
        Quarantine, "ready", "lease.scheduler_id or lease.over", "lease.scheduler_id"
    ),
    "a suspect gang starts when the worker of its root is empty": Slip(
        Quarantine,
        "ready",
        "for worker in emptied.workers\n",
        "for worker in emptied.workers[:1]\n",
    ),
    "the root of a gang is blamed for the loss of another member": Slip(
        Outcomes, "_count_crash", "lease.lost or ", ""
    ),
    "a second run goes on when its task is resolved": Slip(
        Outcomes, "resolve", "self.dismiss(task.lease, task)", "pass"
    ),
    "the outcome of a retracted task is kept for ever": Slip(
        Outcomes,
        "resolve",
        "self._acknowledge(kept_by)",
        "pass",
    ),
    "a new head starts what has crashed five times": Slip(
        Missions,
        "_claim",
        "if given_up(course.crashes):",
        "if False:",
    ),
    "an outcome is not delivered again": Slip(
        Missions, "_claim", "self._outcomes.deliver(task)", "pass"
    ),
    "a mission is not told that what awaited a report waits": Slip(
        Waiting,
        "on_worker_over",
        'self._registry.outgoing.post(task.mission.link, Started("", (task.number,)))',
        "pass",
    ),
    "a mission that comes back does not learn where its tasks run": Slip(
        Missions,
        "_report_run",
        "if by is not None or gang or runs_on != known:",
        "if False:",
    ),
    "a worker that comes back is taken to have lost its runs": Slip(
        Runs, "confirm", "lease.session = worker.session", "pass"
    ),
    "a mission that comes back submits to nobody": Slip(
        Missions,
        "_register",
        "MissionOnLink()",
        "MissionOnLink(last_submitted=mission.on_link.last_submitted)",
    ),
    "what waits stays in the queue when a connection is replaced": Slip(
        Missions, "_register", "self._detach(mission)", "pass"
    ),
    "an outcome that its mission has is not acknowledged": Slip(
        Outcomes,
        "discard",
        "self._acknowledge(course.kept_by)",
        "pass",
    ),
    "the success of a run that was given up is dropped": Slip(
        Runs,
        "_on_outcome",
        'elif ended.status == "value" or',
        'elif (ended.status == "value" and lease.current) or',
    ),
    "an exception counts as a value": Slip(
        WorkerSession, "on_ended", '"error" if ended.failed else "value"', '"value"'
    ),
    "leases are sent without their function": Slip(
        Runs,
        "_send_lease",
        "self._functions.send(function, task.mission, lease.worker)",
        "pass",
    ),
    "a run may use the whole worker": Slip(
        Runs,
        "start",
        "to_data(start.allocation)",
        "to_data(self._scheduler.workers[start.worker].supply.total)",
    ),
    "the scheduler keeps a worker that was lost": Slip(
        Workers, "_remove", "self._scheduler.on_worker_left(worker.number)", "pass"
    ),
    "new tasks of a cancelled mission start": Slip(
        Missions,
        "_submit",
        "mission.cancelled_by or message.task in mission.cancelled",
        "message.task in mission.cancelled",
    ),
    "confirmations are ignored": Slip(
        Missions, "_on_confirmed", "self._outcomes.on_confirmed(mission, task)", "pass"
    ),
    "the outcome of a resolved task is adopted once more": Slip(
        Runs,
        "adopt",
        "if task is not None and task.kept_by == (worker.id, held.attempt):",
        "if False:",
    ),
    "the younger of two runs goes on": Slip(
        Runs, "_choose_run", "lease.began < other.began", "lease.began > other.began"
    ),
    "a worker that may take runs again does not say so": Slip(
        WorkerSession, "_acknowledge", "self._review_backlog()", "self.kept.review()"
    ),
    "a worker that keeps too many outcomes does not say so again": Slip(
        WorkerSession,
        "on_connected",
        "self._send(self.kept.backlog())",
        "pass",
    ),
    "a worker that keeps too many outcomes is sent more": Slip(
        Workers, "_on_readiness", "if before and not worker.takes_runs:", "if False:"
    ),
    "a bridge keeps the place of a head that is lost": Slip(
        Switchboard, "_detach", "if state.leader == number:", "if False:"
    ),
    "a head shows its record only to the first server of a bridge": Slip(
        Leader,
        "on_message",
        "return ([Publish(self._sealed)] if self._sealed else []), None",
        "return [], None",
    ),
    "a bridge brings together who was not introduced": Slip(
        Switchboard,
        "_take",
        "line.meeting.waiting.pop(token, None)",
        "line.meeting.waiting.popitem()[1] if line.meeting.waiting else None",
    ),
    "of a pair one outlives the other at a bridge": Slip(
        Switchboard, "on_lost", "if partner is not None and not partner.over:", "if False:"
    ),
    "a head that is silent keeps its place at a bridge": Slip(
        Switchboard, "on_tick", "now - line.since >= SILENCE", "False"
    ),
    "a head that connects again is taken for another one": Slip(
        Switchboard,
        "_claim",
        "claim.who == state.claim.who and claim.epoch == state.claim.epoch",
        "False",
    ),
    "a head claims its place at a bridge once and no more": Slip(
        Leader,
        "on_connected",
        "return [Claim(self.epoch, self._who, sealed)]",
        "return [Claim(self.epoch, self._who, sealed)] if not self._sealed else []",
    ),
    "a run that is adopted costs its mission a turn": Slip(
        Runs,
        "_hold",
        "self._registry.shares.age_again(queue.priority)",
        "self._registry.shares.age(mission.share, queue.priority)",
    ),
    "a task that has run costs its mission another turn": Slip(
        Missions, "_age", "again = has_run or ", "again = "
    ),
    "a mission that comes back keeps the place of what it had waiting": Slip(
        Missions, "_detach", "mission.share.give_back()", "pass"
    ),
    "a run that is adopted counts for what it holds, not for what its task asks for": Slip(
        Missions,
        "_claim",
        "self._scheduler.on_reclassified(lease.scheduler_id, task.queue, task.age)",
        "pass",
    ),
    "a mission that comes late starts in the first round": Slip(
        Waiting,
        "on_started",
        "self._registry.shares.started(task.mission.share, age, task.queue.priority)",
        "pass",
    ),
    "a mission does not learn that its waiting task runs on a worker that reports it": Slip(
        Runs,
        "adopt",
        "self._waiting.withdraw(task)\n        self._run_as_reported(task, lease)",
        "self._waiting.withdraw(task)\n        task.lease = lease",
    ),
    "a mission does not learn on which worker a run is adopted": Slip(
        Runs,
        "_run_as_reported",
        "self._outgoing.post(task.mission.link, started)",
        "pass",
    ),
    "a mission has no facts of the worker of a run that is adopted": Slip(
        Runs, "_run_as_reported", "self._reports.on_run(task.mission, lease.worker)", "pass"
    ),
    "a mission that comes back has no facts of the workers of its runs": Slip(
        Missions, "_report_run", "self._reports.on_run(task.mission, task.lease.worker)", "pass"
    ),
    "a bridge answers calls that it does not pass on": Slip(
        Switchboard,
        "_call",
        "self._effects += [Send(state.leader, MemberListens(sealed)), Send(number, Called())]",
        "self._effects += [Send(number, Called())]",
    ),
    "a bridge keeps the connection of a member that has called": Slip(
        Switchboard, "_call", "self._end(number, line)", "pass"
    ),
    "a bridge takes calls for a head that is not there": Slip(
        Switchboard, "_call", "if state.leader is None:", "if False:"
    ),
    "a head connects to who calls another one": Slip(
        Leader,
        "on_message",
        "addresses = unpack_call(self._keys.unseal_call(message.sealed), self.epoch)",
        "call = self._keys.unseal_call(message.sealed)\n"
        '        addresses = unpack_call(call, int.from_bytes(call[:8], "big"))',
    ),
    "a head that connects to who calls does not count it": Slip(
        Leader, "on_message", "self.calling += 1", "pass"
    ),
    "a head connects to one member at a time": Slip(
        Leader, "on_message", "self.calling < MOST_CALLS", "not self.calling"
    ),
    "a task that was overtaken as often as the limit gets no worker": Slip(
        StarvationGuard,
        "_due",
        "len(overtakers) < self.due_after(queue)",
        "len(overtakers) <= self.due_after(queue)",
    ),
    "of a queue only the first task is ever due": Slip(
        StarvationGuard,
        "_due",
        "return queue.age_at(place) < overtakers[0]",
        "return False",
    ),
    "of a queue one task at a time gets a worker": Slip(
        StarvationGuard, "reserve_due", "while queue.sought_at", "if queue.sought_at"
    ),
    "a task that is due looks for a worker only when it is overtaken": Slip(
        StarvationGuard, "on_dispatched", "if self._seen_openings != self._openings:", "if False:"
    ),
    "a task that is due does not look at a worker whose reservation ends": Slip(
        StarvationGuard, "_drop", "self._openings += 1", "pass"
    ),
    "a task that is due does not look at a worker that joins": Slip(
        StarvationGuard, "on_worker_open", "self._openings += 1", "pass"
    ),
    "how often tasks were overtaken is forgotten when the first of them starts": Slip(
        StarvationGuard,
        "on_head_changed",
        "del queue.overtakers[: bisect_right(queue.overtakers, head.age)]",
        "queue.overtakers.clear()",
    ),
    "a lasting mission that is away is given up": Slip(
        Missions, "on_tick", "if mission.lasts:", "if False:"
    ),
    "a lasting mission is over when its process has ended": Slip(
        Missions, "on_ended", "and not mission.lasts", ""
    ),
    "a lasting mission is over when a process of it leaves": Slip(
        Missions, "_on_departed", "if not mission.lasts:", "if True:"
    ),
    "what a process of a lasting mission does not submit at once is ended": Slip(
        Missions, "_on_synced", "if not mission.lasts:", "if True:"
    ),
    "a run of a lasting mission is revoked that is reported after its process has come": Slip(
        Runs, "adopt", "mission.may_submit(held.task)", "not mission.synced"
    ),
    "of two runs of a task of a lasting mission one is revoked": Slip(
        Outcomes,
        "dismiss",
        "if mission.lasts and not task.retracted and mission.may_submit(task.number):",
        "if False:",
    ),
    "the connections of each process of a lasting mission are counted from 1": Slip(
        Registration, "__init__", "generation * _CONNECTIONS", "0"
    ),
    "outcomes that no process of a lasting mission fetches are kept for ever": Slip(
        Missions, "_outlast", "if before.get(task.number) ==", "if None is"
    ),
    "outcomes that no process of a lasting mission has fetched at once are forgotten": Slip(
        Missions, "_outlast", "if before.get(task.number) ==", "if True or"
    ),
    "a worker stays reserved for a task that was cancelled": Slip(
        StarvationGuard, "on_fewer", "_tasks_of(queue) > queue.waiting", "False"
    ),
}
"""Each slip by what it does."""
