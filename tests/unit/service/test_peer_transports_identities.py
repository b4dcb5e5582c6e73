"""Which process is at the other end of a connection, as far as the system says it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.service.peer_transports import process_of


class Transport(asyncio.BaseTransport):
    """Of asyncio, with a socket or something like one."""

    def __init__(self, own: object) -> None:
        super().__init__({"socket": own})


def credentials(process: int, *, family: int = socket.AF_UNIX) -> Any:
    """A socket at whose other end the system says to be that process."""
    return SimpleNamespace(
        family=family, getsockopt=lambda *asked: struct.pack("3i", process, 1000, 1000)
    )


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="this system does not say it")
def test_the_process_that_has_connected_is_known() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert process_of(Transport(one)) == os.getpid()


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="this system does not say it")
def test_one_that_cannot_be_seen_from_here_is_none() -> None:
    """Of another container the system says process 0."""
    assert process_of(Transport(credentials(4711))) == 4711
    assert process_of(Transport(credentials(0))) == 0


def test_where_the_system_does_not_say_it_nobody_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process_of(None) == 0
    assert process_of(Transport(None)) == 0
    assert process_of(Transport(credentials(4711, family=socket.AF_INET))) == 0
    with socket.socket(socket.AF_UNIX) as gone:
        pass
    assert process_of(Transport(gone)) == 0
    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    assert process_of(Transport(credentials(4711))) == 0
