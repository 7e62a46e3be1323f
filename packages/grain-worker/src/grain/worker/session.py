"""The parts of a worker, for programs that build one without the command.

They are apart from `grain.worker`, as few programs need them and their import takes time.
"""

from grain.worker.agent.lifecycle import LATE_SIGNAL as LATE_SIGNAL
from grain.worker.agent.session import WorkerSession as WorkerSession
from grain.worker.processes.computing import keep_looking as keep_looking
from grain.worker.runner.settings import RunnerSettings as RunnerSettings
from grain.worker.runner.settings import mission_settings as mission_settings
from grain.worker.runner.wire_translation import WireTranslation as WireTranslation
