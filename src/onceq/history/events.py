"""Rows of a history being collected: scalars for a range of messages, columns for what differs.

A range of a thousand messages is one call here; it becomes a thousand rows only when a file is
written, by numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.core.state.queues import lookup_id
from onceq.history.columns import ACT_COLUMNS, COLUMNS, ActRow, Start
from onceq.history.heads import UNSUMMED, Array, CutPackets, Heads, nothing, together
from onceq.model.identity import guid_text
from onceq.model.marks import SECOND_US
from onceq.model.resultcodes import class_name

_ARROW: Final = {
    "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
SCHEMA: Final = pa.schema([pa.field(name, _ARROW[kind]) for name, (kind, _) in COLUMNS.items()])


SUMMED: Final = frozenset(("committed", "accepted", "received"))
"""Events whose rows have the sum of the body."""


@dataclass(slots=True)
class LaneRange:
    """A range in one lane of a queue: number, lane and first counter; the queue's kind and its
    name."""

    number: int
    lane: int
    first: int
    kind: str = ""
    name: str = ""

    @property
    def lookup(self) -> int:
        """Return the lookup identifier of the first, as a signed number of 64 bits."""
        value = lookup_id(self.lane, self.first)
        return value - (1 << 64) if value >> 63 else value


@dataclass(slots=True)
class Event:
    """The same event of ``count`` consecutive messages.

    Attributes:
        heads: Of the packets; None where only stream and number are known.
        stream, number: Where there are no heads; of the first message.
        count: Rows; a ``passed-over`` is one row, up to number ``last``.
        source: GUID, where there are no heads.
        message: Message numbers, where they are known without heads.
    """

    what: str
    position: int
    ordinal: int
    time_us: int
    exact: bool
    count: int
    at: LaneRange | None = None
    origin: LaneRange | None = None
    heads: Heads | CutPackets | None = None
    source: bytes = b""
    message: Array | None = None
    stream: int = 0
    number: int = 0
    last: int = 0
    kind: Array | int | None = None
    """Message class, where the event has one."""
    wants: tuple[bool, bool] | None = None
    """Dead letter and journal copy, as the sender asked."""
    observed: bool = False
    transactional: bool = True
    """Whether the messages are transactional, where there are no heads."""
    reader: str | None = None
    """The reader, as far as the record names it."""
    act: ActRow | None = None
    """The act of administration that this is, and no message."""


@dataclass(slots=True)
class FileEvents:
    """Events that are to go into one file, and the starts of the manager between them."""

    manager: str
    guid: bytes
    events: list[Event] = field(default_factory=list)
    count: int = 0
    starts: list[Start] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Add an event."""
        if event.count:
            self.events.append(event)
            self.count += event.count

    def table(self) -> pa.Table:
        """Return everything as rows, in order."""
        made = _columns(self.events)
        columns = {
            "manager": _same(self.manager, self.count),
            "managerId": _same(guid_text(self.guid), self.count),
            **made,
        }
        arrays = []
        for wanted in SCHEMA:
            column = columns[wanted.name]
            arrays.append(column if column.type == wanted.type else column.cast(wanted.type))
        return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _same(value: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, "i4")), pa.array([value]))


