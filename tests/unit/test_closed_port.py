"""No test reaches port 1801 of this computer: not this process, and not what it starts."""

from __future__ import annotations

import contextlib
import socket
import sys

import pytest

from tests import nursery
from tests.closed_port import PORT

HOST = "127.18.1.1"
"""An address of this computer that nothing else listens at."""


def test_a_listener_is_not_reached() -> None:
    text = f"import socket; socket.create_connection(({HOST!r}, {PORT}))"
    with socket.socket() as listening:
        with contextlib.suppress(OSError):  # where all addresses are taken, the better
            listening.bind((HOST, PORT))
            listening.listen()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, PORT))
        done = nursery.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert "ConnectionRefusedError" in done.stderr


def test_other_ports_are_reached() -> None:
    with (
        socket.create_server((HOST, 0)) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        pass
