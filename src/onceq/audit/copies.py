"""One row for each copy of each transactional message: what all managers tell of it, counted.

A copy is a message on its way to one destination. In a stream it is known by source, stream and
number at both managers; one that never leaves its manager by its identifier and queue.

Lanes are what numbers count in: a stream of a source, or a queue that a source sends to at home. So
copies of one lane must be looked at together, and those of different lanes need not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from onceq.audit.arrays import (
    NONE,
    Column,
    Groups,
    Ints,
    Mask,
    alike,
    begins,
    coded,
    grouped,
    picked,
    row_numbers,
    small,
)
from onceq.audit.events import ABSENT, CODES, KINDS, Events
from onceq.audit.facts import Facts
from onceq.audit.files import Coverage

ENDED_IN_QUEUE: Final = ("received", "expired", "rejected", "purged", "deleted")
OWN_GRAVES_FROM: Final = 16
"""Smaller numbers are those of the system's queues."""
_NAMED: Final = re.compile(r"DIRECT=OS:([^\\]+)", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"PRIVATE=([0-9a-f-]{36})", re.IGNORECASE)
_DIRECT: Final = re.compile(r"DIRECT=(OS|TCP|HTTPS?):[^\\]+\\", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of each party, by its number in ``Events.parties``; at the end of each array
    what counts for a party that nobody knows, so that ABSENT finds it.

    Attributes:
        told: Whether there is a history of it.
        whole, unbroken: See ``Coverage``.
        read: Whether each of its rows says which message it is about.
        up_to: Microseconds; NONE where there is no history.
        untold_to: Log position up to which something is missing; -1 where nothing is. After a
            restored backup positions cannot be compared, so it is beyond all of them.
        names: Of the managers; "" where there is no history.
    """

    told: Mask
    whole: Mask
    unbroken: Mask
    read: Mask
    up_to: Ints
    untold_to: Ints
    names: list[str]


def known(parties: Sequence[str], histories: Sequence[Coverage]) -> Known:
    """What histories say of parties."""
    by_id = {one.id: one for one in histories}
    found = [by_id.get(party) for party in (*parties, "")]
    return Known(
        told=np.array([one is not None for one in found]),
        whole=np.array([one is not None and one.whole for one in found]),
        unbroken=np.array([one is not None and one.unbroken for one in found]),
        read=np.array([one is not None and not one.unread for one in found]),
        up_to=np.array([NONE if one is None else one.up_to_us for one in found], np.int64),
        untold_to=np.array([-1 if one is None else _untold_to(one) for one in found], np.int64),
        names=["" if one is None else one.manager for one in found],
    )


def _untold_to(one: Coverage) -> int:
    if one.lives > 1:
        return int(np.iinfo(np.int64).max)
    return max(one.unread_to, *(end for _, end in one.gaps), -1)


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies in order of source, lane and number; arrays have the shape (copies,).

    Attributes:
        parties, queues: See ``Events``.
        lanes: The copies of each lane.
        source: The party that sent it.
        stream: NONE for one that never leaves its manager.
        number: In the stream; the message number of one that has none.
        message: Message number, or NONE where nobody says it.
        messages: How many different ones were committed and accepted as this copy.
        outgoing: The outgoing queue that it was committed to; NONE where there was none.
        put, taken, acked, got: The first event that committed, accepted, acknowledged or
            received it.
        moved, sent, came: The last that moved it, transmitted it, or was a repeated arrival.
        refuser: The party that refused it.
        to: The party that it goes to, as far as that is known.
        follows: 1 where the number before it was judged and put aside earlier; else 0.
        Others: How many events say so.
    """

    parties: list[str]
    queues: list[str]
    known: Known
    lanes: Groups
    source: Ints
    stream: Ints
    number: Ints
    message: Ints
    messages: Ints
    outgoing: Ints
    put: Facts
    taken: Facts
    acked: Facts
    got: Facts
    moved: Facts
    sent: Facts
    came: Facts
    refuser: Ints
    to: Ints
    follows: Ints
    committed: Ints
    accepted: Ints
    refused: Ints
    acknowledged: Ints
    received: Ints
    expired: Ints
    rejected: Ints
    purged: Ints
    deleted: Ints
    not_delivered: Ints
    in_doubt: Ints
    removed: Ints
    confirmed: Ints
    not_received: Ints
    transmitted: Ints
    repeated: Ints

    def __len__(self) -> int:
        return len(self.source)

    def take(self, mask: Mask) -> Copies:
        """These of them."""
        made: dict[str, Any] = {"parties": self.parties, "queues": self.queues, "known": self.known}
        of = self.lanes.of[mask]
        starts = begins(of)
        made["lanes"] = Groups(
            np.repeat(np.arange(len(starts)), np.diff([*starts, len(of)])), starts
        )
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Facts):
                made[one.name] = value.take(mask)
            elif one.name not in made:
                made[one.name] = value[mask]
        return Copies(**made)

    @property
    def streamed(self) -> Mask:
        """Which of them are in a stream."""
        return np.asarray(self.stream != NONE)

    @property
    def queue_ends(self) -> Ints:
        """How often it ended in its queue."""
        return self.received + self.expired + self.rejected + self.purged + self.deleted

    @property
    def given_up(self) -> Ints:
        """How often it ended at its sender."""
        return self.not_delivered + self.in_doubt + self.removed

    @property
    def sender_ends(self) -> Ints:
        """How many ends its sender has noted."""
        return self.given_up + self.confirmed + self.not_received

    @property
    def arrived_at(self) -> Ints:
        """Log position at which it came into its queue; NONE where nobody says so."""
        return np.where(self.taken.there, self.taken.position, self.put.position)


