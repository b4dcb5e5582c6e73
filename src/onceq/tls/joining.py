"""The side that gets a certificate: with an invitation, or as a replacement of its own one.

It is blocking, with plain sockets: a command does it. The secret of an invitation leaves this
computer only on a connection that was checked with the authority whose fingerprint is in the code,
and by a certificate for the GUID in the code. So an impostor at the address gets nothing.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from onceq.errors import AccessDenied, ConfigurationError, ManagerAway
from onceq.model.identity import guid_text
from onceq.tls import authority
from onceq.tls.contexts import JOIN, IdentityFiles, client_context, unbelieved
from onceq.tls.identity import authority_of, guid_of
from onceq.tls.invitations import InvitationCode
from onceq.tls.members import Removal, parse

WAIT_S: Final = 15.0
ANSWER_BYTES_MAX: Final = 4 << 20
"""Enough for a list of the largest allowed number of removed members."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The answer of an authority.

    Attributes:
        certificate, authority: PEM.
        authorities: All that are trusted beside it, PEM; "": an earlier version sends none.
        removed: Members that it has removed.
    """

    certificate: bytes
    authority: bytes
    authorities: str
    removed: dict[str, Removal]


def join(code: InvitationCode, request: bytes, now_s: int) -> Granted:
    """Use an invitation.

    Args:
        request: To sign, PEM.

    Raises:
        AccessDenied: The code is not good any more, or another manager than the one in it answers.
        ServiceNotAvailable: Nobody answers there.
    """
    if code.expires_s <= now_s:
        raise AccessDenied("this invitation has expired; ask for another one")
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE  # nothing secret is sent, and the answer is compared
    unchecked.minimum_version = ssl.TLSVersion.TLSv1_3
    unchecked.set_alpn_protocols([JOIN])
    found = _asked(code.address, unchecked, {"want": "authority"})
    own = _text(found, "authority")
    if authority.fingerprint(own) != code.fingerprint:
        raise AccessDenied(
            f"{code.address} has another authority than the invitation says: this is not the "
            "queue manager that invites, or somebody stands between; nothing secret was said"
        )
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(own)
        file.flush()
        checked = client_context(file.name, peers=True, alpn=JOIN)
    secret = base64.b64encode(code.secret).decode()
    asked = {"want": "certificate", "secret": secret, "request": request.decode()}
    return _granted(_asked(code.address, checked, asked, code.guid))


def renew(
    address: str, guid: bytes, files: IdentityFiles, request: bytes, believed: Collection[str]
) -> Granted:
    """Get another certificate in place of the own one, which must still be good.

    Args:
        address, guid: Of the queue manager whose authority has signed it.
        files: The own identity.
        believed: As for ``check``.

    Raises:
        AccessDenied, ServiceNotAvailable: It is refused, or nobody answers.
    """
    asked = {"want": "certificate", "request": request.decode()}
    return _granted(_asked(address, as_member(files), asked, guid, believed))


def as_member(files: IdentityFiles) -> ssl.SSLContext:
    """Return a context for asking one's authority; raises ConfigurationError, AccessDenied."""
    return client_context(
        files.authorities, certificate=files.certificate, key=files.key, minimum=files.minimum,
        peers=True, alpn=JOIN,
    )  # fmt: skip


def _asked(
    address: str,
    context: ssl.SSLContext,
    asked: dict[str, str],
    guid: bytes | None = None,
    believed: Collection[str] = (),
) -> dict[str, Any]:
    """Ask, and read the answer.

    Args:
        guid: Of the queue manager that must answer; None: it is not known yet.
        believed: As for ``check``.
    """
    host, _, port = address.rpartition(":")
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), WAIT_S) as plain,
            context.wrap_socket(plain) as connection,
        ):
            check(connection, address, guid, believed)
            connection.sendall(json.dumps(asked).encode() + b"\n")
            raw = _read(connection)
    except ssl.SSLCertVerificationError as error:
        raise AccessDenied(
            f"{address} cannot be believed: {unbelieved(error)}; nothing secret was said"
        ) from None
    except ssl.SSLError as error:
        raise ManagerAway(
            f"{address} does not take this (TLS: {error.reason}): has it an identity, is an "
            "invitation open there, and is the own certificate still good?"
        ) from None
    except OSError as error:
        raise ManagerAway(
            f"{address} cannot be reached: {(error.strerror or str(error)).lower()}"
        ) from None
    return read_answer(raw, address)


def read_answer(raw: bytes, address: str) -> dict[str, Any]:
    """Parse an answer; raises AccessDenied (it is a refusal), ManagerAway (it is none)."""
    try:
        found = json.loads(raw)
        refused = found.get("error")
    except (ValueError, AttributeError, RecursionError):
        raise ManagerAway(
            f"{address} gave no answer that can be read: is an invitation open there?"
        ) from None
    if refused is not None:
        raise AccessDenied(f"{address}: {str(refused)[:500]}")
    return dict(found)


def removed_in(found: dict[str, Any]) -> dict[str, Removal]:
    """Return the removed members in an answer; an earlier version sends none. Raises
    ConfigurationError."""
    try:
        return parse(found.get("removed", []))
    except ValueError as error:
        raise ConfigurationError(f"the answer cannot be used: {error}") from None


def authorities_in(found: dict[str, Any]) -> str:
    """Return the authorities to trust in place of the authority, PEM; "": an earlier version
    sends none."""
    said = found.get("authorities", "")
    return said if isinstance(said, str) and said.isascii() else ""


def check(
    connection: ssl.SSLSocket | ssl.SSLObject,
    address: str,
    guid: bytes | None,
    believed: Collection[str] = (),
) -> None:
    """Raise ManagerAway or AccessDenied if another manager answers than the one that was asked.

    Args:
        believed: Fingerprints of the authorities that may have signed for it, because another one
            that is trusted here could sign for its GUID; (): any authority.
    """
    if believed and authority_of(connection) not in believed:
        raise AccessDenied(
            f"who answers at {address} has a certificate of another authority than the one joined"
        )
    if connection.selected_alpn_protocol() != JOIN:
        raise ManagerAway(f"{address} speaks TLS, but not as a queue manager that invites")
    if guid is not None and guid_of(connection.getpeercert()) != guid:
        raise AccessDenied(
            f"another queue manager than {guid_text(guid)} answers at {address}; nothing secret "
            "was said"
        )


def _read(connection: ssl.SSLSocket) -> bytes:
    found = bytearray()
    while b"\n" not in found and len(found) <= ANSWER_BYTES_MAX:
        piece = connection.recv(1 << 14)
        if not piece:
            break
        found += piece
    return bytes(found)


def _granted(found: dict[str, Any]) -> Granted:
    made, own = _text(found, "certificate"), _text(found, "authority")
    return Granted(made, own, authorities_in(found), removed_in(found))


def _text(found: dict[str, Any], key: str) -> bytes:
    value = found.get(key)
    if not isinstance(value, str) or not value.isascii():
        raise ConfigurationError(f"the answer has no {key} in it")
    return value.encode()
