"""``sinfo``: the hosts of workers as nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.slurm.nodes import SlurmNode, nodes_of
from grain_testkit.states import state, worker

if TYPE_CHECKING:
    from slurm_site import SlurmSite

    from grain.edge.questions import StateAnswer

TOIL = ("-a", "-o", "%P %G %l %p %c %m")
HEAD = "PARTITION GRES TIMELIMIT PRIO_TIER CPUS MEMORY"


def cluster() -> StateAnswer:
    """Return a scheduler's answer: idle, mixed, full, draining and silent hosts."""
    sixteen = {"Cores": [*range(16)], "Memory": 64.0}
    with_gpus = {"Cores": 8, "Memory": 32.0, "GPUs": ["0", "1"], "Token": "a100"}
    return state(
        workers=[
            worker("a", host="n1", total=sixteen, free=sixteen),
            worker("b", host="n2", total=sixteen, free={"Cores": [3, 4]}),
            worker("c", host="n3", total=with_gpus, free={}),
            worker("d", host="n4", state="draining", running=1, total=sixteen, free={}),
            worker("e", host="n5", state="away", total=sixteen, free={}),
            worker("f", host="n6", total={"Cores": 4, "Memory": 8.0}, free={"Cores": 4}),
            worker("g", host="n6", total={"Cores": 4, "Memory": 8.0}, free={}),
            worker("h", host="n7", state="joining", total=sixteen, free=sixteen),
        ]
    )


@pytest.fixture
def busy(site: SlurmSite, answering: Any) -> Any:
    """A site with that scheduler."""
    (site.folder / "s").mkdir(mode=0o700)
    url = f"unix://{site.folder}/s/s"
    (site.folder / "grain.toml").write_text(f'address = "{url}"\nworker.res.Host = "auto"\n')
    with answering(url, state=cluster()):
        yield site


def test_workers_of_one_host_are_one_node() -> None:
    nodes = {node.name: node for node in nodes_of(cluster())}

    assert SlurmNode("n6", 8, 4, 15258, 0, "mixed") == nodes["n6"]
    assert SlurmNode("n3", 8, 8, 30517, 2, "allocated", "a100") == nodes["n3"]
    assert "n7" not in nodes


def test_a_tool_sees_sizes_and_gpus(busy: SlurmSite) -> None:
    assert [
        HEAD, "queue* (null) infinite 1 8+ 15258+", "queue* gpu:2 infinite 1 8 30517",
    ] == busy.out("sinfo", *TOIL).splitlines()  # fmt: skip


def test_tokens_of_workers_are_features(busy: SlurmSite) -> None:
    expected = {"(null) n[1-2,4-6]", "a100 n3"}
    for letter in "fb":
        assert expected == {*busy.out("sinfo", "-h", "-o", f"%{letter} %N").splitlines()}
    for name, shown in ("n3", "a100"), ("n1", "(null)"):
        record = busy.out("scontrol", "show", "node", name)
        assert f"   AvailableFeatures={shown}\n   ActiveFeatures={shown}\n" in record


def test_a_host_has_the_features_of_all_its_workers() -> None:
    of_two = state(workers=[
        worker(name, host="n1", total={"Cores": 1, "Token": token}, free={})
        for name, token in (("a", "ssd"), ("b", "a100"), ("c", "ssd"))
    ])  # fmt: skip
    assert ["a100,ssd"] == [node.features for node in nodes_of(of_two)]


def test_without_workers_the_features_of_the_configuration_are_shown(site: SlurmSite) -> None:
    (site.folder / "grain.toml").write_text('worker.res.Token = {token = "fast"}\n')
    assert "fast\n" == site.out("sinfo", "-h", "-o", "%f")


def test_hosts_are_listed_by_their_numbers(site: SlurmSite, answering: Any) -> None:
    (site.folder / "s").mkdir(mode=0o700)
    url = f"unix://{site.folder}/s/s"
    (site.folder / "grain.toml").write_text(f'address = "{url}"\n')
    total = {"Cores": 1}
    hosts = [worker(name, host=name, total=total, free=total) for name in ("n10", "n9", "n1")]
    with answering(url, state=state(workers=hosts)):
        assert "n[1,9-10]\n" == site.out("sinfo", "-h", "-o", "%N")


def test_a_person_sees_hosts_by_their_states(busy: SlurmSite) -> None:
    assert [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "queue*       up   infinite      1   drng n4",
        "queue*       up   infinite      2    mix n[2,6]",
        "queue*       up   infinite      1  alloc n3",
        "queue*       up   infinite      1   idle n1",
        "queue*       up   infinite      1   unk* n5",
    ] == busy.out("sinfo").splitlines()
    assert "3/1/2/6\n" == busy.out("sinfo", "-h", "-o", "%F")
    assert ["n1", "n2", "n6"] == busy.out("sinfo", "-h", "-N", "-t", "idle,mix", "-o", "%n").split()
    assert "n5\n" == busy.out("sinfo", "-h", "-d", "-o", "%N")
    assert "14/2/0/16\n" == busy.out("sinfo", "-h", "-n", "n2", "-o", "%C")
    for nothing in ("-n", "n99"), ("-t", "down"):
        assert "queue*       up   infinite      0    n/a \n" == busy.out("sinfo", "-h", *nothing)
        assert "" == busy.out("sinfo", "-h", "-o", "%t %N", *nothing)
        assert "" == busy.out("sinfo", "-h", "-N", *nothing)


