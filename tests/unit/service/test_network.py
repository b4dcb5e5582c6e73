"""Connections on a real loop: limits, deadlines, slow readers, and ends that come."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceq.core.decision import Answer, Decision
from onceq.core.inputs import ConnectFailed, Input, SessionOpened, Witnessed
from onceq.errors import ConfigurationError, PortInUse, StorageFailure
from onceq.model.identity import guid_text
from onceq.model.limits import HANDSHAKE_BYTES_MAX, HANDSHAKE_S_MAX, LOG_LINES_AT_ONCE
from onceq.model.run import Buffer
from onceq.model.settings import Settings
from onceq.service import network, wires
from onceq.service import network as network_module
from onceq.service.config import Configuration
from onceq.service.peer_transports import Doors, Entrance
from onceq.service.sessions import Sessions
from onceq.service.wires import PeerWire
from onceq.tls import authority, folder
from onceq.tls.contexts import JOIN, client_context
from onceq.tls.invitations import Invited, Invites
from onceq.tls.members import Member, put_member
from onceq.wire.mqqb.session import Session
from tests.certificates import ALPHA, BETA, Authority
from tests.unit.service.looped import BUDGET, Host, Sink, ended, greeted, run, until

SECRET = b"s" * 16


def test_two_networks_open_a_session() -> None:
    async def work() -> None:
        beta = Host()
        where = await beta.network.listen(Entrance.PEERS, "127.0.0.1:0")
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
        where = await beta.network.listen(Entrance.PEERS, "127.0.0.1:0")
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

        monkeypatch.setattr(network, "CONNECT_S_MAX", 0.01)
        monkeypatch.setattr(alpha.network.loop, "create_connection", never)
        alpha.network.connect(9, "OS", "SLOW", b"")
        await until(lambda: alpha.seen(ConnectFailed))
        assert alpha.seen(ConnectFailed)[0].reason == "SLOW at 127.0.0.1:9: no answer"
        await alpha.network.shut()

    run(work)


def test_a_port_in_use_is_named() -> None:
    async def work() -> None:
        host = Host()
        where = await host.network.listen(Entrance.PEERS, "127.0.0.1:0")
        with pytest.raises(PortInUse, match=where):
            await host.network.listen(Entrance.PEERS, where)
        with pytest.raises(PortInUse, match=where):
            await host.network.listen(Entrance.APPLICATIONS, where)
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
        host = Host(budget=replace(BUDGET, applications=2)).admit_nobody()
        where = (await host.network.listen(Entrance.APPLICATIONS, "127.0.0.1:0")).split(":")
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
        where = await host.network.listen(Entrance.PEERS, "127.0.0.1:0")
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
        where = await host.network.listen(Entrance.PEERS, "127.0.0.1:0")
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
        host = Host().admit_nobody()
        entrance = Entrance.PEERS if kind == "peers" else Entrance.APPLICATIONS
        where = await host.network.listen(entrance, "127.0.0.1:0")
        silent, _ = await asyncio.open_connection(*where.split(":"))
        if kind == "peers":
            _, writer = await talked(where, b"P" * 16)
        else:
            _, writer = await greeted(where.split(":"))
        await until(lambda: len(host.network._open) == 2)
        await until(lambda: sum(wire.spoken for wire in host.network._open) == 1)
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + HANDSHAKE_S_MAX)
        assert await ended(silent)
        await until(lambda: [wire.spoken for wire in host.network._open] == [True])
        writer.close()
        await host.network.shut()

    run(work)


def test_who_sends_much_before_he_says_who_he_is_is_cut() -> None:
    async def work() -> None:
        host = Host()
        where = await host.network.listen(Entrance.APPLICATIONS, "127.0.0.1:0")
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
        where = (await host.network.listen(Entrance.PEERS, "127.0.0.1:0")).split(":")
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
        where = await host.network.listen(Entrance.PEERS, "127.0.0.1:0")
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
        where = await host.network.listen(Entrance.PEERS, "127.0.0.1:0")
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
        where = await host.network.listen(Entrance.PEERS, "127.0.0.1:0")
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


def with_doors(path: Path, guid: bytes = ALPHA) -> Host:
    """A queue manager with the identity that lies in a data directory."""
    made = Doors(str(path), guid)
    made.prepared(Configuration())()
    host = Host()
    host.network.doors = made
    return host


def decided(host: Host) -> None:
    """The core puts acts on record, and says so once they are."""
    core = host.house.core

    def decide(item: Input) -> Decision | None:
        if not isinstance(item, Witnessed):
            return None
        return core.decision(Answer(item.owner, item.request, None), records="act")

    core.decide = decide


@pytest.mark.parametrize("disk", ["works", "fails"])
@pytest.mark.parametrize("by", ["invitation", "certificate"])
def test_nobody_hears_of_a_certificate_that_is_not_on_record(
    tmp_path: Path, by: str, disk: str
) -> None:
    signs = Authority()
    files, own = signs.identity(tmp_path / "a", ALPHA), str(tmp_path / "a/tls")
    shown = signs.identity(tmp_path / "b", BETA)
    folder.write(f"{own}/{folder.AUTHORITY}", signs.certificate)
    folder.write(f"{own}/{folder.AUTHORITY_KEY}", signs.key)
    asked = authority.make_request(authority.make_key(), BETA, "BETA", [])
    said = {"want": "certificate", "request": asked.decode()}
    if by == "invitation":
        Invites(own).make(Invited("BETA"), SECRET, signs.now_s, 60)
        said["secret"] = base64.b64encode(SECRET).decode()
        context = client_context(files.authorities, peers=True, alpn=JOIN)
    else:
        put_member(own, Member(guid_text(BETA), "BETA"))
        context = client_context(
            shown.authorities, certificate=shown.certificate, key=shown.key, peers=True, alpn=JOIN
        )

    async def work() -> tuple[bytes, Host]:
        alpha = with_doors(tmp_path / "a")
        alpha.house.clock.now_us = signs.now_s * 1_000_000
        decided(alpha)
        if disk == "fails":
            alpha.house.store.fail["sync"] = StorageFailure("the disk is gone")
        where = await alpha.network.listen(Entrance.PEERS, "127.0.0.1:0")
        reader, writer = await asyncio.open_connection(*where.split(":"), ssl=context)
        writer.write(json.dumps(said).encode() + b"\n")
        reading = asyncio.create_task(reader.read())
        await until(lambda: reading.done() or alpha.house.failures)
        await alpha.network.shut()
        writer.close()
        return await reading, alpha

    async def told() -> None:
        answer, alpha = await work()
        assert bool(alpha.network.membership._recorded) is (disk == "fails"), (
            "nothing is left of who was told"
        )
        (act,) = alpha.seen(Witnessed)
        what = "join" if by == "invitation" else "renew certificate"
        assert (act.who, act.what, act.about) == (f"peer:{guid_text(BETA)}", what, "BETA")
        assert "append act" in alpha.house.notes
        assert (b"BEGIN CERTIFICATE" in answer) is (disk == "works")
        assert answer or disk == "fails"

    run(told)


def test_that_a_certificate_has_ended_is_told_when_it_does(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the queue manager runs; no day goes by before it is known."""
    Authority().identity(tmp_path, ALPHA)
    rings: list[float] = []

    async def work() -> None:
        alpha = with_doors(tmp_path)
        own = alpha.network.doors.own
        assert own is not None

        def later(seconds: float, work: Callable[[], None]) -> asyncio.TimerHandle:
            rings.append(seconds)
            return asyncio.TimerHandle(0.0, work, (), asyncio.get_running_loop())

        monkeypatch.setattr(alpha.loop, "call_later", later)
        alpha.house.clock.now_us = (own.ends_s - 100) * 1_000_000
        alpha.network.watch_doors()
        assert "ends soon: days=0" in caplog.text
        assert "nobody believes" not in caplog.text
        alpha.house.clock.now_us += int(rings[0]) * 1_000_000
        alpha.network.watch_doors()
        monkeypatch.undo()
        await alpha.network.shut()

    run(work)
    assert rings == [100, 86_400]
    assert "nobody believes the certificate of this queue manager" in caplog.text
    assert "it has expired" in caplog.text


def test_a_connection_that_is_cut_at_the_stop_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """uvloop leaves a future behind when an attempt is cancelled before its TLS handshake."""

    async def work() -> None:
        alpha = Host()
        alpha.network.stop_listening()
        for error in (ConnectionResetError(), ValueError("ours")):
            asyncio.get_running_loop().create_future().set_exception(error)
        await alpha.network.shut()

    run(work)
    gc.collect()
    assert "ValueError: ours" in caplog.text
    assert "ConnectionResetError" not in caplog.text
