"""Which MPI library a program of a step has, and what starts its ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.cli.slurm.in_job.mpi import (
    HYDRA,
    OPENMPI,
    launch_words,
    launcher_of,
    library_in,
    library_of,
    library_of_option,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "library", "path"),
    [
        ("\tlibmpich.so.12 => /lib/libmpich.so.12 (0x07)", HYDRA, "/lib/libmpich.so.12"),
        ("\tlibmpi.so.12 => /opt/intel/lib/libmpi.so.12 (0x7f)", HYDRA,
         "/opt/intel/lib/libmpi.so.12"),
        ("\tlibmpi.so.40 => /a/libmpi.so.40 (0x7f)", OPENMPI, "/a/libmpi.so.40"),
        ("\tlibmpi_mpifh.so.40 => not found", OPENMPI, "not found"),
        ("\tlibc.so.6 => /lib/libc.so.6 (0x00)", "", ""),
        ("\tnot a dynamic executable", "", ""),
    ],
)  # fmt: skip
def test_the_library_of_a_program(line: str, library: str, path: str) -> None:
    text = f"\tlinux-vdso.so.1 (0x00007ffc)\n{line}\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
    assert (library, path) == library_in(text)


@pytest.mark.parametrize(
    ("option", "library"),
    [("pmi2", HYDRA), ("pmix_v4", OPENMPI), ("pmix", OPENMPI), ("none", ""), ("", "")],
)
def test_the_library_that_an_option_means(option: str, library: str) -> None:
    assert library == library_of_option(option)


def test_a_script_and_a_program_without_mpi_have_no_library(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n# libmpi.so.40\n")
    script.chmod(0o700)
    for program in (str(script), "sh", "/no/such", "no-such"):
        assert ("", "") == library_of(program, thorough=True)


def test_the_launcher_of_a_library_is_the_one_beside_it(tmp_path: Path) -> None:
    for folder, name, says in (
        ("own/bin", "mpirun", "mpirun (Open MPI) 5.0.11"),
        ("other", "mpirun", "HYDRA build details"),
        ("other", "mpiexec", "Intel(R) MPI Library"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (tmp_path / folder / name).chmod(0o700)
    library, path = tmp_path / "own/lib/libmpi.so.40", f"{tmp_path}/other"
    assert f"{tmp_path}/own/bin/mpirun" == launcher_of(OPENMPI, str(library), path)
    # One of another library is none.
    assert "" == launcher_of(OPENMPI, "", path)
    assert f"{tmp_path}/other/mpiexec" == launcher_of(HYDRA, str(library), path)


@pytest.mark.parametrize(
    ("library", "reach", "words"),
    [
        (OPENMPI, True, "run --host m0:2,m2:1 --bind-to none -n 3"),
        (OPENMPI, False, "run --host localhost:2,localhost:1 --bind-to none -n 3"),
        (HYDRA, True, "run -hosts m0:2,m2:1 -n 3"),
        (HYDRA, False, "run -launcher fork -hosts localhost:2,localhost:1 -n 3"),
    ],
)
def test_the_words_of_a_launcher(library: str, reach: bool, words: str) -> None:
    nodes = [(0, 2), (2, 1)]
    assert words.split() == launch_words(library, "run", nodes, reach=reach, label=False)
    assert len(words.split()) < len(launch_words(library, "run", nodes, reach=reach, label=True))


def test_intel_mpi_has_options_of_its_own(tmp_path: Path) -> None:
    launcher = tmp_path / "mpiexec.hydra"
    launcher.write_text("#!/bin/sh\necho 'Intel(R) MPI Library for Linux'\n")
    launcher.chmod(0o700)
    for reach, words in (
        (True, "-hosts m0,m2 -ppn 2 -n 3"),
        (False, "-bootstrap fork -hosts localhost -ppn 2 -n 3"),
    ):
        found = launch_words(HYDRA, str(launcher), [(0, 2), (2, 1)], reach=reach, label=False)
        assert words.split() == found[1:]
