"""The documentation as a whole: its links, its navigation, and the checks of both."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from tools.check_links import dead_links, trouble
from tools.check_site import faults

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_every_link_in_the_repository_leads_somewhere() -> None:
    assert [] == list(dead_links(ROOT))


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[a](gone.md)", "docs/page.md: (gone.md) does not exist"),
        ("[a](../src/gone.py)", "docs/page.md: (../src/gone.py) does not exist"),
        ("[a](other.md#gone)", "docs/page.md: (other.md#gone) names a heading that is not there"),
        ("[a](#gone)", "docs/page.md: (#gone) names a heading that is not there"),
        ("[a](../../secret)", "docs/page.md: (../../secret) is outside of the repository"),
        ("![a](_static/gone.svg)", "docs/page.md: (_static/gone.svg) does not exist"),
        (
            '<img alt="a" src="_static/gone.svg">',
            "docs/page.md: (_static/gone.svg) does not exist",
        ),
        (
            '<source media="(a)" srcset="_static/gone.svg">',
            "docs/page.md: (_static/gone.svg) does not exist",
        ),
        ("[a](https:/gone)", "docs/page.md: (https:/gone) has no host"),
        ("[`a`](gone.md)", "docs/page.md: (gone.md) does not exist"),
        (
            "[a](https://a.org/Grain/)",
            "docs/page.md: (https://a.org/Grain/) is the site of another project of that name",
        ),
    ],
)
def test_a_dead_link_is_found(link: str, why: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "other.md").write_text("# A `name`\n", encoding="utf-8")
    (docs / "page.md").write_text(f"# Page\n\nText, {link} and text.\n", encoding="utf-8")

    assert [why] == list(dead_links(tmp_path))


@pytest.mark.parametrize(
    "link",
    [
        "[a](other.md#grain-ls-a-name)",
        "[a](#page)",
        "[a](../docs)",
        "[a](https://example.org/a_(b))",
        "`[a](gone.md)`",
        "```py\n[a](gone.md)\n```",
    ],
)
def test_a_link_that_leads_somewhere_is_accepted(link: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "other.md").write_text("## `grain ls`: a [name](page.md)\n", encoding="utf-8")
    (docs / "page.md").write_text(f"# Page\n\n{link}\n", encoding="utf-8")

    assert [] == list(dead_links(tmp_path))


def test_every_page_is_in_the_navigation_once() -> None:
    settings = _settings()
    order: dict[str, list[str]] = settings["navigation"]
    shown = [page for pages in order.values() for page in pages]
    below = [page for patterns in settings["navigation_below"].values() for page in patterns]

    pages = {
        str(path.relative_to(DOCS).with_suffix(""))
        for suffix in ("md", "rst", "ipynb", "toml", "py")
        for path in DOCS.rglob(f"*.{suffix}")
        if path.name != "conf.py" and path.parent.name != "extensions"
    }
    listed = {str(p.relative_to(DOCS).with_suffix("")) for glob in below for p in DOCS.glob(glob)}
    assert sorted(pages - listed - {"index"}) == sorted(shown)


def test_each_old_name_of_a_page_leads_to_a_page_and_a_heading_that_are_there() -> None:
    moved: dict[str, str] = _settings()["moved"]

    assert [] == [old for old in moved if (DOCS / f"{old}.md").exists()]
    assert [] == [new for new in moved.values() if trouble(DOCS / "index.md", file_of(new), ROOT)]


def file_of(place: str) -> str:
    """Return the link to a place that conf.py names without the suffix of its page."""
    page, mark, heading = place.partition("#")
    return f"{page}.md{mark}{heading}"


def _settings() -> dict[str, Any]:
    """The values in docs/conf.py, without what it imports."""
    values = {}
    for line in ast.parse((DOCS / "conf.py").read_text(encoding="utf-8")).body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as value):
                values[name] = ast.literal_eval(value)
    return values


INDEX = """<html><body>
<div class="sidebar-tree"><div><a href="a.html">a</a></div></div>
<img src="logo.svg"><a href="a.html#there">a</a><a href="https://example.org">out</a>
</body></html>"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(INDEX, encoding="utf-8")
    (tmp_path / "a.html").write_text('<p id="there">', encoding="utf-8")
    (tmp_path / "logo.svg").write_text("<svg/>", encoding="utf-8")
    return tmp_path


def test_a_whole_site_has_no_faults(site: Path) -> None:
    assert [] == list(faults(site))


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="gone.html">', "a.html links to gone.html, which does not exist"),
        ('<a href="index.html#x">', "a.html links to index.html#x, where nothing has that name"),
        ('<img src="gone.svg">', "a.html loads gone.svg, which does not exist"),
        ('<script src="https://example.org/x.js">', "a.html loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x">', "a.html loads //example.org/x"),
    ],
)
def test_a_fault_of_the_site_is_found(html: str, fault: str, site: Path) -> None:
    (site / "a.html").write_text(f'<p id="there">{html}', encoding="utf-8")

    assert [fault] == list(faults(site))


def test_an_old_name_of_a_page_is_not_in_the_navigation_and_its_link_is_checked(
    site: Path,
) -> None:
    moved = '<meta http-equiv="refresh" content="1; url={0}"><a href="{0}">a</a>'
    (site / "old.html").write_text(moved.format("a.html#there"), encoding="utf-8")
    assert [] == list(faults(site))

    (site / "old.html").write_text(moved.format("a.html#gone"), encoding="utf-8")
    assert ["old.html links to a.html#gone, where nothing has that name"] == list(faults(site))


def test_a_page_outside_of_the_navigation_is_found(site: Path) -> None:
    (site / "lost.html").write_text("", encoding="utf-8")

    assert ["lost.html is not in the navigation"] == list(faults(site))