@pytest.mark.parametrize(
    ("states", "names"),
    [
        ("i", "n1"), ("a", "n3"), ("IDLE,,alloc", "n1 n3"), ("drain", "n4"), ("drng", "n4"),
        ("drained", ""), ("no_respond", "n5"), ("unk,m", "n2 n5 n6"), ("all", "n1 n2 n3 n4 n5 n6"),
    ],
)  # fmt: skip
def test_states_are_chosen_by_the_beginnings_of_their_names(
    busy: SlurmSite, states: str, names: str
) -> None:
    found = busy.out("sinfo", "-h", "-N", "-t", states, "-o", "%N")
    assert names.split() == found.split()


def test_lines_have_an_order(busy: SlurmSite) -> None:
    def listed(*words: str, **environment: str) -> str:
        return " ".join(busy.out("sinfo", "-h", "-o", "%t:%c", *words, **environment).split())

    assert "unk*:16 idle:16 alloc:8 mix:8+ drng:16" == listed("-S", "t")
    assert "mix:8+ alloc:8 idle:16 drng:16 unk*:16" == listed("-S", "c,#~", SINFO_SORT="-t")
    assert "unk*:16 idle:16 drng:16 alloc:8 mix:8+" == listed("-S", "-c+t")
    assert "n6 n5 n4 n3 n2 n1" == " ".join(
        busy.out("sinfo", "-h", "-N", "-o", "%N", "-S", "-N").split()
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "-t idle,nope",
            'sinfo: error: Bad state string: "nope"\nsinfo: error: valid states: unkn',
        ),
        ("-l -o %t", "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. "),
        ("-i x", "sinfo: error: Error: invalid entry for --iterate=x"),
        ("-o %~", "sinfo: error: Invalid node format specification: ~"),
    ],
)
def test_wrong_words_of_sinfo(site: SlurmSite, words: str, text: str) -> None:
    found = site.answer("sinfo", *words.split())
    assert ("", 1) == (found.out, found.status)
    assert found.err.startswith(text)


def test_words_that_mean_nothing_are_ignored(busy: SlurmSite) -> None:
    assert busy.out("sinfo", "-n", "n1") == busy.out("sinfo", "-n", "n1", "x")
    assert "No reservations in the system\n" == busy.out("sinfo", "-h", "-T")
    names = "User,Version,PreemptMode,StateComplete,GresUsed:9"
    assert (
        "Unknown             22.05.8             OFF                 idle                (null)"
        in (busy.out("sinfo", "-h", "-n", "n1", "-O", names))
    )


def test_each_node_has_a_line_of_its_own(busy: SlurmSite) -> None:
    assert [
        "NODELIST   NODES PARTITION STATE ",
        "n1             1    queue* idle  ",
    ] == busy.out("sinfo", "-N", "-n", "n1").splitlines()
    head, line = (
        "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE",
        "n2             1    queue*       mixed 16     1:16:1  61035        0      1   (null)",
    )
    found = busy.out("sinfo", "-N", "-l", "-n", "n2").splitlines()
    assert [f"{head} REASON", f"{line} none"] == [one.rstrip() for one in found[1:]]
    assert "REASON               USER      TIMESTAMP           NODELIST\n" == busy.out(
        "sinfo", "-R"
    )


def test_fields_by_their_names(busy: SlurmSite) -> None:
    assert [
        "NODELIST            CPUS                MEMORY              STATE               ",
        "n1                  16                  61035               idle                ",
    ] == busy.out("sinfo", "-n", "n1", "-O", "NodeList,cpus,Memory,StateLong").splitlines()
    assert "n1   : 0/16/0/16;\n" == busy.out(
        "sinfo", "-h", "-N", "-n", "n1", "-O", "NodeHost:5:,CPUsState:.10;"
    )
    assert "n1,idle\n" == busy.out("sinfo", "-h", "-N", "-n", "n1", "-o", "%N,%t")
    found = busy.answer("sinfo", "-O", "foo")
    assert ("sinfo: error: Invalid job format specification: foo", 1) == found[1:]


