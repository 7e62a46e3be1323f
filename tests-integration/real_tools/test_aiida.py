"""AiiDA: calculations by the scheduler plug-in `grain`, and by its own `core.slurm`.

The computer of the plug-in is set up as docs/tools.md says, the other one as for a real Slurm.
AiiDA types all commands in a login shell.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grain.queue.folder import Queue
from grain_testkit.tool_environments import ROOT

if TYPE_CHECKING:
    from real_tools.tool_site import ToolSite

TOOL = (
    "aiida-core==2.9.4",
    "aiida-quantumespresso==5.1.0",
    "-e",
    str(ROOT / "packages/aiida-grain"),
)
pytestmark = pytest.mark.real_tools

PSEUDO = Path("/usr/share/espresso/pseudo/Si.pz-vbc.UPF")

START = """\
import json, sys, time
from aiida import load_profile, orm
from aiida.engine import run_get_node, submit
from aiida.plugins import CalculationFactory, DataFactory
load_profile()

def computed(process, computer, program, options, **inputs):
    code = orm.InstalledCode(
        computer=orm.load_computer(computer), filepath_executable=program, label="code"
    )
    builder = CalculationFactory(process).get_builder()
    builder.code = code
    for name, value in inputs.items():
        builder[name] = value
    builder.metadata.options = options
    return builder

def add(computer, program="/bin/bash", **options):
    options = {"resources": {"num_machines": 1, "num_mpiprocs_per_machine": 1}, **options}
    numbers = {"x": orm.Int(1), "y": orm.Int(2)}
    return computed("core.arithmetic.add", computer, program, options, **numbers)

def tell(node, outputs=()):
    print(json.dumps({
        "pk": node.pk, "job": node.get_job_id(), "exit": node.exit_status,
        "message": node.exit_message or "", "script": node.base.repository.get_object_content(
            node.get_option("submit_script_filename")),
        "log": [one.message for one in orm.Log.collection.get_logs_for(node)],
        "sum": outputs["sum"].value if "sum" in outputs else None,
    }))

def run(builder):
    outputs, node = run_get_node(builder)
    tell(node, outputs)
    return outputs
"""


class AiiDA:
    """A profile of AiiDA in the home directory of a site, with two computers and a daemon."""

    def __init__(self, site: ToolSite, python: Path) -> None:
        self.site = site
        self._python = python

    def verdi(self, *words: str, status: int | None = 0) -> str:
        """Return what AiiDA's command prints."""
        path = f"{self._python.parent}:{self.site.environ['PATH']}"
        return self.site.call(
            self._python.parent / "verdi", *words, status=status, environ={"PATH": path}
        )

    def set_up(self, **computers: str) -> None:
        """Make a profile, and computers of the given YAML."""
        self.verdi("presto", "--use-zeromq", "--non-interactive")
        for label, lines in computers.items():
            (self.site.home / f"{label}.yml").write_text(lines)
            self.verdi("computer", "setup", "-n", "--config", f"{label}.yml")
            words = ("-n", "--safe-interval", "0", label)
            self.verdi("computer", "configure", "core.local", *words)
        # AiiDA would ask every ten seconds.
        self.program(f"""\
for label in {list(computers)}:
    orm.load_computer(label).set_minimum_job_poll_interval(0.2)
""")

    def program(self, lines: str) -> str:
        """Return what a program prints, with what AiiDA logs."""
        return self.site.python(self._python, START + lines)

    def run(self, expression: str) -> dict[str, Any]:
        """Run a calculation in a process that waits for its end; return what is known of it."""
        return _told(self.program(f"run({expression})\n"))

    def submit(self, expression: str) -> str:
        """Have the daemon run a calculation; return its number."""
        return _word("pk", self.program(f"print('pk', submit({expression}).pk)\n"))

    def job(self, pk: str) -> str:
        """Return the number of the job of a calculation in the default queue, once it runs."""
        printed = self.program(f"""\
from aiida.schedulers.datastructures import JobState
node = orm.load_node({pk})
while node.get_scheduler_state() != JobState.RUNNING:
    time.sleep(0.2)
print("job", node.get_job_id())
""")
        return _word("job", printed).removeprefix("queue:")

    def ended(self, pk: str) -> dict[str, Any]:
        """Return what is known of a calculation, once it has ended."""
        return _told(
            self.program(f"""\
node = orm.load_node({pk})
while not node.is_terminated:
    time.sleep(0.2)
tell(node)
""")
        )


