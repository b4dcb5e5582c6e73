"""Messages that are handed out, with their bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onceq.core.decision import Handed, Piece
from onceq.model.run import Buffer, Run, starts_of
from onceq.packet.batch import Batch
from onceq.packet.decode import set_class
from onceq.service.picking import picked, wants_bytes


def delivered(handed: Handed, fetch: Callable[[Sequence[Piece]], Buffer]) -> Batch:
    """Fetch the bytes of messages, if any of them are wanted."""
    wanted = handed.pick is None or wants_bytes(handed.pick)
    data = fetch(handed.pieces) if wanted else b""
    if handed.classes and wanted:
        # A copy: the bytes may be those of the log in memory, which others read.
        changed = bytearray(data)
        starts = list(starts_of(handed.lengths))
        for index, value in handed.classes:
            set_class(changed, starts[index], handed.lengths[index], value)
        data = bytes(changed)
    if handed.pick is None:
        return Batch(
            Run(data, handed.lengths), handed.lookups, handed.arrived, handed.aborts,
            handed.moves, notes=handed.notes, failures=handed.failures,
        )  # fmt: skip
    run, part, scanned = picked(handed, data)
    # A slice of all messages may have no beginning.
    first, end, _ = part.indices(len(handed.lookups))
    moves = [(at - first, n, last) for at, n, last in handed.moves if first <= at < end]
    notes = [(at - first, note) for at, note in handed.notes if first <= at < end]
    failures = [(at - first, times, why) for at, times, why in handed.failures if first <= at < end]
    return Batch(
        run, handed.lookups[part], handed.arrived[part], handed.aborts[part], moves, scanned, notes,
        failures,
    )  # fmt: skip