def test_scontrol_shows_nodes(busy: SlurmSite) -> None:
    record = busy.out("scontrol", "show", "node", "n3")
    assert record.startswith("NodeName=n3 CoresPerSocket=8 \n   CPUAlloc=8 CPUEfctv=8 CPUTot=8 ")
    assert "\n   Gres=gpu:2\n" in record
    assert "\n   State=ALLOCATED ThreadsPerCore=1 " in record
    states = [line for line in busy.out("scontrol", "show", "NOD").split() if "State=" in line]
    assert ["IDLE", "MIXED", "ALLOCATED", "MIXED+DRAIN", "DOWN*", "MIXED"] == [
        state.removeprefix("State=") for state in states
    ]
    found = busy.answer("scontrol", "-o", "show", "nodes", "n[1,99]")
    assert (1, "", 2) == (found.status, found.err, found.out.count("\n"))
    assert found.out.startswith("NodeName=n1 ")
    assert found.out.endswith("\nNode n99 not found\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("-n 2", "2 processors on nodes n1"),
        ("-N 2 -n 8", "8 processors on nodes n[1,6]"),
        ("--exclusive", "16 processors on nodes n1"),
        ("-N 2 --exclusive", ""),
        ("-w n[2,6]", "2 processors on nodes n[2,6]"),
        ("-N 2 -w n6", "2 processors on nodes n[1,6]"),
        ("-w n[1-3]", ""),
        ("-N 3 -w n3", ""),
    ],
)  # fmt: skip
def test_a_test_says_where_a_job_would_begin(busy: SlurmSite, words: str, text: str) -> None:
    for command in ["sbatch", "srun"]:
        job = "--wrap=x" if command == "sbatch" else "x"
        found = busy.answer(command, "--test-only", *words.split(), job)
        assert ("", 0) == (found.out, found.status)
        starts = f"{command}: Job 1 to start at D using {text} in partition queue\n"
        waits = f"{command}: (Grain) it would wait for a worker\n"
        assert (starts if text else waits) == re.sub(r"at \S+", "at D", found.err, count=1)
        assert busy.queue.jobs.end() == 1


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("n[2,6]", "n[2,6]"), ("# two\nn2 # and\n\nn6,n2\n", "n[2,6]"), ("n2 n6", "n[2,6]")],
)
def test_a_list_of_hosts_with_a_slash_is_a_file(busy: SlurmSite, text: str, nodes: str) -> None:
    (busy.folder / "hosts").write_text(text)
    words = ("--test-only", f"--nodelist={busy.folder}/hosts", "--wrap=x")
    assert f" on nodes {nodes} in " in busy.answer("sbatch", *words).err


@pytest.mark.parametrize("option", ["-w", "-x"])
@pytest.mark.parametrize(("command", "words"), [("sbatch", ["--wrap=x"]), ("srun", ["x"])])
def test_a_file_without_hosts_is_refused(
    busy: SlurmSite, option: str, command: str, words: list[str]
) -> None:
    found = busy.answer(command, option, "./gone", *words)
    text = "slurm_allocate_resources error opening file ./gone, No such file or directory"
    assert ("", f"{command}: error: {text}", 1) == found
    found = busy.answer(command, option, "/dev/null", *words)
    assert ("", f"{command}: error: Hostlist is empty!", 1) == found
    assert busy.queue.jobs.end() == 1


def test_a_test_says_that_a_job_never_begins(busy: SlurmSite) -> None:
    with (busy.folder / "grain.toml").open("a") as file:
        file.write("script.cores = 16\n")
    found = busy.answer("sbatch", "--test-only", "-n", "1000", "--wrap=x")
    text = "allocation failure: Requested node configuration is not available"
    assert ("", text, 1) == found


@pytest.mark.parametrize(("command", "words"), [("sbatch", ["--wrap=x"]), ("srun", ["x"])])
def test_a_test_says_what_is_refused_as_slurm_does(
    busy: SlurmSite, command: str, words: list[str]
) -> None:
    found = busy.answer(command, "--test-only", "-C", "fast", *words)
    assert 1 == found.status
    assert "allocation failure: Invalid feature specification" == found.err.splitlines()[0]


def test_a_long_name_of_a_node_is_not_cut(site: SlurmSite, answering: Any) -> None:
    (site.folder / "s").mkdir(mode=0o700)
    url = f"unix://{site.folder}/s/s"
    (site.folder / "grain.toml").write_text(f'address = "{url}"\n')
    workers = [worker("a", host="cluster-node-0001"), worker("b", host="n2")]
    with answering(url, state=state(workers=workers)):
        found = site.out("sinfo", "-N", "-h").splitlines()

    assert [
        "cluster-node-0001      1    queue* idle  ",
        "n2                     1    queue* idle  ",
    ] == found


def test_without_workers_there_is_the_size_of_those_that_will_come(site: SlurmSite) -> None:
    (site.folder / "grain.toml").write_text(
        f'address = "unix://{site.folder}/none"\nsystem = "slurm"\n'
        '[script]\ncores = 16\nmemory = 60\nextra_args = ["--gres=gpu:2"]\n'
    )
    assert [HEAD, "queue* gpu:2 infinite 1 16 57220"] == site.out("sinfo", *TOIL).splitlines()
    assert ["queue* up infinite 0 n/a"] == [
        " ".join(line.split()) for line in site.out("sinfo", "-h").splitlines()
    ]


def test_a_wrong_configuration_costs_only_the_sizes(site: SlurmSite) -> None:
    (site.folder / "grain.toml").write_text("nonsense = 1\n")

    assert [HEAD, "queue* (null) infinite 1 0 0"] == site.out("sinfo", *TOIL).splitlines()
