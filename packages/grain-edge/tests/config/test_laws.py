"""Properties of every file, whatever is in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from grain.config import ConfigError, load
from grain.config.check import all_keys, check
from grain.config.kinds import ExpansionContext
from grain.config.suggestion import nearest

if TYPE_CHECKING:
    import pytest


@given(st.sampled_from(list(all_keys())), st.data())
def test_slip_of_the_finger_is_recognised(key: tuple[str, ...], data: st.DataObject) -> None:
    """A key with a letter left out, doubled or in capitals is near to a known key beside it."""
    *table, name = key
    at = data.draw(st.integers(0, len(name) - 1))
    wrong = data.draw(
        st.sampled_from(
            [name[:at] + name[at + 1 :], name[:at] + name[at] + name[at:], name.upper()]
        )
    )

    meant = nearest((*table, wrong), list(all_keys()))

    assert meant is not None
    assert meant in set(all_keys())
    assert meant[:-1] == tuple(table)


toml = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.datetimes() | st.times(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
keys = st.sampled_from([key[-1] for key in all_keys()]) | st.text(max_size=8)


@given(
    st.dictionaries(
        keys,
        toml | st.dictionaries(keys, toml | st.dictionaries(keys, toml, max_size=4), max_size=4),
        max_size=5,
    )
)
def test_any_data_is_accepted_or_gives_mistakes(data: dict[str, object]) -> None:
    """Any TOML data gives a configuration or mistakes, nothing else."""
    config, mistakes = check(data, ExpansionContext({"HOME": "/home/me"}, Path("/etc")))

    assert (config is None) == bool(mistakes)
    assert all(str(mistake).isprintable() for mistake in mistakes)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_file_is_loaded_or_raises_config_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    """Tried: Any bytes as a configuration.
    Result: loaded, or a message.
    """
    path = tmp_path_factory.mktemp("any") / "x.toml"
    path.write_bytes(raw)

    try:
        outcome = str(load(path, env={"HOME": "/home/me"}).source)
    except ConfigError as error:
        outcome = str(error)

    assert outcome.startswith(str(path))


line = st.text(st.sampled_from("abc-=/ é'\"\\"), max_size=6)
number = st.integers(0, 1000)
script = {
    "queue": line,
    "walltime": st.integers(100, 10**6) | st.sampled_from(["1-12:00:00", "2h", ""]),
    "cores": number,
    "memory": st.sampled_from([0, 1, 2.5, 100]),
    "extra_args": st.lists(line, max_size=2),
    "setup_cleanup": st.lists(st.sampled_from(["a", "defer b", "  c"]), max_size=3),
}
documents = st.fixed_dictionaries(
    {},
    optional={
        "system": st.sampled_from(["", "slurm", "pbs", "sge"]),
        "hosts": st.sampled_from([[], ["n1", "me@n2.x:2"]]),
        "address": st.sampled_from(["edge://~/x", "tcp://h:1"]),
        "contextmod": st.sampled_from(["", "c.py", "/c.py"]),
        "script": st.fixed_dictionaries({}, optional=script),
        "head": st.fixed_dictionaries(
            {},
            optional={
                "cmd": line,
                "listen": st.sampled_from(["", "tcp://:1"]),
                "script": st.fixed_dictionaries({}, optional=script),
                "gnaw": st.fixed_dictionaries(
                    {}, optional={"pool": number, "idle_timeout": number}
                ),
            },
        ),
        "worker": st.fixed_dictionaries(
            {},
            optional={
                "dial": st.sampled_from(["", "tcp://h:2"]),
                "res": st.dictionaries(st.sampled_from(["A", "B"]), number),
                "script": st.fixed_dictionaries({}, optional=script),
            },
        ),
    },
)


def plain(value: object) -> object:
    """A configuration as TOML could say it: None is 0 there, and the source is not a key."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != "source"}
    return 0 if value is None else value


@given(documents)
def test_a_configuration_written_out_reads_as_itself(document: dict[str, object]) -> None:
    """Complete and expanded settings are a fixed point: to read them again changes nothing."""
    context = ExpansionContext({"HOME": "/home/me"}, Path("/etc"))
    config, mistakes = check(document, context)
    assert config is not None, mistakes

    written = plain(msgspec.json.decode(msgspec.json.encode(config)))
    assert isinstance(written, dict)

    assert check(written, context) == (config, [])
