"""Why an attempt to connect failed: as a status (Q-10), and in words."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from onceq.model.connection import ConnectionStatus


def status_of(error: Exception) -> ConnectionStatus:
    """How an attempt to connect failed (Q-10)."""
    if isinstance(error, ConnectionRefusedError):
        return ConnectionStatus.REFUSED
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return ConnectionStatus.NAME_RESOLUTION_FAILURE
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS):
        return ConnectionStatus.LOW_RESOURCES
    return ConnectionStatus.CONNECT_FAILURE


def said(error: Exception) -> str:
    """What happened, for people."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error)
