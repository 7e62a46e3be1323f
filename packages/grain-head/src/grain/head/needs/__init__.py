"""How much memory tasks need, learned from the runs of their groups.

- `grain.head.needs.ladder`: the sequence of amounts at which the runs of a group cost least.
- `grain.head.needs.slope`: how the need grows with the size of the problem.
- `grain.head.needs.group`: what a group has seen, and what it asks for next.
- `grain.head.needs.groups`: all groups of a scheduler, and the file that keeps them.

All of this decides without I/O, except for reading and writing that file.
"""
