"""The event log of a mission: JSON lines that others read while it is written.

Rules:

1. One line is one event, a JSON object with the name of its kind in ``event`` and its time in
   ``time``: Unix seconds, by the clock of the process that writes the log.
2. The first line of each file is the `schema.LogStarted` of its log, with the version of the
   format. A reader refuses versions above its own, skips kinds and fields that it does not know,
   and skips a line that is torn.
3. Amounts are in GB, spans in seconds, as everywhere in Grain.

Map:

- ``schema``: every kind of line with its fields.
- ``names``: the labels of missions and their count; where logs are; their folders and files.
- ``reader``: the lines of a log, also while it is written.
- ``store``: all logs: listed, looked up, and removed when they are old.
- ``errors``: the errors of reading and looking up.
- ``writer``: takes lines, and has a thread write them.
- ``files``: the files of one log, for its writer; how readers open them.
- ``usage``: what a run has used, and how that was measured.
- ``causes``: failures in a few words: what is alike in messages, and the line that says why.
- ``never_ran``: tasks that ended without any run, and why.
- ``soft_stops``: for what workers interrupt runs, and how many may stop softly in a row.
"""
