"""Messages that are handed out, with their bytes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onceq.core.decision import Handed, Piece
from onceq.model.run import Buffer, Run, starts_of
from onceq.packet.decode import set_class
from onceq.service.picking import picked, wants_bytes


@dataclass(slots=True)
class Delivered:
    """Messages received or peeked, with their bytes.

    Attributes:
        run: Their packets.
        lookups, arrived, aborts: One number for each.
        moves: (index, count, second of the last) of those that were moved between subqueues.
        notes: (index, note) of dead letters of which more is known than the class.
        scanned: Of a search: the lookup identifier up to which it has come; else 0.
    """

    run: Run
    lookups: array[int]
    arrived: array[int]
    aborts: array[int]
    moves: tuple[tuple[int, int, int], ...] = ()
    scanned: int = 0
    notes: tuple[tuple[int, int], ...] = ()


def delivered(handed: Handed, fetch: Callable[[Sequence[Piece]], Buffer]) -> Delivered:
    """Fetch the bytes of messages, if any of them are wanted."""
    wanted = handed.pick is None or wants_bytes(handed.pick)
    data = fetch(handed.pieces) if wanted else b""
    if handed.classes and wanted:
        changed = bytearray(data)
        starts = list(starts_of(handed.lengths))
        for index, value in handed.classes:
            set_class(changed, starts[index], handed.lengths[index], value)
        data = bytes(changed)
    if handed.pick is None:
        return Delivered(
            Run(data, handed.lengths), handed.lookups, handed.arrived, handed.aborts,
            handed.moves, notes=handed.notes,
        )  # fmt: skip
    run, part, scanned = picked(handed, data)
    moves = tuple(
        (index - part.start, count, last)
        for index, count, last in handed.moves
        if part.start is not None and part.start <= index < part.stop
    )
    notes = tuple(
        (index - part.start, note)
        for index, note in handed.notes
        if part.start is not None and part.start <= index < part.stop
    )
    return Delivered(
        run, handed.lookups[part], handed.arrived[part], handed.aborts[part], moves, scanned, notes
    )
