"""A manager with one message that asks for something; and where what is left of it stands."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import Final
from unittest.mock import patch

from onceq.core import inputs
from onceq.core.send import _route
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.state.queue_tables import title_of
from onceq.core.state.queues import lookup_id
from onceq.core.step.connections import Route
from onceq.core.step.step import Step
from onceq.model import requests
from onceq.model.message import Acknowledge, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.requests import SendItem
from onceq.model.requests.request import Request
from onceq.model.run import Run
from onceq.packet import address
from onceq.packet.acks import ack_class, parse_final_ack
from onceq.packet.address import Address
from onceq.packet.arrived import cut
from onceq.packet.encode import encode_run, template
from onceq.packet.headers import headers
from tests.unit.core.alone import WALL_S, Core

HERE, FAR = "DIRECT=OS:.\\private$\\", "DIRECT=OS:B\\private$\\q"
PEER, THERE = b"B" * 16, b"C" * 16
BODY = b"x" * 1_500
"""More than fits into a queue of 1 KiB."""
STREAM: Final = 1 << 40
LIFETIME_S: Final = 60


def _route_unasked(step: Step, item: SendItem, sent_s: int, transactional: bool, by: str) -> Route:
    with patch("onceq.core.send.Queue", type(None)):
        return _route(step, item, sent_s, transactional, by)


@dataclass(frozen=True)
class Asked:
    """What the sender of a message asks for.

    Attributes:
        level: Of acknowledgment messages.
        own: Its own dead-letter queue: none (""), "own", "gone" (deleted) or "full".
    """

    journal: Journal = Journal.NONE
    level: int = 0
    own: str = ""

    def __str__(self) -> str:
        found = [name for bit, name in ((1, "D"), (2, "J")) if self.journal & bit]
        return " ".join([*found, *filter(None, [self.own, str(self.level or "")])]) or "-"

    def properties(self, *, transactional: bool, here: bool = True) -> Properties:
        """Of the message; another manager's dead-letter queue does not travel."""
        own = f"private$\\{self.own}" if self.own and transactional and here else ""
        return Properties(
            journal=self.journal, acknowledge=Acknowledge(self.level),
            admin_queue="private$\\adm" if self.level else "", dead_letter_queue=own,
            time_to_be_received=LIFETIME_S,
        )  # fmt: skip


