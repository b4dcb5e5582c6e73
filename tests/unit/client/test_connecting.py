"""Connections for threads: nobody there, hung up at once, and TLS where the address says so."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from onceq.client.address import Address
from onceq.client.connecting import connected, greet
from onceq.client.credentials import AUTHORITIES, Credentials
from onceq.client.tls_socket import TlsSocket
from onceq.errors import ServiceNotAvailable, WrongAddress
from onceq.wire.app import frames
from tests.unit.client.scripted import WAIT_S, Scripted, begun
from tests.unit.client.tls_door import Authority, Door


def greeted(address: Address) -> tuple[str, type]:
    """Connect and greet; who answers, and by what kind of socket."""
    shown = Credentials()
    own = connected(address, WAIT_S, shown)
    try:
        return greet(own, address, frames.Parser(), shown).name, type(own)
    finally:
        own.close()


def test_a_socket_is_plain(tmp_path: Path) -> None:
    with Scripted(tmp_path) as server:
        future = begun(lambda: greeted(server.address))
        server.greet(name="ALPHA")
        assert future.result(WAIT_S) == ("ALPHA", socket.socket)


def test_an_address_in_tls_is_spoken_to_in_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    with Scripted(tmp_path) as server:
        door = Door(server.address.path, authority.server("127.0.0.1"))
        future = begun(lambda: greeted(door.address))
        with pytest.raises(WrongAddress, match="does not prove"):
            future.result(WAIT_S)
        monkeypatch.setenv(AUTHORITIES, authority.file)
        future = begun(lambda: greeted(door.address))
        server.greet(name="ALPHA")
        assert future.result(WAIT_S) == ("ALPHA", TlsSocket)
        door.close()


def test_one_that_hangs_up_at_once_is_a_wrong_address(tmp_path: Path) -> None:
    with Scripted(tmp_path) as server:
        future = begun(lambda: greeted(server.address))
        server.accept()
        server.read()
        server.hang_up()
        with pytest.raises(WrongAddress, match="closed the connection at once"):
            future.result(WAIT_S)


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(ServiceNotAvailable, match="is it running"):
        greeted(Address(path=str(tmp_path / "none.sock")))
