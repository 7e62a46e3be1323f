"""The verdict on a mission or a cluster: which sentences deserve a look first, by rules. Pure.

`grain report` has facts of a log, and `grain top` those of a scheduler's answer: each makes them in
a module of its own, and says its sentences with them.

Map:

- ``rules``: the rules that both have
- ``texts``: names and messages, shortened
"""
