"""The result log of ``grain map``, in the format of GNU parallel's joblog.

A job that ends appends one line, in one write, so that the log is true whenever the run is killed.
A later run reads it to know which jobs have ended.

Map:

- ``entries``: the lines of the log, and the history that a later run reads from them
- ``file``: the file: locked, read once, then appended to
"""
