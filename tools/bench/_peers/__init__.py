"""One measurement of one tool, in a process of its own: python -m tools.bench._peers TOOL WHAT ...

The interpreter is that of the tool's environment, which may have nothing else. So a module here
imports only the standard library and, if it is that of a tool, this tool.

Map:

- ``measures``: what is measured, in words that fit every tool
- ``process_tree``: CPU time and memory of this process and all below it
- ``work``: functions that are called
- ``with_grain``: Grain, through a scheduler in the background or within the mission
- ``with_futures``: executors of `concurrent.futures`
- ``with_hyperqueue``: HyperQueue, by its interface for Python
- ``with_xargs``: xargs
"""