class Stage(Core):
    """A manager with queues of each kind, and one message that asks for something."""

    def __init__(self, asked: Asked, transactional: bool) -> None:
        super().__init__()
        self.asks, self.transactional = asked, transactional
        self.queue = "private$\\q" if transactional else "private$\\n"
        for name in ("q", "n", "own", "gone", "full", "small", "adm"):
            properties = QueueProperties(
                name, transactional=name not in ("n", "small", "adm"), journal=name in "qn",
                quota_kb=1 if name in ("full", "small") else 1_000,
            )  # fmt: skip
            self.do(requests.CreateQueue(properties=properties, instance=b"I" * 16))

    def do(self, item: Request) -> None:
        """Ask for something; whether it can be had is seen in what is left."""
        self.ask(replace(item))

    # ---- the message comes --------------------------------------------------------------------

    def send(self, name: str = "") -> None:
        """It is sent here."""
        properties = self.asks.properties(transactional=self.transactional)
        item = requests.SendItem(name or HERE + self.queue[-1], properties, Run.of([BODY]))
        if self.transactional:
            self.do(requests.Commit(0, (item,)))
        else:
            self.do(requests.Send(0, (item,)))

    def send_unasked(self, name: str) -> None:
        """It is sent to a queue that does not take it, as managers promised that did not look."""
        with patch("onceq.core.send._route", _route_unasked):
            self.send(name)

    def send_far(self) -> OutgoingQueue:
        """It is sent here, to a queue of another manager."""
        self.send(FAR)
        self.forget_own()
        return self.far

    @property
    def far(self) -> OutgoingQueue:
        """The outgoing queue that it is in."""
        return next(
            q for q in self.manager.state.outgoing.values() if q.name.host or q.name.guid == THERE
        )

    @property
    def lane(self) -> int:
        """The lane of the outgoing queue that it is in."""
        (lane,) = self.far.lanes
        return lane

    def arrive(self, queue: str = "", *, hops: int = 0, to: bytes = bytes(16)) -> None:
        """It comes from another manager."""
        properties = self.asks.properties(transactional=self.transactional, here=False)
        destination = Address(7, direct=f"OS:A\\{queue or self.queue}")
        if to != bytes(16):
            destination = Address(3, number=7)
        made = template(
            source=PEER, destination=destination, destination_manager=to,
            admin=Address(7, direct="OS:A\\private$\\adm") if self.asks.level else Address(0),
            properties=properties, sent_time=WALL_S, transactional=self.transactional,
        )  # fmt: skip
        one = 1 if self.transactional else 0
        (packet,) = encode_run(
            made, Run.of([BODY]), first_message=1, first=True, last=True,
            stream=STREAM * one, first_number=one, transaction=one,
        )  # fmt: skip
        data = bytearray(packet)
        (flags,) = address.U32.unpack_from(data, address.OFF_USER_FLAGS)
        address.U32.pack_into(data, address.OFF_USER_FLAGS, flags + hops)
        self.step(inputs.SessionOpened(1, PEER, "10.0.0.2", outgoing=0))
        for run in cut(bytes(data), array("I", [len(data)])):
            self.step(inputs.Arrived(1, run))

    # ---- it ends --------------------------------------------------------------------------------

    def forget_own(self) -> None:
        """The sender's own dead-letter queue is deleted, if it is that one."""
        if self.asks.own == "gone":
            self.do(requests.DeleteQueue("private$\\gone"))

    def receive(self) -> None:
        """It is received: in a transaction, if it came in one."""
        name, tx = self.queue, 0
        if self.transactional:
            tx = 7
            self.do(requests.Begin(tx))
        self.do(requests.Receive(name, tx))
        if tx:
            self.do(requests.Commit(tx))

    def reject(self, *, keep: bool) -> None:
        """It is received, and rejected."""
        self.do(requests.Begin(7))
        self.do(requests.Receive(self.queue, 7))
        place = (lookup_id(0, 1),)
        self.do(requests.Reject(self.queue, 7, place, keep))
        self.do(requests.Commit(7))

    def purge(self, name: str = "") -> None:
        """An operator purges its queue, or an outgoing queue."""
        self.do(requests.PurgeQueue(name or self.queue))

    def delete(self, name: str = "") -> None:
        """A queue is deleted."""
        self.do(requests.DeleteQueue(name or self.queue))

    # ---- what is left ---------------------------------------------------------------------------

    def left(self) -> list[str]:
        """Where there is something now, and of which class."""
        found = []
        for queue, _, lane in self.manager.state.all_lanes():
            where = "to B" if isinstance(queue, OutgoingQueue) else title_of(queue).lower()
            where = where.removeprefix("private$\\").removeprefix("system$;")
            for first, count in lane.ranges(AVAILABLE, 0):
                for counter in range(first, first + count):
                    kind, note = lane.classes.get(counter, 0), lane.notes.get(counter, 0)
                    kinds = [f"{kind:04x}"] if kind else []
                    kinds += [f"note {note:x}"] if note else []
                    kinds += self.told(self.bytes_of(lane.extents(counter, 1)))
                    found.append(" ".join([where, *kinds]))
            for _, count in lane.ranges(AWAITING, 0):
                found += [f"{where} awaiting"] * count
        return sorted(found)

    def told(self, packet: bytes) -> list[str]:
        """What a packet tells; nothing if it is a message of an application."""
        parts = headers(packet)
        if ack_class(parts):
            return [f"final acknowledgment {parse_final_ack(packet).message_class:04x}"]
        kind = parts.properties.message_class
        return [f"acknowledgment {kind:04x}"] if kind else []
