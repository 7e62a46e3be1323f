"""The addresses on which a head listens."""

from __future__ import annotations

import ipaddress
import logging

import pytest

from grain.edge.transports import tcp
from grain.edge.transports.interfaces import (
    ALL,
    Listening,
    every_address,
    file_servers,
    interface_names,
    listening,
    networks_of,
    serves_files,
    source_towards,
    wanted,
)

MOUNTS = r"""
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:24 / /dev/shm rw - tmpfs tmpfs rw
41 27 0:51 / /home rw shared:1 - autofs systemd-1 rw,fd=48
42 41 0:52 / /home/me rw shared:2 master:1 - nfs4 nas:/home/me rw,vers=4.2,addr=10.0.0.2
43 27 0:53 / /six rw - nfs nas6:/six rw,vers=3,mountaddr=fd00::3,addr=fd00::2
44 27 0:54 / /scratch rw - lustre 10.1.0.1@o2ib:10.1.0.2@o2ib:192.168.0.9@tcp1:/scratch rw,flock
45 27 0:55 / /with\040space rw - nfs nas:/x rw,addr=10.0.0.3
46 27 0:56 / /gpfs rw - gpfs fs0 rw
47 27 0:57 / /windows rw - cifs //nas/me rw,addr=10.0.0.4
48 27 0:58 / /named rw - nfs nas:/x rw,addr=nas
49 27 0:59 / /fuse rw - fuse.sshfs me@n1: rw
50 46 0:60 / /gpfs/local rw - xfs /dev/sdb rw
51 27 0:61 / /twice rw - ext4 /dev/sdc rw
52 27 0:62 / /twice rw - gpfs fs1 rw
a line of another form
"""


@pytest.mark.parametrize(
    ("path", "servers"),
    [
        ("/root/meeting", []),
        ("/dev/shm/meeting", []),
        ("/home/me/.local/share/meeting", ["10.0.0.2"]),
        ("/home/me", ["10.0.0.2"]),
        ("/home/meeting", None),
        ("/six/meeting", ["fd00::2"]),
        ("/scratch/me/meeting", ["10.1.0.1", "10.1.0.2", "192.168.0.9"]),
        ("/with space/meeting", ["10.0.0.3"]),
        ("/gpfs/meeting", None),
        ("/gpfs/local/meeting", []),
        ("/windows/meeting", ["10.0.0.4"]),
        ("/named/meeting", None),
        ("/fuse/meeting", None),
        ("/twice/meeting", None),
    ],
)
def test_the_servers_of_a_file_are_those_of_its_mount(path: str, servers: list[str] | None) -> None:
    assert servers == file_servers(MOUNTS, path)


def test_nothing_is_known_without_a_table_of_mounts() -> None:
    assert file_servers("", "/home/me/meeting") is None


def test_a_host_whose_kernel_serves_files_is_a_file_server() -> None:
    assert serves_files("rc 0 0 0\nth 8 0 0.000\nra 32 0\n")
    assert not serves_files("rc 0 0 0\nth 0 0 0.000\n")
    assert not serves_files("")


def test_the_way_to_a_host_begins_at_an_address_of_this_one() -> None:
    assert source_towards("127.0.0.1") == "127.0.0.1"
    assert source_towards("no number") == ""


def test_the_variable_has_interfaces_and_networks() -> None:
    assert ["ib0", "10.0.0.0/8", "eth1"] == wanted({"GRAIN_INTERFACES": "ib0, 10.0.0.0/8 eth1"})
    assert not wanted({})


def test_every_interface_is_a_choice_that_no_file_system_limits() -> None:
    assert Listening(None, fixed=True) == listening("/dev/shm/meeting", ["lo", ALL])


def test_a_named_network_or_interface_is_all_there_is() -> None:
    one = listening("/dev/shm/meeting", ["127.0.0.0/8"])

    assert one.fixed
    assert one.addresses is not None
    assert one.addresses[0] == "127.0.0.1"
    assert all(ipaddress.ip_address(address).is_loopback for address in one.addresses)
    assert one == listening("/dev/shm/meeting", ["lo"])


def test_an_interface_that_a_host_lacks_is_named_with_those_that_it_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        addresses = listening("", ["ib7"]).addresses

    assert addresses is not None
    assert addresses[0] == "127.0.0.1"
    [record] = caplog.records
    names = ", ".join(interface_names())
    assert record.getMessage() == (
        f"GRAIN_INTERFACES: this host has no address on ib7; its interfaces are {names}"
    )


def test_a_meeting_without_a_file_is_anywhere() -> None:
    assert Listening(None, fixed=False) == listening("", [])


def test_a_disk_of_this_host_is_for_this_host_unless_it_is_a_file_server() -> None:
    assert networks_of([], "") == []
    assert networks_of([], "th 8\n") is None


def test_a_network_is_that_by_which_the_file_server_is_reached() -> None:
    sources = {"10.0.0.2": "10.0.0.7", "fd00::2": "fd00::7"}
    assert ["10.0.0.7", "fd00::7"] == networks_of(list(sources), "th 8\n", sources.__getitem__)


def test_all_addresses_of_the_interface_towards_the_file_server_count() -> None:
    found = networks_of(["192.0.2.1"], "", lambda _: every_address()[0])

    # The first one is loopback on a machine without a network: that is a server on this host.
    assert found is None or found[0] == every_address()[0]


@pytest.mark.parametrize("mine", ["10.0.0.2", "127.0.0.1", "::1", ""])
def test_nothing_is_known_where_this_host_serves_itself_or_has_no_way(mine: str) -> None:
    assert networks_of(["10.0.0.2"], "", lambda _: mine) is None


def test_hosts_that_share_what_is_unknown_are_anywhere() -> None:
    assert networks_of(None, "") is None


async def test_listening_on_some_addresses_takes_one_port_and_passes_over_what_is_not_here() -> (
    None
):
    listeners = await tcp.listen_on(["127.0.0.1", "192.0.2.1", "127.0.0.2"])
    targets = tcp.targets(listeners)
    for listener in listeners:
        await listener.aclose()

    assert ["127.0.0.1", "127.0.0.2"] == [host for host, _ in targets]
    assert len({port for _, port in targets}) == 1


async def test_an_address_at_which_the_port_is_taken_has_another() -> None:
    listeners = await tcp.listen_on(["127.0.0.1", "127.0.0.1"])
    targets = tcp.targets(listeners)
    for listener in listeners:
        await listener.aclose()

    assert len({port for _, port in targets}) == 2
