"""The tasks of an audit by Spark: bundles of rows to other bundles, or to what is wrong.

Each is a function of ``parts`` with what Spark hands it, and no more: which rows belong together is
said here, and what follows from them is said there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.audit import story, tables
from onceq.audit.arrays import NONE, Column, Mask
from onceq.audit.events import ABSENT
from onceq.audit.rules import MESSAGE, QUEUE
from onceq.spark.audit.bundles import bundles, joined, numbers, opened, spread
from onceq.spark.audit.parts import LEDGER, Part
from onceq.spark.audit.rows import EVENT, ROWS, File, read, shown
from onceq.spark.audit.survey import slots

Batches = Iterable[pa.RecordBatch]

_SPOKEN: Final = tuple(
    EVENT[name] for name in ("told", "accepted", "committed", "sent", "received")
)
"""Events that acknowledgment messages are held beside, and these."""
_EVENTS: Final = tables.schema(ROWS)
_COPIES: Final = tables.schema(LEDGER)
_TOGETHER: Final[Mapping[str, tuple[tuple[str, str], tuple[str, int]]]] = {
    QUEUE: (("taken_manager", "taken_place"), ("taken_manager", ABSENT)),
    MESSAGE: (("source", "message"), ("message", NONE)),
}
"""What copies have in common that a rule looks at together, and which of them have no such thing.
"""


def _lane(events: pa.Table) -> tuple[Column, ...]:
    # Copies without a stream are judged one by one, beside what is told of their message.
    stream = numbers(events, "stream")
    within = np.where(stream == NONE, numbers(events, "message"), stream)
    return numbers(events, "source"), within


def _message(rows: pa.Table) -> tuple[Column, ...]:
    return numbers(rows, "source"), numbers(rows, "message")


@dataclass(frozen=True, slots=True)
class Tasks:
    """What all tasks know.

    Attributes:
        count: How many parts there are.
        told: See ``Survey``.
    """

    part: Part
    files: Sequence[File]
    count: int
    told: Mask

    def _some(self, batches: Batches) -> Iterator[File]:
        return (self.files[at] for batch in batches for at in batch.column(0).to_pylist())

    def _read(self, batches: Batches) -> Iterator[pa.Table]:
        return read(self._some(batches), self.part.parties, self.part.queues)

    # ---- numbers of files --------------------------------------------------------------------

    def lanes(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """To their events, those of a lane together."""
        yield from spread(self._read(batches), self.count, _lane)

    def spoken(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """To events of messages that acknowledgments may speak of, those of a message together."""
        if self.told.any():
            spoken = map(self._spoken, self._read(batches))
            yield from spread(spoken, self.count, _message)

    def _spoken(self, events: pa.Table) -> pa.Table:
        of = pc.is_in(events["event"], pa.array(_SPOKEN, pa.int32())).to_numpy()
        message = numbers(events, "message")
        return events.filter(pa.array(of & (message != NONE) & self.told[slots(message)]))

    def stories(self, batches: Batches, keys: Sequence[story.Key]) -> Iterator[pa.RecordBatch]:
        """To the rows that stories of some copies are made of."""
        yield from self.part.stories(shown(self._some(batches)), keys)

    # ---- events ------------------------------------------------------------------------------

    def ledger(self, frame: pa.Table) -> pa.Table:
        """Those of whole lanes to their copies."""
        return pa.Table.from_batches([bundles(self.part.ledger(joined(frame, _EVENTS)))])

    def of_lanes(self, frame: pa.Table) -> pa.Table:
        """Those of whole lanes to verdicts."""
        return self.part.lanes(joined(frame, _EVENTS))

    # ---- copies ------------------------------------------------------------------------------

    def together(self, batches: Batches, what: str) -> Iterator[pa.RecordBatch]:
        """To those that are in one queue, or of one message, together."""
        columns, (column, missing) = _TOGETHER[what]
        there = (
            table.filter(pc.not_equal(table[column], pa.scalar(missing, pa.int64())))
            for table in opened(batches)
        )
        yield from spread(
            there, self.count, lambda table: tuple(numbers(table, name) for name in columns)
        )

    def of_queues(self, frame: pa.Table) -> pa.Table:
        """Those of whole queues to verdicts."""
        return self.part.within(joined(frame, _COPIES), QUEUE)

    def of_messages(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Events that are spoken of, and the copies of whole messages, to verdicts."""
        copies = joined(right, _COPIES)
        said = self.part.told(joined(left, _EVENTS), copies)
        return pa.concat_tables([self.part.within(copies, MESSAGE), said])

    def different(self, batches: Batches, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """To what they have in some columns; of the last there must be something."""
        for table in opened(batches):
            named = table.select(list(columns))
            named = named.filter(pc.not_equal(named[columns[-1]], pa.scalar(NONE, pa.int64())))
            yield from named.group_by(list(columns)).aggregate([]).to_batches()

    def who_received(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """See ``Part``; and so the next ones."""
        return self.part.who_received(opened(batches))

    def sums(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.part.sums(opened(batches))

    def messages(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.part.messages(opened(batches))
