"""Pages that quote messages quote what the sources print, and the check finds those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.check_messages import MARK, missing_messages

ROOT = Path(__file__).parent.parent


def test_every_message_that_a_page_quotes_is_in_the_sources() -> None:
    assert [] == list(missing_messages(ROOT))


def test_the_pages_on_waiting_and_troubleshooting_are_checked() -> None:
    for page in ("troubleshooting.md", "waiting.md"):
        assert MARK in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    source = tmp_path / "packages/grain-a/src/grain/a.py"
    source.parent.mkdir(parents=True)
    source.write_text(
        '"""A docstring is printed by nobody."""\n'
        "def f(n, file):\n"
        '    print(f"no room for {n} tasks on this worker;"\n'
        '          " start another")\n'
        '    print("the file " + file + " is damaged")\n',
        encoding="utf-8",
    )
    (tmp_path / "docs").mkdir()
    return tmp_path


def faults(repository: Path, text: str) -> list[str]:
    (repository / "docs/page.md").write_text(f"{MARK}\n\n{text}\n", encoding="utf-8")
    return list(missing_messages(repository))


@pytest.mark.parametrize(
    "text",
    [
        "### no room for ... tasks on this worker; start another",
        "### no room for ... start another",
        "### the file ... is damaged",
        "### `the file ... is damaged`",
        "### `` the file ... is damaged ``",
        "| message | why |\n|---|---|\n| `tasks on this worker` | |",
        "### the file ... is damaged\n\n```\n### in a block of code\n```",
        "### the file ... is damaged\n\n| word | why |\n|---|---|\n| `in another table` | |",
    ],
)
def test_a_quote_that_is_printed_is_accepted(text: str, repository: Path) -> None:
    assert [] == faults(repository, text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("### no place for ... tasks", "docs/page.md:3: is in no source: no place for ... tasks"),
        (
            "### start another ... no room for",
            "docs/page.md:3: is in no source: start another ... no room for",
        ),
        (
            "### no room for 3 tasks on this worker",
            "docs/page.md:3: is in no source: no room for 3 tasks on this worker",
        ),
        (
            "### A docstring is printed",
            "docs/page.md:3: is in no source: A docstring is printed",
        ),
        (
            "| message | why |\n|---|---|\n| `the file ... is whole` | |",
            "docs/page.md:5: is in no source: the file ... is whole",
        ),
        ("### no room", "docs/page.md:3: is too short to be looked for: no room"),
        ("Text.", "docs/page.md: quotes no message"),
    ],
)
def test_a_quote_that_nothing_prints_is_found(text: str, fault: str, repository: Path) -> None:
    assert [fault] == faults(repository, text)
