"""`grain init`: what it reads off the commands of batch systems, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from click.testing import CliRunner

from grain.cli import main
from grain.cli.init import pbs, sge, slurm
from grain.cli.init.command import _choices
from grain.cli.init.document import document
from grain.cli.init.site import Queue, Site, preferred
from grain.config import load
from grain.files.batch_systems import BATCH_SYSTEMS
from grain_testkit.small_disk import fill, small_disk

Put = Callable[[str, str], Path]

SINFO = """\
main*|up|infinite|4|4000|(null)|3
main*|up|infinite|64|256000|(null)|1
short|up|2:00|4|4000|(null)|1
gpu|up|1-12:00:00|32|128000|gpu:a100:2(S:0-1)|5
old|down|infinite|4|4000|(null)|9
"""
QSTAT = """\
Queue: workq
    queue_type = Execution
    resources_max.walltime = 12:00:00
    enabled = True
    started = True

Queue: route
    queue_type = Route
    enabled = True
    started = True

Queue: closed
    queue_type = Execution
    enabled = False
    started = True

Queue: long
    queue_type = Execution
    enabled = True
    started = True
"""
SERVER = "Server: pbs\n    server_state = Active\n    default_queue = workq\n"
PBSNODES = """\
n1
     Mom = n1
     state = free
     resources_available.mem = 4194304kb
     resources_available.ncpus = 8
     resources_available.ngpus = 2

n2
     Mom = n2
     state = free,offline
     resources_available.mem = 1kb
     resources_available.ncpus = 1
"""
TORQUE = """\
n1
     state = free
     np = 12
     status = rectime=1,physmem=8388608kb,ncpus=12
     gpus = 1
"""
# Of a Grid Engine 8.1.9, with a host whose queue is down.
QHOST = """\
HOSTNAME                ARCH         NCPU NSOC NCOR NTHR  LOAD  MEMTOT  MEMUSE  SWAPTO  SWAPUS
----------------------------------------------------------------------------------------------
global                  -               -    -    -    -     -       -       -       -       -
n1                      lx-amd64        2    1    2    2  4.67   23.5G    1.2G     0.0     0.0
   main.q               BIP   0/3/4
   short.q              BIP   0/0/4
n2                      lx-amd64        8    1    2    2  4.67   63.5G    1.2G     0.0     0.0
   main.q               BIP   0/3/4         au
"""
QCONF = "qname                 main.q\nhostlist              @allhosts\nslots                 4\n"


def test_sinfo_gives_partitions_that_are_up_with_their_most_frequent_nodes() -> None:
    main_, short, gpu = slurm.queues(SINFO)

    assert Queue("main", True, None, 4, 3.9, nodes=3) == main_
    assert Queue("short", False, 120, 4, 3.9, nodes=1) == short
    assert Queue("gpu", False, 129600, 32, 125.0, 2, "a100", 5) == gpu


@pytest.mark.parametrize("text", ["", "nonsense", "a|b\n", "a|up|x|y|z|w|v\n", "\0|\n|||||||"])
def test_nonsense_in_place_of_partitions_gives_none_or_unknown_limits(text: str) -> None:
    for queue in slurm.queues(text):
        assert (None, None, None, 0) == (queue.limit, queue.cores, queue.memory, queue.nodes)


def test_accounts_are_read_once_each_and_refusals_are_none() -> None:
    assert ("chem", "bio") == slurm.accounts("chem|\nbio|\nchem|\n")
    assert () == slurm.accounts("You are not running a supported accounting_storage plugin\n")


def test_qstat_and_pbsnodes_give_the_queues_that_run_jobs() -> None:
    work, long = pbs.queues(QSTAT, SERVER, PBSNODES)
    [torque, _] = pbs.queues(QSTAT, "", TORQUE)

    assert Queue("workq", True, 43200, 8, 4.0, 2, nodes=1) == work
    assert ("long", False, None) == (long.name, long.default, long.limit)
    assert (12, 8.0, 1, False) == (torque.cores, torque.memory, torque.gpus, torque.default)
    assert () == pbs.queues("", "", "")


def test_qconf_and_qhost_give_queues_with_the_hosts_that_take_jobs() -> None:
    shown = {"main.q": QCONF + "h_rt  01:00:00\n", "short.q": QCONF + "h_rt  INFINITY\n", "x": ""}
    main_, short = sge.queues(shown, QHOST)

    assert ("main.q", "short.q") == sge.names("main.q\nshort.q\n")
    assert Queue("main.q", False, 3600, 2, 23.5, nodes=1) == main_
    assert (None, 2) == (short.limit, short.cores)
    assert () == sge.names("error: unable to send message to qmaster\n")


@pytest.mark.parametrize(
    ("values", "cores", "memory"),
    [
        ("slots=4,h_vmem=4000M", 2, 3.9),
        ("slots=1,h_vmem=64G", 1, 23.5),
        ("virtual_free=8G, \\\n                      slots=2", 2, 8.0),
        ("NONE", 2, 23.5),
    ],
)
def test_a_host_of_grid_engine_offers_what_it_gives_to_jobs(
    values: str, cores: int, memory: float
) -> None:
    """It may have more memory than the consumable that jobs ask for."""
    shown = {"main.q": QCONF}
    given = {"n1": f"hostname              n1\ncomplex_values        {values}\nprocessors 2\n"}

    assert ("n1",) == sge.host_names(QHOST)
    [queue] = sge.queues(shown, QHOST, given)
    assert (cores, memory) == (queue.cores, queue.memory)


def test_the_default_queue_is_preferred_else_the_one_with_the_most_nodes() -> None:
    few, many, gpus = Queue("few", nodes=1), Queue("many", nodes=9), Queue("g", gpus=2, nodes=99)

    assert many == preferred((few, many, gpus))
    assert Queue("d", True) == preferred((many, Queue("d", True)))
    assert gpus == preferred((gpus,))
    assert preferred(()) is None


GOLDEN = """\
# Written by `grain init`. `grain up --dry` shows what comes of it. Every key
# is explained in docs/config.md.
# Found here:
#   Slurm, with the queues: main, short, gpu.

