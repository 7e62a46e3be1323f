"""The memory and the time that tasks need, learned from the runs of their groups.

Map:

- ``ladder``: the sequence of amounts at which the runs of a group cost least
- ``slope``: the growth of needs with the size of the problem
- ``group``: the runs that a group has seen, and the amount that it asks for next
- ``groups``: all groups of a scheduler
- ``families``: requests that differ only in what they learn, by their amounts
- ``again``: the request of another attempt, where an amount or a limit was too little
- ``store``: the file that keeps the groups
"""