def _columns(events: list[Event]) -> dict[str, pa.Array]:
    counts = np.array([e.count for e in events], "i8")
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])) if events else counts
    step = np.arange(int(counts.sum())) - np.repeat(starts, counts)

    def each(values: list[Any], kind: str) -> Array:
        return np.repeat(np.array(values, kind), counts)

    def rising(values: list[int]) -> Array:
        return each(values, "i8") + step

    headed = each([e.heads is not None for e in events], "?")
    heads = together([_without(e) if e.heads is None else e.heads for e in events])
    stream = heads.stream.astype("i8")
    ordered = stream != 0
    kinds = [
        np.full(e.count, -1, "i8") if e.kind is None else np.broadcast_to(e.kind, e.count)
        for e in events
    ]
    # The class of each row; -1 where there is none.
    classes = np.concatenate(kinds).astype("i8") if kinds else counts
    known = each([e.heads is not None or e.message is not None for e in events], "?")
    here = each([e.at is not None and e.at.number != 0 for e in events], "?")
    moved = each([e.origin is not None for e in events], "?")
    last = each([e.last for e in events], "i8")
    wants = [e.wants for e in events]
    summed = each([e.what in SUMMED for e in events], "?") & (heads.crc != UNSUMMED)
    asked = each([w is not None for w in wants], "?")
    at = [e.at or _NOWHERE for e in events]
    origin = [e.origin or _NOWHERE for e in events]
    return {
        "event": _words([e.what for e in events], counts),
        "eventTime": pa.array(each([e.time_us for e in events], "i8")),
        "exactTime": pa.array(each([e.exact for e in events], "?")),
        "observed": pa.array(each([e.observed for e in events], "?")),
        "position": pa.array(each([e.position for e in events], "i8")),
        "ordinal": pa.array(rising([e.ordinal for e in events])),
        "source": _texts(
            np.ascontiguousarray(heads.source).view("V16")[:, 0],
            lambda one: guid_text(bytes(one)),
            each([e.act is not None for e in events], "?"),
        ),
        "message": pa.array(heads.message.astype("i8"), mask=~known),
        "kind": _words([(e.at.kind if e.at else None) or None for e in events], counts),
        "queue": _words([e.at.name if e.at else None for e in events], counts),
        "place": pa.array(each([p.number for p in at], "i8"), mask=~here),
        "lookupId": pa.array(rising([p.lookup for p in at]), mask=~here),
        "fromPlace": pa.array(each([p.number for p in origin], "i8"), mask=~moved),
        "fromLookupId": pa.array(rising([p.lookup for p in origin]), mask=~moved),
        "stream": pa.array(stream, mask=~ordered),
        "number": pa.array(heads.number.astype("i8"), mask=~ordered),
        "lastNumber": pa.array(last, mask=last == 0),
        "transaction": pa.array(heads.transaction.astype("i8"), mask=~(headed & heads.ordered)),
        "transactional": pa.array(heads.ordered),
        "class": pa.array(classes.astype("i4"), mask=classes < 0),
        "className": _texts(
            classes, lambda one: class_name(int(one)) if one >= 0 else "", classes < 0
        ),
        "deadLetter": pa.array(each([bool(w and w[0]) for w in wants], "?"), mask=~asked),
        "journal": pa.array(each([bool(w and w[1]) for w in wants], "?"), mask=~asked),
        "bytes": pa.array(heads.sizes.astype("i4"), mask=~headed),
        "sentTime": pa.array(heads.sent.astype("i8") * SECOND_US, mask=~headed),
        "bodyCrc": pa.array(heads.crc.astype("i8"), mask=~summed),
        "reader": _words([e.reader for e in events], counts),
        **_acts(events, counts),
    }


def _acts(events: list[Event], counts: Array) -> dict[str, pa.Array]:
    """Return the columns of acts; mostly there are none."""
    acts = [e.act for e in events]
    if not any(acts):
        rows = int(counts.sum())
        return {name: pa.nulls(rows, SCHEMA.field(name).type) for name in ACT_COLUMNS}
    made = {name: [getattr(act, name) if act else None for act in acts] for name in ACT_COLUMNS}
    return {
        name: _words(values, counts) if SCHEMA.field(name).type == pa.string()
        else pa.array(np.repeat(np.array([value or 0 for value in values], "i8"), counts),
                      mask=np.repeat([act is None for act in acts], counts))
        for name, values in made.items()
    }  # fmt: skip


_NOWHERE: Final = LaneRange(0, 0, 0)


def _without(event: Event) -> Heads:
    """Return what is known of messages whose packets are not at hand."""
    heads = nothing(event.count)
    heads.source[:] = np.frombuffer(event.source, "u1")
    heads.ordered[:] = event.transactional
    if event.message is not None:
        heads.message[:] = event.message
    if event.stream:
        heads.stream[:] = event.stream
        heads.number[:] = event.number + np.arange(event.count)
    return heads


def _words(values: list[str | None], counts: Array) -> pa.Array:
    """Return few different texts, repeated."""
    known: dict[str, int] = {}
    places = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
    index: Array = np.repeat(np.array(places, "i4"), counts)
    return pa.DictionaryArray.from_arrays(
        pa.array(index, mask=index < 0), pa.array(list(known) or [""])
    )


def _texts(keys: Array, text_of: Callable[[Any], str], nulls: Array) -> pa.Array:
    """Return the text of each key, made once for all that are equal."""
    values, index = np.unique(keys, return_inverse=True)
    texts = [text_of(value) for value in values]
    return pa.DictionaryArray.from_arrays(
        pa.array(index.astype("i4").ravel(), mask=nulls), pa.array(texts or [""])
    )
