"""The past of missions, from their event logs: `grain history`, and `grain why` of what has ended.

A log is read in one pass, in memory that does not grow with the number of tasks that have ended:
`summary` counts, `rows` and `tables` pass each run on. Only failures are remembered one by one, as
another attempt may follow later.

Map:

- ``command``: the command `grain history`
- ``logs``: the present state of the mission of a log, and its lines
- ``summary``: the counts of a log, by function and by cause of failure
- ``kept``: summaries of logs that have not changed since they were read
- ``text``: summaries as text
- ``calls``: the calls that failed, to be copied or given to a new run
- ``rows``: the runs of a log as rows with named columns
- ``tables``: rows as CSV and Parquet
- ``past_task``: one task of a log, for `grain why`
"""
