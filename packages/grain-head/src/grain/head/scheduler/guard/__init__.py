"""Tasks that are passed over: who may overtake them, and what is reserved for them.

Map:

- ``starvation_guard``: which task may overtake which, and who gets a reservation
- ``reservation``: the worker and the time at which a task that was passed over can start
"""
