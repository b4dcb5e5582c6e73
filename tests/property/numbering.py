"""A sender whose messages the core numbers, and the same rows for Spark."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.state.records import Change, decode
from onceq.core.transfer import outgoing_queue
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.names import parse_format_name
from onceq.model.requests import SendItem
from onceq.model.run import Run
from onceq.packet.acks import OrderAck
from onceq.packet.headers import headers
from onceq.spark.operators.numbering import FIRST_ORDINAL
from tests.unit.core.alone import Core

FIRST = 77 << 32 | FIRST_ORDINAL
Numbers = dict[str, list[tuple[bytes, int, int, int]]]
QUEUES = tuple(rf"DIRECT=OS:{host}\private$\{name}" for host in "BC" for name in "qr")


@dataclass
class Sender:
    """Manager A, where transactions are open side by side; what it commits is kept as rows."""

    rng: random.Random
    core: Core = field(default_factory=Core)
    begun: int = 0
    commits: int = 0
    open: dict[int, list[tuple[str, bytes]]] = field(default_factory=dict)
    rows: list[tuple[str, int, int, bytes]] = field(default_factory=list)
    """Queue, place of the commit, place in the transaction, body."""
    streams: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Of each queue, as far as acknowledgments have asked."""

    def something(self) -> None:
        """Begin, send, commit or abort, at random."""
        if not self.open or self.rng.random() < 0.2:
            self.begun += 1
            self.open[self.begun] = []
            self.core.ask(requests.Begin(self.begun))
            return
        tx = self.rng.choice(list(self.open))
        what = self.rng.random()
        if what < 0.65:
            names = self.rng.sample(QUEUES, self.rng.choice((1, 1, 2)))
            bodies = [b"%d" % (len(self.open[tx]) + k + 1000 * tx) for k in range(3)]
            item = SendItem(",".join(names), PLAIN, Run.of(bodies[: self.rng.randint(1, 3)]))
            self.core.ask(requests.Send(tx, (item,)))
            self.open[tx] += [(name, bytes(body)) for name in names for body in item.bodies]
        elif what < 0.95:
            self.core.ask(requests.Commit(tx))
            self.commits += 1
            sent = self.open.pop(tx)
            self.rows += [(q, self.commits, k, body) for k, (q, body) in enumerate(sent)]
        else:
            self.core.ask(requests.Abort(tx))
            self.open.pop(tx)

    def acknowledge(self) -> list[tuple[str, int, int]]:
        """Order acknowledgments come in, true ones and such that change nothing.

        Returns:
            Of each its queue, the rank of its stream there, and its number.
        """
        told = []
        for far in self.core.manager.state.outgoing.values():
            queue = next(q for q in QUEUES if far.key == parse_format_name(q)[0].key())
            streams = self.streams[queue]
            if far.stream and far.stream not in streams:
                streams.append(far.stream)
            last = far.number_of(far.ordered_lane.next) - 1
            far.transmitted[TRANSACTIONAL_LANE] = far.ordered_lane.next - 1
            for _ in range(self.rng.randint(0, 2) if streams else 0):
                rank = self.rng.choice((*range(len(streams)), len(streams) - 1))
                number = self.rng.choice((last, last, last + 1, self.rng.randint(1, last)))
                ack = OrderAck(b"B" * 16, streams[rank], number)
                outgoing_queue.order_acked(self.core.manager._step, ack)
                told.append((queue, rank, number))
        return told

    def numbered(self) -> Numbers:
        """Body, stream, number and previous number of each message by queue, as its packet has
        them; streams of a queue are 0, 1, ..."""
        found = defaultdict(list)
        streams: dict[str, list[int]] = defaultdict(list)
        for _, payload in self.core.records:
            record = decode(payload, 0)
            if not isinstance(record, tuple) or not isinstance(record[0], Change):
                continue
            for put in record[0].puts:
                for packet in put.packets:
                    parts = headers(packet)
                    tx = parts.transaction
                    assert tx is not None
                    queue = "DIRECT=" + parts.user.destination.direct
                    if tx.stream not in streams[queue]:
                        streams[queue].append(tx.stream)
                    body, rank = bytes(parts.properties.body), streams[queue].index(tx.stream)
                    found[queue].append((body, rank, tx.number, tx.previous))
        assert all(ids == sorted(ids) for ids in streams.values()), "each greater than before"
        return dict(found)


def table_of(rows: list[tuple[str, int, int, bytes]]) -> Any:
    return pa.table(
        {
            "sourceMachine": pa.array(["A"] * len(rows), pa.string()),
            "queue": pa.array([row[0] for row in rows], pa.string()),
            "commitOrder": pa.array([row[1] for row in rows], pa.int64()),
            "sendOrder": pa.array([row[2] for row in rows], pa.int32()),
            "body": pa.array([row[3] for row in rows], pa.binary()),
        }
    )


def numbers_in(rows: list[dict[str, Any]]) -> Numbers:
    """What was numbered, as ``Sender.numbered`` has it."""
    found = defaultdict(list)
    for row in rows:
        if row["seqNumber"] is not None:
            rank = (int(row["streamId"]) & 0xFFFF_FFFF) - FIRST_ORDINAL
            place = (bytes(row["body"]), rank, row["seqNumber"], row["prevNumber"])
            found[row["queue"]].append(place)
    return dict(found)
