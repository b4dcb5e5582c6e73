"""Decode the answer to a receive or a peek.

It is separate from the other answers because a command that only peeks needs no more than this: to
load the table of all answers, with every request and view, takes longer than such a command.

Upholds: I24 (an invalid answer is a MalformedPacket, and nothing else).
"""

from __future__ import annotations

from onceq.errors import MalformedPacket
from onceq.model.run import Buffer
from onceq.packet.batch import Batch
from onceq.wire.app import frames


def batch_of(head: Buffer, data: memoryview) -> Batch:
    """Return the messages that were handed out; raises MalformedPacket."""
    handed: frames.HandedHead = frames.decode_head(head, frames.HandedHead)
    lookups, arrived, aborts = frames.tables(handed.lookups, handed.arrived, handed.aborts)
    run = frames.unpack_run(data, handed.count)
    if not len(lookups) == len(arrived) == len(aborts) == handed.count:
        raise MalformedPacket("an answer whose tables differ in length")
    return Batch(
        run, lookups, arrived, aborts, handed.moves, handed.scanned, handed.notes, handed.failures
    )
