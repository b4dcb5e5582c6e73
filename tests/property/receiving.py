"""A queue manager's own core as the judge of what the operators decide: real packets arrive."""

from __future__ import annotations

import random
import struct
from array import array
from dataclasses import dataclass
from typing import Any

from onceq.core import inputs
from onceq.core.decision import Transmit
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.step.connections import EarlyRuns, Key
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.acks import parse_order_ack
from onceq.packet.address import DIRECT, Address
from onceq.packet.arrived import ArrivedRun, cut
from onceq.packet.encode import encode_run, template
from proof.sim.base.packets import names_end
from tests.unit.core.alone import IDENTITY, WALL_S, Core

_ORDER = struct.Struct("<QII")


@dataclass(frozen=True)
class Row:
    """A message as it stands in a feed; ``queue`` is a name on manager A."""

    sender: int
    queue: str
    stream: int
    number: int
    previous: int

    @property
    def source(self) -> bytes:
        return b"%015d" % self.sender + b"s"

    @property
    def direct(self) -> str:
        return f"OS:A\\private$\\{self.queue}"


def packet(row: Row, message: int) -> bytes:
    """A transactional packet with these numbers."""
    made = template(
        source=row.source, destination=Address(DIRECT, direct=row.direct), properties=PLAIN,
        sent_time=WALL_S, transactional=True,
    )  # fmt: skip
    made_run = encode_run(
        made, Run.of([b"x"]), first_message=message, stream=1, first_number=1, first=True, last=True
    )
    raw = bytearray(made_run.data)
    at, _ = names_end(raw, 0)
    _ORDER.pack_into(raw, at + 4, row.stream, row.number, row.previous)
    return bytes(raw)


class _KeepsNothing(EarlyRuns):
    """The filter of Spark drops what comes too early, as a receiver without room for it does."""

    def keep_run(self, key: Key, session: int, queue: int, run: ArrivedRun) -> bool:
        return False


class Receiver(Core):
    """Manager A with two queues; tells of each message what its filter said."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.manager._step.sessions.early = _KeepsNothing()
        self.messages: dict[tuple[int, str, int, int], int] = {}
        """Of each message its own number: a repetition has the same."""
        for name in ("q", "r"):
            properties = QueueProperties(name, transactional=True)
            instance = name.encode() * 16
            self.ask(requests.CreateQueue(properties=properties, instance=instance))
        self.sessions: dict[bytes, int] = {}

    def crash(self) -> None:
        """All that is not in a record is gone."""
        manager = Manager(IDENTITY, Settings())
        records, position = list(self.records), self.manager.position
        self.manager = manager
        self.manager._step.sessions.early = _KeepsNothing()
        entropy = bytes(ENTROPY_BYTES)
        self.kept(manager.recover(self.now(), None, records, position, entropy=entropy))
        self.sessions.clear()

    def _session(self, source: bytes) -> int:
        if source not in self.sessions:
            self.sessions[source] = len(self.records) * 100 + len(self.sessions) + 1
            self.step(inputs.SessionOpened(self.sessions[source], source, "10.0.0.2", 0))
        return self.sessions[source]

    def arrive(self, row: Row) -> str:
        """One message arrives: the verdict, in the core's words."""
        before = self._counts()
        self.together([row])
        after = self._counts()
        changed = [word for word in after if after[word] != before.get(word, 0)]
        assert len(changed) <= 1, "one message, one verdict"
        # Of a pair that nothing was accepted of, nothing is kept: only a gap leaves no trace.
        return changed[0] if changed else "gap"

    def together(self, rows: list[Row]) -> None:
        """Messages of one sender arrive in one read of a connection."""
        packets = []
        for row in rows:
            key = (row.sender, row.queue, row.stream, row.number)
            message = self.messages.setdefault(key, len(self.messages) + 1)
            packets.append(packet(row, message))
        lengths = array("I", [len(p) for p in packets])
        session = self._session(rows[0].source)
        for run in cut(b"".join(packets), lengths):
            self.step(inputs.Arrived(session, run))

    def _counts(self) -> dict[str, int]:
        progress = self.manager.state.progress.values()
        stored = sum(len(queue) for queue in self.manager.state.queues.values())
        return {
            "accept": stored,
            "duplicate": sum(p.duplicates for p in progress),
            "gap": sum(p.gaps for p in progress),
            "stale stream": sum(p.stale for p in progress),
        }

    def state(self) -> dict[tuple[bytes, str], tuple[int, int]]:
        """The stream and the last number of each sender and queue."""
        return {(p.source, p.key): (p.stream, p.last) for p in self.manager.state.progress.values()}

    def acknowledged(self) -> set[tuple[bytes, int, int]]:
        """Order acknowledgments that go out when the streams are quiet: to whom, stream, number."""
        self.pass_time(60)
        told = set()
        for source, session in self.sessions.items():
            decision = self.manager.step(self.now(), inputs.Room(session, 1000, 1 << 20))
            for action in decision.actions:
                if isinstance(action, Transmit):
                    for piece in action.pieces:
                        assert isinstance(piece, bytes)
                        ack = parse_order_ack(piece)
                        told.add((source, ack.stream, ack.number))
        return told


def feed(rng: random.Random) -> list[list[Row]]:
    """What a few senders have committed, as a bad network brings it, in micro-batches."""
    rows: list[Row] = []
    for sender in range(rng.randint(1, 3)):
        for queue in ("q", "r")[: rng.randint(1, 2)]:
            stream, number, before = 1 << 32 | rng.randint(1, 2), 0, 0
            for _ in range(rng.randint(0, 10)):
                number += 1
                if rng.random() < 0.1:  # a new stream, when everything was acknowledged
                    stream, number, before = stream + 1, 1, 0
                if rng.random() < 0.1:  # expired at the sender: the next one bridges the hole
                    continue
                head = 0 if rng.random() < 0.1 else before
                rows.append(Row(sender, queue, stream, number, head))
                before = number
    lost = rng.choice((0.0, 0.1, 0.3))
    kept = [row for row in rows if rng.random() >= lost]
    again = [rng.choice(rows) for _ in range(rng.randint(0, 8))] if rows else []
    feed = kept + again if rng.random() < 0.7 else kept + again + rows
    disorder = rng.choice((0, 2, 100))
    feed = [row for _, row in sorted(enumerate(feed), key=lambda x: x[0] + rng.random() * disorder)]
    cuts = sorted(rng.randint(0, len(feed)) for _ in range(rng.randint(0, 3)))
    return [feed[a:b] for a, b in zip([0, *cuts], [*cuts, len(feed)], strict=True)]


def table_of(rows: list[Row], *, ordered: bool) -> Any:
    """Messages as an operator sees them; ``ordered``: with a place of arrival for each."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        "sourceMachine": pa.array([row.source.decode() for row in rows], pa.string()),
        "queue": pa.array(["DIRECT=" + row.direct for row in rows], pa.string()),
        "streamId": pa.array([str(row.stream) for row in rows], pa.string()),
        "seqNumber": pa.array([row.number for row in rows], pa.int64()),
        "prevNumber": pa.array([row.previous for row in rows], pa.int64()),
    }
    if ordered:
        columns["lookupId"] = pa.array(range(len(rows)), pa.int64())
    return pa.table(columns)
