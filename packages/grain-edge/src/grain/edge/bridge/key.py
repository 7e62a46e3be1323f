"""The key of a bridge's meeting: where it stands, and what is derived from it.

Derivation is HKDF (RFC 5869) with SHA-256 and a label for each use, without a salt, as the key is
random already; signatures are Ed25519 (RFC 8032), sealing is AES-256-GCM (NIST SP 800-38D) with a
random nonce. What is sealed or signed names its use, and the parts of what is signed their lengths:
no statement passes for another one, whatever the server has chosen as its challenge.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import shlex
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grain.edge.address import BridgeAddress, parse_address
from grain.edge.errors import AddressError, ExposedFile, ForeignFile, MeetingError
from grain.eventlog.names import state_folder, with_home
from grain.files.trust import make_folder
from grain.files.whole import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE = 32
"""Bytes of a key."""

_SIGNED, _VOUCHED = b"grain bridge 1", b"grain bridge 1 beside"
_PUBLIC = 32  # bytes of the public half of a signing key
_RECORD, _CLAIM, _CALL = b"record", b"claim", b"call"


def make_key() -> str:
    """Return a new key as text: 43 characters of URL-safe base64."""
    return _text(secrets.token_bytes(SIZE))


def parse_key(text: str) -> bytes:
    """Return the bytes of a key.

    Raises:
        AddressError: it is not a key; its text does not show it.
    """
    try:
        key = base64.b64decode(text + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != SIZE:
        raise AddressError(
            "the key of a bridge:// address is not valid: 43 characters, as `grain bridge key` "
            "prints them"
        )
    return key


def read_key(address: BridgeAddress) -> bytes:
    """Return the key of an address, from its file if it names one.

    Raises:
        AddressError: it is not a key.
        MeetingError: the file cannot be read, or other users may read it.
    """
    if not address.key.startswith("@"):
        return parse_key(address.key)
    path = Path(address.key[1:])
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(200).decode("ascii", "replace").strip()
    except OSError as error:
        raise MeetingError(
            f"the key of the bridge cannot be read: {path}: {error.strerror}. Copy it there from "
            "where the others have it"
        ) from error
    if status.st_uid not in {0, os.geteuid()}:
        raise ForeignFile(
            f"{path}: the key of the bridge belongs to another user; copy it to a file of your own"
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ExposedFile(
            f"{path}: other users may read the key of the bridge. Run `chmod 600 "
            f"{shlex.quote(str(path))}`, and make a new key if another user may have read it"
        )
    try:
        return parse_key(text)
    except AddressError as error:
        raise AddressError(f"{path}: {error}") from None


def meeting_id(address: str) -> str:
    """Return the public half of the key of a bridge's address, by which its server can list it.

    The server sees it with each connection; it does not let the server join, sign or read.

    Args:
        address: as in `grain.toml`, or the path of a key.

    Returns:
        64 hexadecimal digits.

    Raises:
        AddressError: it is not an address of a bridge, or there is no key in the file.
        MeetingError: the file cannot be read, or other users may read it.
    """
    if address.startswith("bridge://"):
        where = parse_address(address)
        assert isinstance(where, BridgeAddress)
    elif "://" in address:
        raise AddressError(f"{address} is not the address of a bridge, and has no key")
    else:
        where = BridgeAddress(f"@{Path(address).absolute()}", "", 0)
    return MeetingKeys(read_key(where)).public.hex()


def without_key(address: str, env: Mapping[str, str] = os.environ) -> str:
    """Return an address that names a file with its key; one of another scheme as it is.

    Addresses travel in argument lists and messages, which others may read. The file is in the
    user's state directory; its name is a digest.

    Raises:
        AddressError: not an address.
        OSError: the file cannot be written.
    """
    if not address.startswith("bridge://"):
        return address
    where = parse_address(address, with_home(env).get("HOME"))
    assert isinstance(where, BridgeAddress)
    if where.key.startswith("@"):
        return address
    key = parse_key(where.key)
    folder = state_folder(env) / "bridge"
    make_folder(folder)
    path = folder / f"{hashlib.sha256(key).hexdigest()[:16]}.key"
    if not path.exists():
        write_whole(path, _text(key) + "\n")
    return replace(where, key=f"@{path}").text


def _text(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


class MeetingKeys:
    """The keys of a meeting.

    Attributes:
        public: the public half of the signing key, which names the meeting.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._signing = Ed25519PrivateKey.from_private_bytes(_derived(key, b"grain bridge sign"))
        self._sealing = AESGCM(_derived(key, b"grain bridge seal"))
        self.public: bytes = self._signing.public_key().public_bytes_raw()

    def sign(self, challenge: bytes, purpose: str, token: bytes) -> bytes:
        """Return the signature of what a connection is for."""
        return self._signing.sign(_statement(challenge, purpose, token))

    def vouch(self, public: bytes) -> bytes:
        """Return the word of this meeting's members for another one that they have made beside it.

        A server that lists meetings serves that one as well. Who has its key learns nothing of this
        meeting's.

        Args:
            public: the public half of its signing key.

        Returns:
            96 bytes: the public half of this meeting's key, and the signature.
        """
        return self.public + self._signing.sign(_joined(_VOUCHED, public))

    def seal(self, record: bytes) -> bytes:
        """Return a head's record as only members read it."""
        return self._sealed(record, _RECORD)

    def unseal(self, sealed: bytes) -> bytes:
        """Return the record that a head has sealed.

        Raises:
            MeetingError: no member has.
        """
        record = self._unsealed(sealed, _RECORD)
        if record is None:
            raise MeetingError("the bridge shows a record that no member has written")
        return record

    def seal_claim(self, epoch: int, who: bytes) -> bytes:
        """Return a head's claim as only members write it."""
        return self._sealed(epoch.to_bytes(8, "big") + who, _CLAIM)

    def claimed_epoch(self, sealed: bytes) -> int:
        """Return the epoch that a head has claimed; 0 if no member has sealed that claim."""
        claim = self._unsealed(sealed, _CLAIM)
        return 0 if claim is None else int.from_bytes(claim[:8], "big")

    def seal_call(self, call: bytes) -> bytes:
        """Return a member's call as only members read it."""
        return self._sealed(call, _CALL)

    def unseal_call(self, sealed: bytes) -> bytes:
        """Return the call that a member has sealed; empty if no member has."""
        return self._unsealed(sealed, _CALL) or b""

    def _sealed(self, data: bytes, use: bytes) -> bytes:
        nonce = secrets.token_bytes(12)
        return nonce + self._sealing.encrypt(nonce, data, self.public + use)

    def _unsealed(self, sealed: bytes, use: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        try:
            return self._sealing.decrypt(sealed[:12], sealed[12:], self.public + use)
        except (InvalidTag, ValueError):
            return None


def is_signed(
    public: bytes, signature: bytes, challenge: bytes, purpose: str, token: bytes
) -> bool:
    """Return True if a member has signed what a connection is for."""
    return _has_signed(public, signature, _statement(challenge, purpose, token))


def vouched_by(voucher: bytes, public: bytes) -> bytes:
    """Return the public half of the key of the meeting that has vouched for another one.

    Args:
        voucher: see `MeetingKeys.vouch`.
        public: the public half of the other one's key.

    Returns:
        That of the first meeting; empty if its members have not signed this.
    """
    sponsor, signature = voucher[:_PUBLIC], voucher[_PUBLIC:]
    return sponsor if _has_signed(sponsor, signature, _joined(_VOUCHED, public)) else b""


def _has_signed(public: bytes, signature: bytes, statement: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def _statement(challenge: bytes, purpose: str, token: bytes) -> bytes:
    return _joined(_SIGNED, challenge, purpose.encode(), token)


def _joined(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _derived(key: bytes, label: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(hashes.SHA256(), SIZE, None, label).derive(key)
