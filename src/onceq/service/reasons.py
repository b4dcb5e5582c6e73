"""Why an attempt to connect failed: as a status (Q-10), and in words."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from onceq.model.connection import ConnectionStatus
from onceq.tls.contexts import unbelieved
from onceq.tls.handshakes import TOO_MUCH


def status_of(error: Exception) -> ConnectionStatus:
    """Return the status of a failed attempt to connect (Q-10)."""
    if isinstance(error, ConnectionRefusedError):
        return ConnectionStatus.REFUSED
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return ConnectionStatus.NAME_RESOLUTION_FAILURE
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS):
        return ConnectionStatus.LOW_RESOURCES
    return ConnectionStatus.CONNECT_FAILURE


_NO_TLS = (
    "it does not speak TLS: give it an identity (onceq tls join), or, if it cannot, name its "
    "address in plain_peers"
)
_CUT = (
    "it has ended the connection in the handshake of TLS: it may not speak TLS, or not take our "
    "certificate; its own log says why"
)
"""Replaces an error for which the event loop has no words."""
_TLS = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority of our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has expired: onceq tls renew",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not take our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not take our certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate, and we have none",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate",
    "UNSUPPORTED_PROTOCOL": "it speaks an older TLS than tls_minimum allows",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it asks for a newer TLS (its tls_minimum)",
}
"""Descriptions, for people, of the events that OpenSSL names."""


def said(error: Exception) -> str:
    """Describe an error for people."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {unbelieved(error)}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return reason if reason == TOO_MUCH else _TLS.get(reason, f"TLS: {reason}")
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    if isinstance(error, ConnectionError) and not str(error):
        return _CUT
    return str(error) or type(error).__name__
