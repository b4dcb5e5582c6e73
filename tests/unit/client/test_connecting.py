"""Connections for threads: nobody there, hung up at once, and TLS where the address says so."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from onceq import aio
from onceq.client import async_link, connecting, opening
from onceq.client.address import ManagerAddress, parse
from onceq.client.connecting import connected, greet, judge_ungreeted, kept_s
from onceq.client.credentials import AUTHORITIES, Credentials
from onceq.client.tls_socket import TlsSocket
from onceq.errors import ManagerAway, OnceqError, ServiceNotAvailable, WrongAddress
from onceq.wire.app import frames
from tests.unit.client.scripted import WAIT_S, Scripted, begun
from tests.unit.client.tls_door import Authority, Door

TIMEOUT_S = 0.2


def greeted(address: ManagerAddress) -> tuple[str, type]:
    """Connect and greet; who answers, and by what kind of socket."""
    shown = Credentials()
    since = time.monotonic()
    own = connected(address, WAIT_S, shown)
    try:
        parser = frames.Parser()
        return greet(own, address, parser, shown, since=since, timeout=WAIT_S).name, type(own)
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
        greeted(ManagerAddress(path=str(tmp_path / "none.sock")))


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_the_question_over_http_is_within_the_time_out(
    face: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connecting to a silent one took its time-out, and then that of the question."""
    until: list[float] = []

    def judged(address: ManagerAddress, error: OnceqError, by: float) -> OnceqError:
        until.append(by)
        return error

    for module in (connecting, async_link):
        monkeypatch.setattr(module, "judge_ungreeted", judged)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"onceq://127.0.0.1:{silent.getsockname()[1]}"
        begun_at = time.monotonic()
        with pytest.raises(ServiceNotAvailable):
            if face == "threads":
                opening.connect(where, timeout=TIMEOUT_S)
            else:
                asyncio.run(_connected_in_a_task(where))
        (by,) = until
        assert begun_at + TIMEOUT_S <= by <= time.monotonic() + TIMEOUT_S
        assert 0 < kept_s(parse(where), TIMEOUT_S) < TIMEOUT_S


async def _connected_in_a_task(where: str) -> None:
    await aio.connect(where, timeout=TIMEOUT_S)


def test_nobody_is_asked_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = ManagerAddress(host="127.0.0.1", port=server.getsockname()[1])
        error = ManagerAway("silent")
        assert judge_ungreeted(address, error, time.monotonic()) is error
        with pytest.raises(BlockingIOError):
            server.accept()