def _keyed(events: Events, rows: Ints) -> tuple[Ints, Ints]:
    """Lane and number of the copies that some events are about.

    A lane is a small number, which together with the source stands for a stream or a local queue.
    """
    names: dict[str, int] = {}
    local = [names.setdefault(name.split(";")[0], len(names)) for name in events.queues]
    stream = events.numbers("stream")
    lane = small(stream.codes)[rows]
    lane += len(names)
    number = events.numbers("number")[rows]
    home = stream[rows] == NONE
    there = rows[home]
    lane[home] = np.array([*local, 0], np.int32)[events.queue[there]]
    number[home] = events.numbers("message")[there]
    return lane, number


def ledger(events: Events, histories: Sequence[Coverage]) -> Copies:
    """The copies that events tell of. All events of each lane must be among them."""
    rows, groups, lane = of_copies(events)
    lanes = grouped(events.source[rows[groups.starts]], lane)[1]
    return _counted(events, rows, groups, lanes=lanes, known=known(events.parties, histories))


def of_copies(events: Events) -> tuple[Ints, Groups, Ints]:
    """The rows that are about copies; the copy of each of these; and the lane of each copy."""
    told = events.transactional & ~events.are("passed-over") & ~_in_graves(events)
    told &= (events.kind == ABSENT) | events.at("queue") | events.at("outgoing")
    home = events.at("queue") & (events.message != NONE)
    rows = row_numbers(told & (home | (events.stream != NONE)))
    lane, number = _keyed(events, rows)
    order, groups = grouped(events.source[rows], lane, number)
    return rows[order], groups, lane[order[groups.starts]]


def _in_graves(events: Events) -> Mask:
    """Which events are about a dead letter in a queue of an application's own."""
    found = np.zeros(len(events), np.bool_)
    graves = events.are("dead-lettered")
    graves[graves] = events.numbers("place")[graves] >= OWN_GRAVES_FROM

    def place(rows: slice) -> tuple[Column, ...]:
        there = events.take(rows)
        return there.manager, there.place, there.lookup

    rows = row_numbers(alike(place, graves))
    rows = rows[events.numbers("place")[rows] != NONE]
    there = events.take(rows)
    order, groups = grouped(there.manager, there.place, there.lookup)
    found[rows[order]] = groups.some(graves[rows[order]])[groups.of]
    return found


def _counted(events: Events, rows: Ints, groups: Groups, *, lanes: Groups, known: Known) -> Copies:
    """The copies.

    Args:
        rows: The events of the groups, in their order.
    """
    found: dict[str, Any] = {}
    stored = np.zeros(len(rows), np.bool_)
    for name, mask in _ways(events, rows):
        if name in ("committed", "accepted"):
            stored |= mask
        if name in _FACTS:
            fact, last = _FACTS[name]
            at = groups.last(mask) if last else groups.first(mask)
            found[fact] = Facts(events.columns, np.where(at < 0, np.int32(ABSENT), rows[at]))
        if name != "moved":
            found[name] = groups.counted(mask)
    found |= _messages(events.numbers("message")[rows], groups, stored)
    there = events.take(rows[groups.starts])
    stream = there.stream
    kind = picked(events.kind, found["put"].rows, ABSENT)
    copies = Copies(
        parties=events.parties, queues=events.queues, known=known, lanes=lanes,
        source=there.source.astype(np.int32), stream=stream,
        number=np.where(stream == NONE, there.message, there.number),
        outgoing=np.where(kind == KINDS.index("outgoing"), found["put"].place, NONE),
        refuser=found.pop("refuser").manager.astype(np.int32),
        to=np.full(groups.count, ABSENT, np.int32), follows=np.zeros(groups.count, np.int32),
        **found,
    )  # fmt: skip
    copies.to[:] = _receivers(copies)
    return copies


_FACTS: Final = {
    "committed": ("put", False), "accepted": ("taken", False), "acknowledged": ("acked", False),
    "received": ("got", False), "refused": ("refuser", False), "moved": ("moved", True),
    "transmitted": ("sent", True), "repeated": ("came", True),
}  # fmt: skip
"""Of what is counted: the fact that is its first or its last event."""


