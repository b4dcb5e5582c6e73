"""The link judge: looks at every packet that leaves a manager, and at nothing else.

It reads packets with a few lines of its own, so that a mistake in the product's parser does not
hide one in the product's packets.

Watches: I7 (numbers never change), I8 (true links), I9 (acknowledgments never go back), and that
what is sent is packets (I23).
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import NoReturn

from onceq.core.manager import Manager
from onceq.model.resultcodes import FORGOTTEN_THERE, REFUSALS, TOLD_ALREADY, MessageClass
from onceq.model.run import Buffer
from onceq.packet.acks import parse_final_ack, parse_settling
from onceq.packet.decode import decode
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.network import End
from proof.sim.base.node import Node
from proof.sim.base.packets import INTERNAL, TRANSACTION, body_of, names_end
from proof.sim.base.pair import Pair
from proof.sim.judge.books import Books, Place
from proof.sim.judge.copied_queues import CopiedQueues

_U32 = struct.Struct("<I")
_ORDER = struct.Struct("<QII")
_ACK = struct.Struct("<QI")
_SETTLING = struct.Struct("<4sBBHIH")
HEADER_BYTES = 16
ORDER_ACK_CLASS, FINAL_ACK_FROM = 0x00FF, 0x4000
ORDER_ACK_BYTES = 36
SETTLING_MAGIC = b"OQX1"
INQUIRY = 1


class Traffic:
    """See the module."""

    def __init__(self, kernel: Kernel, books: Books, pair: Pair, queues: CopiedQueues) -> None:
        self.kernel, self.books, self.pair, self.queues = kernel, books, pair, queues
        self._numbers: dict[tuple[int, int, int], tuple[int, bytes]] = {}
        """(sender, stream, number): message number and body."""
        self._places: dict[tuple[int, int, int], int] = {}
        """(sender, stream, message number): number."""
        self._gone: dict[tuple[int, int], int] = {}
        """(sender, stream): it has said that nothing before this number will ever be sent."""
        self._acks: dict[tuple[int, int, int], int] = {}
        """(acknowledging, sending manager, stream): number."""
        self._streams: dict[tuple[int, int], tuple[str, list[int]]] = {}
        """(sender, stream): where it goes, and the numbers that have left."""
        self.stranded: set[int] = set()
        """Managers that have asked about a stream that its receiver had left: what was overtaken,
        or is not known, they keep as dead letters, also where nobody has asked for any."""
        self._acked: dict[tuple[int, int], int] = {}
        """(sender, stream): the largest number that anybody has acknowledged to it."""
        self._ended: set[tuple[int, int, int]] = set()
        """(sender, stream, number) of which somebody has told the end."""
        self._refused: set[tuple[int, int, int]] = set()
        """What was told to have been refused by its destination..."""
        self._unheard: set[tuple[int, int, int]] = set()
        """... and what a session has lost of that."""
        self._identifiers: dict[tuple[int, int], int] = {}
        """(sender, message number): which message of the books has it."""
        self._senders: dict[tuple[int, int, int], set[int]] = defaultdict(set)
        """(sender, stream, number): the computers that it has left; two where one is a copy."""
        self._told_to: dict[tuple[int, int, int], set[int]] = defaultdict(set)
        """(sender, stream, number): to whom its end was told."""
        self.newest: dict[tuple[int, str], int] = {}
        """(sender, destination): stream transmitted last."""
        self.transmitted = 0

    def watch(self, end: End, pieces: Sequence[Buffer]) -> None:
        """These bytes leave; every piece begins with a packet."""
        for piece in pieces:
            at, size_all = 0, len(piece)
            while at < size_all:
                if at + HEADER_BYTES > size_all:
                    self._no_packet(end, piece, at)
                (size,) = _U32.unpack_from(piece, at + 8)
                if size < HEADER_BYTES:
                    self._no_packet(end, piece, at)
                if not piece[at + 2] & INTERNAL:
                    self._packet(end, piece, at)
                at += size

    def _no_packet(self, end: End, piece: Buffer, at: int) -> NoReturn:
        start = bytes(piece[at : at + HEADER_BYTES]).hex()
        self.kernel.wrong(f"I23: {end.home.name} sends what is no packet: {start} at {at}")

    def _packet(self, end: End, piece: Buffer, start: int) -> None:
        self.transmitted += 1
        source, target = end.home, end.other.home
        at, flags = names_end(piece, start)
        (message,) = _U32.unpack_from(piece, start + 56)
        if flags & TRANSACTION:
            stream, number, previous = _ORDER.unpack_from(piece, at + 4)
            self._ordered(source, piece, start, message, stream, number, previous)
            self._reached(target, piece, start)
            if stream not in end.streams and previous:
                self.kernel.wrong(
                    f"I8: {source.name} begins a connection with {stream:#x}.{number}, linked to "
                    f"{previous}: the first that is unacknowledged carries 0"
                )
            end.streams.add(stream)
            return
        if flags >> 16 & 7:
            return  # an acknowledgment message: it names a response queue (``acknowledgments.py``)
        message_class, body = body_of(piece, start)
        if not message_class:
            self._identified(source, message, body)
            self._reached(target, piece, start)
        if message_class == ORDER_ACK_CLASS and len(body) == ORDER_ACK_BYTES:
            self._order_ack(source, target, *_ACK.unpack_from(body))
        elif message_class == ORDER_ACK_CLASS:
            self._settling(source, target, body)
            self._settled(source, target, piece, start)
        elif message_class >= FINAL_ACK_FROM:
            stream, number = _ACK.unpack_from(body)
            key = self._identity(target.index), stream, number
            self._ended.add(key)
            self._told_to[key].add(target.index)
            self.kernel.note(
                "final ack", source.name, target.name, message_class, stream & 0xFFFF, number
            )
            if message_class in REFUSALS:
                self._refused.add(key)
            if message_class != FINAL_ACK_FROM:
                self.kernel.marks[marks.REFUSED] += 1
            if message_class == MessageClass.NACK_REACH_QUEUE_TIMEOUT:
                self._came_too_late(source, key)

    def _ordered(
        self, source: Node, piece: Buffer, start: int, message: int, stream: int, number: int,
        previous: int,
    ) -> None:  # fmt: skip
        kernel, who = self.kernel, self._identity(source.index)
        key = (who, stream, number)
        self._senders[key].add(source.index)
        _, body = body_of(piece, start)
        self._identified(source, message, body)
        known = self._numbers.get(key)
        if known is None:
            self._numbers[key] = (message, body)
            if (who, stream) not in self._streams:
                self._streams[who, stream] = (_destination(piece, start), [])
            self._streams[who, stream][1].append(number)
            place = self._places.setdefault((who, stream, message), number)
            if place != number:
                kernel.wrong(
                    f"I7: {source.name} sends message {message} as {stream:#x}.{number}, "
                    f"before as {place}"
                )
        elif known != (message, body):
            kernel.wrong(
                f"I7: {source.name} gave {stream:#x}.{number} to message {known[0]}, "
                f"and now to {message}"
            )
        if previous:
            if previous >= number or (who, stream, previous) not in self._numbers:
                kernel.wrong(f"I8: {source.name} links {stream:#x}.{number} to {previous}")
            if previous != number - 1:
                kernel.marks[marks.RELINKED] += 1
        kernel.note("send", source.name, stream & 0xFFFF, number, previous)

    def _identified(self, source: Node, message: int, body: bytes) -> None:
        """A message leaves: its identifier has never been another one's."""
        uid = int.from_bytes(body[:8], "little")
        known = self._identifiers.setdefault((self._identity(source.index), message), uid)
        if known != uid:
            self.kernel.wrong(
                f"I7: {source.name} gives the message number {message} to message {uid}, "
                f"it was the number of {known}"
            )

    def _reached(self, target: Node, piece: Buffer, start: int) -> None:
        """A message leaves for a computer: which of two copies it is, must be known."""
        queues = self.queues
        if queues.concerns(target):
            uid = int.from_bytes(body_of(piece, start)[1][:8], "little")
            queues.transmitted(target, uid, _destination(piece, start))

    def _came_too_late(self, source: Node, key: tuple[int, int, int]) -> None:
        """A receiver says that a message came too late: which of two copies it is, must be
        known."""
        if key in self._numbers and self.queues.concerns(source):
            uid = int.from_bytes(self._numbers[key][1][:8], "little")
            self.queues.came_too_late(source, uid, self._streams[key[:2]][0])

    def _settling(self, source: Node, target: Node, body: bytes) -> None:
        """Two onceq managers settle what is in doubt (docs/reference/formats/mqqb.md)."""
        magic, what, _, streams, _, _ = _SETTLING.unpack_from(body)
        if magic != SETTLING_MAGIC:
            self.kernel.wrong(f"{source.name} sends {body[:4]!r} to an order queue")
        self.kernel.note("settling", source.name, target.name, what, streams)
        if what != INQUIRY:
            self.kernel.marks[marks.SETTLED] += 1
            return
        for k in range(streams):
            stream, live_from = _ACK.unpack_from(body, _SETTLING.size + k * _ACK.size)
            key = (self._identity(source.index), stream)
            self._gone[key] = max(self._gone.get(key, 0), live_from)
            if not live_from:
                self.stranded.add(key[0])

    def _settled(self, source: Node, target: Node, piece: Buffer, start: int) -> None:
        """What a receiver tells of a stream answers for its messages: accepted, or never to be."""
        (size,) = _U32.unpack_from(piece, start + 8)
        told = parse_settling(bytes(memoryview(piece)[start : start + size]))
        who = self._identity(target.index)
        for memory in told if isinstance(told, list) else ():
            destination, numbers = self._streams.get((who, memory.stream), ("", []))
            for number in numbers:
                arrived = memory.arrived(number)
                if arrived is None:
                    continue
                key = (who, memory.stream, number)
                self._ended.add(key)
                if not arrived and self.queues.concerns(source):
                    uid = int.from_bytes(self._numbers[key][1][:8], "little")
                    self.queues.never_came(source, target, uid, destination)

    def _order_ack(self, source: Node, target: Node, stream: int, number: int) -> None:
        who = self._identity(target.index)
        key = (source.index, who, stream)
        before = self._acks.get(key, 0)
        self.kernel.note("order ack", source.name, target.name, stream & 0xFFFF, number)
        if not number:
            return  # it acknowledges nothing: the beginning of the stream is missing
        if number < before and not self.books.deleted_at(source.index):
            # Deleting a queue discards its stream states (EOD-31).
            self.kernel.wrong(
                f"I9: {source.name} acknowledges {stream:#x} up to {number}, before up to {before}"
            )
        if number == before:
            self.kernel.marks[marks.REACKED] += 1
        mine = (who, stream)
        self._acked[mine] = max(self._acked.get(mine, 0), number)
        self._acks[key] = number
        gone = self._gone.get((who, stream), 0)
        if (who, stream, number) not in self._numbers and number >= gone:
            self.kernel.wrong(
                f"I9: {source.name} acknowledges {stream:#x}.{number}, which never left "
                f"{target.name}"
            )

    def carried(self, sender: int) -> dict[tuple[int, tuple[int, str]], set[int]]:
        """By message and place: which of two copies have transmitted it."""
        return self._by_message(sender, self._senders)

    def told_to(self, sender: int) -> dict[tuple[int, tuple[int, str]], set[int]]:
        """By message and place: which of two copies were told how it ended."""
        return self._by_message(sender, self._told_to)

    def _by_message(
        self, sender: int, known: dict[tuple[int, int, int], set[int]]
    ) -> dict[tuple[int, tuple[int, str]], set[int]]:
        found: dict[tuple[int, tuple[int, str]], set[int]] = defaultdict(set)
        for (who, stream, number), nodes in known.items():
            sent = self.message_of(who, stream, number) if who == sender else None
            if sent is not None:
                message = self.books.messages[sent[0]]
                found[message.uid, self.books.place_of(message, sent[1]).key] |= nodes
        return found

    def _identity(self, node: int) -> int:
        """Under which identity a computer speaks: two copies have one."""
        return self.pair.identity(node)

    def has_taken(self, node: int, sender: int) -> bool:
        """Whether a manager has acknowledged anything that another one has sent."""
        return any(key[:2] == (node, sender) for key in self._acks)

    # ---- for others ---------------------------------------------------------------------

    def answered(self, receiver: int) -> list[tuple[int, Place]]:
        """Messages of the books that went to a manager which has answered them, and where."""
        found = []
        for (sender, stream), (destination, numbers) in self._streams.items():
            acked = self._acked.get((sender, stream), 0)
            for number in numbers:
                if number <= acked or (sender, stream, number) in self._ended:
                    sent = self._numbers[sender, stream, number]
                    message = self.books.messages[int.from_bytes(sent[1][:8], "little")]
                    place = self.books.place_of(message, destination)
                    if place.node == receiver:
                        found.append((message.uid, place))
        return found

    def told_end(self, uid: int, place: Place) -> bool:
        """Whether anybody has told the end of a message to its sender, or that it is known."""
        return self._is_among(self._ended, uid, place)

    def refused(self, uid: int, place: Place) -> bool:
        """Whether its sender was told that its destination did not take a message, in the order in
        which that was sent: what a session has lost may come behind the acknowledgment."""
        return self._is_among(self._refused - self._unheard, uid, place)

    def unheard(self, node: Node, packet: bytes) -> None:
        """A final acknowledgment was lost in the middle of a session, which no connection does."""
        ack = parse_final_ack(packet)
        self._unheard.add((self._identity(node.index), ack.stream, ack.number))

    def _is_among(self, among: set[tuple[int, int, int]], uid: int, place: Place) -> bool:
        for sender, stream, number in among:
            found = self.message_of(sender, stream, number)
            if found is not None and found[0] == uid:
                message = self.books.messages[uid]
                if self.books.place_of(message, found[1]) is place:
                    return True
        return False

    def put_back(self, node: Node) -> None:
        """A manager was put back: its acknowledgments start again."""
        for key in [key for key in self._acks if key[0] == node.index]:
            del self._acks[key]

    def unanswered(self, sender: int) -> list[tuple[int, int]]:
        """Stream and number of what a manager has transmitted, and nobody has answered."""
        return [
            (stream, number)
            for (who, stream), (_, numbers) in self._streams.items()
            if who == self._identity(sender)
            for number in numbers
            if sender in self._senders[who, stream, number]
            and number > self._acked.get((who, stream), 0)
            and (who, stream, number) not in self._ended
        ]

    def message_of(self, sender: int, stream: int, number: int) -> tuple[int, str] | None:
        """The message of the books that went under a number, and where; None: nothing did."""
        sender = self._identity(sender)
        sent = self._numbers.get((sender, stream, number))
        if sent is None:
            return None
        return int.from_bytes(sent[1][:8], "little"), self._streams[sender, stream][0]

    # ---- verdicts of the filter, from the views -----------------------------------------

    def ends(self, manager: Manager) -> None:
        """A process ends: take its counts of verdicts, which end with it."""
        self.kernel.marks[marks.CLASH] += len(manager._step.sessions.watch.clashes)
        for outgoing in manager.state.outgoing.values():
            if any(one.cause in (FORGOTTEN_THERE, TOLD_ALREADY) for one in outgoing.endings):
                self.kernel.marks[marks.UNTOLD] += 1
        for progress in manager.state.progress.values():
            if progress.gaps:
                self.kernel.marks[marks.GAP] += 1
            if progress.stale:
                self.kernel.marks[marks.STALE] += 1


def _destination(piece: Buffer, start: int) -> str:
    """Where a packet goes: once for each stream, so the product's parser may read it."""
    (size,) = _U32.unpack_from(piece, start + 8)
    return decode(piece[start : start + size]).destination
