"""The parts of a worker, for who builds one without the command: apart, as few need them."""

from grain.worker._session import WorkerSession as WorkerSession
from grain.worker._translation import WireTranslation as WireTranslation
