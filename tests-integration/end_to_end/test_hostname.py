"""The tutorial's program on two nodes, and what comes after it: workers that are there already."""

from __future__ import annotations

import json
import re
from pathlib import Path

from end_to_end.place import MARK, NODES, Place
from fake_batch.start import fake, until

TUTORIAL = Path(__file__).parents[2] / "docs/examples/tutorial_4_workers.py"

# As the tutorial has it. The nodes are said to have 16 cores, which this machine has not.
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
idle_quit = "3m"
"""

# Nodes have names of their own here, and are asked for them together: all but the first of the
# jobs that ask wait until another node was asked, too.
HOSTNAME = """\
#!/bin/sh
node=${{SLURMD_NODENAME:-$(cat "$PBS_NODEFILE")}}
mkdir -p {folder}/asked/$node
for _ in $(seq 600); do
    [ $(ls {folder}/asked | wc -l) -ge 2 ] && break
    sleep 0.1
done
echo $node
"""

# Each task tells which worker it ran on, and when. The first ones wait for the other mission.
SHARING = """\
import json, sys
from grain.delayed import delayed, run
from grain.resource import Cores

mine, other, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3])

@delayed
async def step(i, folder, mine, other):
    import time, trio
    from pathlib import Path
    from grain import GVAR
    began = time.monotonic()
    Path(folder, mine).touch()
    while not Path(folder, other).exists():
        await trio.sleep(0.02)
    await trio.sleep(0.1)
    return GVAR.instance, began, time.monotonic()

async def main():
    jobs = [(step @ Cores(8))(i, "..", mine, other) for i in range(tasks)]
    print(json.dumps([await job for job in jobs]))

run(main, name=mine)
"""


def ready(place: Place) -> None:
    """A user who has read the tutorial up to here."""
    system = place.batch.system
    queue = {"slurm": "main", "pbs": "workq"}[system]
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
    found = re.fullmatch(f"Waiting for calculation to start ...\n{shape}\n", printed)
    assert found, printed
    return list(found.groups())


def test_tutorial(place: Place) -> None:
    """It pauses, says how to start workers, and ends with what it is said to print."""
    check_tutorial(place)


def test_tutorial_on_pbs(tmp_path: Path) -> None:
    """The same."""
    with fake("pbs", tmp_path / "pbs", *NODES) as batch:
        place = Place(batch, tmp_path / "place")
        try:
            check_tutorial(place)
        finally:
            place.close()


def check_tutorial(place: Place) -> None:
    ready(place)
    mission = place.start(TUTORIAL.read_text(), name="hostname")
    until(lambda: "No workers are there yet" in mission.err, 60)
    paused = mission.out

    ids = place.up("-n", "2")
    nodes = nodes_of(mission.wait())

    assert "Waiting for calculation to start ...\n" == paused
    assert 1 == mission.err.count("`grain up` starts one, from any shell.")
    assert 2 == len(ids)
    assert 2 == len(set(nodes))
    assert re.search(r"Time elapsed for all jobs: \d+\.\d{3}s\n$", mission.err)

    # Gnaw and the workers stay, as `grain ls` tells, and serve the next mission at once.
    shown = place.grain("ls")
    assert all(f"{one['name']} " in shown for one in place.records())
    gnaw, serving = place.gnaw(), place.serving()
    again = place.start(TUTORIAL.read_text(), name="hostname")

    assert 4 == len(nodes_of(again.wait()))
    assert "No workers" not in again.err
    assert gnaw == place.gnaw()
    assert serving == place.serving() == sorted(str(one["name"]) for one in place.records())
    assert 2 == len(place.records())


def test_two_missions_share_workers(place: Place) -> None:
    """One that comes later gets its turn on the workers of the one that was first."""
    ready(place)
    place.up("-n", "2")
    until(lambda: "offers" in place.log(f"{place.records()[0]['name']}"), 60)
    # The first ones of its tasks fill both workers, and wait for the other mission's first.
    first = place.start(SHARING, "one", "two.up", "40", name="one")
    until((place.folder / "one").exists, 60)
    second = place.start(SHARING, "two", "one", "8", name="two")
    until(lambda: len(place.state()["missions"]) == 2, 60)
    (place.folder / "two.up").touch()

    one, two = (json.loads(mission.wait()) for mission in (first, second))

    workers = {str(record["name"]) for record in place.records()}
    assert 40 == len(one)
    assert 8 == len(two)
    assert workers == {name for name, _, _ in one}
    assert workers == {name for name, _, _ in two}
    assert max(end for _, _, end in two) < max(end for _, _, end in one)
