"""Bad networks between queue managers: one TCP proxy for each pair.

Both ends of a session count packets and compare, so a proxy that loses or repeats some cannot
just copy bytes. It is the other end of two sessions: to each manager it shows the identity of the
other one, acknowledges what comes in as far as the *session* is concerned, and passes on what the
faults let through. What the managers promise each other stands in transactional messages and
order acknowledgments, which pass (or do not) unchanged; these promises are what is put to
the test.

Between managers that speak TLS a proxy needs what no network has, the identities of both: it shows
each the certificate of the other one. Without them it could do no more than cut and hold up.

Only for traffic that is transactional: a plain message would be lost for good.

Runs as a process of its own: ``python -m demo.proxies CONFIG``, where CONFIG is a JSON file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
import time
from array import array
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from demo.faults import SLICE_MAX, Faults, Rates, Stop, Tally
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.arrived import ArrivedRun
from onceq.tls import folder
from onceq.tls.contexts import client_context, server_context
from onceq.wire.mqqb.internal import Cutter, Establish, InternalPacket, parse
from onceq.wire.mqqb.session import Arrived, Closed, Event, Opened, Session

TICK_S = 0.02
STATS_S = 0.2
WAITING_BYTES_MAX = 4 << 20
"""Packets waiting to go one way; no more is read from their sender above."""
CHUNK_BYTES = 256 << 10
ACKS = Rates(drop=20, repeat=20, reorder=30, ghost=40, stall=0, cut=0)
"""Order acknowledgments are few: losing and repeating many of them is the point."""


def _now_us() -> int:
    return time.monotonic_ns() // 1000


NEVER, LOST = 0, 1
"""What became of a message so far; else the number of the connection that it came on last."""


@dataclass
class Passed:
    """Transactional messages that came from one manager: first times and again.

    Attributes:
        messages: First times.
        resends: Again because it was lost here, or in vain: on the same connection, so it had not
            gone down with one.
        after_breaks: Again on a later connection, after a cut or a kill.
        connection: The present one; 2 is the first.
    """

    messages: int = 0
    resends: int = 0
    after_breaks: int = 0
    connection: int = LOST
    _streams: dict[tuple[bytes, int], array[int]] = field(default_factory=dict)

    def see(self, source: bytes, stream: int, first: int, count: int) -> None:
        """So many messages of a stream have come."""
        known = self._streams.setdefault((source, stream), array("I"))
        known.extend([NEVER] * (first + count - len(known)))
        for number in range(first, first + count):
            if known[number] == NEVER:
                self.messages += 1
            elif known[number] in (LOST, self.connection):
                self.resends += 1
            else:
                self.after_breaks += 1
            known[number] = self.connection

    def lost(self, source: bytes, stream: int, first: int, count: int) -> None:
        """Some of those that came last are not passed on."""
        known = self._streams[source, stream]
        known[first : first + count] = array("I", [LOST] * count)


class Side:
    """One connection of a pair, with its session and what waits to be sent on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.session: Session | None = None
        self.waiting: deque[tuple[Run, int] | Stop] = deque()
        self.waiting_bytes = 0
        self.stalled_until = 0.0
        self.cut = False
        self.room = asyncio.Event()
        self.room.set()

    def add(self, item: tuple[Run, int] | Stop) -> None:
        """Something is to go out here."""
        self.waiting.append(item)
        if not isinstance(item, Stop):
            self.waiting_bytes += len(item[0].data)
            if self.waiting_bytes > WAITING_BYTES_MAX:
                self.room.clear()

    def flush(self) -> bool:
        """Send what may be sent; False if the connection was cut on purpose."""
        session = self.session
        if session is None or self.cut:
            return not self.cut
        while self.waiting and time.monotonic() >= self.stalled_until:
            item = self.waiting[0]
            if isinstance(item, Stop):
                self.waiting.popleft()
                if item.cut:
                    self._cut(item.share)
                    return False
                self.stalled_until = time.monotonic() + item.seconds
                break
            if not session.room or self.writer.transport.get_write_buffer_size() > CHUNK_BYTES:
                break
            run, recoverable = item
            count = min(session.room, len(run))
            part = run.part(0, count)
            mine = count if recoverable else 0
            session.send(part, count=count, recoverable=mine, now_us=_now_us())
            self.waiting_bytes -= len(part.data)
            if count == len(run):
                self.waiting.popleft()
            else:
                self.waiting[0] = (run.part(count, len(run) - count), recoverable)
            self._output()
        if self.waiting_bytes <= WAITING_BYTES_MAX:
            self.room.set()
        self._output()
        return True

    def _output(self) -> None:
        if self.session is not None and not self.cut and not self.writer.is_closing():
            self.writer.writelines([bytes(piece) for piece in self.session.take_output()])

    def _cut(self, share: float) -> None:
        """Break off in the middle of a packet. Nothing may follow: a stream that ends early is
        what TCP does; one that goes on somewhere else is not."""
        self.cut = True
        following = next((item for item in self.waiting if not isinstance(item, Stop)), None)
        if following is not None and self.session is not None and self.session.opened:
            data = bytes(following[0].data[: following[0].lengths[0]])
            self.writer.write(data[: int(len(data) * share)])


