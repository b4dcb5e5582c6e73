"""TLS as onceq speaks it: version 1.3, 1.2 only where the configuration asks for it, and a protocol
by name.

A handshake has a bound: a stranger cannot send more than it before it is identified.

Between queue managers each side has a certificate that an authority of the other one has signed.
The certificate names its queue manager (``identity.py``). Names of hosts are not compared here:
``model/identification.py`` says for which names it may answer. A context is never changed: other
files are other contexts, for connections from then on. Between a queue manager and an application
the server's certificate must be for the requested host, and the application may have one, too.

The handshake agrees on the inner protocol (ALPN), so that bytes of one protocol never reach the
parser of another.

Upholds: I24.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from onceq.errors import ConfigurationError
from onceq.file_access import denied
from onceq.model.limits import HANDSHAKE_BYTES_MAX

if TYPE_CHECKING:
    import asyncio


# ---- handshakes ----------------------------------------------------------------------------------
#
# Handshakes with a bound: limit what a stranger may send before it is identified.


TOO_MUCH: Final = "it sent much and did not say who it is"


class Handshake(ssl.SSLObject):
    """One connection of a ``Guarded`` context."""

    heard = 0
    """Bytes that its handshake has used so far."""
    incoming: ssl.MemoryBIO
    """The source of these bytes; bytes behind the handshake stay in there."""

    def do_handshake(self) -> None:
        """Do a step of the handshake; raises SSLError when too much was used."""
        before = self.incoming.pending
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            self._used(before)
            raise
        self._used(before)

    def _used(self, before: int) -> None:
        self.heard += before - self.incoming.pending
        if self.heard > HANDSHAKE_BYTES_MAX:
            error = ssl.SSLError(ssl.SSL_ERROR_SSL, TOO_MUCH)
            error.reason = TOO_MUCH
            raise error from None


class Guarded(ssl.SSLContext):
    """A context for accepting connections of strangers."""

    sslobject_class = Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        """Return a connection whose handshake is counted."""
        made = super().wrap_bio(incoming, *args, **options)
        assert isinstance(made, Handshake), "see sslobject_class"
        made.incoming = incoming
        return made


def count_handshake_bytes(transport: asyncio.BaseTransport) -> int:
    """Return the bytes that the handshake of a connection has used; 0 where there was none."""
    found = transport.get_extra_info("ssl_object")
    return found.heard if isinstance(found, Handshake) else 0


# ---- contexts ------------------------------------------------------------------------------------


PEERS: Final = "onceq/1"
"""Protocol between queue managers: MS-MQQB."""
JOIN: Final = "onceq-join/1"
"""Protocol by which a queue manager gets a certificate (``joining.py``)."""
APPLICATIONS: Final = "onceq-app/1"
"""Protocol between applications and queue managers."""
VERSIONS: Final = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}
"""The choices for the oldest version, by their names in the configuration."""
TIMES: Final = frozenset((9, 10))
"""Error codes of OpenSSL for a certificate outside its time (X509_V_ERR_CERT_NOT_YET_VALID,
_HAS_EXPIRED)."""
OTHER_NAMES: Final = frozenset((62, 64))
"""Error codes for other names or addresses (X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_)."""


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """Files that prove an identity, and name the trusted authorities.

    Attributes:
        certificate: File with the own certificate, then those between it and its authority; PEM.
        key: File with its private key.
        authorities: File with the certificates of the authorities that are trusted.
        minimum: The oldest version of TLS that is spoken: "1.3" or "1.2".
    """

    certificate: str
    key: str
    authorities: str
    minimum: str = "1.3"


def server_context(
    files: IdentityFiles, *, peers: bool, alpn: Sequence[str] = (), certificates: bool | None = None
) -> ssl.SSLContext:
    """Return a context for accepting connections.

    Args:
        peers: Whether queue managers connect, which must have a certificate; applications may.
        alpn: The protocols that are spoken; (): the one that follows from ``peers``.
        certificates: Whether clients must have a certificate, if ``peers`` does not demand it. A
            certificate that is shown is checked in any case.

    Raises:
        ConfigurationError, AccessDenied: A file cannot be used; it is named.
    """
    context = Guarded(ssl.PROTOCOL_TLS_SERVER)
    must = peers if certificates is None else certificates
    context.verify_mode = ssl.CERT_REQUIRED if must else ssl.CERT_OPTIONAL
    # No earlier session is resumed: its certificate may not be good any more.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.minimum_version = version(files.minimum)
    show(context, files.certificate, files.key)
    trust(context, files.authorities)
    context.set_alpn_protocols(list(alpn) or [PEERS if peers else APPLICATIONS])
    return context


def client_context(
    authorities: str,
    *,
    certificate: str = "",
    key: str = "",
    minimum: str = "1.3",
    peers: bool = False,
    alpn: str = "",
) -> ssl.SSLContext:
    """Return a context for connecting: the server must show a certificate of one of these
    authorities.

    Args:
        authorities: File with their certificates; "": those that the system trusts.
        certificate: File with the own certificate; "": none is shown.
        key: File with its private key; "": it is in the same file.
        minimum: The oldest version of TLS that is spoken.
        peers: Whether this is between queue managers: then the GUID in the certificate identifies
            the other side (the caller compares it), and not the name of the host.
        alpn: The protocol that is spoken; "": the one that follows from ``peers``.

    Raises:
        ConfigurationError, AccessDenied: A file cannot be used; it is named.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = not peers
    context.minimum_version = version(minimum)
    if authorities:
        trust(context, authorities)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if certificate:
        show(context, certificate, key)
    context.set_alpn_protocols([alpn or (PEERS if peers else APPLICATIONS)])
    return context


