"""A runner in a process of its own, for programs that build a worker without the command."""

from grain.worker.agent.listener import RunnerDeath as RunnerDeath
from grain.worker.agent.listener import RunnerListener as RunnerListener
from grain.worker.agent.runner_process import FAILURES as FAILURES
from grain.worker.agent.runner_process import RunnerProcess as RunnerProcess
