"""The choice of the configuration file."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain.config import ConfigError, load
from grain.config.errors import Mistake

if TYPE_CHECKING:
    from pathlib import Path


def config_in(folder: Path, name: str, queue: str) -> Path:
    path = folder / name
    path.write_text(f"[script]\nqueue = '{queue}'\n")
    return path


def test_argument_wins_over_variable_and_directory(tmp_path: Path) -> None:
    """The file given as an argument is read, whatever else there is."""
    argument = config_in(tmp_path, "a.toml", "argument")
    config_in(tmp_path, "grain.toml", "directory")
    variable = config_in(tmp_path, "v.toml", "variable")

    config = load(argument, env={"GRAIN_CONFIG": str(variable)}, cwd=tmp_path)

    assert (config.script.queue, config.source) == ("argument", str(argument))


def test_variable_wins_over_directory(tmp_path: Path) -> None:
    """GRAIN_CONFIG is asked before the current directory; a relative name starts from there."""
    config_in(tmp_path, "grain.toml", "directory")
    variable = config_in(tmp_path, "v.toml", "variable")

    config = load(env={"GRAIN_CONFIG": "v.toml"}, cwd=tmp_path)

    assert (config.script.queue, config.source) == ("variable", str(variable))


def test_file_in_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without argument and variable, ./grain.toml is read; an empty variable is as none."""
    path = config_in(tmp_path, "grain.toml", "directory")
    monkeypatch.chdir(tmp_path)

    config = load(env={"GRAIN_CONFIG": ""})

    assert (config.script.queue, config.source) == ("directory", str(path))


def test_the_process_environment_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain load() follows the GRAIN_CONFIG of the process."""
    path = config_in(tmp_path, "v.toml", "variable")
    monkeypatch.setenv("GRAIN_CONFIG", str(path))

    assert load().source == str(path)


def test_no_file_means_defaults(tmp_path: Path) -> None:
    """A missing ./grain.toml is not a mistake."""
    config = load(env={}, cwd=tmp_path)

    assert config.source is None
    assert config == load(False, env={})


def test_with_false_no_file_is_read(tmp_path: Path) -> None:
    """False disables the config file: neither the variable's nor the directory's is read."""
    config_in(tmp_path, "grain.toml", "directory")

    config = load(False, env={"GRAIN_CONFIG": "absent.toml"}, cwd=tmp_path)

    assert (config.source, config.script.queue) == (None, "")


def test_other_arguments_are_refused() -> None:
    """True is no way to ask for a config file."""
    with pytest.raises(TypeError, match="config_file is a path, None or False, not True"):
        load(True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "variable", "expected"),
    [
        ("absent.toml", "", "absent.toml: no such file"),
        (None, "absent.toml", "absent.toml: no such file (named by GRAIN_CONFIG)"),
        ("folder", "", "folder: found a directory, expected a file"),
        ("file/x.toml", "", "file/x.toml: cannot be read: Not a directory"),
        ("", "", "config_file: found an empty name, expected the path of a file"),
        ("a\0b", "", "a\0b: cannot be read: embedded null byte"),
        ("latin1.toml", "", "latin1.toml:2: found the byte 0xe9, expected text in UTF-8"),
        ("large.toml", "", "large.toml: larger than 1048576 bytes, so it is not a config file"),
        ("/dev/zero", "", "/dev/zero: larger than 1048576 bytes, so it is not a config file"),
    ],
)
def test_what_cannot_be_read(
    tmp_path: Path, argument: str | None, variable: str, expected: str
) -> None:
    """A file that is named must be there, readable, and text."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "latin1.toml").write_bytes(b"# a\n# caf\xe9\n")
    (tmp_path / "large.toml").write_bytes(b"#" * (1 << 21))

    with pytest.raises(ConfigError) as info:
        load(argument, env={"GRAIN_CONFIG": variable}, cwd=tmp_path)

    assert str(info.value) == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_the_reason_why_a_file_cannot_be_read_is_passed_on(tmp_path: Path) -> None:
    """The system's reason is passed on."""
    config_in(tmp_path, "x.toml", "q").chmod(0)

    with pytest.raises(ConfigError, match=r"x\.toml: cannot be read: Permission denied"):
        load("x.toml", env={}, cwd=tmp_path)


def test_link_to_nowhere_is_a_mistake(tmp_path: Path) -> None:
    """A ./grain.toml that is a broken link was meant to be used."""
    (tmp_path / "grain.toml").symlink_to("absent")

    with pytest.raises(ConfigError, match=r"^grain\.toml: no such file$"):
        load(env={}, cwd=tmp_path)


def test_a_current_directory_that_is_gone_has_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A current directory that is gone holds no grain.toml."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()

    assert load(env={}).source is None


def test_files_with_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "grain.toml").write_bytes(
        b"\xef\xbb\xbfsystem = 'pbs'\r\n[script]\r\ncores = 4\r\n"
    )

    config = load(env={}, cwd=tmp_path)

    assert (config.system, config.script.cores) == ("pbs", 4)


def test_a_config_error_can_be_pickled() -> None:
    """A ConfigError can cross a process boundary."""
    error = ConfigError("f.toml", (Mistake("a.b", "is wrong"),))

    again = pickle.loads(pickle.dumps(error))

    assert (str(again), again.mistakes) == ("f.toml: a.b: is wrong", error.mistakes)


def test_many_threads_at_first() -> None:
    """The first configurations of a process can be loaded by several threads at once."""
    program = """
import sys, threading
from grain.config import load

sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)

def first():
    barrier.wait()
    load(False)

threads = [threading.Thread(target=first) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    codes = {subprocess.run([sys.executable, "-c", program], check=False).returncode for _ in "123"}

    assert codes == {0}
