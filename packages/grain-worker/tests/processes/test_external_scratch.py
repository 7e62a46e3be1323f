"""The scratch directory of an external program, which is removed however that ends."""

from __future__ import annotations

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
        f'test "$PWD" = "$TMPDIR" && mkdir -p a/b && touch a/b/c && ln -s {tmp_path} link'
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


async def test_the_scratch_directory_is_only_for_temporary_files_where_a_directory_is_given(
    tmp_path: Path,
) -> None:
    done = await run_external(
        ["sh", "-c", 'pwd; test -d "$TMPDIR" && echo "$TMPDIR"'], cwd=tmp_path, scratch=True
    )

    where, scratch = done.stdout_text.split()
    assert where == str(tmp_path)
    assert not Path(scratch).exists()
