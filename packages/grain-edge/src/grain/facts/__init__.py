"""Facts as rows: one fold of an event log, and the structs that all displays read.

Rules:

1. `fold.Fold` is pure, and takes the lines of a log in any pieces: the same lines make the same
   rows. Nothing else puts lines together.
2. A row is plain data. Moments are Unix seconds, spans seconds, memory is in GB. None says that a
   value is not known here.
3. What a scheduler knows of the present is projected onto the same rows, in its own folder.

Map:

- ``rows``: the rows.
- ``fold``: lines put together to tasks and runs, on one axis of time.
- ``totals``: what runs add up to, by function and outcome; failures by cause.
- ``amounts``: amounts, counted: their sum, their bounds, their quantiles.
- ``clocks``: by how much workers' clocks differ from the writer's.
- ``needs``: the file that keeps what groups of tasks have learned.
"""
