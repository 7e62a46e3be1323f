"""Amounts over time, and runs in the rows of their CPUs. Pure.

Map:

- ``series``: amounts over time, in bins
- ``bars``: the runs of the timeline, in lanes
"""
