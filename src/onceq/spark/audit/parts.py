"""An audit in parts: what each of Spark's tasks does with the rows that belong together.

The rules are those of ``onceq.audit``, as functions of arrays. What a rule looks at together stands
in one part: the events of one lane, the copies accepted in one queue, the copies of one message.
Where the receiver of a copy is known from other lanes of its outgoing queue only, it is not known
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from onceq.audit import tables
from onceq.audit.copies import Copies, Known, known, ledger
from onceq.audit.events import Events, of_table
from onceq.audit.files import Coverage
from onceq.audit.flat import COLUMNS, copies_of, flat
from onceq.audit.judge import Verdicts, by_rules, of_events
from onceq.audit.letters import letters, told
from onceq.audit.measure import measured
from onceq.audit.rules import LANE

WORDS: Final = {
    "messageSource": "source", "messageStream": "stream", "messageNumber": "number",
    "messageId": "message", "sender": "sender", "destination": "destination",
    "commitTime": "commitTime", "transactionNumber": "transaction", "receiver": "receiver",
    "queue": "queue", "acceptTime": "acceptTime", "receiveTime": "receiveTime",
    "againTime": "againTime", "cameTime": "cameTime", "state": "state", "route": "route",
}  # fmt: skip
"""What the ledger says in words beside its numbers, and what ``audit.tables`` calls it."""
AGAIN: Final = ("againTime", "cameTime")
"""When it was last transmitted, and last came again; ``audit.tables`` does not have them."""
_NUMBERS: Final = ("messageStream", "messageNumber", "messageId", "transactionNumber")
MESSAGES: Final = ", ".join(
    f"{name} {'bigint' if name in _NUMBERS else 'timestamp' if 'Time' in name else 'string'}"
    for name in WORDS
)
LEDGER: Final = ", ".join((*(f"{name} bigint" for name in COLUMNS), MESSAGES))
VERDICTS: Final = (
    "invariant string, fault string, source string, stream bigint, number bigint, message bigint, "
    "route string, said string, looksAt string, lookedAt bigint"
)
"""Violations; and for each rule of each part a row with ``lookedAt`` and without ``said``."""


@dataclass(frozen=True, slots=True)
class Part:
    """What all parts know.

    Attributes:
        parties, queues: What numbers of texts point to.
        settled: See ``judge``.
    """

    histories: Sequence[Coverage]
    parties: Sequence[str]
    queues: Sequence[str]
    settled: bool

    @property
    def known(self) -> Known:
        """What histories say of parties."""
        return known(self.parties, self.histories)

    def events(self, table: pa.Table) -> Events:
        """The events of a part."""
        return of_table(table, self.parties, self.queues)

    def copies(self, table: pa.Table) -> Copies:
        """The copies of a part of the ledger."""
        return copies_of(table, self.parties, self.queues, self.known)

    def ledger(self, table: pa.Table) -> pa.Table:
        """Events of whole lanes to their copies, in numbers and in words."""
        copies = ledger(self.events(table), self.histories)
        found = measured(copies)
        words = tables.messages(found)
        again = dict(zip(AGAIN, (copies.sent.time, copies.came.time), strict=True))
        whole = flat(copies)
        for name, kind in _arrow(MESSAGES).items():
            column = tables.time(again[name]) if name in again else words[WORDS[name]].cast(kind)
            whole = whole.append_column(name, column)
        return whole

    def lanes(self, table: pa.Table) -> pa.Table:
        """What is wrong with the copies of whole lanes, and with their letters."""
        events = self.events(table)
        copies = ledger(events, self.histories)
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


def _verdicts(copies: Copies, found: Sequence[Verdicts]) -> pa.Table:
    kinds = _arrow(VERDICTS)
    wrong = tables.violated(measured(copies), found)
    rows = {name: wrong[name].cast(kinds[name]) for name in wrong.column_names}
    rows |= {name: pa.nulls(len(wrong), kinds[name]) for name in kinds if name not in rows}
    counts = [
        {"invariant": one.invariant, "fault": one.fault, "looksAt": one.looks_at,
         "lookedAt": one.looked_at}
        for one in found
    ]  # fmt: skip
    schema = pa.schema(list(kinds.items()))
    return pa.concat_tables(
        [pa.table(rows).select(schema.names), pa.Table.from_pylist(counts, schema)]
    )


def _arrow(columns: str) -> dict[str, pa.DataType]:
    kinds = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}
    return {name: kinds[kind] for name, kind in (one.split() for one in columns.split(", "))}
