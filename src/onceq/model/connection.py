"""Attempts to connect: how each went, in the numbers of CONNECTION_HISTORY (Q-10)."""

from __future__ import annotations

from enum import IntEnum

FAILED = 0x8000_0000


class ConnectionStatus(IntEnum):
    """How an attempt to connect stands."""

    IN_PROGRESS = 0
    ESTABLISH_RECEIVED = 1
    ESTABLISHED = 2
    UNKNOWN_FAILURE = 0x8000_0000
    PING_FAILURE = 0x8000_0001
    CREATE_SOCKET_FAILURE = 0x8000_0002
    BIND_FAILURE = 0x8000_0003
    CONNECT_FAILURE = 0x8000_0004
    TCP_NOT_ENABLED = 0x8000_0005
    SEND_FAILURE = 0x8000_0006
    NOT_READY = 0x8000_0007
    NAME_RESOLUTION_FAILURE = 0x8000_0008
    CERTIFICATE_FAILURE = 0x8000_0009
    SESSION_LIMIT_REACHED = 0x8000_000A
    REFUSED = 0x8000_000B
    NO_ROUTING_DATA = 0x8000_000C
    LOW_RESOURCES = 0x8000_000D

    @property
    def failed(self) -> bool:
        """Whether the attempt came to nothing."""
        return bool(self & FAILED)

    @property
    def hresult(self) -> int:
        """The result code that goes with it; 0 for none."""
        if not self.failed:
            return 0
        if self is ConnectionStatus.NAME_RESOLUTION_FAILURE:
            return 0xC00E0099
        return 0xC00E0027 if self is ConnectionStatus.LOW_RESOURCES else 0xC00E0069
