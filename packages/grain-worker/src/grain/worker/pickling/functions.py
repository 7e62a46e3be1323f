"""Functions by value: their code, and the variables around them that the code names.

dill's own way follows the functions that a function calls in search of globals, without end where
two of them call each other; gives each a copy of its globals; and copies an imported module of the
user's own with all its variables. Here:

- A function exists before its variables, so it may mention itself, or a function that calls it. The
  functions of a class exist, and are in it, before the variables of any: an object of the class may
  be among these, and its `__hash__` or `__setstate__` is asked for when it is loaded.
- All functions of one pickle that share their globals share them where they are loaded.
- An imported module goes by its name. Submodules that the code may mean, as ``etree`` in
  ``xml.etree.fromstring``, are imported when the function is loaded, since an ``import xml.etree``
  at the top of a script binds only ``xml``.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import sys
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    FunctionState = tuple[dict[str, Any], tuple[str, ...], dict[str, Any]]
    """The globals of a function, the submodules that it may mean, and its attributes."""

CachedFunction: type = type(functools.lru_cache(lambda: None))
_ATTRIBUTES = (
    "__defaults__",
    "__kwdefaults__",
    "__doc__",
    "__annotations__",
    "__module__",
    "__qualname__",
)
# Where a class body does not say whether a name is global.
_IN_CLASS_BODIES = ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


class Functions:
    """The functions of one pickle, and what belongs to functions: cells, modules, caches."""

    def __init__(self) -> None:
        # By the identity of the globals, which live as long as their functions.
        self._namespaces: dict[int, dict[str, Any]] = {}
        # By their identity; they live as long as what is pickled.
        self._met: set[int] = set()
        self._postponed: set[int] = set()

    def postpone(self, functions: Iterable[FunctionType]) -> tuple[Completion, ...]:
        """Pickle functions without their variables; return what brings these, to pickle later."""
        new = tuple(fn for fn in functions if id(fn) not in self._met)
        self._postponed.update(map(id, new))
        return tuple(map(Completion, new))

    def reduce(self, part: Any) -> Any:
        """Return the reduction of a part that belongs to a function; else NotImplemented."""
        kind = type(part)
        if kind is FunctionType:
            variables = part.__globals__
            name = {"__name__": variables.get("__name__")}
            namespace = self._namespaces.setdefault(id(variables), name)
            arguments = (part.__code__, namespace, part.__name__, part.__closure__)
            self._met.add(id(part))
            if id(part) in self._postponed:
                return make_function, arguments
            return make_function, arguments, _state(part), None, None, complete_function
        if kind is CellType:
            try:
                content = part.cell_contents
            except ValueError:  # not assigned yet
                return CellType, ()
            return CellType, (), (content,), None, None, fill_cell
        if kind is ModuleType and part.__name__ != "__main__":
            by_name = sys.modules.get(part.__name__) is part
            return (import_module, (part.__name__,)) if by_name else NotImplemented
        if kind is MethodType:
            return reduce_method(part)
        if kind is BuiltinFunctionType:
            return reduce_hook(part)
        if kind is CachedFunction:
            parameters = part.cache_parameters()
            return make_cached, (part.__wrapped__, parameters["maxsize"], parameters["typed"])
        return NotImplemented


class Completion(NamedTuple):
    """The variables and attributes of a function that is in the pickle already."""

    fn: Any  # a function; typed as one, mypy takes it for a method

    def __reduce__(self) -> Any:
        """Return a call that completes the function."""
        return complete_function, (self.fn, _state(self.fn))


def reduce_method(method: MethodType) -> Any:
    """Return the reduction of a bound method that its object does not give by its name.

    Such is the method behind a delayed one: by its name the object has the delayed one, and a
    worker that found that would have the leaf submit itself. For any other, NotImplemented.
    """
    name = getattr(method.__func__, "__name__", None)
    if name is not None and getattr(method.__self__, name, None) == method:
        return NotImplemented
    return MethodType, (method.__func__, method.__self__)


def reduce_hook(builtin: BuiltinFunctionType) -> Any:
    """Return the name of one of Python's own hooks, such as `sys.excepthook`, that was replaced.

    Its usual name means the new hook now; `sys.__excepthook__` means the first one always. A thread
    holds the hook that it found when it was made. For any other builtin function, NotImplemented.
    """
    name = f"__{builtin.__name__}__"
    return name if getattr(sys, name, None) is builtin else NotImplemented


def _state(fn: FunctionType) -> FunctionState:
    names = sorted(global_names(fn.__code__))
    variables = {name: fn.__globals__[name] for name in names if name in fn.__globals__}
    attributes = {name: getattr(fn, name) for name in _ATTRIBUTES}
    if fn.__dict__:
        attributes["__dict__"] = fn.__dict__
    return variables, tuple(_submodules(fn.__code__, variables)), attributes


def global_names(code: CodeType) -> set[str]:
    """Return the names of globals in code, and in the functions and classes within it."""
    names = {
        one.argval
        for one in dis.get_instructions(code)
        if one.opname.endswith("_GLOBAL") or one.opname in _IN_CLASS_BODIES
    }
    return names.union(*map(global_names, _inner(code)))


def _submodules(code: CodeType, variables: dict[str, Any]) -> Iterator[str]:
    """Yield the imported submodules that code may mean, of packages among its variables."""
    packages = tuple(
        f"{value.__name__}."
        for value in variables.values()
        if type(value) is ModuleType and hasattr(value, "__path__")
    )
    if not packages:
        return
    mentioned = _mentioned(code)
    for name in sorted(sys.modules):
        for package in packages:
            if name.startswith(package) and mentioned.issuperset(name[len(package) :].split(".")):
                yield name


def _mentioned(code: CodeType) -> set[str]:
    return set(code.co_names).union(*map(_mentioned, _inner(code)))


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if type(constant) is CodeType)


# ---- loading


def make_function(
    code: CodeType, namespace: dict[str, Any], name: str, closure: tuple[CellType, ...] | None
) -> FunctionType:
    """Return a function that has no variables yet but what all have."""
    # PyImport_Import, by which C code imports modules, asks for them in the globals of its caller.
    namespace.setdefault("__builtins__", vars(builtins))
    return FunctionType(code, namespace, name, None, closure)


def complete_function(fn: FunctionType, state: FunctionState) -> None:
    """Give a function its variables and attributes."""
    variables, modules, attributes = state
    for name in modules:
        importlib.import_module(name)
    fn.__globals__.update(variables)
    for name, value in attributes.items():
        setattr(fn, name, value)


def fill_cell(cell: CellType, content: tuple[Any]) -> None:
    """Assign the variable of a closure."""
    (cell.cell_contents,) = content


def import_module(name: str) -> ModuleType:
    """Return a module by its name."""
    return importlib.import_module(name)


def make_cached(fn: Callable[..., Any], maxsize: int | None, typed: bool) -> Callable[..., Any]:
    """Return a function with an empty cache of its results."""
    return functools.lru_cache(maxsize, typed)(fn)
