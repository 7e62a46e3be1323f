"""Chaos: Grain as users have it, in real processes, which are killed, stopped and cut off.

The simulation (`tests-integration/simulation`) lives through every fault in virtual time; here are
a real kernel, real sockets and real programs, and what only they can do wrong: descendants that
survive, files that stay, memory that grows, a core that two programs have.

Theory of operation:

1. A *schedule* is made from a seed: missions with their tasks, and faults with their times. It
   names victims by role and number. So a run that failed can be repeated as far as real processes
   repeat themselves; its log has what happened, with times.
2. Workers over every transport, missions and the Gnaw that they start live through the schedule.
   The time of some workers ends, as a job's does. Some missions are detached: `grain run -d` starts
   them on one of two login hosts, and a killed mission is resumed, on both hosts at once.
   Jobs of the queue are submitted and cancelled all the while, and its dispatcher is killed. Some
   tasks and jobs are gangs, on two workers; some missions have lanes, or a local worker only.
   With ``--bridge`` all processes meet at the server of a bridge, which is killed and stopped, too.
   The programs of the tasks leave daemons behind, and some ignore SIGTERM.
3. *Books* are kept by side effects, outside of Grain: lines that programs and missions append to a
   file, and locks which show that a run began beside what another had left.
4. When the last fault is over, missions have a time to end in, then workers and Gnaw are asked to
   leave. What is left then is evidence as well.
5. A *judge* compares all that with the promises. It is a pure function, as the schedule is; tests
   give it made-up books for each kind of violation.

`nox -s chaos -- --seconds 60 --seed 7` is one run: it prints one JSON line, and ends with exit code
1 if a promise was broken; then its directory, which has books, faults and logs, is kept.
`nox -s soak` drives very many tasks and missions through one Gnaw, without faults, and compares
memory, descriptors and threads (`tools.soak`).

Map:

- ``schedule``: missions and faults of a seed; no I/O
- ``books``: the lines and locks by which programs and missions keep books
- ``job``: the external program of a task
- ``mission``: the script of a mission
- ``places``: this machine, or hosts of its own for each transport
- ``proxy``: a TCP proxy that cuts connections, for where hosts cannot be made
- ``processes``: the processes of a run, by their roles
- ``detached``: missions that `grain run -d` starts, by what their keepers write
- ``queued``: jobs of the queue, by the commands that users type
- ``faults``: faults, carried out
- ``session``: one run, from its first process to its evidence
- ``judge``: evidence against promises; no I/O
"""
