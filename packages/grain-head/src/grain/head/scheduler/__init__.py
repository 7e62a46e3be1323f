"""The scheduler: which task starts where, and when.

Nothing here does I/O or reads a clock. Events come in through the ``on_...`` methods of
`grain.head.scheduler.scheduler.Scheduler`, decisions go out of its ``dispatch``; time is an
argument, in seconds of any clock that does not go back.

The policy:

1.  Tasks that ask for the same, at the same priority, form one queue, first come first served; a
    more urgent one takes the place of the oldest. Queues are served by the rank of their oldest
    task: priority, then age. Where a task asks for one of several requests, it takes the first
    *alternative* for which there is room; it may have to wait for the first one for a time.
2.  A queue whose oldest task does not fit anywhere is passed over: younger tasks of other queues
    may use what it cannot. Before that can starve it, it gets a reservation (``guard/``).
3.  Among the workers on which a task fits the tightest fit wins. Among equally tight ones a task
    with a time limit goes where the least time is left that suffices, and one without where the
    most is left (`StartDecisions.find`, by ``index``). A worker that becomes free takes the oldest
    task that fits there, without a look at others.
4.  A task that has bytecode needs workers with the interpreter that made it. That is not a
    resource, as nothing of it is used up: queues and workers have it as a label.
5.  Workers of which one did not join a gang of the other are in no gang together for a time
    (``apart``).
6.  Some kinds belong to the whole cluster. An alternative that asks for more of them than is free
    is closed, and holds back no one (``cluster``).
7.  After every ``dispatch``, no task waits that could start.
8.  Where tasks fail that succeed elsewhere is set aside, and a task that has failed goes elsewhere
    first (``places``). Both bar places for a queue (``bars``), as long as others can serve it
    (`WorkerAccount.lets`).

Why it is fast: the scheduler decides between a few queues, and looks for room once per *level*,
that is, once for all workers that have the same interpreter and the same resources free. Which
queues fit at which level is worked out when a queue or a level is first seen, and kept as bit
masks: each queue owns one bit for each of its alternatives. A submission, a start and an end then
each cost the same however many tasks wait, as long as distinct requests are few; the number of
workers enters by its logarithm.

Invariants, which `check_scheduler` of the tests asserts after every step:

- a worker's supply, plus the allocations of its runs, plus what ended runs returned and is not used
  yet, is what the worker has in all;
- a waiting task is in exactly one queue, and a queue's tasks are in the order of age;
- while one of a queue's tasks waits, the bits of the alternatives that the oldest one takes now are
  set in ``nonempty``; ``order`` is sorted by rank;
- every worker that takes tasks is at the level of what it has free, or in ``unplaced``; one with a
  sticky reservation is in ``reserved`` instead;
- a reservation is recorded at its queue and at its worker, and the runs that the scheduler let pass
  cannot push back its start;
- a task that was overtaken as often as the limit has a reservation, or no worker that could serve
  it is without one.

Map:

- ``scheduler``: the events, and questions about its state
- ``dispatch``: which task starts on which worker, and what it holds then
- ``state``: the records: tasks, queues and their alternatives, workers, levels, reservations
- ``queues``: all queues, their order and their bits
- ``index``: the workers by what they have free
- ``guard/``: which task may overtake which, and what is reserved for it
- ``bars``: which queues keep off which places
- ``numbered``: `Numbered`, a table of tasks by number, in little memory
- ``apart``: workers that could not reach each other
- ``cluster``: what the scheduler owns for the whole cluster, such as licences, and who gets it
- ``outlived``: which tasks have crashed or outlived their workers too often, what time they need
- ``places``: workers and devices where tasks fail, and which of them are set aside
- ``explain``: why a task does not run
"""