class Pair:
    """Both connections between a manager that connected and the one it wanted."""

    def __init__(self, proxy: Proxy, near: Side) -> None:
        self.proxy = proxy
        self.near = near
        self.far: Side | None = None
        self.settings = Settings()
        self._kept: list[bytes] = []

    async def run(self) -> None:
        """From the first byte to the last."""
        tasks: list[asyncio.Task[None]] = []
        try:
            asked = await self._first_packet()
            reader, writer = await self.proxy.go_on()
            self.far = far = Side(reader, writer)
            far.session = Session(
                initiator=True, own_id=asked.client, expected_peer=asked.server,
                settings=self.settings, now_us=_now_us(),
            )  # fmt: skip
            far.session.start()
            far.flush()
            tasks = [asyncio.create_task(self._pump(far)), asyncio.create_task(self._ticks())]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except (OSError, EOFError):
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for side in (self.near, self.far):
                if side is not None:
                    side.writer.close()

    async def _first_packet(self) -> Establish:
        """What the manager that connected says first: who it is."""
        cutter = Cutter()
        while True:
            data = await self.near.reader.read(1 << 16)
            if not data:
                raise EOFError
            self._kept.append(data)
            for piece in cutter.feed(data):
                packet = parse(piece.data) if isinstance(piece, InternalPacket) else None
                if isinstance(packet, Establish):
                    return packet
                raise EOFError

    async def _pump(self, side: Side) -> None:
        """Read one side until it ends."""
        other = self.near if side is self.far else self.far
        assert other is not None
        while True:
            await other.room.wait()
            data = await side.reader.read(1 << 18)
            if not data:
                return
            self._receive(side, data)

    def _receive(self, side: Side, data: bytes) -> None:
        assert side.session is not None
        events = side.session.receive(data, _now_us())
        self._handle(side, events)
        self._flush()

    def _flush(self) -> None:
        for side in (self.near, self.far):
            if side is not None and not side.flush():
                raise EOFError

    def _handle(self, side: Side, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Opened) and side is self.far:
                self._answer_near(event.peer_id)
            elif isinstance(event, Arrived):
                self._pass_on(side, event)
            elif isinstance(event, Closed):
                raise EOFError

    def _answer_near(self, peer: bytes) -> None:
        """The far side is there and has said who it is: now the near side gets its answers."""
        near = self.near
        near.session = Session(
            initiator=False, own_id=peer, settings=self.settings, now_us=_now_us()
        )
        for data in self._kept:
            self._handle(near, near.session.receive(data, _now_us()))
        self._kept.clear()
        self.proxy.pumps.add(task := asyncio.create_task(self._near_pump()))
        task.add_done_callback(self.proxy.pumps.discard)

    async def _near_pump(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            await self._pump(self.near)
        if self.far is not None:
            self.far.writer.close()
        self.near.writer.close()

    def _pass_on(self, side: Side, event: Arrived) -> None:
        other = self.near if side is self.far else self.far
        assert other is not None
        assert side.session is not None
        forward = side is self.near
        faults = self.proxy.forward if forward else self.proxy.backward
        for run in event.runs:
            recoverable = len(run.packets) if run.recoverable else 0
            for item in faults.pass_on(run.packets):
                other.add(item if isinstance(item, Stop) else (item, recoverable))
            if forward and run.transactional:
                self._count(run, faults.lost)
            if recoverable:
                side.session.persisted(recoverable, _now_us())

    def _count(self, run: ArrivedRun, lost: list[tuple[int, int]]) -> None:
        passed = self.proxy.passed
        passed.see(run.source, run.stream, run.first_number, len(run.packets))
        for at, size in lost:
            passed.lost(run.source, run.stream, run.first_number + at, size)

    async def _ticks(self) -> None:
        """Timers of both sessions, and whatever was stalled."""
        while True:
            await asyncio.sleep(TICK_S)
            now = _now_us()
            for side in (self.near, self.far):
                if side is not None and side.session is not None:
                    due = side.session.next_timer()
                    if due is not None and due <= now:
                        self._handle(side, side.session.tick(now))
            self._flush()


@dataclass(frozen=True)
class Tls:
    """How a proxy speaks with managers that have identities.

    Attributes:
        near: As the one that was wanted, with the one that connects.
        far: As the one that has connected, with the one that was wanted.
    """

    near: ssl.SSLContext
    far: ssl.SSLContext

    @classmethod
    def of(cls, item: dict[str, Any]) -> Tls | None:
        """From a proxy's part of a configuration: data directories, if there are any."""
        if "near" not in item:
            return None
        near, far = (folder.files_of(item[which]) for which in ("near", "far"))
        if near is None or far is None:
            raise ValueError(f"{item['name']}: a manager has no identity to speak with")
        going = client_context(
            far.authorities, certificate=far.certificate, key=far.key, peers=True
        )
        return cls(server_context(near, peers=True), going)


class Proxy:
    """The bad network from one manager to another."""

    def __init__(
        self, name: str, port: int, target: int, seed: int, rates: Rates, acks: Rates,
        slice_max: int, tls: Tls | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.tls = tls
        self.port = port
        self.target = ("127.0.0.1", target)
        self.tally = Tally()
        self.passed = Passed()
        self.forward = Faults(f"{seed} {name} forward", rates, self.tally, slice_max=slice_max)
        self.backward = Faults(f"{seed} {name} backward", acks, self.tally, slice_max=slice_max)
        self.pumps: set[asyncio.Task[None]] = set()

    async def listen(self) -> asyncio.Server:
        """Take connections."""
        near = self.tls.near if self.tls is not None else None
        return await asyncio.start_server(
            self.accept, "127.0.0.1", self.port, limit=1 << 20, ssl=near
        )

    async def go_on(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the manager that was wanted."""
        if self.tls is None:
            return await asyncio.open_connection(*self.target)
        return await asyncio.open_connection(*self.target, ssl=self.tls.far, server_hostname="")

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The manager has connected."""
        self.passed.connection += 1
        self.forward.reconnected()
        self.backward.reconnected()
        await Pair(self, Side(reader, writer)).run()

    def stats(self) -> dict[str, Any]:
        """Counters so far."""
        return {
            **asdict(self.tally), "messages": self.passed.messages,
            "resends": self.passed.resends, "after_breaks": self.passed.after_breaks,
        }  # fmt: skip


async def serve(config: dict[str, Any]) -> None:
    """Run all proxies of a configuration until told to stop; counters go to a file."""
    rates = Rates(**config["rates"])
    acks = Rates(**config["acks"]) if "acks" in config else ACKS
    proxies = [
        Proxy(
            item["name"],
            item["port"],
            item["target"],
            config["seed"],
            rates,
            acks,
            config.get("slice_max", SLICE_MAX),
            Tls.of(item),
        )
        for item in config["proxies"]
    ]
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    servers = [await proxy.listen() for proxy in proxies]
    path = Path(config["stats"])
    while True:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({proxy.name: proxy.stats() for proxy in proxies}))
        os.replace(fresh, path)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), STATS_S)
            break
    for server in servers:
        server.close()


def main() -> int:
    """The command."""
    config = json.loads(Path(sys.argv[1]).read_text())
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(config))
    else:
        uvloop.run(serve(config))
    return 0


if __name__ == "__main__":
    sys.exit(main())
