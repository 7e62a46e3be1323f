"""The agent: the process that represents a worker to the head (``grain-worker`` in `ps`).

It holds the connection, the runs and the outcomes that the head has not acknowledged, and decides
when the worker leaves. It never unpickles anything, so no task can harm it.

From lease to outcome:

1. A `Lease` comes from the head, after the `DefineFunction` that it names. `WorkerSession` records
   the run, and orders a `Run` from the runner.
2. `RunnerProcess` passes the order to the process of its `RunnerInstance`; a `FunctionFeed` puts
   the function before it if that process does not have it. If there is no process at the moment,
   the order waits for the next one.
3. The runner (`grain.worker.runner`) executes the run, and
   answers `Ended`, with the outcome as bytes.
4. The session makes a `RunEnded` of it, keeps it, and sends it on every connection until the head
   answers `AckRuns`.

Rules of the session, which the simulation checks:

1. A run begins once, however often its lease arrives. The attempts of a head ascend, so a lease
   that does not ascend is a repetition, or comes late from a connection that the head has given up.
2. The outcome of a run is kept, and sent again on every connection, until the head acknowledges it,
   which it does when the *mission* has it.
3. A connection begins with all that the worker has, so that a head which has no state can take
   over. Runs go on while there is no connection.
4. A worker that drains begins nothing. At its deadline it hands back what still runs. It has
   *finished* when nothing runs and nothing is kept, or when the time for that is over.
5. A worker that keeps too many outcomes takes no more runs until half of them are acknowledged; and
   beyond a part of its memory it writes them to the disk of the node.

The identities of a run, and where they are used:

| identity | given by | used |
|---|---|---|
| mission, task | the mission | in leases, inventories and outcomes; the agent only repeats it |
| attempt: epoch and number | the head that begins the run | by head, agent and runner |
| digest | the content of a function | in leases, runs, and the messages about functions |

Map:

- ``command``: the command line
- ``agent``: the shell, which joins the decisions of session and lifecycle to head, runner and clock
- ``session/``: the runs of the worker, and the messages to the head about them; no I/O
- ``spool``: outcomes on the disk of the node, which missions have yet to take
- ``functions``: the functions of the worker, and which of them each runner has; no I/O
- ``lifecycle``: the times at which a worker drains, cancels its runs, and leaves; no I/O
- ``runner_process``: the handle on the runner, which is started again when it dies
- ``runner_instance``: one process of the runner
- ``first_runner``: forks the first one from the agent, which is faster than to start it
- ``listener``: the reports of the handle
"""
