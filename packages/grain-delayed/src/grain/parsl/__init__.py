"""An executor for `Parsl <https://parsl-project.org>`_, whose apps run on Grain's workers.

Nothing of Grain imports this package, nor does Grain require Parsl: install it into the same
environment.

Map:

- ``executor``: the executor
"""

from grain.parsl.executor import GrainWorkers as GrainWorkers
