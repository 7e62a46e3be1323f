"""Context modules, for programs that run tasks without the command."""

from grain.worker.runner.context import ContextError as ContextError
from grain.worker.runner.context import user_context as user_context
