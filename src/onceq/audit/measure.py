"""What an audit reports beside its verdicts: latencies, repetitions, stuck streams, traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from onceq.audit.arrays import NONE, Ints, Mask, coded, grouped
from onceq.audit.copies import STATES, Copies, routes, states

BUCKETS: Final = 60
"""Pieces of time in a picture of traffic."""
ROUTES_MAX: Final = 50
"""Routes in one table; those with most messages."""
SECOND_US: Final = 1_000_000
PARTS: Final = (("commit", "acceptance"), ("acceptance", "reception"))
"""Parts of the way whose latencies are told."""
NAMES: Final = {
    "received": "received by an application",
    "waiting": "waiting in its queue",
    "in flight": "on its way",
    "rejected": "refused by its reader",
    "expired": "expired in its queue",
    "purged": "purged from its queue by an operator",
    "queue deleted": "deleted with its queue",
    "refused": "refused by the receiver, told to the sender",
    "not delivered": "not delivered, told to the sender",
    "not received": "arrived, not received, told to the sender",
    "removed": "purged at the sender by an operator",
    "in doubt": "in doubt",
    "untold": "arrived; what came then is in a part of the history that is missing",
    "unverified": "acknowledged by a manager whose history is missing or too short",
    "unknown": "its beginning is not in these histories",
}
"""Every state of a copy, in the order of tables, and how it is called there."""
WAYS: Final = ("committed", "accepted", "received", "transmitted again", "came again")
"""What is counted by time."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Copies with what is told of each in words.

    Attributes:
        state: Number in ``copies.STATES``.
        route: Number in ``routes``.
    """

    copies: Copies
    state: Ints
    route: Ints
    routes: list[str]


def measured(copies: Copies) -> Measured:
    """Work out state and route of each copy."""
    route, texts = routes(copies)
    return Measured(copies, states(copies), route, texts)


def part_of(found: Measured, mask: Mask) -> Measured:
    """The same of some copies."""
    return Measured(found.copies.take(mask), found.state[mask], found.route[mask], found.routes)


def counted(found: Measured) -> dict[str, int]:
    """How many copies are in each state, by the name for people."""
    count = np.bincount(found.state, minlength=len(STATES)).tolist()
    by_name = dict(zip(STATES, count, strict=True))
    return {words: by_name[name] for name, words in NAMES.items() if by_name[name]}


Took = dict[tuple[str, str, str], tuple[Ints, Ints]]
"""Microseconds, rising, and how many messages took so long; by route, begin and end."""


def took(found: Measured) -> Took:
    """How long it took from commit to acceptance and from acceptance to reception, by route."""
    copies = found.copies
    commit, accept = copies.put.time, copies.taken.time
    receive = copies.got.time
    arrive = np.where(accept == NONE, commit, accept)
    made: Took = {}
    for (begin, end), first, last in zip(PARTS, (commit, arrive), (accept, receive), strict=True):
        rows = np.flatnonzero((first != NONE) & (last != NONE))
        order, groups = grouped(found.route[rows])
        parts = np.split((last - first)[rows[order]], groups.starts[1:]) if len(rows) else []
        for start, part in zip(groups.starts.tolist(), parts, strict=True):
            route = found.routes[int(found.route[rows[order[start]]])]
            made[route, begin, end] = _counts(part)
    return made


def _counts(values: Ints) -> tuple[Ints, Ints]:
    different, count = np.unique(values, return_counts=True)
    return different, count.astype(np.int64)


def both(one: Took, other: Took, sign: int = 1) -> Took:
    """The times of both; with a sign of -1 those of one without those of the other."""
    made: Took = {}
    for key in {**one, **other}:
        none = (np.zeros(0, np.int64),) * 2
        (values, counts), (more, times) = one.get(key, none), other.get(key, none)
        different, where = np.unique(np.concatenate((values, more)), return_inverse=True)
        count = np.zeros(len(different), np.int64)
        np.add.at(count, where.ravel(), np.concatenate((counts, sign * times)))
        if count.any():
            made[key] = different[count > 0], count[count > 0]
    return made


def latencies(times: Took) -> list[dict[str, Any]]:
    """Percentiles in seconds, by route; those with most messages of each part of the way."""
    made = []
    for part in PARTS:
        some = [_latency(key, *found) for key, found in times.items() if key[1:] == part]
        made += sorted(some, key=lambda row: (-row["messages"], row["route"]))[:ROUTES_MAX]
    return made


def _latency(key: tuple[str, str, str], took_us: Ints, counts: Ints) -> dict[str, Any]:
    route, begin, end = key
    upto = np.cumsum(counts)
    total = int(upto[-1])
    at = np.searchsorted(upto, np.ceil(np.array((0.5, 0.9, 0.99)) * total))
    p50, p90, p99 = took_us[at] / SECOND_US
    return {
        "route": route, "from": begin, "to": end, "messages": total,
        "p50_s": round(float(p50), 3), "p90_s": round(float(p90), 3),
        "p99_s": round(float(p99), 3), "max_s": round(float(took_us.max()) / SECOND_US, 3),
    }  # fmt: skip


def resends(found: Measured) -> list[dict[str, Any]]:
    """Routes on which anything was transmitted more than once, as far as that was observed."""
    copies = found.copies
    again = np.maximum(copies.transmitted - 1, 0)
    some = (copies.transmitted > 1) | (copies.repeated > 0)
    size = len(found.routes)
    each = [
        np.bincount(found.route[some], weights, size).astype(np.int64).tolist()
        for weights in (None, again[some], copies.repeated[some])
    ]
    rows = [
        {"route": route, "messages": count, "times": times, "came_again": came}
        for route, count, times, came in zip(found.routes, *each, strict=False) if count
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["times"], row["route"]))


def stuck(found: Measured, *, as_of_us: int, after_s: float) -> list[dict[str, Any]]:
    """Streams with messages that have waited long for an order acknowledgment.

    Args:
        as_of_us: The latest time that any history tells of: a manager that waits tells nothing.
    """
    copies = found.copies
    since = np.where(copies.put.there, copies.put.time, as_of_us)
    waits = (found.state == STATES.index("in flight")) & (copies.stream != NONE)
    rows = np.flatnonzero(waits & (as_of_us - since >= after_s * SECOND_US))
    order, groups = grouped(found.route[rows], copies.stream[rows])
    rows = rows[order]
    every = np.ones(len(rows), np.bool_)
    first, begun = groups.least(copies.number[rows], every), groups.least(since[rows], every)
    made = [
        {
            "route": found.routes[int(found.route[rows[start]])],
            "stream": int(copies.stream[rows[start]]), "messages": count, "first_number": number,
            "since_s": at // SECOND_US, "waits_s": (as_of_us - at) / SECOND_US,
        }
        for start, count, number, at in zip(
            groups.starts.tolist(), groups.counted(every).tolist(), first.tolist(),
            begun.tolist(), strict=True,
        )
    ]  # fmt: skip
    return sorted(made, key=lambda row: (-row["waits_s"], row["stream"]))


def traffic(found: Measured) -> list[dict[str, Any]]:
    """Messages of each route by time: ``route``, ``event``, ``second`` (begin), ``messages``.

    What happened to a message more than once counts at the time of the first or the last of them.
    """
    copies = found.copies
    ways = (
        (copies.put, copies.committed), (copies.taken, copies.accepted),
        (copies.got, copies.received), (copies.sent, np.maximum(copies.transmitted - 1, 0)),
        (copies.came, copies.repeated),
    )  # fmt: skip
    each = [np.flatnonzero(facts.there & (times > 0)) for facts, times in ways]
    if not any(len(rows) for rows in each):
        return []
    second = np.concatenate(
        [facts.time[rows] // SECOND_US for (facts, _), rows in zip(ways, each, strict=True)]
    )
    times = np.concatenate([count[rows] for (_, count), rows in zip(ways, each, strict=True)])
    kind = np.repeat(np.arange(len(ways)), [len(rows) for rows in each])
    route = found.route[np.concatenate(each)]
    begin, end = int(second.min()), int(second.max())
    step = max((end - begin) // BUCKETS, 1)
    bucket, (which, what, at) = coded(route, kind, (second - begin) // step)
    count = np.bincount(bucket, times, len(which)).astype(np.int64).tolist()
    return [
        {"route": found.routes[r], "event": WAYS[k], "second": begin + b * step, "messages": n}
        for r, k, b, n in zip(which.tolist(), what.tolist(), at.tolist(), count, strict=True)
    ]  # fmt: skip


def by_state(found: Measured, name: str) -> Ints:
    """Rows of the ledger in a state."""
    return np.flatnonzero(found.state == STATES.index(name))


def texts(names: Sequence[str], rows: Ints) -> list[str]:
    """Different texts by their numbers, in order."""
    return sorted({names[at] for at in np.unique(rows).tolist() if at >= 0})
