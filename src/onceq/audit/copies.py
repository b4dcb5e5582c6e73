"""One row for each copy of each transactional message: what all managers tell of it, counted.

A copy is a message on its way to one destination. In a stream it is known by source, stream and
number at both managers; one that never leaves its manager by its identifier and queue.

Lanes are what numbers count in: a stream of a source, or a queue that a source sends to at home. So
copies of one lane must be looked at together, and those of different lanes need not be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from onceq.audit.arrays import (
    NONE,
    Column,
    Groups,
    Ints,
    Mask,
    begins,
    coded,
    grouped,
    mixed,
    picked,
    small,
)
from onceq.audit.events import ABSENT, KINDS, Events
from onceq.audit.facts import SEEN, Facts
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


def keyed(events: Events) -> tuple[Ints, Ints]:
    """Lane and number of the copy that each event is about; NONE where it is about none.

    A lane is a small number, which together with the source stands for a stream or a local queue.
    """
    names: dict[str, int] = {}
    local = [names.setdefault(name.split(";")[0], len(names)) for name in events.queues]
    local_of = np.array([*local, 0], np.int64)[events.queue]
    streams = small(events.stream)
    lane = np.full(len(events), NONE, np.int64)
    number = np.full(len(events), NONE, np.int64)
    home = events.transactional & events.at("queue") & (events.message != NONE)
    lane[home], number[home] = local_of[home], events.message[home]
    ordered = events.stream != NONE
    lane[ordered], number[ordered] = streams[ordered] + len(names), events.number[ordered]
    return lane, number


def ledger(events: Events, histories: Sequence[Coverage]) -> Copies:
    """The copies that events tell of. All events of each lane must be among them."""
    rows, groups, lane = of_copies(events)
    source = events.source[rows[groups.starts]].astype(np.int64)
    lanes = grouped(source, lane)[1]
    return _counted(events, rows, groups, lanes=lanes, known=known(events.parties, histories))


def of_copies(events: Events) -> tuple[Ints, Groups, Ints]:
    """The rows that are about copies; the copy of each of these; and the lane of each copy."""
    lane, number = keyed(events)
    told = (lane != NONE) & events.transactional & ~events.are("passed-over")
    told &= (events.kind == ABSENT) | events.at("queue") | events.at("outgoing")
    told &= ~_in_graves(events)
    rows = np.flatnonzero(told)
    order, groups = grouped(events.source[rows], lane[rows], number[rows])
    rows = rows[order]
    return rows, groups, lane[rows][groups.starts]


def _in_graves(events: Events) -> Mask:
    """Which events are about a dead letter in a queue of an application's own."""
    graves = events.are("dead-lettered") & (events.place >= OWN_GRAVES_FROM)
    key = mixed(events.manager, events.place, events.lookup)
    rows = np.flatnonzero((events.place != NONE) & np.isin(key, key[graves]))
    found = np.zeros(len(events), np.bool_)
    order, groups = grouped(events.manager[rows], events.place[rows], events.lookup[rows])
    found[rows[order]] = groups.some(graves[rows[order]])[groups.of]
    return found


def _counted(events: Events, rows: Ints, groups: Groups, *, lanes: Groups, known: Known) -> Copies:
    """The copies.

    Args:
        rows: The events of the groups, in their order.
    """

    def are(*names: str) -> Mask:
        return events.are(*names)[rows]

    queue, outgoing = events.at("queue")[rows], events.at("outgoing")[rows]
    committed, accepted = ~events.observed[rows] & are("committed"), are("accepted")
    ways = {
        "committed": committed, "accepted": accepted, "refused": are("refused"),
        "acknowledged": are("acknowledged"), "confirmed": are("confirmed"),
        "not_received": are("not-received"), "transmitted": are("transmitted"),
        "repeated": are("duplicate"),
        **{name: queue & are(name) for name in ENDED_IN_QUEUE},
        "not_delivered": outgoing & are("not-delivered"),
        "in_doubt": outgoing & are("in-doubt"), "removed": outgoing & are("purged"),
    }  # fmt: skip
    columns = {name: getattr(events, name) for name in SEEN}
    found = {
        "put": groups.first(committed), "taken": groups.first(accepted),
        "acked": groups.first(ways["acknowledged"]), "got": groups.first(ways["received"]),
        "moved": groups.last(are("moved")), "sent": groups.last(ways["transmitted"]),
        "came": groups.last(ways["repeated"]), "refuser": groups.first(ways["refused"]),
    }  # fmt: skip
    first: dict[str, Any] = {
        name: Facts(columns, picked(rows, there, ABSENT).astype(np.int32))
        for name, there in found.items()
    }
    counts: dict[str, Any] = {name: groups.counted(mask) for name, mask in ways.items()}
    message, begin = events.message[rows], rows[groups.starts]
    named = message != NONE
    stream = events.stream[begin]
    kind = picked(events.kind, first["put"].rows, ABSENT)
    copies = Copies(
        parties=events.parties, queues=events.queues, known=known, lanes=lanes,
        source=events.source[begin].astype(np.int64), stream=stream,
        number=np.where(stream == NONE, events.message[begin], events.number[begin]),
        message=picked(message, groups.first(named)),
        messages=groups.distinct(message, named & (committed | accepted)),
        outgoing=np.where(kind == KINDS.index("outgoing"), first["put"].place, NONE),
        refuser=first.pop("refuser").manager,
        to=np.full(groups.count, ABSENT, np.int64), follows=np.zeros(groups.count, np.int64),
        **first,
        **counts,
    )  # fmt: skip
    copies.to[:] = _receivers(copies)
    return copies


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
