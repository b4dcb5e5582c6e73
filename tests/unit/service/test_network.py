"""Connections on a real loop: limits, deadlines, slow readers, and ends that come."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceq.core.inputs.inputs import ConnectFailed, SessionOpened
from onceq.errors import ConfigurationError, PortInUse
from onceq.model.limits import HANDSHAKE_BYTES_MAX, LOG_LINES_AT_ONCE, Settings
from onceq.model.run import Buffer
from onceq.service import network as network_module
from onceq.service import reaching, wires
from onceq.service.sessions import Sessions
from onceq.service.wires import PeerWire
from onceq.wire.mqqb.session import Session
from tests.unit.service.looped import BUDGET, Host, Sink, ended, greeted, run, until


def test_two_networks_open_a_session() -> None:
    async def work() -> None:
        beta = Host()
        where = await beta.network.listen_peers("127.0.0.1:0")
        beta.house.core.identity = type(beta.house.core.identity)(b"B" * 16, "BETA", 1)
        alpha = Host({"Beta": where})
        alpha.network.connect(9, "OS", "BETA", b"")
        await until(lambda: alpha.seen(SessionOpened) and beta.seen(SessionOpened))
        (opened,) = alpha.seen(SessionOpened)
        assert (opened.peer, opened.address, opened.outgoing) == (b"B" * 16, "127.0.0.1", 9)
        await alpha.network.shut()
        await beta.network.shut()

    run(work)


@pytest.mark.parametrize(
    ("protocol", "host", "peer", "says"),
    [
        ("OS", "NOBODY", b"", "NOBODY at 127.0.0.1:1: connection refused"),
        ("OS", "x" * 64 + ".example", b"", "label"),
        ("OS", "no-such-host.invalid", b"", "no-such-host.invalid at no-such-host.invalid:1801: "),
        ("", "", b"G" * 16, "no address is known for queue manager 47474747-"),
    ],
)
def test_who_cannot_be_reached_is_named_with_the_reason(
    protocol: str, host: str, peer: bytes, says: str
) -> None:
    async def work() -> None:
        alpha = Host({"NOBODY": "127.0.0.1:1"})
        alpha.network.connect(9, protocol, host, peer)
        await until(lambda: alpha.seen(ConnectFailed))
        (failed,) = alpha.seen(ConnectFailed)
        assert failed.outgoing == 9
        assert says in failed.reason
        await alpha.network.shut()

    run(work)


def test_an_address_book_may_name_managers_by_guid_in_any_form() -> None:
    async def work() -> None:
        beta = Host()
        where = await beta.network.listen_peers("127.0.0.1:0")
        beta.house.core.identity = type(beta.house.core.identity)(b"B" * 16, "BETA", 1)
        alpha = Host({"{42424242-4242-4242-4242-424242424242}": where})
        alpha.network.connect(3, "", "", b"B" * 16)
        await until(lambda: alpha.seen(SessionOpened))
        await alpha.network.shut()
        await beta.network.shut()

    run(work)


def test_a_connection_that_takes_too_long_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        alpha = Host({"SLOW": "127.0.0.1:9"})

        async def never(*_: Any, **__: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(reaching, "CONNECT_S_MAX", 0.01)
        monkeypatch.setattr(alpha.network.loop, "create_connection", never)
        alpha.network.connect(9, "OS", "SLOW", b"")
        await until(lambda: alpha.seen(ConnectFailed))
        assert alpha.seen(ConnectFailed)[0].reason == "SLOW at 127.0.0.1:9: no answer"
        await alpha.network.shut()

    run(work)


def test_a_port_in_use_is_named() -> None:
    async def work() -> None:
        host = Host()
        where = await host.network.listen_peers("127.0.0.1:0")
        with pytest.raises(PortInUse, match=where):
            await host.network.listen_peers(where)
        with pytest.raises(PortInUse, match=where):
            await host.network.listen_clients(where)
        await host.network.shut()

    run(work)


def test_only_the_owner_may_use_the_socket_and_an_old_one_is_replaced(tmp_path: Path) -> None:
    async def work() -> None:
        host = Host()
        path = str(tmp_path / "s")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        before = os.umask(0o022)
        try:
            await host.network.listen_socket(path)
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert os.umask(0o022) == 0o022
        finally:
            os.umask(before)
        _, writer = await asyncio.open_unix_connection(path)
        await until(lambda: host.network._open)
        writer.close()
        await host.network.shut()

    run(work)


def test_a_socket_path_that_the_system_cannot_take(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(ConfigurationError, match="shorter path"):
            await Host().network.listen_socket(str(tmp_path / ("x" * 100)))
        (tmp_path / "d").mkdir()
        with pytest.raises(ConfigurationError, match="cannot make the socket"):
            await Host().network.listen_socket(str(tmp_path / "d"))

    run(work)


def test_applications_above_the_limit_are_turned_away_and_later_ones_let_in() -> None:
    async def work() -> None:
        host = Host(budget=replace(BUDGET, applications=2))
        where = (await host.network.listen_clients("127.0.0.1:0")).split(":")
        first = [await greeted(where) for _ in range(2)]
        reader, writer = await asyncio.open_connection(*where)
        assert await ended(reader)
        writer.close()
        first[0][1].close()
        await until(lambda: len(host.network._open) == 1)
        _, again = await greeted(where)
        assert len(host.network._open) == 2
        for one in (first[1][1], again):
            one.close()
        await host.network.shut()

    run(work)


async def talked(where: str, own_id: bytes) -> tuple[Session, asyncio.StreamWriter]:
    """A session that another manager has opened."""
    reader, writer = await asyncio.open_connection(*where.split(":"))
    session = Session(initiator=True, own_id=own_id, settings=Settings(), now_us=0)
    session.start()
    writer.writelines(list(map(bytes, session.take_output())))
    while not session.opened:
        session.receive(await reader.read(1 << 16), 0)
        writer.writelines(list(map(bytes, session.take_output())))
    return session, writer


def test_who_opens_many_and_says_nothing_displaces_himself() -> None:
    """A peer that speaks is let in although thousands of connections came before it."""

    async def work() -> None:
        host = Host(budget=replace(BUDGET, handshakes=8))
        where = await host.network.listen_peers("127.0.0.1:0")
        silent = [await asyncio.open_connection(*where.split(":")) for _ in range(40)]
        await until(lambda: host.network.admission._halves == 8)
        _, peer = await talked(where, b"P" * 16)
        await until(lambda: host.seen(SessionOpened))
        for reader, _ in silent[:32]:
            assert await ended(reader)
        assert len(host.network._open) <= 9
        for _, writer in [*silent, (None, peer)]:
            writer.close()
        await host.network.shut()

    run(work)


def test_a_stranger_who_speaks_takes_none_of_the_places_of_those_that_are_known() -> None:
    async def work() -> None:
        host = Host(budget=replace(BUDGET, strangers=1))
        where = await host.network.listen_peers("127.0.0.1:0")
        first = await talked(where, b"1" * 16)
        _, second = await talked(where, b"2" * 16)
        await until(lambda: len(host.network._open) == 1)
        host.house.engine.sessions.known.exchanged(b"3" * 16)
        _, third = await talked(where, b"3" * 16)
        await until(lambda: len(host.network._open) == 2)
        assert [item.peer[:1] for item in host.seen(SessionOpened)] == [b"1", b"2", b"3"]
        for writer in (first[1], second, third):
            writer.close()
        await host.network.shut()

    run(work)


@pytest.mark.parametrize("kind", ["peers", "clients"])
def test_who_does_not_say_who_he_is_is_cut(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    async def work() -> None:
        monkeypatch.setattr(wires, "HANDSHAKE_S_MAX", 0.02)
        host = Host()
        listen = host.network.listen_peers if kind == "peers" else host.network.listen_clients
        where = await listen("127.0.0.1:0")
        silent, _ = await asyncio.open_connection(*where.split(":"))
        if kind == "peers":
            _, writer = await talked(where, b"P" * 16)
        else:
            _, writer = await greeted(where.split(":"))
        assert await ended(silent)
        await until(lambda: len(host.network._open) == 1)
        writer.close()
        await host.network.shut()

    run(work)


def test_who_sends_much_before_he_says_who_he_is_is_cut() -> None:
    async def work() -> None:
        host = Host()
        where = await host.network.listen_clients("127.0.0.1:0")
        reader, writer = await asyncio.open_connection(*where.split(":"))
        # The beginning of a frame that would be large, and its hello never comes.
        writer.write((1 << 25).to_bytes(4, "little") + bytes(HANDSHAKE_BYTES_MAX))
        assert await ended(reader)
        writer.close()
        await host.network.shut()

    run(work)


def test_lines_that_strangers_cause_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "onceq")

    async def work() -> None:
        host = Host()
        where = (await host.network.listen_peers("127.0.0.1:0")).split(":")
        for _ in range(3 * LOG_LINES_AT_ONCE):
            reader, writer = await asyncio.open_connection(*where)
            writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(600))
            assert await ended(reader)
            writer.close()
        await until(lambda: not host.network._open)
        assert host.network._tell is not None, "somebody sees to it that the number is told"
        await host.network.shut()
        host.house.engine.stop()

    run(work)
    lines = [r.message for r in caplog.records if "turned away" in r.message]
    assert len(lines) == LOG_LINES_AT_ONCE + 1
    assert f"peer turned away, more of these: count={2 * LOG_LINES_AT_ONCE}" in lines[-1]


def test_an_end_that_does_not_take_its_last_bytes_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(wires, "CLOSE_S_MAX", 0.01)
        host = Host()
        wire, sink = PeerWire(host.network, 0), Sink()
        wire.connection_made(sink)
        wire.close()
        host.network.say()
        assert sink.closed
        await until(lambda: sink.aborted)
        wire.connection_lost(None)

    run(work)


def test_shut_waits_until_the_last_bytes_are_sent() -> None:
    async def work() -> None:
        host = Host()
        where = await host.network.listen_peers("127.0.0.1:0")
        reader, _ = await asyncio.open_connection(*where.split(":"), limit=1 << 26)
        await until(lambda: host.network._open)
        (wire,) = host.network._open
        wire.write([b"x" * (30 << 20)])
        host.network.say()
        shut = asyncio.ensure_future(host.network.shut())
        assert len(await reader.read()) == 30 << 20
        await shut
        assert not host.network._open

    run(work)


def test_shut_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(network_module, "CLOSE_S_MAX", 0.05)
        host = Host()
        where = await host.network.listen_peers("127.0.0.1:0")
        _, writer = await asyncio.open_connection(*where.split(":"))
        await until(lambda: host.network._open)
        (wire,) = host.network._open
        wire.write([b"x" * (60 << 20)])
        await host.network.shut()
        await until(lambda: not host.network._open)
        writer.close()

    run(work)


def test_a_mistake_in_one_connection_ends_that_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        host = Host()
        wire, sink = PeerWire(host.network, 0), Sink()
        wire.connection_made(sink)

        def wrong(self: Sessions, number: int, data: Buffer) -> None:
            raise LookupError("a planted mistake")

        monkeypatch.setattr(Sessions, "data", wrong)
        wire.data_received(b"x")
        assert sink.aborted
        assert not host.failures
        assert not host.house.engine.stopped
        wire.connection_lost(None)

    run(work)


def test_a_peer_that_opens_and_then_floods_is_read_with_bounds() -> None:
    """Bytes that make no packet are refused at once, not kept."""

    async def work() -> None:
        host = Host()
        where = await host.network.listen_peers("127.0.0.1:0")
        reader, writer = await asyncio.open_connection(*where.split(":"))
        session = Session(initiator=True, own_id=b"P" * 16, settings=Settings(), now_us=0)
        session.start()
        writer.writelines(list(map(bytes, session.take_output())))
        while not session.opened:
            session.receive(await reader.read(1 << 16), 0)
            writer.writelines(list(map(bytes, session.take_output())))
        writer.write(b"\xff" * (1 << 20))
        assert await ended(reader)
        await until(lambda: not host.network._open)
        writer.close()
        await host.network.shut()

    run(work)
