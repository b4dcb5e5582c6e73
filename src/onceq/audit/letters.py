"""What managers say about ends: dead letters, journal copies and acknowledgment messages.

These rules are about one message in one queue of one manager, or about all copies of one message,
so they group events otherwise than the ledger does. Most messages have none of these events; they
are left out before anything is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from onceq.audit.arrays import NONE, Column, Groups, Ints, Mask, alike, grouped, row_numbers
from onceq.audit.copies import OWN_GRAVES_FROM, Copies, Known
from onceq.audit.events import Events
from onceq.model.classes import REFUSALS

NEGATIVE: Final = ("not-delivered", "in-doubt", "not-received")
NEGATIVE_WITH_CLASS: Final = ("purged", "expired", "rejected", "deleted")
POSITIVE: Final = ("received", "acknowledged", "confirmed")
REACHED, RECEIVED, NOT_REACHED, NOT_RECEIVED = 0x0002, 0x4000, 0x8000, 0xC000
"""Message classes of acknowledgments, and where those of failures begin."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule has found.

    Attributes:
        invariant, fault, looks_at, said: As those of ``rules.Rule``.
        looked_at: How many it has compared.
        rows: An event of each message that is wrong, as its row among all events.
        counts: Of each of them, what ``said`` names.
    """

    invariant: str
    fault: str
    looks_at: str
    said: str
    looked_at: int
    rows: Ints
    counts: dict[str, Ints]


@dataclass(frozen=True, slots=True)
class _Letters:
    """Counts for each message in a queue that left a dead letter or a journal copy, or should.

    Attributes:
        reason, ended: The class of its only dead letter, and of its only end; else NONE.
        Others: How often something was said about it, or whether its sender asked for it.
    """

    committed: Ints
    wanted: Mask
    refused: Mask
    journaled: Mask
    negative: Ints
    positive: Ints
    dead: Ints
    graves: Ints
    reason: Ints
    ended: Ints
    copied: Ints
    own: Ints
    journals: Ints


def letters(events: Events, known: Known) -> list[Finding]:
    """I12 and I14: dead letters and journal copies, by the place that they come from.

    Nothing is said of a manager that has rows of which nobody knows what they are about.
    """
    buried, copied = events.are("dead-lettered"), events.are("journaled")
    negative = events.are(*NEGATIVE) | (events.are(*NEGATIVE_WITH_CLASS) & (events.klass != NONE))
    of = events.transactional & ~events.observed & known.read[events.manager]
    asked = of & (buried | copied | negative)
    rows = row_numbers(of & alike(lambda rows: _origins(events.take(rows)), asked))
    manager, place, lookup = _origins(events.take(rows))
    there = place != NONE
    rows = rows[there]
    order, groups = grouped(manager[there], place[there], lookup[there])
    rows = rows[order]
    there = events.take(rows)
    moved = there.from_place != NONE
    committed = there.are("committed")
    buried, copied, negative = buried[rows], copied[rows], negative[rows]
    found = _Letters(
        committed=groups.counted(committed),
        wanted=groups.some(committed & there.dead_letter),
        refused=groups.some(buried & np.isin(there.klass, _REFUSALS)),
        journaled=groups.some(committed & there.journal),
        negative=groups.counted(negative & ~moved),
        positive=groups.counted(there.are(*POSITIVE) & ~moved),
        dead=groups.counted(buried & moved),
        graves=groups.distinct(there.place, buried),
        reason=_class_of(there, groups, buried & moved),
        ended=_class_of(there, groups, negative & ~moved),
        copied=groups.counted(copied & moved),
        own=groups.counted(copied & moved & (there.place < OWN_GRAVES_FROM)),
        journals=groups.distinct(there.place, copied),
    )
    sent = groups.first(committed)
    about = rows[np.where(sent < 0, groups.starts, sent)]
    made = []
    for name, looks_at, of_them, wrong, said in _LETTERS:
        asked = of_them(found)
        bad = asked & wrong(found)
        counts = {"dead": found.dead[bad], "copied": found.copied[bad]}
        made.append(Finding(*name, looks_at, said, int(asked.sum()), about[bad], counts))
    return made


def _class_of(events: Events, groups: Groups, mask: Mask) -> Ints:
    """The message class that the only one of these events of each message has; else NONE."""
    first = groups.first(mask)
    only = (first >= 0) & (groups.counted(mask) == 1)
    return np.where(only, events.klass[np.maximum(first, 0)], NONE)


def _origins(events: Events) -> tuple[Column, Ints, Ints]:
    """The place that each event is about, or that its message came from."""
    place, lookup = events.from_place, events.from_lookup
    return (
        events.manager, np.where(place == NONE, events.place, place),
        np.where(lookup == NONE, events.lookup, lookup),
    )  # fmt: skip


_REFUSALS: Final = np.array(sorted(REFUSALS), np.int64)
"""What is kept although nobody asked for it (``xact_dead_letter``)."""
_Test = Callable[[_Letters], Mask]
_LETTERS: Final[tuple[tuple[tuple[str, str], str, _Test, _Test, str], ...]] = (
    (("I12", "dead-letter-missing"), "ends that their senders asked a dead letter for",
     lambda m: (m.committed > 0) & m.wanted & (m.negative > 0), lambda m: m.dead == 0,
     "it ended unreceived, and its sender asked for a dead letter; there is none"),
    (("I12", "dead-letter-twice"), "dead letters of each message",
     lambda m: m.dead > 0, lambda m: m.dead > m.graves, "it has {dead} dead letters"),
    (("I12", "dead-letter-unfounded"), "dead letters with the ends of their messages",
     lambda m: (m.committed > 0) & (m.dead > 0), lambda m: m.negative == 0,
     "there is a dead letter of it, and it has not ended"),
    (("I12", "dead-letter-misnamed"), "reasons of dead letters with the ends of their messages",
     lambda m: (m.reason != NONE) & (m.ended != NONE), lambda m: m.reason != m.ended,
     "its dead letter names another reason than the one that it ended for"),
    (("I12", "dead-letter-unasked"), "dead letters with what their senders asked for",
     lambda m: (m.committed > 0) & (m.dead > 0), lambda m: ~m.wanted & ~m.refused,
     "there is a dead letter of it, its sender asked for none, and its destination took it"),
    (("I14", "journal-unasked"), "journal copies at senders with what those asked for",
     lambda m: (m.committed > 0) & (m.own > 0), lambda m: ~m.journaled,
     "a journal has a copy of it, and its sender asked for none"),
    (("I14", "journal-twice"), "journal copies of each message",
     lambda m: m.copied > 0, lambda m: m.copied > m.journals,
     "it stands {copied} times in a journal"),
    (("I14", "journal-unfounded"), "journal copies with the ends of their messages",
     lambda m: (m.committed > 0) & (m.copied > 0), lambda m: m.positive == 0,
     "a journal has a copy of it, and what it tells has not happened"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Words:
    """Counts for each message that a manager has acknowledged by a message.

    Attributes:
        entries: How often it came into a queue there.
        received: How often it was received there.
        reached, got, unreached, ungot: What its acknowledgments say.
        alone: Whether it has one destination, so that they must agree.
    """

    entries: Ints
    received: Ints
    reached: Ints
    got: Ints
    unreached: Ints
    ungot: Ints
    alone: Mask


def told(events: Events, copies: Copies) -> list[Finding]:
    """I13: what acknowledgment messages say has happened, and none says the contrary."""
    said = events.are("told")
    of = ~events.observed & copies.known.whole[events.manager]

    def message(rows: slice) -> tuple[Column, ...]:
        there = events.take(rows)
        return there.manager, there.source, there.message

    rows = row_numbers(of & alike(message, of & said))
    rows = rows[events.numbers("message")[rows] != NONE]
    there = events.take(rows)
    order, groups = grouped(there.manager, there.source, there.message)
    rows = rows[order]
    there, said = there.take(order), said[rows]
    queue, kind = there.at("queue"), there.klass
    found = _Words(
        entries=groups.counted(there.are("accepted", "committed", "sent") & queue),
        received=groups.counted(there.are("received") & queue),
        reached=groups.counted(said & (kind == REACHED)),
        got=groups.counted(said & (kind == RECEIVED)),
        unreached=groups.counted(said & (kind >= NOT_REACHED) & (kind < NOT_RECEIVED)),
        ungot=groups.counted(said & (kind >= NOT_RECEIVED)),
        alone=_alone(there, groups, copies),
    )
    made, about = [], rows[groups.starts]
    for fault, looks_at, of_them, wrong, text in _TOLD:
        asked = of_them(found)
        bad = asked & wrong(found)
        made.append(Finding("I13", fault, looks_at, text, int(asked.sum()), about[bad], {}))
    return made


def _alone(events: Events, groups: Groups, copies: Copies) -> Mask:
    """Whether each message has one copy."""
    source = np.concatenate((events.source[groups.starts], copies.source))
    message = np.concatenate((events.numbers("message")[groups.starts], copies.message))
    order, same = grouped(source, message)
    count = same.counted(order >= groups.count)
    found = np.empty(len(order), np.int64)
    found[order] = count[same.of]
    return np.asarray(found[: groups.count] == 1)


_Word = Callable[[_Words], Mask]
_TOLD: Final[tuple[tuple[str, str, _Word, _Word, str], ...]] = (
    ("untrue-arrival", "acknowledgments of arrivals with arrivals",
     lambda m: m.reached > 0, lambda m: m.entries == 0,
     "an acknowledgment says that it arrived; it did not"),
    ("told-twice", "acknowledgments of each kind",
     lambda m: m.alone & (m.reached + m.got > 0), lambda m: (m.reached > 1) | (m.got > 1),
     "the same acknowledgment was made more than once"),
    ("untrue-receive", "acknowledgments of receptions with receptions",
     lambda m: m.got > 0, lambda m: m.received == 0,
     "an acknowledgment says that it was received; it was not"),
    ("contradiction", "acknowledgments of arrival with each other",
     lambda m: m.alone & (m.reached > 0), lambda m: m.unreached > 0,
     "it is acknowledged as arrived, and as not"),
    ("contradiction", "acknowledgments of reception with each other",
     lambda m: m.alone & (m.got > 0), lambda m: m.ungot > 0,
     "it is acknowledged as received, and as not"),
)  # fmt: skip
FAULTS: Final = (*(name for name, *_ in _LETTERS), *(("I13", fault) for fault, *_ in _TOLD))
"""Invariant and name of each fault that is found here."""
