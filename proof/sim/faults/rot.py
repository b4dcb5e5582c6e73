"""Stored bytes that change by themselves, in some worlds.

A byte of a message of a running manager that is durable is altered: before its checkpoint, or
behind it, where something says already that it is durable (else it would look like a torn tail).
The judge is told which messages share its block: they may be set aside, with all consequences of
that (``Verdict``); nothing wrong may ever be handed out, and no other message suffers.
Blocks in which anything else lies than messages of applications are left alone: what is lost with
an acknowledgment is not the judge's matter here.

Watches: I23.
"""

from __future__ import annotations

import struct

from onceq.model.log import BLOCK_BYTES
from onceq.store.framing import block_place
from onceq.store.log import LogStore
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packets import UID_BYTES, body_of
from proof.sim.base.stored import Pieces, address_of, joined, kept
from proof.sim.judge.books import Books

SHARE = 0.15
"""Of all worlds."""


class Rot:
    """Plans the next altered byte after each one."""

    def __init__(self, kernel: Kernel, nodes: list[Node], books: Books) -> None:
        self.kernel, self.nodes, self.books = kernel, nodes, books
        self.rng = kernel.stream("rot")
        if self.rng.random() < SHARE:
            every_us = kernel.options.safety_us // self.rng.randint(3, 20)
            kernel.at_times(self.rng, every_us, self._strike)

    def _strike(self) -> None:
        """Alter a byte of some old message, if there is one that may be."""
        node = self.rng.choice(self.nodes)
        if node.engine is None:
            return
        store, state = node.engine.store, node.engine.manager.state
        assert isinstance(store, LogStore)
        covered = max(store._checkpoint.position, _promised(store))
        places = sorted(
            {
                pieces
                for queue, _, lane in state.all_lanes()
                for pieces in kept(lane)
                if max(map(sum, pieces)) <= covered
            }
        )
        if not places:
            return
        pieces = self.rng.choice(places)
        at = address_of(pieces, self.rng.randrange(sum(size for _, size in pieces)))
        start, end, large = self._block(store, at)
        near = [
            place
            for place in places
            if any(address < end and address + size > start for address, size in place)
        ]
        uids = [self._uid(node, place) for place in near]
        if None in uids:
            return
        segment = next(s for s in store._table[1] if s.base <= at < s.end)
        node.disk.flip(segment.path, segment.offset(at), 1 << self.rng.randrange(8))
        self.books.rotten.update(uid for uid in uids if uid is not None)
        self.kernel.marks[marks.ROTTEN] += 1
        self.kernel.marks[marks.ROTTEN_LARGE] += large
        if at >= store._checkpoint.position:
            self.kernel.marks[marks.ROTTEN_BEHIND] += 1
        self.kernel.note("rot", node.name, at)

    @staticmethod
    def _block(store: LogStore, at: int) -> tuple[int, int, bool]:
        """The bytes that cannot be told from a damaged one, and whether its record is large."""
        segments = store._table[1]
        segment = next(s for s in segments if s.base <= at < s.end)
        frame = store._verified._frame(segment, at)
        if not frame.blocks:
            return frame.position, frame.end, False
        table = store._verified._table(segment, frame)
        start, size = block_place(frame, (at - frame.payload) // frame.block_bytes, table.head)
        return start, start + size, frame.block_bytes != BLOCK_BYTES

    def _uid(self, node: Node, pieces: Pieces) -> int | None:
        """Which message of the books lies there; None if it is another one."""
        assert node.engine is not None
        store = node.engine.store
        assert isinstance(store, LogStore)
        # In one record, so in one segment.
        segment = next(s for s in store._table[1] if s.base <= pieces[0][0] < s.end)
        packet = joined(
            lambda address, size: node.disk.read(segment.file, segment.offset(address), size),
            pieces,
        )
        try:
            message_class, body = body_of(packet)
        except (AssertionError, LookupError, ValueError, ArithmeticError, struct.error):
            return None
        uid = int.from_bytes(body[:UID_BYTES], "little")
        message = self.books.messages.get(uid) if len(body) >= UID_BYTES else None
        if message is None or message_class or message.body != body:
            return None
        return uid


def _promised(store: LogStore) -> int:
    """Up to where records that are on the disk say that everything was durable."""
    position = promised = store._checkpoint.position
    for segment in store._table[1]:
        end = min(segment.end, store.synced)
        while segment.base <= position < end:
            frame = store._verified._frame(segment, position)
            promised, position = max(promised, frame.synced), frame.end
    return promised