system = "slurm"

# Where missions, workers and the grain command meet: a file that all nodes see. This is
# the default.
#address = "edge://$HOME/.local/share/edge-file-default"

[script]
# The job of a worker: one node, or a part of it.
queue = "main"
walltime = "24:00:00" # no limit known
cores = 4 # all of a node
memory = 3.9 # GB, all of a node; a little less may start sooner
# Others:
#   short: 00:02:00 at most, 1 node, 4 cores, 3.9 GB
#   gpu: 36:00:00 at most, 5 nodes, 32 cores, 125 GB, 2 GPUs (a100)
# A worker on each of several nodes of one job, for tasks that need this.
#nodes = 4
extra_args = ["--account=chem"]
# Your accounts: chem, bio.
# Shell commands before the worker; those with `defer` run after it.
#setup_cleanup = '''
#module load orca
#export SCRATCH_DIR=$SCRATCH/grain-$$
#mkdir -p $SCRATCH_DIR
#defer rm -r $SCRATCH_DIR
#'''
# Modules here: orca, xtb.
# Scratch directories that you may write to: $SCRATCH, /tmp.

[[shape]]
# Two sorts of workers, for `grain up -s gpu`; what [script] says holds for both.
name = "cpu"

[[shape]]
name = "gpu"
queue = "gpu"
walltime = "24:00:00" # 36:00:00 at most
cores = 32 # all of a node
memory = 125 # GB, all of a node; a little less may start sooner
gpus = 2
"""


def site(system: str = "slurm") -> Site:
    return Site(
        system,
        slurm.queues(SINFO),
        ("chem", "bio"),
        ("$SCRATCH", "/tmp"),
        ("orca", "xtb"),
        notes=("Slurm, with the queues: main, short, gpu.",),
    )


def test_the_configuration_is_commented_and_has_what_was_found(tmp_path: Path) -> None:
    here = site()
    text = document(here, here.queues[0], "chem", here.queues[2])
    (tmp_path / "x.toml").write_text(text)

    assert GOLDEN == text
    assert ["cpu", "gpu"] == [shape.name for shape in load(tmp_path / "x.toml").shape]
    # The commented lines are settings that work.
    plain = text.replace("\n#address", "\naddress").replace("\n#setup", "\nsetup")
    (tmp_path / "x.toml").write_text(plain)
    load(tmp_path / "x.toml")


@pytest.mark.parametrize("system", BATCH_SYSTEMS)
def test_of_other_systems_a_file_with_what_is_known_loads(tmp_path: Path, system: str) -> None:
    (tmp_path / "x.toml").write_text(document(Site(system), None))

    assert system == load(tmp_path / "x.toml").system


def test_a_name_with_quotes_stays_a_string(tmp_path: Path) -> None:
    queue = Queue('a"b\\')
    (tmp_path / "x.toml").write_text(document(Site("slurm", (queue,)), queue))

    assert 'a"b\\' == load(tmp_path / "x.toml").script.queue


EVIL = "orca\nsetup = \"id\"\n[script]\n\x1b[1m'''\r#"


@pytest.mark.parametrize("system", ["slurm", "pbs", "local"])
def test_no_name_becomes_a_setting(system: str) -> None:
    queues = (Queue("main", True), Queue(EVIL, gpus=1, gpu=EVIL))
    here = Site(system, queues, ("a", EVIL), (EVIL,), (EVIL, EVIL), notes=(EVIL,))
    plain = Site(system, (Queue("main", True), Queue("x", gpus=1)), ("a", "b"), ("/x",), ("y",))

    assert settings(plain, None, None) == settings(here, None, None)
    expected = settings(plain, plain.queues[0], plain.queues[1])
    expected["shape"][1]["queue"] = EVIL
    assert expected == settings(here, *queues)


def settings(site: Site, queue: Queue | None, gpus: Queue | None) -> dict[str, Any]:
    return tomlkit.parse(document(site, queue, "a", gpus)).unwrap()


def test_a_module_whose_name_has_a_line_break_is_none(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orca", EVIL):
        (alone / "modules" / name).mkdir(parents=True)
    monkeypatch.setenv("MODULEPATH", str(alone / "modules"))
    monkeypatch.setenv("PATH", str(alone / "bin"))

    assert 0 == CliRunner().invoke(main, ["init", "--yes"]).exit_code

    assert "# Modules here: orca.\n" in (alone / "grain.toml").read_text()


def test_without_a_batch_system_workers_are_processes(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(alone / "bin"))
    done = CliRunner().invoke(main, ["init", "--yes"])

    assert 0 == done.exit_code
    assert "No batch system that answers: workers are processes of this machine.\n" in done.output
    assert "local" == load(alone / "grain.toml").system
    assert 0 == CliRunner().invoke(main, ["up", "--dry"]).exit_code


def test_with_slurm_a_dry_run_accepts_what_it_writes(
    alone: Path, command: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("sbatch", "exit 1")
    (alone / "sinfo.txt").write_text(SINFO)
    command("sinfo", f'while read -r line; do echo "$line"; done < "{alone}/sinfo.txt"')
    monkeypatch.setenv("PATH", str(alone / "bin"))
    done = CliRunner().invoke(main, ["init"])  # no terminal: nothing is asked
    dry = CliRunner().invoke(main, ["up", "--dry"])

    assert 0 == done.exit_code
    assert "Slurm, with the queues: main, short, gpu.\n" in done.output
    assert "#SBATCH --partition=main\n" in dry.output
    assert 0o644 == (alone / "grain.toml").stat().st_mode & 0o777


def test_a_batch_system_that_does_not_answer_is_named(
    alone: Path, command: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("sbatch", "exit 1")
    command("sinfo", "echo 'Unable to contact slurm controller' >&2; exit 1")
    monkeypatch.setenv("PATH", str(alone / "bin"))
    done = CliRunner().invoke(main, ["init", "--yes"])

    expected = "The commands of Slurm are here, but: Unable to contact slurm controller\n"
    assert expected in done.output
    assert "local" == load(alone / "grain.toml").system


def test_a_batch_system_that_hangs_is_written_as_the_one_of_this_machine(
    alone: Path, command: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers as processes would burden a login node whose controller is busy."""
    command("sbatch", "exit 1")
    command("sinfo", "exec /bin/sleep 1000")
    monkeypatch.setenv("PATH", str(alone / "bin"))
    monkeypatch.setattr("grain.cli.batch.command.SECONDS", 0.1)
    done = CliRunner().invoke(main, ["init", "--yes"])

    assert "Slurm is here, but sinfo did not end within 0.1 s: queues and limits" in done.output
    assert "slurm" == load(alone / "grain.toml").system
    assert 0 == CliRunner().invoke(main, ["up", "--dry"]).exit_code