def _told(printed: str) -> dict[str, Any]:
    [line] = [line for line in printed.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(line)
    return found


def _word(name: str, printed: str) -> str:
    match = re.search(rf"^{name} (\S+)$", printed, re.MULTILINE)
    assert match, printed
    return match[1]


def computer_of_page(site: ToolSite) -> str:
    """Return the lines for a computer in docs/tools.md, for this machine."""
    page = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
    match = re.search(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert match
    lines = match[1]
    for theirs, ours in (
        ("login.cluster.example", "localhost"),
        ("core.ssh_async", "core.local"),
        ("/scratch/{username}/aiida", str(site.home / "aiida")),
    ):
        assert theirs in lines
        lines = lines.replace(theirs, ours)
    return lines


@pytest.fixture(scope="module")
def aiida(site: ToolSite, python: Path) -> AiiDA:
    aiida = AiiDA(site, python)
    site.call(
        "sh", "-c", 'mkdir -p ~/.local/bin && ln -s "$(command -v grain)" ~/.local/bin/'
    )  # as docs/tools.md says
    lines = computer_of_page(site)
    slurm = lines.replace("scheduler: grain", "scheduler: core.slurm").replace(
        "label: grain", "label: slurm"
    )
    # As for a site whose Slurm starts the ranks of MPI.
    by_srun = slurm.replace("label: slurm", "label: srun")
    by_srun += "mpirun_command: srun -n {tot_num_mpiprocs}\n"
    aiida.set_up(grain=lines, slurm=slurm, srun=by_srun)
    aiida.verdi("daemon", "start", "1")
    return aiida


both = pytest.mark.parametrize("computer", ["grain", "slurm"])


@both
def test_the_computer_passes_the_test_of_aiida(aiida: AiiDA, computer: str) -> None:
    assert "tests succeeded" in aiida.verdi("computer", "test", computer)


@both
def test_a_calculation_that_succeeds(aiida: AiiDA, computer: str) -> None:
    done = aiida.run(f"add({computer!r}, max_wallclock_seconds=600, max_memory_kb=100_000)")
    assert (0, 3) == (done["exit"], done["sum"])
    directives = "#GRAIN" if computer == "grain" else "#SBATCH"
    assert directives in done["script"]


@both
def test_a_calculation_that_fails(aiida: AiiDA, computer: str) -> None:
    done = aiida.run(f"add({computer!r}, '/bin/false')")
    assert (320, "The output file contains invalid output.") == (done["exit"], done["message"])


@both
def test_a_time_limit(aiida: AiiDA, computer: str) -> None:
    done = aiida.run(f"add({computer!r}, max_wallclock_seconds=2, append_text='sleep 600')")
    assert (120, "The job ran out of walltime.") == (done["exit"], done["message"])


@both
def test_memory_that_is_not_enough(aiida: AiiDA, computer: str) -> None:
    """The program has used what it asked for when SIGKILL comes, as a site's guard does it."""
    hungry = "python3 -c 'x = bytearray(300_000_000)'; kill -9 $$"
    done = aiida.run(f"add({computer!r}, max_memory_kb=200_000, append_text={hungry!r})")
    assert (110, "The job ran out of memory.") == (done["exit"], done["message"])


@both
def test_verdi_process_kill_cancels_the_job(aiida: AiiDA, computer: str) -> None:
    pk = aiida.submit(f"add({computer!r}, sleep=600)")
    number = aiida.job(pk)
    aiida.verdi("process", "kill", pk)
    assert "Killed" in aiida.verdi("process", "status", pk)
    aiida.site.until(number, "CA")


@pytest.mark.skipif(not PSEUDO.exists(), reason="quantum-espresso-data is not installed")
@pytest.mark.skipif(shutil.which("pw.x") is None, reason="quantum-espresso is not installed")
@pytest.mark.parametrize("computer", ["grain", "slurm", "srun"])
def test_quantum_espresso_on_two_ranks(aiida: AiiDA, computer: str) -> None:
    as_root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    resources = (
        {"cores": 2} if computer == "grain" else {"num_machines": 1, "num_mpiprocs_per_machine": 2}
    )
    options = {
        "resources": resources, "withmpi": True, "max_wallclock_seconds": 600,
        "environment_variables": as_root, "append_text": "echo $OMP_NUM_THREADS > threads",
        "additional_retrieve_list": ["threads"],
    }  # fmt: skip
    printed = aiida.program(f"""\
edge = 5.43 / 2
silicon = orm.StructureData(cell=[[0, edge, edge], [edge, 0, edge], [edge, edge, 0]])
for place in (0, edge / 2):
    silicon.append_atom(position=(place,) * 3, symbols="Si")
points = orm.KpointsData()
points.set_kpoints_mesh([2, 2, 2])
with open({str(PSEUDO)!r}, "rb") as file:
    pseudo = DataFactory("pseudo.upf")(file, filename={PSEUDO.name!r})
outputs = run(computed(
    "quantumespresso.pw", {computer!r}, {shutil.which("pw.x")!r}, {options!r},
    structure=silicon, kpoints=points, pseudos={{"Si": pseudo}}, parameters=orm.Dict({{
        "CONTROL": {{"calculation": "scf"}}, "SYSTEM": {{"ecutwfc": 12.0}},
        "ELECTRONS": {{"electron_maxstep": 50}},
    }}),
))
found = outputs["output_parameters"]
print("energy", found["energy"])
files = outputs["retrieved"].base.repository
print("threads", files.get_object_content("threads"))
print(files.get_object_content("aiida.out"))
""")
    assert _word("energy", printed).startswith("-212.47")
    assert "1" == _word("threads", printed)
    assert re.search(r"Parallel version \(MPI\), running on +2 processors", printed)


def test_jobs_that_are_cancelled_or_killed_by_others(aiida: AiiDA) -> None:
    pk = aiida.submit("add('grain', sleep=600)")
    aiida.site.call("grain", "cancel", "--reason", "wrong basis", aiida.job(pk))
    done = aiida.ended(pk)
    assert any("199" in line and "cancelled: wrong basis" in line for line in done["log"])

    killed = aiida.run("add('grain', append_text='kill $$')")
    assert (199, "The job was killed by signal 15.") == (killed["exit"], killed["message"])


def test_a_job_in_another_queue_and_a_plain_environment(aiida: AiiDA) -> None:
    done = aiida.run(
        "add('grain', queue_name='night', import_sys_environment=False, account='acct',"
        " priority='3', resources={'cores': 2, 'memory': 0.5})"
    )
    assert (0, 3) == (done["exit"], done["sum"])
    assert done["job"].startswith("night:")
    [job] = json.loads(aiida.site.call("grain", "jobs", "--json", done["job"]))
    assert {"Cores": 2, "Memory": 0.5} == job["request"]


def test_a_worker_that_dies_is_a_node_failure(aiida: AiiDA) -> None:
    pk = aiida.submit("add('grain', append_text='sleep 600')")
    queue = Queue.open(aiida.site.home / ".local/state/grain/queues/queue")
    begun = queue.begun(int(aiida.job(pk)), None, 1)
    assert begun is not None
    os.kill(begun.pid, signal.SIGKILL)
    done = aiida.ended(pk)
    assert any("140" in line and "The node running the job failed" in line for line in done["log"])
