"""The facts of an allocation that its programs get: environment variables, and CPUs. Pure.

Each kind says its own. Those of GPUs depend on the vendor: a process may see only some GPUs of its
node, as a batch system, or its user, lists them in a variable, by numbers or by names. A worker
offers these by their numbers; if they have names, by their places in the list. A program of a task
gets a list of those of its task in turn.

Map:

- ``variables``: those of an allocation; its CPUs; numbers of threads and ranks
- ``gpus``: from the variables of a worker to the GPUs that it offers, and back
- ``lists``: the words of a list of GPUs
- ``nvidia``: its variables: ``visible`` reads them, ``variables`` writes them
- ``amd``: the same of AMD
- ``intel``: the same of Intel
"""
