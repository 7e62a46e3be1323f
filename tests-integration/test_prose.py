"""Pages name their subject and use the common word, and the check finds those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.check_prose import faults

ROOT = Path(__file__).parent.parent


def problems(folder: Path, text: str) -> list[str]:
    (folder / "page.md").write_text(text, encoding="utf-8")
    return list(faults(folder))


def test_no_page_of_the_repository_has_a_turn_at_which_a_reader_stumbles() -> None:
    assert [] == list(faults(ROOT))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("# Page\n\nA retry is no failure.\n", 3, "is no failure"),
        ("| word | |\n|---|---|\n| a | they are no leaves |\n", 3, "are no leaves"),
        ("It waits for ever.", 1, "for ever"),
        ("It waits\nforever.", 2, "forever"),
        ("Start it anew, please.", 1, "anew"),
        ("A name for people.", 1, "for people"),
        ("It waits\nfor nobody.", 2, "nobody"),
        ("Somebody else has it.", 1, "Somebody"),
        ("If anybody asks, it answers.", 1, "anybody"),
        ("A file is for its owner alone.", 1, "alone"),
        ("Who knows it, knows most.", 1, "Who knows"),
        ("- Whoever asks gets it.", 1, "Whoever asks"),
        ("It is open; so who is there sees it.", 1, "so who is"),
        ("Ask. Those that wait go on.", 1, "Those that"),
        ("```\nis no code\n```\n\nOne that waits goes on.", 5, "One that"),
    ],
)
def test_a_turn_at_which_a_reader_stumbles_is_found(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    (found,) = problems(tmp_path, text)
    assert found.startswith(f'page.md:{line}: instead of "{words}" write: ')


@pytest.mark.parametrize(
    "text",
    [
        "There is no index, and it is no longer needed: it is no more than a file.",
        "The function `is no coroutine`, it says, and `` a ` for ever `` as well.",
        "```text\nWho knows, anew\n```\n",
        "<!-- begun\nanew -->",
        'Write no sentence such as "a retry is no failure".',
        "[A page](who-for-ever.md#anew)",
        "Who can join? A user who has the key.",
        "Workers that wait, and the one that comes.",
        "A file that is left alone, and `alone`; alone: True if it has the worker.",
    ],
)
def test_code_quotes_questions_and_other_words_are_no_problem(text: str, tmp_path: Path) -> None:
    assert [] == problems(tmp_path, text)
