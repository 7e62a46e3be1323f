"""Programs and configurations below docs/ are pages of the site: so links to them work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.parsers import Parser

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    for suffix in (".py", ".toml"):
        app.add_source_suffix(suffix, suffix)
    app.add_source_parser(PythonFile)
    app.add_source_parser(TomlFile)
    return {"version": "1", "parallel_read_safe": True}


class PythonFile(Parser):
    """A page that is a program: its name, and its text."""

    supported: ClassVar = (".py",)
    language = "python"

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Build the page."""
        self.setup_parse(inputstring, document)
        name = Path(document.current_source).name
        page = nodes.section(ids=["program"])
        page += nodes.title(name, name)
        page += nodes.literal_block(inputstring, inputstring, language=self.language)
        document += page
        self.finish_parse()


class TomlFile(PythonFile):
    """A page that is a configuration."""

    supported: ClassVar = (".toml",)
    language = "toml"
