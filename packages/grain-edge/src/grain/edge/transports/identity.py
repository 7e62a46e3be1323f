"""Credentials for TCP: a throw-away authority for each leadership, and TLS 1.3 on both sides.

The head makes an authority, signs two certificates with it and forgets the authority's key. The
members' certificate and key go into the meeting file, which is mode 0600: a process that can read
it belongs to the meeting. The head's own key stays in its memory; so a copied meeting file lets one
join, but not play the head, and a port that a dead head left cannot be used by another process.

P-256, as FIPS mode may refuse Ed25519. Valid from 2000 to 2999: clocks on clusters are wrong, and
the keys live only as long as the head. `cryptography` is needed only to make certificates, so
only a head imports it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

HEAD = "grain-head"
MEMBER = "grain-member"


@dataclass(frozen=True)
class Credential:
    """The certificates and the key of one side; all PEM."""

    authority: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        return "<Credential>"  # never in a log


def make_credentials() -> tuple[Credential, Credential]:
    """Return the head's credential and the members', of a new authority whose key is forgotten."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("grain-authority", authority_key, None, authority_key)

    def credential(name: str) -> Credential:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, authority, authority_key)
        return Credential(
            authority.public_bytes(Encoding.PEM).decode(),
            certificate.public_bytes(Encoding.PEM).decode(),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        )

    return credential(HEAD), credential(MEMBER)


def _certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: EllipticCurvePrivateKey,
) -> x509.Certificate:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    utc = datetime.timezone.utc
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2000, 1, 1, tzinfo=utc))
        .not_valid_after(datetime.datetime(2999, 12, 31, tzinfo=utc))
        .add_extension(
            x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None),
            critical=True,
        )
    )
    if issuer is None:
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
    else:
        # Either may be the side that listens, so both uses.
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
                critical=False,
            )
        )
    return builder.sign(issuer_key, hashes.SHA256())


def listening_context(credential: Credential) -> ssl.SSLContext:
    """Return the context to accept: TLS 1.3, the peer must show a certificate of the meeting."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # no resumption: nothing to keep, nothing to steal
    _fill(context, credential)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def dialling_context(credential: Credential) -> ssl.SSLContext:
    """Return the context to connect: TLS 1.3, and the peer's name is checked."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _fill(context, credential)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    return context


def _fill(context: ssl.SSLContext, credential: Credential) -> None:
    import ssl

    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=credential.authority)
    with _as_file(credential.certificate + credential.key) as path:
        context.load_cert_chain(path)


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Yield a path for `load_cert_chain`, which reads nothing else; on Linux in memory only."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("grain", os.MFD_CLOEXEC)
        try:
            os.write(fd, text.encode())
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
    else:
        with tempfile.NamedTemporaryFile("w") as file:  # made with mode 0600
            file.write(text)
            file.flush()
            yield file.name
