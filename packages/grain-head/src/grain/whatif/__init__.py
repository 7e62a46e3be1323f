"""`grain whatif`: a mission of the past, replayed under other conditions.

The log of a mission says when its tasks were submitted, what they waited for, and how long they
had their resources. The replay submits them to the real `grain.head.scheduler`, in virtual time,
with other workers, requests or limits:

1.  A task is submitted when the tasks that it waited for have ended, plus the time that its mission
    took then; a task that waited for none follows the submission before it, as far behind as it
    was.
2.  A run has its resources for as long as it had them, whatever it asks for and wherever it runs.
    A run that crashed crashes again. A run that was lost with its worker is not lost again, unless
    its worker is.
3.  What had not ended when the log ended takes as long as the mean of its function.
4.  What never ran takes nothing, and its end ends no makespan. What waited for it is submitted
    after the same time as then.
5.  Limits of time end runs; what uses more memory than it asks for is counted.

It has no I/O but for reading the log, and only ``command`` needs click.

Map:

- ``workload``: the tasks of a log, with what each waits for
- ``brief``: for how long brief tasks had their resources
- ``scenario``: what is different in a replay
- ``replay``: a workload through the scheduler, in virtual time
- ``sweep``: replays for several numbers of workers, and the knee
- ``text``: the results as text and as plain data
- ``errors``: what cannot be replayed
- ``command``: the command `grain whatif`
"""
