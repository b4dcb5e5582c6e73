"""How the liars of ``make liar`` come to the door of a queue manager that has an identity.

Strangers prove nothing, or not what they would have to: they speak without TLS, in TLS without a
certificate, with one of an authority that nobody knows, with one that has expired, with a good one
for another protocol. Neighbours have a good certificate for a GUID of their own.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from onceq.model.marks import DAY_S
from onceq.tls import authority, folder
from onceq.tls.contexts import APPLICATIONS, IdentityFiles, client_context, server_context

EXPIRED_S = 500 * DAY_S
"""Older than any certificate gets."""
ALERT = b"\x15\x03"
"""How the answer of TLS begins to what is none."""

Way = Callable[[socket.socket, bytes], socket.socket]
"""Begins to speak on a connection as somebody with this GUID; raises OSError if that fails."""


class Ways:
    """Certificates, right ones and others, and how to speak with them."""

    def __init__(self, path: Path) -> None:
        """Args:
        path: Data directory of the queue manager whose authority all others have joined.
        """
        own = folder.folder_of(str(path))
        self._trusted = os.path.join(own, folder.AUTHORITY)
        self._right = folder.read(self._trusted), folder.read(f"{own}/{folder.AUTHORITY_KEY}")
        self._foreign = authority.make_authority("NOBODY", int(time.time()))

    @property
    def strangers(self) -> Mapping[str, Way]:
        """Ways of those who must not be heard, by name."""
        return {
            "without TLS": lambda line, guid: line,
            "without a certificate": self._without,
            "certificate of an unknown authority": self._unknown,
            "certificate that has expired": self._expired,
            "good certificate, another protocol": self._elsewhere,
        }

    def neighbour(self, line: socket.socket, guid: bytes) -> socket.socket:
        """With a good certificate."""
        return self._as(self._certificate(guid), line)

    def web(self, line: socket.socket, guid: bytes = b"") -> socket.socket:
        """At a door for HTTPS: with a good certificate, or, without a GUID, with none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if guid:
            with _kept(self._certificate(guid)) as name:
                context.load_cert_chain(name)
        return context.wrap_socket(line)

    def answering(self, line: socket.socket, guid: bytes, *, known: bool) -> socket.socket:
        """Answer a connection: with a good certificate, or as a stranger can."""
        made = self._certificate(guid) if known else self._issued(self._foreign, guid)
        with _kept(made) as name:
            context = server_context(IdentityFiles(name, name, self._trusted), peers=True)
        return context.wrap_socket(line, server_side=True)

    def _without(self, line: socket.socket, guid: bytes) -> socket.socket:
        return self._as(b"", line)

    def _unknown(self, line: socket.socket, guid: bytes) -> socket.socket:
        return self._as(self._issued(self._foreign, guid), line)

    def _expired(self, line: socket.socket, guid: bytes) -> socket.socket:
        return self._as(self._issued(self._right, guid, ago_s=EXPIRED_S), line)

    def _elsewhere(self, line: socket.socket, guid: bytes) -> socket.socket:
        return self._as(self._certificate(guid), line, alpn=APPLICATIONS)

    def _certificate(self, guid: bytes) -> bytes:
        return self._issued(self._right, guid)

    @staticmethod
    def _issued(signs: tuple[bytes, bytes], guid: bytes, *, ago_s: int = 0) -> bytes:
        """Certificate and key in one."""
        key = authority.make_key()
        asked = authority.read_request(authority.make_request(key, guid, "LIAR", ()))
        return authority.sign(asked, *signs, int(time.time()) - ago_s).pem + key

    def _as(self, made: bytes, line: socket.socket, *, alpn: str = "") -> socket.socket:
        with _kept(made) as name:
            context = client_context(
                self._trusted, certificate=name if made else "", key=name if made else "",
                peers=True, alpn=alpn,
            )  # fmt: skip
        return context.wrap_socket(line)


def make_site(path: Path, names: Sequence[str]) -> dict[str, str]:
    """Certificates for HTTPS, of another authority than the one of the queue managers.

    Args:
        path: A folder.
        names: Of computers.

    Returns:
        For each name what ``onceq.toml`` has to say.
    """
    now_s = int(time.time())
    signs = authority.make_authority("SITE", now_s)
    trusted = path / "site.pem"
    trusted.write_bytes(signs[0])
    found = {}
    for name in names:
        key, host = authority.make_key(), name.lower()
        asked = authority.read_request(
            authority.make_request(key, host.encode().ljust(16, b"."), name, (host,))
        )
        own = path / f"{host}-site.pem"
        folder.write(str(own), authority.sign(asked, *signs, now_s).pem + key)
        found[name] = f'http_certificate = "{own}"\nhttp_authorities = "{trusted}"\n'
    return found


@contextmanager
def _kept(made: bytes) -> Iterator[str]:
    """A file with a certificate and its key, for as long as it takes to read it."""
    descriptor, name = tempfile.mkstemp(prefix="onceq-liar-")
    try:
        with open(descriptor, "wb") as file:
            file.write(made)
        yield name
    finally:
        os.unlink(name)
