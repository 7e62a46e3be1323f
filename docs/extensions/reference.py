"""``.. public:: grain.delayed``: the public names of a module, from their docstrings.

Public is what ``__all__`` lists; without it, what the module itself defines without a leading
underscore, and what it imports in the form ``from ... import name as name``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from docutils import nodes
    from sphinx.application import Sphinx

ORDER = ["function", "class", "data", "exception"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("public", Public)
    app.connect("autodoc-process-docstring", shorten)
    return {"version": "1", "parallel_read_safe": True}


class Public(SphinxDirective):
    """The first paragraph of a module's docstring, and all of its public names."""

    required_arguments = 1
    option_spec: ClassVar = {"without": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Write directives of autodoc, and have them read."""
        name = self.arguments[0]
        module = importlib.import_module(name)
        names = list(dict.fromkeys(public_names(module)))
        without = self.options.get("without", "").split()
        if unknown := set(without) - set(names):
            raise self.error(f"{name} has no public names {sorted(unknown)}")
        lines = [f".. automodule:: {name}", "   :no-members:", ""]
        shown = {each: getattr(module, each) for each in names if each not in without}
        for each, thing in sorted(shown.items(), key=lambda item: ORDER.index(kind(item[1]))):
            lines += described(name, each, thing)
        return self.parse_text_to_nodes("\n".join(lines))


def public_names(module: ModuleType) -> Iterator[str]:
    """Yield the public names of a module, in the order of its source."""
    if hasattr(module, "__all__"):
        yield from module.__all__
    body = list(ast.parse(inspect.getsource(module)).body)
    while body:
        match body.pop(0):
            case ast.If(body=names, test=ast.Name(id="TYPE_CHECKING")):
                body[:0] = names  # imported when it is used
            case ast.ImportFrom(names=names):
                yield from (name.name for name in names if name.asname == name.name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() as defined:
                if not defined.name.startswith("_") and ast.get_docstring(defined):
                    yield defined.name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                documented = body and isinstance(body[0], ast.Expr)
                if not name.startswith("_") and documented:
                    yield name


def kind(thing: object) -> str:
    """Return the directive of autodoc, less its prefix, for an object."""
    if isinstance(thing, type):
        return "exception" if issubclass(thing, BaseException) else "class"
    return "function" if inspect.isroutine(thing) else "data"


def described(module: str, name: str, thing: object) -> list[str]:
    """Return the lines of reStructuredText for one object."""
    try:
        if isinstance(thing, type):
            inspect.signature(thing)
    except NameError:  # a record whose annotations are imported for type checking only
        hints = {k: v for base in reversed(thing.__mro__) for k, v in _annotations(base).items()}
        arguments = ", ".join(f"{k}: {v}" for k, v in hints.items())
        text = inspect.cleandoc(thing.__doc__ or "").splitlines()
        head = [f".. py:class:: {name}({arguments})", f"   :module: {module}", ""]
        return [*head, *(f"   {line}" for line in text), ""]
    except ValueError:  # a class of C without a signature
        pass
    return [f".. auto{kind(thing)}:: {module}.{name}", ""]


def _annotations(cls: type) -> dict[str, str]:
    return {k: v for k, v in inspect.get_annotations(cls).items() if "ClassVar" not in str(v)}


def shorten(
    _app: Sphinx, what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Cut a module's docstring after its first paragraph; the rest is for who reads the code."""
    if what == "module" and "" in lines:
        del lines[lines.index("") + 1 :]
    elif lines and lines[0].startswith("Alias for field number"):
        lines.clear()  # what Python says of each field of a named tuple