def test_a_file_that_is_there_stays_unless_force_is_given(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(alone / "bin"))
    (alone / "grain.toml").write_text("# mine\n")
    refused = CliRunner().invoke(main, ["init", "--yes"])
    before = (alone / "grain.toml").read_text()
    forced = CliRunner().invoke(main, ["init", "--yes", "--force"])
    other = CliRunner().invoke(main, ["init", "--yes", "o.toml"])

    assert (1, "# mine\n") == (refused.exit_code, before)
    assert "grain.toml exists; `grain init --force` replaces it" in refused.output
    assert (0, True) == (forced.exit_code, "system =" in (alone / "grain.toml").read_text())
    assert "`grain -c o.toml up --dry` shows the job of a worker" in other.output
    assert {"bin", "grain.toml", "o.toml"} == {path.name for path in alone.iterdir()}


def test_a_directory_that_cannot_be_written_is_a_sentence(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(alone / "bin"))
    done = CliRunner().invoke(main, ["init", "--yes", "nowhere/x.toml"])

    assert (1, True) == (done.exit_code, "nowhere/x.toml: No such file" in done.output)


def test_on_a_full_disk_it_says_to_make_room(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk("64k") as disk, monkeypatch.context() as changed:
        changed.setenv("PATH", str(alone / "bin"))
        fill(disk)
        done = CliRunner().invoke(main, ["init", "--yes", f"{disk}/x.toml"])

    assert (1, True) == (done.exit_code, "x.toml: No space left on device; make" in done.output)


def test_on_a_terminal_three_questions_are_asked_at_most() -> None:
    here = site()
    with CliRunner().isolation(input="short\nbio\ny\n") as (out, *_):
        queue, account, gpus = _choices(here, asks=True)
        printed = out.getvalue().decode()

    assert ("short", "bio", "gpu") == (queue and queue.name, account, gpus and gpus.name)
    assert 3 == printed.count("]: ")
    queue, account, gpus = _choices(here, asks=False)
    assert ("main", "chem", None) == (queue and queue.name, account, gpus)
