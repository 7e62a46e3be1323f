"""The places from which processes take code."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain.files import trust
from grain.files.whole import write_script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
from tempfile import TemporaryFile

# Modules that every start of Grain's processes imports.
PLANTED = ("socket.py", "enum.py", "msgspec.py", "runpy.py", "trio.py")


def test_no_module_of_the_working_directory_is_imported_at_a_start(tmp_path: Path) -> None:
    """Also in Python 3.10, which has no option for that; arguments arrive as they are."""
    for name in PLANTED:
        (tmp_path / name).write_text("import os; os.write(1, b'planted'); os._exit(9)")
    code = "import enum, socket, sys; print(__name__, sys.argv[1:], sys.path[0])"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "asked.py").write_text(code)

    done = subprocess.run(
        [*trust.python_command("asked"), "-x", "y z"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )

    expected = f"__main__ ['-x', 'y z'] {tmp_path / 'site'}\n"
    assert (expected, "") == (done.stdout, done.stderr)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    monkeypatch.setattr(sys, "path", ["/first", "/last"])
    monkeypatch.chdir(tmp_path)
    return sys.path


def test_a_working_directory_of_ours_is_searched_last(path: list[str], tmp_path: Path) -> None:
    assert "" == trust.search_working_directory()
    assert ["/first", "/last", str(tmp_path)] == path


@pytest.mark.parametrize(("mode", "who"), [(0o777, "every user"), (0o1777, "every user")])
def test_a_working_directory_of_others_is_not_searched_and_the_reason_has_the_remedy(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, who: str
) -> None:
    """Tried: Plant modules in the working directory of a runner.
    Result: not searched, and the log says so.
    """
    folder = tmp_path / "my work"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.chdir(folder)

    assert (
        f"The working directory is not searched, as {who} may write to {folder}. If that is as "
        f"it should be, set PYTHONPATH='{folder}' where the worker is started"
    ) == trust.search_working_directory()
    assert ["/first", "/last"] == path


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
def test_a_working_directory_of_another_user_is_not_searched(
    path: list[str], tmp_path: Path
) -> None:
    os.chown(tmp_path, 54321, 54321)

    assert f"as {tmp_path} belongs to user 54321" in trust.search_working_directory()
    assert ["/first", "/last"] == path


def test_a_working_directory_that_the_user_names_is_searched_where_it_was_named(
    path: list[str], tmp_path: Path
) -> None:
    """It may be open to others: PYTHONPATH is the user's word."""
    tmp_path.chmod(0o777)
    path.insert(0, str(tmp_path))

    assert "" == trust.search_working_directory()
    assert [str(tmp_path), "/first", "/last"] == path


