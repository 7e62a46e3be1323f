"""TLS over pairs of sockets in one process, with every wrong credential."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge.errors import NotAuthenticated
from grain.edge.transports import tcp
from grain.edge.transports.identity import (
    HEAD,
    MEMBER,
    Credential,
    dialling_context,
    listening_context,
    make_credentials,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEAD_SIDE, MEMBER_SIDE = make_credentials()
OTHER_HEAD, OTHER_MEMBER = make_credentials()


@asynccontextmanager
async def sockets() -> AsyncIterator[tuple[trio.SocketStream, trio.SocketStream]]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with listener:
        a = await trio.open_tcp_stream("127.0.0.1", port)
        b = await listener.accept()
    async with a, b:
        yield a, b


async def meet(
    dialler: ssl.SSLContext, name: str, accepter: ssl.SSLContext, wanted: str | None
) -> tuple[object, object]:
    """Return each side's result: the peer's certificate, or an error."""
    results: list[object] = [None, None]

    async with sockets() as (a, b), trio.open_nursery() as nursery:

        async def dial() -> None:
            try:
                secure = await tcp.secure_dialled(a, dialler, name)
                # A client of TLS 1.3 is done before the server has judged it.
                results[0] = await secure.receive_some(1) or EOFError()
            except (NotAuthenticated, trio.BrokenResourceError) as e:
                results[0] = e

        async def accept() -> None:
            try:
                secure = await tcp.secure_accepted(b, accepter, wanted)
                await secure.send_all(b"!")
                results[1] = secure.version()
            except NotAuthenticated as e:
                results[1] = e
                await trio.aclose_forcefully(b)

        nursery.start_soon(dial)
        nursery.start_soon(accept)
    return results[0], results[1]


async def test_member_and_head_authenticate_each_other_by_tls_1_3() -> None:
    """The ordinary way; TLS 1.3."""
    assert await meet(dialling_context(MEMBER_SIDE), HEAD, listening_context(HEAD_SIDE), None) == (
        b"!",
        "TLSv1.3",
    )


async def test_a_head_that_dials_is_authenticated_as_the_head() -> None:
    """The head dials; the member insists on the head's certificate."""
    assert await meet(
        dialling_context(HEAD_SIDE), MEMBER, listening_context(MEMBER_SIDE), HEAD
    ) == (b"!", "TLSv1.3")


@pytest.mark.parametrize(
    ("dialler", "name", "accepter", "wanted"),
    [
        pytest.param(OTHER_MEMBER, HEAD, HEAD_SIDE, None, id="member of another meeting"),
        pytest.param(MEMBER_SIDE, HEAD, OTHER_HEAD, None, id="head of another meeting"),
        pytest.param(MEMBER_SIDE, HEAD, MEMBER_SIDE, None, id="member who plays the head"),
        pytest.param(
            MEMBER_SIDE, MEMBER, MEMBER_SIDE, HEAD, id="member who plays the head, reverse"
        ),
        pytest.param(OTHER_HEAD, MEMBER, MEMBER_SIDE, HEAD, id="another head, reverse"),
    ],
)
async def test_wrong_credentials_are_refused_before_a_byte_is_exchanged(
    dialler: Credential, name: str, accepter: Credential, wanted: str | None
) -> None:
    """Neither side exchanges a byte with the wrong one.

    Tried: Certificate of another meeting, or of a member in the place of the scheduler.
    Result: refused before a byte.
    """
    ours, theirs = await meet(dialling_context(dialler), name, listening_context(accepter), wanted)

    assert isinstance(ours, Exception)
    assert isinstance(theirs, NotAuthenticated)


async def test_a_client_without_a_certificate_is_refused() -> None:
    """An anonymous client is refused, though it knows the authority.

    Tried: Join over TCP without a certificate, as another user of the host.
    Result: refused.
    """
    context = ssl.create_default_context(cadata=MEMBER_SIDE.authority)
    ours, theirs = await meet(context, HEAD, listening_context(HEAD_SIDE), None)

    assert isinstance(ours, Exception)
    assert isinstance(theirs, NotAuthenticated)


async def test_tls_1_2_is_refused() -> None:
    """There is nothing to fall back to.

    Tried: TLS 1.2; no TLS at all.
    Result: refused.
    """
    context = dialling_context(MEMBER_SIDE)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    ours, theirs = await meet(context, HEAD, listening_context(HEAD_SIDE), None)

    assert isinstance(ours, Exception)
    assert isinstance(theirs, NotAuthenticated)


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\xff\xff" * 999])
async def test_a_peer_without_tls_is_refused(first: bytes) -> None:
    """Plain text, noise, or a connection that ends at once.

    Tried: TLS 1.2; no TLS at all.
    Result: refused.
    """
    async with sockets() as (a, b):
        if first:
            await a.send_all(first)
        await a.send_eof()
        with pytest.raises(NotAuthenticated):
            await tcp.secure_accepted(b, listening_context(HEAD_SIDE), None)


async def test_keys_differ_each_time_and_stay_out_of_sight() -> None:
    """Neither in the other side's credential, nor in what a log would show."""
    assert len({c.key for c in (HEAD_SIDE, MEMBER_SIDE, OTHER_HEAD, OTHER_MEMBER)}) == 4
    assert HEAD_SIDE.authority != OTHER_HEAD.authority
    assert "PRIVATE" not in repr(HEAD_SIDE)
