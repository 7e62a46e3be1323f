"""The scripts of jobs that a batch system reads again when a job starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from grain.cli.batch.command import keep_script

if TYPE_CHECKING:
    from pathlib import Path


def test_old_scripts_of_jobs_are_removed_and_files_of_others_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    waits = keep_script(folder, "waits", "true\n")
    for name in ("old-12.sh", "mine.sh", "notes"):
        (folder / name).touch()
        os.utime(folder / name, (1.0, 1.0))

    new = keep_script(folder, "w", "exit 3\n")

    assert "exit 3\n" == new.read_text()
    assert {waits.name, new.name, "mine.sh", "notes"} == {path.name for path in folder.iterdir()}
