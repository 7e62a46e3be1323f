"""The node as Grain sees it: a part of one machine, within limits that others set.

A worker owns *a part* of a machine. Up to four authorities limit it, and none states all
limits:

1. The batch system grants CPUs, memory, GPUs and time to a job. It states them in environment
   variables, which are not binding by themselves.
2. Control groups enforce limits of CPUs and memory (cgroups(7)), for a batch job or a container.
   Beyond the memory limit the kernel kills processes, in our group or in one above.
3. The affinity mask (sched_getaffinity(2)) and CUDA_VISIBLE_DEVICES restrict one process and its
   descendants.
4. The machine has so many CPUs, so much memory, so many GPUs.

`HostInfo` is one snapshot of all four, read once, when the worker starts. `grain.worker.auto`
decides from the snapshot, by pure functions: the strictest limit of each kind wins. A limit that
cannot be read counts as absent.

Map:

- ``directory``: where programs start, on this host and on others
- ``host_info``: the snapshot
- ``cgroup``: the control groups' part of it, and the count of processes killed for lack of memory
- ``delegation``: the control group that the site has handed over, to make groups in it
- ``topology``: the CPUs that are near each other, and near each GPU
- ``cpus``: the CPUs that a local worker takes
- ``shortage``: a node that is short of memory, and the run that is ended for it
- ``limits``: open files of this process; which process the kernel kills when memory runs out
- ``signals``: signals to this process
- ``shown``: what /proc shows of this process: its command line, its variables
- ``forks``: signals in children that user code forks
- ``library_threads``: how many threads numeric libraries use for what tasks compute in this process
"""
