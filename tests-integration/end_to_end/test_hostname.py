"""The tutorial's program on two nodes, and what comes after it: workers that are there already."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from end_to_end.place import MARK, NODES, Place
from fake_batch.start import Missing, fake, until
from fake_small.start import real_grid_engine

TUTORIAL = Path(__file__).parents[2] / "docs/examples/tutorial_4_workers.py"

# As in the tutorial. The nodes claim to have 16 cores, which this machine has not.
CONFIG = """\
system = "{system}"
[script]
queue = "{queue}"
walltime = "00:30:00"
cores = 16
memory = 10.5
setup_cleanup = ["export PATH={folder}/bin:$PATH {mark}={folder}"]
[worker.res]
Cores = 16
[head.gnaw]
idle_timeout = "3m"
"""

# Nodes have names of their own here, and are asked for them together: all but the first of the
# jobs that ask wait until another node was asked, too.
HOSTNAME = """\
#!/bin/sh
# Grid Engine's is one node here, where each job has a number.
node=${{SLURMD_NODENAME:-${{PBS_NODEFILE:+$(cat "$PBS_NODEFILE")}}}}
node=${{node:-n$JOB_ID}}
mkdir -p {folder}/asked/$node
for _ in $(seq 1800); do
    [ $(ls {folder}/asked | wc -l) -ge 2 ] && break
    sleep 0.1
done
echo $node
"""

# Each task reports which worker it ran on, and when. Of the mission that is first, some wait until
# the other one waits, too, and the rest until that is over: without end if its tasks,
# which wait until both workers have some, got no turn among the former.
SHARING = """\
import json, sys
from grain.delayed import delayed, run
from grain.resource import Cores

mine, tasks = sys.argv[1], int(sys.argv[2])

@delayed
async def step(i, folder, mine):
    import time, trio
    from pathlib import Path
    from grain import GVAR
    began = time.monotonic()
    here = Path(folder, mine)
    here.mkdir(exist_ok=True)
    (here / f"{i}.{GVAR.instance}").touch()

    def may_end():
        if mine == "two":
            return len({path.name.split(".", 1)[1] for path in here.iterdir()}) == 2
        return Path(folder, "two.up" if i < 20 else "two.over").exists()

    while not may_end():
        await trio.sleep(0.02)
    await trio.sleep(0.1)
    return GVAR.instance, began, time.monotonic()

async def main():
    jobs = [(step @ Cores(8))(i, "..", mine) for i in range(tasks)]
    print(json.dumps([await job for job in jobs]))

run(main, name=mine)
"""


def ready(place: Place) -> None:
    """A user who has read the tutorial up to here."""
    system = place.batch.system
    queue = {"slurm": "main", "pbs": "workq", "sge": "main.q"}[system]
    place.configure(CONFIG.format(system=system, queue=queue, folder=place.folder, mark=MARK))
    program = place.folder / "bin/hostname"
    program.write_text(HOSTNAME.format(folder=place.folder))
    program.chmod(0o755)


def nodes_of(printed: str) -> list[str]:
    """On which nodes the four jobs ran; the text is what the tutorial says, line by line."""
    shape = "".join(
        rf"Job {i} with CPU_Cores\(\[0-15\]\) & Memory\(10GB\) "
        r"is executed on a machine with hostname (n\d)\n"
        for i in range(4)
    )
    match = re.fullmatch(f"Waiting for calculation to start ...\n{shape}\n", printed)
    assert match, printed
    return list(match.groups())


def test_the_tutorials_cluster_program_prints_what_it_shows(shared: Place) -> None:
    """The mission pauses, says how to start workers, and ends with the documented output."""
    check_tutorial(shared)


@pytest.mark.nightly
def test_tutorial_on_pbs(tmp_path: Path) -> None:
    """The same."""
    with fake("pbs", tmp_path / "pbs", *NODES) as batch:
        place = Place(batch, tmp_path / "place")
        try:
            check_tutorial(place)
        finally:
            place.close()


@pytest.mark.nightly
def test_tutorial_on_a_real_grid_engine(tmp_path: Path) -> None:
    """The same."""
    try:
        with real_grid_engine("--cores=32", "--memory=64000") as (batch, _):
            place = Place(batch, tmp_path / "place")
            try:
                check_tutorial(place)
            finally:
                place.close()
    except Missing as missing:
        pytest.skip(str(missing))


def check_tutorial(place: Place) -> None:
    ready(place)
    mission = place.start(TUTORIAL.read_text(), name="hostname")
    until(lambda: "No workers are there yet" in mission.err)
    paused = mission.out

    ids = place.up("-n", "2")
    nodes = nodes_of(mission.wait())

    assert "Waiting for calculation to start ...\n" == paused
    assert 1 == mission.err.count("`grain up` starts one, from any shell.")
    assert 2 == len(ids)
    assert 2 == len(set(nodes))
    *_, elapsed = (line for line in mission.err.splitlines() if "grain report" not in line)
    assert re.fullmatch(r"Time elapsed for all jobs: \d+\.\d{3}s", elapsed)

    # Gnaw and the workers stay, as `grain ls` shows, and serve the next mission at once.
    listings = []

    def listed() -> bool:
        listings.append(place.typed("ls", "--patience", "60"))
        return "the batch system has not answered yet" not in listings[-1].stderr

    until(listed)  # it does not wait for that for more than 5 s
    assert (0, "") == (listings[-1].returncode, listings[-1].stderr)
    shown = listings[-1].stdout
    assert all(f"{one['name']} " in shown for one in place.records())
    gnaw, serving = place.gnaw(), place.serving()
    again = place.start(TUTORIAL.read_text(), name="hostname")

    assert 4 == len(nodes_of(again.wait()))
    assert "No workers" not in again.err
    assert gnaw == place.gnaw()
    assert serving == place.serving() == sorted(str(one["name"]) for one in place.records())
    assert 2 == len(place.records())


def test_two_missions_share_workers(shared: Place) -> None:
    """One that comes later gets its turn on the workers of the one that was first."""
    ready(shared)
    if not shared.records():
        shared.up("-n", "2")
    # The first ones of its tasks fill both workers.
    first = shared.start(SHARING, "one", "40", name="one")
    until(lambda: len([*shared.folder.glob("one/*")]) == 4)
    second = shared.start(SHARING, "two", "8", name="two")
    until(lambda: [8] == [m.waiting for m in shared.state().missions if m.name == "two"])
    (shared.folder / "two.up").touch()

    two = json.loads(second.wait())
    (shared.folder / "two.over").touch()
    one = json.loads(first.wait())

    workers = {str(record["name"]) for record in shared.records()}
    assert 40 == len(one)
    assert 8 == len(two)
    assert workers == {name for name, _, _ in one}
    assert workers == {name for name, _, _ in two}
    assert max(end for _, _, end in two) < max(end for _, _, end in one)