def _ways(events: Events, rows: Ints) -> Iterator[tuple[str, Mask]]:
    """What is counted of each copy, one after another, and which of these rows say so."""
    event, kind = events.event[rows], events.kind[rows]
    queue, outgoing = kind == KINDS.index("queue"), kind == KINDS.index("outgoing")

    def are(name: str) -> Mask:
        return np.asarray(event == CODES[name])

    yield "committed", ~events.observed[rows] & are("committed")
    for name in ("accepted", "refused", "acknowledged", "confirmed", "transmitted", "moved"):
        yield name, are(name)
    yield "not_received", are("not-received")
    yield "repeated", are("duplicate")
    for name in ENDED_IN_QUEUE:
        yield name, queue & are(name)
    yield "not_delivered", outgoing & are("not-delivered")
    yield "in_doubt", outgoing & are("in-doubt")
    yield "removed", outgoing & are("purged")


def _messages(message: Ints, groups: Groups, stored: Mask) -> dict[str, Ints]:
    """The message of each copy, and how many different ones there are of it."""
    named = message != NONE
    return {
        "message": picked(message, groups.first(named)),
        "messages": groups.distinct(message, named & stored).astype(np.int32),
    }


def _receivers(copies: Copies) -> Ints:
    """Who the receiver of each copy is, also where it tells nothing of it: whoever tells of others
    from the same outgoing queue, or has the name that they were sent to."""
    to = np.where(copies.taken.there, copies.taken.manager, copies.refuser)
    sender = copies.put.manager
    queue, (_, _) = coded(sender, copies.outgoing)
    order, groups = grouped(queue)
    of_others = groups.least(to[order], (to != ABSENT)[order])[queue]
    to = np.where((to == ABSENT) & (copies.outgoing != NONE) & (of_others != NONE), of_others, to)
    to = np.where((to == ABSENT) & ~copies.streamed, sender, to)
    named = np.array([*_named(copies), ABSENT], np.int64)
    return np.where(to == ABSENT, named[copies.put.queue], to)


def _named(copies: Copies) -> list[int]:
    """The party that each name of a queue leads to; ABSENT where that is not certain."""
    parties = {party: at for at, party in enumerate(copies.parties)}
    hosts: dict[str, list[int]] = {}
    for at, name in enumerate(copies.known.names[:-1]):
        if copies.known.told[at]:
            hosts.setdefault(name.lower(), []).append(at)
    found = []
    for name in copies.queues:
        number, host = _NUMBERED.match(name), _NAMED.match(name)
        same = hosts.get(host[1].lower(), []) if host else []
        if number and number[1].lower() in parties:
            found.append(parties[number[1].lower()])
        else:
            found.append(same[0] if len(same) == 1 else ABSENT)
    return found


def path_of(name: str) -> str:
    """The path of a queue at its manager, out of a direct format name or of its journal."""
    return _DIRECT.sub("", name.split(";")[0], count=1)


def routes(copies: Copies) -> tuple[Ints, list[str]]:
    """From where to where each copy goes, for people: the number of its text, and the texts."""
    sender = np.where(copies.put.there, copies.put.manager, copies.source)
    queue = np.where(copies.taken.queue == ABSENT, copies.put.queue, copies.taken.queue)
    queue = np.where(queue == ABSENT, copies.got.queue, queue)
    different, (froms, tos, ats) = coded(sender, copies.to, queue)
    names, numbers, texts = copies.known.names, [], dict[str, int]()
    for one, other, at in zip(froms.tolist(), tos.tolist(), ats.tolist(), strict=True):
        here, there = names[one] or copies.parties[one], names[other]
        name = copies.queues[at] if at != ABSENT else "?"
        text = f"{here} → {there}\\{path_of(name)}" if there else f"{here} → {name}"
        numbers.append(texts.setdefault(text, len(texts)))
    return np.array([*numbers, 0], np.int64)[different], list(texts)


STATES: Final = (
    "received", "rejected", "expired", "queue deleted", "purged", "refused", "waiting",
    "not delivered", "removed", "not received", "in doubt", "unverified", "in flight", "unknown",
    "untold",
)  # fmt: skip


def states(copies: Copies) -> Column:
    """One word for what has become of each, as its number in ``STATES``."""
    at = {name: code for code, name in enumerate(STATES)}
    arrived = (copies.accepted > 0) | ((copies.committed > 0) & (copies.outgoing == NONE))
    ways = (
        (copies.received > 0, "received"),
        (copies.rejected > 0, "rejected"),
        (copies.expired > 0, "expired"),
        (copies.deleted > 0, "queue deleted"),
        (copies.purged > 0, "purged"),
        (copies.refused > 0, "refused"),
        (arrived & (copies.known.untold_to[copies.to] > copies.arrived_at), "untold"),
        (arrived, "waiting"),
        (copies.not_delivered > 0, "not delivered"),
        (copies.removed > 0, "removed"),
        (copies.confirmed > 0, "received"),
        (copies.not_received > 0, "not received"),
        (copies.in_doubt > 0, "in doubt"),
        (copies.acknowledged > 0, "unverified"),
        (copies.committed > 0, "in flight"),
    )
    return np.select(
        [when for when, _ in ways], [at[name] for _, name in ways], default=at["unknown"]
    )
