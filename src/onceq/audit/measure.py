"""What an audit reports beside its verdicts: ends, latencies, repetitions, stuck streams, traffic.

All of it is worked out of ``Sums``, which copies add up to here, in whatever parts they come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from onceq.audit.arrays import NONE, Ints, Mask, coded, grouped
from onceq.audit.copies import STATES, Copies, routes, states
from onceq.audit.files import Coverage
from onceq.audit.sums import Again, Late, Sums, Times, Traffic, Way, rounded, step_of

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


def late_us(histories: Sequence[Coverage], after_s: float) -> int:
    """What was committed up to that time waits too long for its acknowledgment.

    Args:
        after_s: Seconds up to the latest time that any history tells of: a manager that waits tells
            nothing.
    """
    return math.floor(as_of_us(histories) - after_s * SECOND_US)


def as_of_us(histories: Sequence[Coverage]) -> int:
    """The latest time that any history tells of."""
    return max(one.up_to_us for one in histories)


# ---- adding up -----------------------------------------------------------------------------------


def sums(found: Measured, *, late_us: int) -> Sums:
    """What copies add up to.

    Args:
        late_us: See the function of that name.
    """
    copies = found.copies
    told = copies.known.told
    blind = by_state(found, "unverified")
    blind = blind[~told[copies.to[blind]]]
    return Sums(
        states=_states(found), took=_took(found), again=_again(found), late=_late(found, late_us),
        traffic=_traffic(found), untold=_texts(copies.parties, copies.source[~told[copies.source]]),
        blind=_texts(copies.queues, copies.put.queue[blind]),
    )  # fmt: skip


def _states(found: Measured) -> dict[str, int]:
    count = np.bincount(found.state, minlength=len(STATES)).tolist()
    by_name = dict(zip(STATES, count, strict=True))
    return {words: by_name[name] for name, words in NAMES.items() if by_name[name]}


def _took(found: Measured) -> dict[Way, Times]:
    """From commit to acceptance and from acceptance to reception."""
    copies = found.copies
    commit, accept = copies.put.time, copies.taken.time
    receive = copies.got.time
    arrive = np.where(accept == NONE, commit, accept)
    made: dict[Way, Times] = {}
    for (begin, end), first, last in zip(PARTS, (commit, arrive), (accept, receive), strict=True):
        rows = np.flatnonzero((first != NONE) & (last != NONE))
        route, took = found.route[rows], last[rows] - first[rows]
        most = np.full(len(found.routes), NONE, np.int64)
        np.maximum.at(most, route, took)
        code, (which, value) = coded(route, rounded(took))
        count = np.bincount(code, minlength=len(which))
        for at, us, messages in zip(which.tolist(), value.tolist(), count.tolist(), strict=True):
            times = made.setdefault((found.routes[at], begin, end), Times({}, int(most[at])))
            times.counts[us] = messages
    return made


def _again(found: Measured) -> dict[str, Again]:
    copies = found.copies
    times = np.maximum(copies.transmitted - 1, 0)
    some = (copies.transmitted > 1) | (copies.repeated > 0)
    size = len(found.routes)
    each = [
        np.bincount(found.route[some], weights, size).astype(np.int64).tolist()
        for weights in (None, times[some], copies.repeated[some])
    ]
    return {
        route: Again(*counts)
        for route, *counts in zip(found.routes, *each, strict=False) if counts[0]
    }  # fmt: skip


def _late(found: Measured, late_us: int) -> dict[tuple[str, int], Late]:
    copies = found.copies
    since = copies.put.time
    waits = (found.state == STATES.index("in flight")) & (copies.stream != NONE)
    rows = np.flatnonzero(waits & copies.put.there & (since <= late_us))
    order, groups = grouped(found.route[rows], copies.stream[rows])
    rows = rows[order]
    every = np.ones(len(rows), np.bool_)
    first, begun = groups.least(copies.number[rows], every), groups.least(since[rows], every)
    which, stream = found.route[rows[groups.starts]], copies.stream[rows[groups.starts]]
    return {
        (found.routes[at], name): Late(*counts)
        for at, name, *counts in zip(
            which.tolist(), stream.tolist(), groups.counted(every).tolist(), first.tolist(),
            begun.tolist(), strict=True,
        )
    }  # fmt: skip


def _traffic(found: Measured) -> Traffic:
    """What happened to a message more than once counts at the time of the first or the last."""
    copies = found.copies
    ways = (
        (copies.put, copies.committed), (copies.taken, copies.accepted),
        (copies.got, copies.received), (copies.sent, np.maximum(copies.transmitted - 1, 0)),
        (copies.came, copies.repeated),
    )  # fmt: skip
    each = [np.flatnonzero(facts.there & (times > 0)) for facts, times in ways]
    if not any(len(rows) for rows in each):
        return Traffic()
    second = np.concatenate(
        [facts.time[rows] // SECOND_US for (facts, _), rows in zip(ways, each, strict=True)]
    )
    times = np.concatenate([count[rows] for (_, count), rows in zip(ways, each, strict=True)])
    kind = np.repeat(np.arange(len(ways)), [len(rows) for rows in each])
    route = found.route[np.concatenate(each)]
    first, last = int(second.min()), int(second.max())
    step = step_of(first, last)
    piece, (which, what, at) = coded(route, kind, second // step * step)
    count = np.bincount(piece, times, len(which)).astype(np.int64).tolist()
    return Traffic(first, last, {
        (found.routes[r], WAYS[k], begin): messages
        for r, k, begin, messages in zip(
            which.tolist(), what.tolist(), at.tolist(), count, strict=True
        )
    })  # fmt: skip


def by_state(found: Measured, name: str) -> Ints:
    """Rows of the ledger in a state."""
    return np.flatnonzero(found.state == STATES.index(name))


def _texts(names: Sequence[str], rows: Ints) -> set[str]:
    return {names[at] for at in np.unique(rows).tolist() if at >= 0}


# ---- telling -------------------------------------------------------------------------------------


def told(sums: Sums, histories: Sequence[Coverage]) -> dict[str, Any]:
    """What is told of sums, as JSON has it."""
    return {
        "messages": sums.messages,
        "states": {words: sums.states[words] for words in NAMES.values() if words in sums.states},
        "latencies": _latencies(sums),
        "resends": _resends(sums),
        "stuck": _stuck(sums, as_of_us(histories)),
        "notes": _notes(sums, histories),
    }


def _latencies(sums: Sums) -> list[dict[str, Any]]:
    """Percentiles in seconds, by route; those with most messages of each part of the way."""
    made = []
    for part in PARTS:
        some = [
            _latency(way, times, times.messages)
            for way, times in sums.took.items() if way[1:] == part
        ]  # fmt: skip
        made += sorted(some, key=lambda row: (-row["messages"], row["route"]))[:ROUTES_MAX]
    return made


def _latency(way: Way, times: Times, messages: int) -> dict[str, Any]:
    route, begin, end = way
    p50, p90, p99, most = (
        round(us / SECOND_US, 3) for us in (*times.at(50, 90, 99), times.most)
    )  # fmt: skip
    return {
        "route": route, "from": begin, "to": end, "messages": messages,
        "p50_s": p50, "p90_s": p90, "p99_s": p99, "max_s": most,
    }  # fmt: skip


def _resends(sums: Sums) -> list[dict[str, Any]]:
    """Routes on which anything was transmitted more than once, as far as that was observed."""
    rows = [
        {"route": route, "messages": one.messages, "times": one.times,
         "came_again": one.came_again}
        for route, one in sums.again.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["times"], row["route"]))


def _stuck(sums: Sums, as_of_us: int) -> list[dict[str, Any]]:
    """Streams with messages that have waited long for an order acknowledgment."""
    rows = [
        {"route": route, "stream": stream, "messages": one.messages,
         "first_number": one.first_number, "since_s": one.since_us // SECOND_US,
         "waits_s": (as_of_us - one.since_us) / SECOND_US}
        for (route, stream), one in sums.late.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["waits_s"], row["stream"], row["route"]))


def _notes(sums: Sums, histories: Sequence[Coverage]) -> list[str]:
    """What could not be known, and why."""
    notes = [f"{one.manager}: {limit}" for one in histories for limit in one.limits()]
    notes += [f"there is no history of the sender {name}" for name in sorted(sums.untold)]
    notes += [f"there is no history of the receiver of {name}" for name in sorted(sums.blind)]
    doubts = sums.states.get(NAMES["in doubt"], 0)
    if doubts:
        notes.append(f"{doubts:,} message(s) in doubt: nobody knows whether they arrived")
    return notes
