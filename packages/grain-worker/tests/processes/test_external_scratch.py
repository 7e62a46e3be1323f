"""The scratch directory of an external program, which is removed however that ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from grain.worker.external import run_external

pytestmark = pytest.mark.usefixtures("no_allocation")


@pytest.mark.parametrize("end", ["normal", "failure", "time limit", "cancellation", "no start"])
async def test_the_scratch_directory_is_removed_however_the_program_ends(
    tmp_path: Path, end: str
) -> None:
    """Its content goes, too, even folders without permissions; targets of links stay."""
    (tmp_path / "kept").write_text("x")
    (tmp_path / "below").mkdir()
    env = {"TMPDIR": str(tmp_path / "below")}
    script = (
        f'test "$PWD" = "$TMPDIR" && mkdir -p a/b && touch a/b/c && ln -s "{tmp_path}" link'
        " && chmod 000 a/b && chmod 500 a && pwd && "
    )
    last = {"normal": "true", "failure": "exit 3"}.get(end, "sleep 1000")
    argv = ["/no/program"] if end == "no start" else ["sh", "-c", script + last]
    limit = 0.3 if end == "time limit" else None
    seen: list[str] = []

    async def one() -> None:
        try:
            done = await run_external(argv, scratch=True, env=env, timeout=limit, check=False)
            seen.append(done.stdout_text.strip())
        except Exception:
            assert end in ("time limit", "no start")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        if end == "cancellation":
            with trio.fail_after(60):
                while not list(tmp_path.glob("below/grain-*/link")):
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    assert list((tmp_path / "below").iterdir()) == []
    assert (tmp_path / "kept").exists()
    for path in seen:
        assert path.startswith(str(tmp_path / "below" / "grain-"))


@pytest.mark.parametrize(
    "exchange",
    [
        'rmdir "$TMPDIR" && ln -s "$1" "$TMPDIR"',
        'mv "$TMPDIR" "$TMPDIR.away" && mv "$1" "$TMPDIR" && ln -s "$TMPDIR" "$1"',
        'mkdir -p a/b && rmdir a/b && ln -s "$1" a/b',
    ],
)
async def test_nothing_is_removed_that_the_program_put_in_place_of_its_scratch_directory(
    tmp_path: Path, exchange: str
) -> None:
    """Neither by a link to a directory, nor by the directory itself.

    Tried: Replace a scratch directory by a link.
    Result: the link goes, its target stays.
    """
    (tmp_path / "precious").mkdir(mode=0o750)
    (tmp_path / "precious" / "file").write_text("x")
    (tmp_path / "below").mkdir()

    await run_external(
        ["sh", "-c", exchange, "sh", str(tmp_path / "precious")],
        scratch=True,
        env={"TMPDIR": str(tmp_path / "below")},
    )

    assert "x" == (tmp_path / "precious" / "file").read_text()
    assert 0o750 == (tmp_path / "precious").stat().st_mode & 0o777
    left = [path for path in tmp_path.glob("below/grain-*") if path.is_symlink()]
    assert [] == left


async def test_a_tree_that_is_deeper_than_pythons_stack_is_removed(tmp_path: Path) -> None:
    """Also one whose paths are longer than the system takes (PATH_MAX)."""
    code = "import os\nfor _ in range(900):\n  os.mkdir('deeper'); os.chdir('deeper')"
    env = {"TMPDIR": str(tmp_path)}

    await run_external([sys.executable, "-c", code], scratch=True, env=env)

    assert [] == list(tmp_path.iterdir())


async def test_the_scratch_directory_is_only_for_temporary_files_where_a_directory_is_given(
    tmp_path: Path,
) -> None:
    done = await run_external(
        ["sh", "-c", 'pwd; test -d "$TMPDIR" && echo "$TMPDIR"'], cwd=tmp_path, scratch=True
    )

    where, scratch = done.stdout_text.splitlines()
    assert where == str(tmp_path)
    assert not Path(scratch).exists()
