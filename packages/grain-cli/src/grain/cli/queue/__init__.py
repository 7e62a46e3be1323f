"""The queue as commands see it: its jobs by name, as rows, and in sentences.

The room `grain.cli.jobs` has the commands. This one starts nothing, so every command may use it.

Map:

- ``opening``: the queue, the jobs that a command means, its dispatcher; errors as messages
- ``rows``: jobs and tasks as rows, sentences and JSON; no I/O
- ``tasks``: a task as a row
- ``fitting``: the jobs that never begin, as they fit no worker, or others failed
- ``explaining``: jobs in ``grain why`` and ``grain logs``
- ``wishes``: what the user asks of jobs
- ``cancelling``: jobs in ``grain cancel``
- ``submission``: the content of a submission, and the job that it becomes
- ``sharing``: outputs that tasks of an array share
- ``shell``: the variables, umask and limits of the shell in which a user submits
- ``looks``: when a command that waits looks at the queue again
- ``tickets``: jobs by the numbers of their attempts in the queue's mission
"""
