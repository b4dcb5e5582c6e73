"""What is written to a connection: collected, in order, and bounded."""

from __future__ import annotations

import asyncio

import pytest

from onceq.model.run import Buffer
from onceq.service.sessions import Sessions
from onceq.service.wires import HIGH_WATER_BYTES, PeerWire
from tests.unit.service.looped import Host, Sink, run


def test_what_is_said_is_collected_and_then_written_in_order() -> None:
    async def work() -> None:
        host = Host()
        wire, sink = PeerWire(host.network, 0), Sink()
        wire.connection_made(sink)
        sink.data = b""
        pieces: list[Buffer] = [b"a", bytearray(b"b"), memoryview(b"c")]
        wire.write(pieces)
        wire.write([b"d"])
        assert sink.data == b""
        host.network.say()
        assert sink.data == b"abcd"
        wire.write([b"e"])
        wire.close()
        assert not wire.writable
        host.network.say()
        assert sink.data == b"abcde"
        assert sink.closed
        assert not sink.aborted
        wire.connection_lost(None)

    run(work)


def test_a_wire_is_full_also_before_the_loop_has_seen_what_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pump in another thread must not run ahead of the loop without bound."""

    async def work() -> None:
        host = Host()
        wire, sink = PeerWire(host.network, 0), Sink()
        wire.connection_made(sink)
        told: list[int] = []
        monkeypatch.setattr(Sessions, "writable", lambda self, number: told.append(number))
        wire.write([bytes(HIGH_WATER_BYTES - 1)])
        assert wire.writable
        wire.write([b"x"])
        assert not wire.writable
        host.network.say()
        assert wire.writable
        await asyncio.sleep(0)
        assert told == [1], "the session may go on"
        host.network.say()
        await asyncio.sleep(0)
        assert told == [1]
        wire.connection_lost(None)

    run(work)


def test_a_wire_that_is_emptied_while_somebody_asks_whether_it_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A writer that was told "full" hears when there is room again."""

    async def work() -> None:
        host = Host()
        told: list[int] = []
        monkeypatch.setattr(Sessions, "writable", lambda self, number: told.append(number))

        class Hurried(PeerWire):
            """The loop writes everything just after another thread has looked."""

            emptied = False

            @property
            def queued_bytes(self) -> int:
                found = super().queued_bytes
                if not self.emptied:
                    self.emptied = True
                    self.flush()
                return found

        wire, sink = Hurried(host.network, 0), Sink()
        wire.connection_made(sink)
        wire.write([bytes(HIGH_WATER_BYTES)])
        if not wire.writable:
            await asyncio.sleep(0)
            assert told
        wire.connection_lost(None)

    run(work)
