"""A backend for `joblib <https://joblib.readthedocs.io>`_, whose calls run on Grain's workers.

Nothing of Grain imports this package, nor does Grain require joblib: install it into the same
environment.

Map:

- ``backend``: the backend
"""

from grain.joblib.backend import GrainBackend as GrainBackend
