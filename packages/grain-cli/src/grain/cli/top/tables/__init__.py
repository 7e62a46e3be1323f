"""Tables, sentences and text of a scheduler's answer, for `grain top`. Pure: nothing is drawn here.

Map:

- ``grid``: tables, their columns and rows; the order and the choice of rows
- ``overview``: all tables of an answer; those of missions, functions and workers
- ``tasks``: the tables of what runs, what waits, and failures by cause
- ``verdict``: the sentences on top, and sums
- ``trend``: cores lately, from answer to answer
- ``picture``: tables, columns and bars as text that fits; heights of panes
"""
