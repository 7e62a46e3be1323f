"""Hosts by ssh, some of which do not answer: `grain up`, `grain ls`, `grain doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.batch import BatchError, JobPhase
from grain.cli.batch.command import Commands
from grain.cli.batch.errors import BatchUnreachable
from grain.cli.batch.systems.ssh import Ssh
from grain_testkit.command_line import grain

if TYPE_CHECKING:
    from click.testing import Result

Put = Callable[[str, str], Path]
# Names of hosts have their fate in them. A host that is up starts what it is to start.
SSH = """\
host=$5
case $host in
    nowhere*) echo "ssh: Could not resolve hostname $host: gone" >&2; exit 255 ;;
    down*) echo "ssh: connect to host $host: Connection timed out" >&2; exit 255 ;;
    silent*) exec sleep 100000 ;;
esac
text=`cat`
case $text in
    *grain-started*) echo "grain-started 7 100 0" ;;
    *grain-nowhere*) case $host in bare*) echo grain-nowhere ;; esac ;;
    *"in  7;"*|*"in 7;"*) echo "7 100" ;;
esac
echo grain-end
"""


@pytest.fixture
def hosts(alone: Path, address: str, command: Put) -> Callable[..., None]:
    """Configure hosts by their names; no scheduler serves at the address."""

    def configured(*names: str) -> None:
        command("ssh", SSH)
        text = f'system = "ssh"\nhosts = {list(names)}\naddress = "{address}"\n'
        (alone / "grain.toml").write_text(text)

    return configured


def lines(result: Result) -> list[str]:
    return [line for line in result.output.splitlines() if not line.startswith("Using config")]


def test_a_host_that_does_not_answer_is_named_and_others_get_the_workers(
    hosts: Callable[..., None],
) -> None:
    hosts("nowhere", "down", "n1", "n2")

    result = grain("up", "-n", "2", "--json")

    assert 0 == result.exit_code, result.output
    notes = [line for line in lines(result) if line.startswith("Note")]
    assert [
        "Note: no worker is started on nowhere: ssh: Could not resolve hostname nowhere: gone",
        "Note: no worker is started on down: ssh: connect to host down: Connection timed out",
    ] == notes
    started = json.loads(result.stdout)
    assert ["n1:7:100", "n2:7:100"] == [one["id"] for one in started]


def test_where_the_others_have_too_little_room_the_silent_ones_are_in_the_error(
    hosts: Callable[..., None],
) -> None:
    hosts("nowhere", "n1")

    result = grain("up", "-n", "2")

    assert 1 == result.exit_code
    first, *rest = lines(result)
    assert first == (
        "Error: 1 place on the hosts of the configuration is free, too few for 2 workers; no "
        "answer from nowhere:"
    )
    assert [
        "  nowhere: ssh: Could not resolve hostname nowhere: gone",
        "Correct `hosts` in the configuration.",
    ] == rest


@pytest.mark.parametrize(("host", "kind"), [("down", BatchUnreachable), ("nowhere", BatchError)])
def test_a_silence_that_may_end_is_worth_another_try(
    hosts: Callable[..., None], host: str, kind: type, job_of: Callable[..., Any]
) -> None:
    hosts(host)

    with pytest.raises(BatchError) as info:
        list(Ssh([host]).submit(job_of('system = "slurm"'), 1))

    assert kind is type(info.value)


def test_the_list_has_what_hosts_say_and_the_names_of_those_that_are_silent(
    hosts: Callable[..., None],
) -> None:
    hosts("n1", "n2")
    grain("up", "-n", "2")
    hosts("n1", "down")
    record = next(Path("state/grain/jobs").iterdir())
    record.write_text(record.read_text().replace("n2:7:100", "down:7:100"))

    result = grain("ls")

    assert "n1:7:100" in result.stdout
    assert "down:7:100" not in result.stdout
    assert (
        "Note: 1 job not shown: down: no answer: ssh: connect to host down: Connection timed out"
    ) in result.output


def test_a_host_that_says_nothing_has_its_time_and_no_more(hosts: Callable[..., None]) -> None:
    hosts("silent")

    states = Ssh(["silent", "n1"], seconds=0.3).states(["silent:7:100"])

    state = states["silent:7:100"]
    assert (JobPhase.UNKNOWN, "silent") == (state.phase, state.node)
    assert "no answer: ssh did not end within 0.3 s" == state.reason


def test_a_command_has_the_time_that_its_caller_has() -> None:
    with pytest.raises(BatchUnreachable, match="sleep did not end within 0.05 s"):
        Commands().run(["sleep", "100000"], seconds=0.05)


def test_the_doctor_tries_each_host(hosts: Callable[..., None]) -> None:
    hosts("n1", "nowhere", "down:2", "bare")

    found = {one["check"]: one for one in json.loads(grain("doctor", "--json").stdout)}

    assert "ok" == found["host n1"]["state"]
    assert ["fail"] * 3 == [found[f"host {one}"]["state"] for one in ("nowhere", "down", "bare")]
    assert "Could not resolve hostname nowhere" in found["host nowhere"]["says"]
    assert "Correct `hosts` in the configuration." == found["host nowhere"]["fix"]
    assert "Connection timed out" in found["host down"]["says"]
    assert "Try `ssh down` by hand, or remove it from `hosts`." == found["host down"]["fix"]
    assert f"{Path.cwd()} is not there" == found["host bare"]["says"]
    assert "batch system" not in found
