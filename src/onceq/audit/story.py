"""The story of a message: everything that any manager tells of it, one line an event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onceq.audit.acts import Acts
from onceq.audit.arrays import NONE, Column, Ints, Mask, mixed
from onceq.audit.events import ABSENT, Events
from onceq.audit.files import Coverage
from onceq.audit.judge import Verdicts
from onceq.audit.measure import Measured

STORIES_MAX: Final = 50
"""Messages whose stories are told; all violations are counted and written as Parquet."""
LINES_MAX: Final = 60
SHOWN: Final = [
    "eventTime", "exactTime", "manager", "managerId", "event", "queue", "lookupId", "className",
    "observed", "position", "ordinal", "source", "message", "stream", "number",
]  # fmt: skip
"""Columns that tell what an event is, and which message it is about."""

Key = tuple[int, int, int, int]
"""Source, stream, number and message of a copy."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One violation.

    Attributes:
        key: The copy that it is about.
        invariant, fault, said: What is wrong with it.
        route: "" where it is not known.
    """

    key: Key
    invariant: str
    fault: str
    route: str
    said: str


@dataclass(frozen=True, slots=True)
class About:
    """Which message each row is about, shape (rows,); names are those of ``Events``."""

    source: Column
    stream: Ints
    number: Ints
    message: Ints

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Ints) -> About:
        """These rows."""
        return About(self.source[rows], self.stream[rows], self.number[rows], self.message[rows])


Lines = Callable[[Ints], dict[int, dict[str, Any]]]
"""From numbers of rows to what stands there, and ``WHY``: the act of administration that did it."""
WHY: Final = "why"


def stories(
    events: Events, found: Measured, verdicts: Sequence[Verdicts], lines: Lines
) -> list[dict[str, Any]]:
    """The first messages that contradict an invariant, with what is wrong and their events.

    Args:
        lines: What stands in the rows of ``events``.
    """
    wrong = []
    for one in verdicts:
        for at in range(min(len(one), STORIES_MAX)):
            copy = int(one.copy[at])
            route = found.routes[int(found.route[copy])] if copy != ABSENT else ""
            key = (int(one.source[at]), int(one.stream[at]), int(one.number[at]))
            wrong.append(Wrong((*key, int(one.message[at])), one.invariant, one.fault, route,
                               one.told(at)))  # fmt: skip
    names = [own or party for own, party in
             zip(found.copies.known.names, found.copies.parties, strict=False)]  # fmt: skip
    about = About(events.source, events.stream, events.number, events.message)
    return _told(wrong, names, about, lines, parties=found.copies.parties)


def stories_of(
    histories: Sequence[Coverage], parties: Sequence[str], wrong: Sequence[Wrong], table: pa.Table
) -> list[dict[str, Any]]:
    """The same where nobody holds all events.

    Args:
        parties: To which the sources of keys point.
        table: What ``told_of`` has taken out of all rows, in any order.
    """
    by_id = {one.id: one.manager for one in histories}
    names = [by_id.get(party, party) for party in parties]
    return _told(
        wrong, names, _about(table, parties), lines_of(table, Acts(histories)), parties=parties
    )


def told_of(table: pa.Table, parties: Sequence[str], keys: Sequence[Key]) -> pa.Table:
    """The rows of a table that stories of these copies are made of: columns are ``SHOWN``."""
    table = table.select(SHOWN)
    rows = _rows(_about(table, parties), keys).values()
    return table.take(pa.array(np.unique(np.concatenate([*rows, np.zeros(0, np.int64)]))))


def _about(table: pa.Table, parties: Sequence[str]) -> About:
    source = pc.index_in(table["source"], pa.array(list(parties), pa.string()))
    numbers = (
        table[name].cast(pa.int64()).fill_null(NONE).to_numpy()
        for name in ("stream", "number", "message")
    )
    return About(source.fill_null(ABSENT).to_numpy(), *numbers)


def keys_of(wrong: Sequence[Wrong]) -> list[Key]:
    """The copies whose stories are told."""
    return [said[0].key for said in _by_message(wrong)]


def _by_message(wrong: Sequence[Wrong]) -> list[list[Wrong]]:
    """What is wrong with the first messages, whatever it is."""
    faults: dict[tuple[int, ...], list[Wrong]] = {}
    for one in wrong:
        if one.key[:3] in faults or len(faults) < STORIES_MAX:
            faults.setdefault(one.key[:3], []).append(one)
    return list(faults.values())


def _told(
    wrong: Sequence[Wrong], names: Sequence[str], about: About, lines: Lines,
    *, parties: Sequence[str],
) -> list[dict[str, Any]]:  # fmt: skip
    """One story for each message."""
    rows = _rows(about, keys_of(wrong))
    shown = lines(np.concatenate([*rows.values(), np.zeros(0, np.int64)]))
    return [
        {
            "title": title(names, said[0].key, next((o.route for o in said if o.route), "")),
            "key": _plain(parties, said[0].key),
            "faults": [{"invariant": o.invariant, "fault": o.fault, "said": o.said} for o in said],
            "rows": [
                line(shown[row])
                for row in _in_time(rows[said[0].key].tolist(), shown)[:LINES_MAX]
            ],
        }
        for said in _by_message(wrong)
    ]  # fmt: skip


def _plain(parties: Sequence[str], key: Key) -> dict[str, Any]:
    """What the message is called in histories and tables."""
    numbers = {
        name: None if value == NONE else value
        for name, value in zip(("stream", "number", "message"), key[1:], strict=True)
    }
    return {"source": parties[key[0]], **numbers}


def title(names: Sequence[str], key: Key, route: str) -> str:
    """Which message, for people."""
    source, stream, number, message = key
    place = f", number {number} of stream {stream}" if stream != NONE else ""
    which = "" if message == NONE else f"message {message} "
    return f"{which}of {names[source]}{place} ({route or 'route unknown'})"


def line(row: dict[str, Any]) -> str:
    """One event."""
    when = row["eventTime"].strftime("%Y-%m-%d %H:%M:%S.%f" if row["exactTime"] else
                                     "%Y-%m-%d %H:%M:%S")  # fmt: skip
    parts = [f"{when:26}", f"{row['manager']:10}", f"{row['event']:14}"]
    if row["queue"]:
        parts.append(row["queue"])
    if row["lookupId"] is not None:
        parts.append(f"lookup {row['lookupId'] % (1 << 64)}")
    if row["className"]:
        parts.append(row["className"])
    parts.append("(observed)" if row["observed"] else f"@{row['position']}")
    if row[WHY]:
        parts.append(f"({row[WHY]})")
    return " ".join(parts)


def _rows(about: About, keys: Sequence[Key]) -> dict[Key, Ints]:
    """Rows of the events of each copy, and of those that name its message and no number."""
    found: dict[Key, Ints] = {}
    if not keys:
        return found
    sources, streams, numbers, messages = (np.array(part) for part in zip(*keys, strict=True))
    near = _near(about.source, about.stream, about.number, sources, streams, numbers)
    near |= _near(about.source, about.message, None, sources, messages, None)
    rows = np.flatnonzero(near)
    there = about.take(rows)
    for key in keys:
        source, stream, number, message = key
        same = (there.source == source) & (there.stream == stream) & (there.number == number)
        if stream == NONE:
            same = np.zeros(len(there), np.bool_)
        if message != NONE:
            same |= (there.source == source) & (there.message == message) & (there.stream == NONE)
        found[key] = rows[same]
    return found


def _near(
    source: Column, one: Ints, other: Ints | None, sources: Ints, ones: Ints, others: Ints | None
) -> Mask:
    """Rows that may be wanted: all that are, and hardly any more."""
    if other is None or others is None:
        return np.isin(mixed(source, one), mixed(sources, ones))
    return np.isin(mixed(source, one, other), mixed(sources, ones, others))


def lines_of_files(histories: Sequence[Coverage], acts: Acts) -> Lines:
    """What stands in the files, whose rows are counted over all of them."""

    def shown(rows: Ints) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        wanted, begin = np.unique(rows), 0
        for path in (path for one in histories for path in one.files):
            end = begin + pq.read_metadata(path).num_rows
            here = wanted[(wanted >= begin) & (wanted < end)]
            if len(here):
                table = pq.read_table(path, columns=SHOWN).take(pa.array(here - begin))
                found.update(zip(here.tolist(), _with_acts(table, acts), strict=True))
            begin = end
        return found

    return shown


def _with_acts(table: pa.Table, acts: Acts) -> list[dict[str, Any]]:
    return [{**row, WHY: acts.why(row)} for row in table.to_pylist()]


def lines_of(table: pa.Table, acts: Acts) -> Lines:
    """What stands in a table."""

    def shown(rows: Ints) -> dict[int, dict[str, Any]]:
        wanted = np.unique(rows)
        there = _with_acts(table.select(SHOWN).take(pa.array(wanted)), acts)
        return dict(zip(wanted.tolist(), there, strict=True))

    return shown


def _in_time(rows: Sequence[int], shown: dict[int, dict[str, Any]]) -> list[int]:
    names = ("eventTime", "managerId", "position", "ordinal")
    return sorted(rows, key=lambda row: tuple(shown[row][name] for name in names))