def test_a_working_directory_that_was_removed_is_not_searched(
    path: list[str], tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert "No such file or directory" in trust.search_working_directory()
    assert ["/first", "/last"] == path
    os.chdir(tmp_path)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory in which everybody may do anything."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def link(path: Path, own: Path) -> None:
    path.symlink_to(own)


def hard_link(path: Path, own: Path) -> None:
    path.hardlink_to(own)


def named_pipe(path: Path, own: Path) -> None:
    os.mkfifo(path)


def file_of_another(path: Path, own: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("gives a file away")
    path.touch()
    os.chown(path, 54321, 54321)


@pytest.mark.parametrize("plant", [link, hard_link, named_pipe, file_of_another])
def test_a_log_is_not_written_through_what_another_user_has_planted(
    shared: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    """A link to a start-up file of the user's would have commands run at the next login.

    Tried: Plant a log as a link, a hard link, a named pipe, a file of one's own.
    Result: refused.
    """
    own = tmp_path / ".bashrc"
    own.write_text("")
    plant(shared / "w.log", own)

    with pytest.raises(PermissionError, match=r"another user may have put it there, as every user"):
        trust.open_appended(str(shared / "w.log"))
    assert "" == own.read_text()


def test_a_log_may_be_a_link_of_the_user_s_own(tmp_path: Path) -> None:
    """Where no other user may write, this user has made it."""
    target = tmp_path / "elsewhere.log"
    (tmp_path / "w.log").symlink_to(target)
    os.close(trust.open_appended(str(tmp_path / "w.log")))

    assert target.exists()


def test_only_the_owner_may_read_a_log_in_a_directory_of_others(shared: Path) -> None:
    before = os.umask(0)
    try:
        for _ in range(2):
            os.close(trust.open_appended(str(shared / "w.log")))
    finally:
        os.umask(before)

    assert 0o600 == stat.S_IMODE((shared / "w.log").stat().st_mode)


OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links to others")
@pytest.mark.parametrize("hops", [0, 1, 3])
def test_an_output_goes_through_no_link_of_another_user(
    shared: Path, tmp_path: Path, hops: int
) -> None:
    """Nor through a link of ours to it; a file that was not there is not made behind it.

    Tried: Plant the output of a job, or of `grain map`, as a link to a file of the user's.
    Result: refused, neither emptied nor appended to.
    """
    for target in (tmp_path / "thesis", tmp_path / "new"):
        planted = shared / f"planted-{target.name}"
        planted.symlink_to(target)
        os.chown(planted, 54321, 54321, follow_symlinks=False)
        for hop in range(hops):
            ours = shared / f"ours-{hop}-{target.name}"
            ours.symlink_to(planted.name)
            planted = ours
        with pytest.raises(PermissionError, match=r"is a link of .*54321, and could lead to"):
            trust.open_output(str(planted), OUTPUT)
    assert not (tmp_path / "new").exists()


def test_an_output_goes_through_links_of_one_s_own(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "behind").mkdir()
    (shared / "b").symlink_to(tmp_path / "behind/out")
    (shared / "a").symlink_to("b")
    monkeypatch.chdir(shared)
    for name in ("a", str(shared / "a"), "./b"):
        fd = trust.open_output(name, OUTPUT)
        os.write(fd, b"x")
        os.close(fd)
    assert "xxx" == (tmp_path / "behind/out").read_text()
    (shared / "c").symlink_to("c")
    with pytest.raises(OSError, match="Too many levels"):
        trust.open_output("c", OUTPUT)


def test_an_output_may_be_an_open_file() -> None:
    with TemporaryFile() as file:
        fd = trust.open_output(f"/proc/self/fd/{file.fileno()}", OUTPUT)
        os.write(fd, b"x")
        os.close(fd)
        assert b"x" == file.read()


def test_a_script_takes_the_place_of_what_was_planted_and_no_other_user_may_read_it(
    shared: Path, tmp_path: Path
) -> None:
    """In a directory as /tmp, where others can plant names, and not exchange ours.

    Tried: Plant or exchange the script of a job.
    Result: replaced; refused where it could be exchanged.
    """
    shared.chmod(0o1777)
    own = tmp_path / ".bashrc"
    own.write_text("")
    script = shared / "w.sh"
    script.symlink_to(own)
    before = os.umask(0)
    try:
        write_script(script, "echo $KEY")
    finally:
        os.umask(before)

    assert "" == own.read_text()
    assert (False, "echo $KEY") == (script.is_symlink(), script.read_text())
    assert 0o700 == stat.S_IMODE(script.stat().st_mode)
    assert ["w.sh"] == [path.name for path in shared.iterdir()]


def test_a_script_is_not_written_where_another_user_could_exchange_it(shared: Path) -> None:
    """Tried: Plant or exchange the script of a job.
    Result: replaced; refused where it could be exchanged.
    """
    with pytest.raises(PermissionError, match="another user could exchange it before it runs"):
        write_script(shared / "w.sh", "")
    assert [] == list(shared.iterdir())


def test_directories_above_those_of_grain_are_only_for_us_too(tmp_path: Path) -> None:
    """Whatever the umask: in another's hands, `.local/state` could lead elsewhere.

    Tried: Make use of a directory above those of Grain that the umask left open.
    Result: made with mode 0700.
    """
    before = os.umask(0)
    try:
        for _ in range(2):
            trust.make_folder(tmp_path / "local" / "state" / "grain")
    finally:
        os.umask(before)

    folders = list(tmp_path.rglob("*"))
    assert 3 == len(folders)
    assert {0o700} == {stat.S_IMODE(path.stat().st_mode) for path in folders}


def test_a_private_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        trust.private_folder(tmp_path / "cache" / "grain")
        trust.private_folder(tmp_path / "cache" / "grain")
    finally:
        os.umask(before)
    assert {0o700} == {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}


@pytest.mark.parametrize(
    ("open_one", "why"),
    [
        ("cache", "every user may write to {}"),
        ("cache/grain", "every user may write to {}"),
        ("cache/grain/summaries", "every user may write to {}"),
    ],
)
def test_a_folder_that_another_user_could_exchange_is_not_private(
    tmp_path: Path, open_one: str, why: str
) -> None:
    """Tried: Put a link, or a directory, in the place of a cache, a state or a record, so that
    files of the user are removed or read.
    Result: such a place is refused; only plain files with Grain's own names are removed.
    """
    path = tmp_path / "cache" / "grain" / "summaries"
    path.mkdir(parents=True)
    (tmp_path / open_one).chmod(0o777)
    with pytest.raises(PermissionError, match=why.format(tmp_path / open_one)):
        trust.private_folder(path)


def test_every_folder_and_link_on_the_way_to_a_private_folder_counts(
    tmp_path: Path, shared: Path
) -> None:
    """Scratch is often behind a link; a link in a place of everybody can be exchanged.

    Tried: Put a link, or a directory, in the place of a cache, a state or a record, so that
    files of the user are removed or read.
    Result: such a place is refused; only plain files with Grain's own names are removed.
    """
    own = tmp_path / "own"
    (own / "grain").mkdir(parents=True)
    (own / "link").symlink_to("../own")
    trust.private_folder(own / "link" / "grain")
    (own / "by-another").symlink_to(shared / "back")
    (shared / "back").symlink_to(own)
    with pytest.raises(PermissionError, match=f"every user may write to {shared}"):
        trust.private_folder(own / "by-another" / "grain")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("what", ["folder", "link"])
def test_what_another_user_has_planted_in_a_sticky_folder_is_not_private(
    tmp_path: Path, shared: Path, what: str
) -> None:
    """Tried: Put a link, or a directory, in the place of a cache, a state or a record, so that
    files of the user are removed or read.
    Result: such a place is refused; only plain files with Grain's own names are removed.
    """
    shared.chmod(0o1777)
    trust.private_folder(shared / "mine")
    if what == "folder":
        (shared / "theirs").mkdir(mode=0o755)
    else:
        (shared / "theirs").symlink_to(tmp_path)
    os.chown(shared / "theirs", 12345, 12345, follow_symlinks=False)
    with pytest.raises(PermissionError, match="user 12345, and"):
        trust.private_folder(shared / "theirs" / "grain")
    with pytest.raises(PermissionError, match="user 12345, and"):
        trust.private_folder(shared / "theirs")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_sticky_folder_of_another_user_is_not_to_be_trusted(shared: Path) -> None:
    """Its owner may rename what is in it, whoever has made that."""
    shared.chmod(0o1777)
    os.chown(shared, 12345, 12345)

    with pytest.raises(PermissionError, match=f"{shared} belongs to user 12345, and"):
        trust.private_folder(shared / "mine")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_folder_of_root_is_not_that_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What root has made there is no work of the user's that could be removed."""
    folder = tmp_path / "grain"
    trust.private_folder(folder)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(PermissionError, match="only you may have access"):
        trust.private_folder(folder)


def test_only_wanted_plain_files_are_removed(tmp_path: Path) -> None:
    """Tried: Put a link, or a directory, in the place of a cache, a state or a record, so that
    files of the user are removed or read.
    Result: such a place is refused; only plain files with Grain's own names are removed.
    """
    kept = tmp_path / "kept"
    kept.touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old.json").touch()
    (folder / "notes").touch()
    (folder / "link.json").symlink_to(kept)
    (folder / "sub.json").mkdir()

    trust.remove_files(folder, lambda name, _: name.endswith(".json"))

    assert ["link.json", "notes", "sub.json"] == sorted(path.name for path in folder.iterdir())
    assert kept.exists()
    (tmp_path / "elsewhere").symlink_to(folder)
    with pytest.raises(OSError, match="Not a directory|symbolic links"):
        trust.remove_files(tmp_path / "elsewhere", lambda *_: True)


def test_a_folder_that_is_not_there_yet_is_only_missing(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(FileNotFoundError):
        trust.check_private(tmp_path / "grain")
    (tmp_path / "grain").mkdir(mode=0o700)
    with pytest.raises(PermissionError, match=f"every user may write to {tmp_path}"):
        trust.check_private(tmp_path / "grain")
