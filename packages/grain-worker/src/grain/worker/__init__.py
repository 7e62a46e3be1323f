"""The worker: runs tasklets, and the external programs that they call, on one node.

A worker is two processes. The *agent* (`grain.worker.agent`) holds the connection to the head, and
everything that must survive a task which takes its process down. The *runner*
(`grain.worker.runner`) executes the tasks. Below it run external programs
(`grain.worker.external`), each under a supervisor. The local worker of a mission is only a runner.

Map:

- ``call``: one run of a task: GVAR, time limit, outcome; calls in one line
- ``blocking``: functions that block, in threads
- ``undelayed``: delayed functions on a worker
- ``payload``: objects to bytes and back
- ``messages``: the messages between head, agent and runner
- ``errors``: the exceptions of tasks, programs and workers
- ``logs``: log lines that a full disk does not stop
- ``auto``: the resources that a job really has
- ``session``: the parts of a worker, for programs that build one without the command
- ``process``: a runner in a process of its own, for the same programs
- ``context``: context modules, for programs that run tasks without the command
- ``external/``: external programs; ``processes/`` and ``guards/`` start, watch and end them
- ``agent/``: the process that represents a worker to the head
- ``runner/``: the execution of runs, in the agent's child process or in a mission
- ``jobs/``: jobs of a queue, between their receipts
- ``steps/``: the steps of such a job, which its ``srun`` starts
- ``pickling/``: the pickler behind ``payload``
- ``processes/``: this process's side of helper processes, and the environment of programs
- ``lanes/``: runs that take brief calls straight from their mission
- ``gang/``: one run that starts programs on several workers at once
- ``launch/``: one batch job with a worker on each of its nodes
- ``guards/``: the helper processes, which end whatever programs leave behind
- ``node/``: facts and limits of the node
"""

from grain.worker.call import Call as Call
from grain.worker.call import RunSettings as RunSettings
from grain.worker.errors import TaskletAborted as TaskletAborted
from grain.worker.errors import TaskletError as TaskletError
from grain.worker.node.cpus import LocalOffer as LocalOffer
from grain.worker.node.cpus import local_offer as local_offer
from grain.worker.node.directory import directory_at_start as directory_at_start
from grain.worker.node.forks import DefaultInChildren as DefaultInChildren
from grain.worker.processes.account import RunAccount as RunAccount
from grain.worker.processes.computing import Computing as Computing
from grain.worker.runner.runner import Runner as Runner
from grain.worker.runner.translation import MemoryTranslation as MemoryTranslation
from grain.worker.runner.watchdog import LoopWatchdog as LoopWatchdog
from grain.worker.runner.watchdog import look_at as look_at
