"""The hub: one scheduler for many missions and workers. Plain state, no I/O, no clock.

Peers are known by their links. The shell around a hub (`grain.head.service`) calls `on_message`
with each message that arrives on a link, `on_link_lost` when it breaks, `on_tick` once a second,
and after each of them `dispatch`, and sends what `take` returns. The same hub serves in Gnaw, in a
mission's own process, and in the simulation.

It is *soft state*: missions own their unresolved tasks, workers their runs and outcomes, and both
report them on every connection. So an empty hub, put in the place of a killed one, comes to the
same state. docs/protocol.md has the messages; each module has its rules.

The way of a task: a mission submits it (``missions``), it waits, runs and is resolved (``tasks/``),
and its worker reports the end of its run (``workers``). The records that all of them change are in
``state``: a `TaskRecord` for each unresolved task, and a `LeaseRecord` for each of its runs that a
worker has. All parts share the `Registry` (``registry``), which has the records and the scheduler;
every effect on the outside goes through its `Outgoing`.

The comment below this has who moves a task from which state to which.

Everything that a task meets on its way has a number of its own, as different parts count them:

======================  ===========================  ============================================
number                  counted by                   because
======================  ===========================  ============================================
task number             the mission                  it only grows: a hub sees which tasks are
                                                     over from those yet to come
age                     `FairShare`                  the order of service, which is not that of
                                                     submission where missions take turns
scheduler id            `Registry`                   a task that waits again is a new one for the
                                                     scheduler
attempt                 `Runs`, with the epoch       no two runs have the same, of whatever head;
                                                     it grows in the order of the leases, which
                                                     the order of scheduler ids is not
index of a lease        each connection              the worker only counts what it has begun
======================  ===========================  ============================================

Map:

- ``hub``: its interface, and the assembly of its parts
- ``state``: the records of missions, tasks, leases and workers
- ``registry``: what the parts share: the records, the scheduler, the messages to be sent
- ``tasks/``: the way of a task: waiting, runs, outcomes
- ``missions``: registration, absence, return and departure of missions
- ``workers``: joining, absence, return and departure of workers
- ``fair_share``: turns of missions of equal priority
- ``functions``: which functions of missions were sent to which workers; not where they ran
- ``reports``: what missions learn of workers, of requests that none can meet, of troubles
  here
- ``names``: the names of peers, as people and commands use them
- ``answers/``: the state of everything, for ``grain ls`` and ``grain top``
"""

# Who moves a task from which state to which. No other function writes the fields that make a state
# (`state.TaskState`); tests compare this with the code, and with what happens in the simulation.
#
# A task never goes from one place of waiting to another, nor from waiting to a run, in one step: it
# is dormant in between, also within one event. So who lets it wait need not know where it waited,
# and who ends its waiting need not know why. Only from one run to another it goes in one step.
#
# from             to               by
# -                dormant          Missions._submit, Runs.adopt, Runs._adopt_seat
# -                leased           Outcomes._go_on
# dormant          waiting          Waiting.queue_up
# dormant          suspect          Quarantine.add
# dormant          awaiting report  Waiting.enqueue, Waiting.hold_back
# waiting          dormant          Waiting.withdraw, Waiting.on_started
# suspect          dormant          Quarantine.remove, Quarantine.ready
# awaiting report  dormant          Waiting.withdraw
# dormant          leased           Runs._new_lease, Runs._run_as_reported, Gangs._hold
# leased           leased           Runs._start_gang, Runs._run_as_reported
# leased           leased           Gangs._stand_in, Gangs._settle
# leased           dormant          Outcomes.run_again, Missions._claim
# leased           resolved         Outcomes.resolve
# dormant          resolved         Outcomes.resolve
# leased           -                Outcomes.discard, Outcomes.run_again
# resolved         -                Outcomes.discard
# dormant          -                Outcomes.discard, Outcomes._forget_retracted
# dormant          -                Missions._detach
