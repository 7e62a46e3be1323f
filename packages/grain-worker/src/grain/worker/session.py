"""The parts of a worker, for who builds one without the command: apart, as few need them."""

from grain.worker.agent.session import WorkerSession as WorkerSession
from grain.worker.runner.translation import WireTranslation as WireTranslation
