"""The search for an unnamed configuration, and the trust in the found one."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from grain.config import ConfigError, load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a configuration, and one two levels below, under a home directory."""
    project = tmp_path / "home" / "project"
    (project / "runs" / "first").mkdir(parents=True)
    (project / "grain.toml").write_text("[script]\nqueue = 'project'\n")
    return project


def queue_seen_from(folder: Path, home: Path) -> str:
    return load(env={"HOME": str(home)}, cwd=folder).script.queue


def test_a_configuration_is_found_in_the_directories_above(project: Path) -> None:
    below = project / "runs" / "first"
    config = load(env={"HOME": str(project.parent)}, cwd=below)

    assert ("project", str(project / "grain.toml")) == (config.script.queue, config.source)


def test_the_nearest_configuration_counts(project: Path) -> None:
    (project / "runs" / "grain.toml").write_text("[script]\nqueue = 'runs'\n")

    assert "runs" == queue_seen_from(project / "runs" / "first", project.parent)
    assert "project" == queue_seen_from(project, project.parent)


def test_the_search_ends_with_the_home_directory(project: Path) -> None:
    """One in the home directory itself is found, one above it is not."""
    home = project / "runs"

    assert "" == queue_seen_from(home / "first", home)
    (home / "grain.toml").write_text("[script]\nqueue = 'home'\n")
    assert "home" == queue_seen_from(home / "first", home)


@pytest.mark.parametrize("kind", ["a directory", "a file, as in a worktree"])
def test_the_search_ends_with_the_root_of_a_repository(project: Path, kind: str) -> None:
    mark = project / "runs" / ".git"
    mark.mkdir() if kind == "a directory" else mark.write_text("gitdir: /elsewhere\n")

    assert "" == queue_seen_from(project / "runs" / "first", project.parent)


def test_the_search_ends_before_a_public_directory(project: Path) -> None:
    """In a directory like /tmp any user may put a file; so nothing that stands there is found."""
    project.chmod(0o1777)

    assert "" == queue_seen_from(project / "runs" / "first", project.parent)


def test_without_a_home_the_search_goes_on(project: Path) -> None:
    assert "project" == load(env={}, cwd=project / "runs" / "first").script.queue


@pytest.mark.parametrize(
    ("what", "mode", "problem"),
    [
        ("grain.toml", 0o646, "every user may write to {0}/grain.toml"),
        ("", 0o757, "every user may write to {0}"),
        ("", 0o1777, "every user may write to {0}"),
    ],
)
def test_a_found_configuration_that_others_may_write_is_refused(
    project: Path, what: str, mode: int, problem: str
) -> None:
    """The message says how to name it; one that is named counts.

    Tried: Plant a `grain.toml`.
    Result: refused, with the way to name it.
    """
    (project / what).chmod(mode)
    path = project / "grain.toml"
    typed = shlex.quote(str(path))

    with pytest.raises(ConfigError) as refused:
        load(env={}, cwd=project)

    assert str(refused.value) == (
        "grain.toml: not used, as other users may have written it: "
        f"{problem.format(project)}. If you trust it, name it: "
        f"grain -c {typed}, or GRAIN_CONFIG={typed}"
    )
    assert "project" == load(path, env={}).script.queue
    assert "project" == load(env={"GRAIN_CONFIG": str(path)}).script.queue


def test_a_found_configuration_that_a_group_may_write_is_refused(project: Path) -> None:
    path = project / "grain.toml"
    os.chown(path, -1, _other_group())
    path.chmod(0o664)

    with pytest.raises(ConfigError, match="the group .* may write to "):
        load(env={}, cwd=project)


def test_a_group_that_has_only_the_user_may_write(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each user has a group of the same name, files are made with its write permission."""
    import grp
    import pwd

    name = pwd.getpwuid(os.geteuid()).pw_name
    for path in (project, project / "grain.toml"):
        path.chmod(path.stat().st_mode | 0o020)
    own = grp.struct_group((name, "x", os.getegid(), []))
    monkeypatch.setattr(grp, "getgrgid", lambda _: own)
    assert "project" == load(env={}, cwd=project).script.queue
    shared = grp.struct_group((name, "x", os.getegid(), ["somebody"]))
    monkeypatch.setattr(grp, "getgrgid", lambda _: shared)
    with pytest.raises(ConfigError, match=f"the group {name} may write to"):
        load(env={}, cwd=project)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("what", ["grain.toml", "."])
def test_a_found_configuration_of_another_user_is_refused(project: Path, what: str) -> None:
    os.chown(project / what, 54321, -1)

    with pytest.raises(ConfigError, match=r"written it: .* belongs to user 54321\. If you trust"):
        load(env={}, cwd=project)


def test_both_ends_of_a_link_are_judged(project: Path, tmp_path: Path) -> None:
    """A link of ours to a file in a directory of others is theirs to change."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (project / "grain.toml").rename(shared / "grain.toml")
    (project / "grain.toml").symlink_to(shared / "grain.toml")

    assert "project" == load(env={}, cwd=project).script.queue
    shared.chmod(0o777)
    with pytest.raises(ConfigError, match=f"every user may write to {shared}"):
        load(env={}, cwd=project)


@pytest.mark.parametrize("table", ["", "[head]", "[worker]"])
def test_the_context_module_of_a_found_configuration_is_judged_alike(
    project: Path, table: str
) -> None:
    """Tried: Plant the context module beside it.
    Result: refused.
    """
    (project / "grain.toml").write_text(f"{table}\ncontextmod = 'context.py'\n")
    module = project / "context.py"
    assert load(env={}, cwd=project).source  # it is not here, maybe where workers are
    module.touch()
    module.chmod(0o666)

    with pytest.raises(ConfigError, match=f"grain.toml: contextmod: .* may write to {module}"):
        load(env={}, cwd=project)
    assert load(project / "grain.toml", env={}).source
    module.chmod(0o600)
    assert load(env={}, cwd=project).source


def _other_group() -> int:
    """Return a group of this process that is not its user's alone, if there is one."""
    others = [54321] if os.geteuid() == 0 else [g for g in os.getgroups() if g != os.getegid()]
    if not others:
        pytest.skip("this user has no other group")
    return others[0]
