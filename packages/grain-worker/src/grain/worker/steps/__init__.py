"""The steps of a job: processes that its ``srun`` starts on a part of what the job has.

srun is the parent of its processes on the first member, and of `grain.worker.gang.rsh` for each on
another one, so that the end of the job ends them all. Which CPUs, GPUs and memory a step gets, and
when, is decided in one place: beside the job's script, in the process of the worker that runs it.
The connection of srun to it is the step's hold on these. So whatever is killed gives them back, and
numbers of steps need no lock.

Map:

- ``shares``: what steps hold, what waits, and what begins next: decisions without I/O
- ``orders``: what srun asks for, and its answer: variables, CPUs, devices, files
- ``of_job``: what a job has for its steps
- ``desk``: where srun asks
"""
