"""An audit in parts: what each of Spark's tasks does with the rows that belong together.

The rules are those of ``onceq.audit``, as functions of arrays, and so is what copies add up to.
What a rule looks at together stands in one part: the events of one lane, the copies accepted in one
queue, the copies of one message. What Spark gives to a task and takes from it is in ``tasks.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.audit import measure, story, tables
from onceq.audit.arrays import NONE, Ints, coded
from onceq.audit.copies import Copies, Known, known, ledger
from onceq.audit.events import ABSENT, READ, Events, of_table
from onceq.audit.files import Coverage
from onceq.audit.flat import COLUMNS, copies_of, flat
from onceq.audit.judge import Verdicts, by_rules, judge, of_events
from onceq.audit.letters import letters, told
from onceq.audit.rules import LANE
from onceq.audit.sums import merged
from onceq.history.events import SCHEMA
from onceq.spark.audit.rows import decoded

Tables = Iterable[pa.Table]

LEDGER: Final = dict.fromkeys(COLUMNS, "bigint")
VERDICTS: Final = {**tables.VIOLATIONS, "looksAt": "string", "lookedAt": "bigint"}
"""Violations; and for each rule of each part a row with ``lookedAt`` and without ``said``."""
RECEIVERS: Final = {"sender": "bigint", "outgoing": "bigint", "receiver": "bigint"}
SUMS: Final = {"sums": "string"}
"""``Sums``, as JSON."""


def sql(columns: Mapping[str, str]) -> str:
    """Columns as Spark has them."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


