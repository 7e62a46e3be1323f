"""The result log of ``grain map``, as GNU parallel's joblog, and its table of results.

A job that ends appends one line, in one write, so that the log is true whenever the run is killed.
A later run reads it to know which jobs have ended. The table has their outputs, too; its row is
written before the line of the log, so a run that goes on lacks none, and may repeat the last ones.

Map:

- ``entries``: the lines of the log, and the history that a later run reads from them
- ``file``: the file: locked, read once, then appended to
- ``table``: the table of results, as CSV or with tabs
"""
