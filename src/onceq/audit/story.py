"""The story of a message: everything that any manager tells of it, one line an event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit.arrays import NONE, Ints, Mask, mixed
from onceq.audit.events import ABSENT, Events, of_table, read_file
from onceq.audit.files import Coverage
from onceq.audit.judge import Verdicts
from onceq.audit.measure import Measured

STORIES_MAX: Final = 50
"""Messages whose stories are told; all violations are counted and written as Parquet."""
LINES_MAX: Final = 60
_SHOWN: Final = [
    "eventTime", "exactTime", "manager", "managerId", "event", "queue", "lookupId", "className",
    "observed", "position", "ordinal", "source", "message", "stream", "number",
]  # fmt: skip

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


Lines = Callable[[Ints], dict[int, dict[str, Any]]]
"""From numbers of rows to what stands there."""


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
    return _told(wrong, names, lambda keys: _rows(events, keys), lines)


def stories_by_files(
    histories: Sequence[Coverage], parties: Sequence[str], wrong: Sequence[Wrong]
) -> list[dict[str, Any]]:
    """The same where nobody holds all events: file after file is looked through.

    Args:
        parties: To which the sources of keys point.
    """

    def found(keys: Sequence[Key]) -> dict[Key, Ints]:
        rows: dict[Key, list[Ints]] = {key: [] for key in keys}
        begin = 0
        for path in (path for one in histories for path in one.files):
            events = of_table(read_file(path), parties)
            for key, there in _rows(events, keys).items():
                rows[key].append(there + begin)
            begin += len(events)
        return {key: np.concatenate(parts) for key, parts in rows.items()}

    by_id = {one.id: one.manager for one in histories}
    names = [by_id.get(party, party) for party in parties]
    return _told(wrong, names, found, lines_of_files(histories))


def _told(
    wrong: Sequence[Wrong], names: Sequence[str], find: Callable[[Sequence[Key]], dict[Key, Ints]],
    lines: Lines,
) -> list[dict[str, Any]]:  # fmt: skip
    """One story for each message, whatever is wrong with it."""
    faults: dict[tuple[int, ...], list[Wrong]] = {}
    for one in wrong:
        if one.key[:3] in faults or len(faults) < STORIES_MAX:
            faults.setdefault(one.key[:3], []).append(one)
    keys = [said[0].key for said in faults.values()]
    rows = find(keys) if keys else {}
    shown = lines(np.concatenate([*rows.values(), np.zeros(0, np.int64)]))
    return [
        {
            "title": title(names, said[0].key, next((o.route for o in said if o.route), "")),
            "faults": [{"invariant": o.invariant, "fault": o.fault, "said": o.said} for o in said],
            "rows": [
                line(shown[row])
                for row in _in_time(rows[said[0].key].tolist(), shown)[:LINES_MAX]
            ],
        }
        for said in faults.values()
    ]  # fmt: skip


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
    return " ".join(parts)


def _rows(events: Events, keys: Sequence[Key]) -> dict[Key, Ints]:
    """Rows of the events of each copy, and of those that name its message and no number."""
    found: dict[Key, Ints] = {}
    if not keys:
        return found
    sources, streams, numbers, messages = (np.array(part) for part in zip(*keys, strict=True))
    near = _near(events.source, events.stream, events.number, sources, streams, numbers)
    near |= _near(events.source, events.message, None, sources, messages, None)
    rows = np.flatnonzero(near)
    there = events.take(rows)
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
    source: Ints, one: Ints, other: Ints | None, sources: Ints, ones: Ints, others: Ints | None
) -> Mask:
    """Rows that may be wanted: all that are, and hardly any more."""
    if other is None or others is None:
        return np.isin(mixed(source, one), mixed(sources, ones))
    return np.isin(mixed(source, one, other), mixed(sources, ones, others))


def lines_of_files(histories: Sequence[Coverage]) -> Lines:
    """What stands in the files, whose rows are counted over all of them."""

    def shown(rows: Ints) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        wanted, begin = np.unique(rows), 0
        for path in (path for one in histories for path in one.files):
            end = begin + pq.read_metadata(path).num_rows
            here = wanted[(wanted >= begin) & (wanted < end)]
            if len(here):
                table = pq.read_table(path, columns=_SHOWN).take(pa.array(here - begin))
                found.update(zip(here.tolist(), table.to_pylist(), strict=True))
            begin = end
        return found

    return shown


def lines_of(table: pa.Table) -> Lines:
    """What stands in a table."""

    def shown(rows: Ints) -> dict[int, dict[str, Any]]:
        wanted = np.unique(rows)
        there = table.select(_SHOWN).take(pa.array(wanted)).to_pylist()
        return dict(zip(wanted.tolist(), there, strict=True))

    return shown


def _in_time(rows: Sequence[int], shown: dict[int, dict[str, Any]]) -> list[int]:
    names = ("eventTime", "managerId", "position", "ordinal")
    return sorted(rows, key=lambda row: tuple(shown[row][name] for name in names))