@dataclass(frozen=True, slots=True)
class Part:
    """What all parts know.

    Attributes:
        parties, queues: What numbers of texts point to.
        settled: See ``judge``.
        late_us: See ``measure.late_us``.
        receivers: By sender and outgoing queue, who has told of anything from there; of all parts.
    """

    histories: Sequence[Coverage]
    parties: Sequence[str]
    queues: Sequence[str]
    settled: bool
    late_us: int
    receivers: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def known(self) -> Known:
        """What histories say of parties."""
        return known(self.parties, self.histories)

    def events(self, table: pa.Table) -> Events:
        """The events of a part."""
        rows = decoded(table, self.parties, self.queues)
        return of_table(rows, self.parties, self.queues)

    def copies(self, table: pa.Table) -> Copies:
        """The copies of a part of the ledger."""
        return self._received(copies_of(table, self.parties, self.queues, self.known))

    def _received(self, copies: Copies) -> Copies:
        """Copies with the receivers that other lanes of their outgoing queues tell of."""
        rows = np.flatnonzero((own(copies) == ABSENT) & (copies.outgoing != NONE))
        code, each = coded(copies.put.manager[rows], copies.outgoing[rows])
        keys = zip(*(column.tolist() for column in each), strict=True)
        there = np.array([self.receivers.get(key, ABSENT) for key in keys], np.int64)[code]
        copies.to[rows] = np.where(there == ABSENT, copies.to[rows], there)
        return copies

    def rules(self) -> list[tuple[str, str, str]]:
        """Invariant, fault and what is looked at, of each rule, in their order."""
        events = of_table(SCHEMA.empty_table().select(list(READ)), self.parties, self.queues)
        found = judge(events, ledger(events, self.histories), settled=self.settled)
        return [(one.invariant, one.fault, one.looks_at) for one in found]

    # ---- rows of histories to rows of the ledger, and to verdicts ----------------------------

    def ledger(self, table: pa.Table) -> pa.Table:
        """Events of whole lanes to their copies."""
        return flat(ledger(self.events(table), self.histories))

    def lanes(self, table: pa.Table) -> pa.Table:
        """What is wrong with the copies of whole lanes, and with their letters."""
        events = self.events(table)
        copies = self._received(ledger(events, self.histories))
        found = by_rules(copies, (LANE,), settled=self.settled)
        found += [of_events(one, events, copies) for one in letters(events, self.known)]
        return _verdicts(copies, found)

    def within(self, table: pa.Table, what: str) -> pa.Table:
        """What is wrong with the copies of whole queues, or of whole messages."""
        copies = self.copies(table)
        return _verdicts(copies, by_rules(copies, (what,), settled=self.settled))

    def told(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """What acknowledgments say of messages, beside the copies of those messages."""
        events, copies = self.events(left), self.copies(right)
        return _verdicts(copies, [of_events(one, events, copies) for one in told(events, copies)])

    def wrong(self, row: Mapping[str, Any]) -> story.Wrong:
        """A violation out of a row of ``VERDICTS``."""
        stream, number, message = (
            NONE if row[name] is None else int(row[name])
            for name in ("stream", "number", "message")
        )
        key = (self.parties.index(row["source"]), stream, number, message)
        return story.Wrong(key, row["invariant"], row["fault"], row["route"] or "", row["said"])

    # ---- of any rows, as they come -----------------------------------------------------------

    def who_received(self, ledgers: Tables) -> Iterator[pa.RecordBatch]:
        """Rows of the ledger to who has told of anything from an outgoing queue."""
        for table in ledgers:
            copies = copies_of(table, self.parties, self.queues, self.known)
            rows = np.flatnonzero((own(copies) != ABSENT) & (copies.outgoing != NONE))
            _, each = coded(copies.put.manager[rows], copies.outgoing[rows], own(copies)[rows])
            yield from _batches(dict(zip(RECEIVERS, each, strict=True)), RECEIVERS)

    def sums(self, ledgers: Tables) -> Iterator[pa.RecordBatch]:
        """Rows of the ledger to what they add up to."""
        each = (
            measure.sums(measure.measured(self.copies(table)), late_us=self.late_us)
            for table in ledgers
        )
        yield from _batches({"sums": [json.dumps(merged(each).plain())]}, SUMS)

    def messages(self, ledgers: Tables) -> Iterator[pa.RecordBatch]:
        """Rows of the ledger to rows of the table of messages."""
        for table in ledgers:
            made = tables.messages(measure.measured(self.copies(table)))
            yield from made.cast(tables.schema(tables.MESSAGES)).to_batches()

    def stories(self, histories: Tables, keys: Sequence[story.Key]) -> Iterator[pa.RecordBatch]:
        """Rows of histories to those that stories of some copies are made of."""
        for table in histories:
            yield from story.told_of(table, self.parties, keys).to_batches()


def received(rows: Iterable[Sequence[int]]) -> dict[tuple[int, int], int]:
    """``Part.receivers``, of what parts say; where one queue leads to several, the first of them,
    as ``copies.ledger`` has it."""
    found: dict[tuple[int, int], int] = {}
    for sender, outgoing, receiver in rows:
        key = (sender, outgoing)
        found[key] = min(receiver, found.get(key, receiver))
    return found


def own(copies: Copies) -> Ints:
    """Who tells that it has received each copy; ABSENT where nobody does."""
    return np.where(copies.taken.there, copies.taken.manager, copies.refuser)


def _batches(rows: Mapping[str, Any], columns: Mapping[str, str]) -> list[pa.RecordBatch]:
    made: list[pa.RecordBatch] = pa.table(dict(rows), schema=tables.schema(columns)).to_batches()
    return made


def _verdicts(copies: Copies, found: Sequence[Verdicts]) -> pa.Table:
    schema = tables.schema(VERDICTS)
    wrong = tables.violated(measure.measured(copies), found)
    looks_at = [one.looks_at for one in found for _ in range(len(one))]
    wrong = wrong.append_column("looksAt", pa.array(looks_at, pa.string()))
    wrong = wrong.append_column("lookedAt", pa.nulls(len(wrong), pa.int64()))
    counts = [
        {"invariant": one.invariant, "fault": one.fault, "looksAt": one.looks_at,
         "lookedAt": one.looked_at}
        for one in found
    ]  # fmt: skip
    return pa.concat_tables([wrong.cast(schema), pa.Table.from_pylist(counts, schema)])