def unbelieved(error: ssl.SSLCertVerificationError) -> str:
    """Describe for people why a certificate is not trusted."""
    clocks = " (or a clock is wrong, here or there)" if error.verify_code in TIMES else ""
    return f"{error.verify_message}{clocks}"


def version(text: str) -> ssl.TLSVersion:
    """Return a version of TLS by its name in the configuration; raises ConfigurationError."""
    if text not in VERSIONS:
        raise ConfigurationError(f"TLS {text!r} is not spoken here; it is {' or '.join(VERSIONS)}")
    return VERSIONS[text]


def show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Let a context show a certificate.

    Args:
        certificate, key: Files; without a key it is in the first one.

    Raises:
        ConfigurationError, AccessDenied: One cannot be used; it is named.
    """
    _readable(certificate, "certificate")
    if key:
        _readable(key, "private key")
    try:
        context.load_cert_chain(certificate, key or None, password=_no_password)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{certificate} and {key or 'the key in it'} cannot be used for TLS: "
            f"{explain_error(error)}"
        ) from None


def trust(context: ssl.SSLContext, authorities: str) -> None:
    """Let a context trust what the authorities in a file have signed.

    Raises:
        ConfigurationError, AccessDenied: It cannot be used; it is named.
    """
    _readable(authorities, "file of authorities")
    try:
        context.load_verify_locations(authorities)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{authorities} holds no certificates of authorities that can be used: "
            f"{explain_error(error)}"
        ) from None


def _no_password() -> str:
    """Refuse to give a password: the library would ask at the terminal, and a daemon would hang
    there."""
    raise ValueError(
        "it is encrypted; onceq needs a key without a password, in a file of mode 0600"
    )


def _readable(name: str, what: str) -> None:
    """Check that a file can be read, because the library does not name the file in its errors."""
    try:
        with open(name, "rb"):
            pass
    except PermissionError:
        raise denied(name) from None
    except OSError as error:
        raise ConfigurationError(
            f"the {what} {name} cannot be read: {(error.strerror or str(error)).lower()}"
        ) from None


def explain_error(error: Exception) -> str:
    """Describe an error of the library about files in few words."""
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        return {"no start line": "there is no such thing in it", "": str(error)}.get(reason, reason)
    return str(error)
