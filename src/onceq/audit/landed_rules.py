"""What is wrong with a landed table: each rule is one condition over its rows and the events of
its queues.

A landing writes the rows of a batch, and removes its messages with the next one or at its end. So
a row whose message waits is no fault, and a message that the landing has received stands in a row.
Who has received a message says the record that removed it (``reader``): of what others received,
before, between or after the runs of a landing, it owes no row.

Upholds: nobody is accused where the history is not complete enough to be certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from onceq.audit.arrays import NONE, Ints, Mask, coded, grouped, lane_of
from onceq.audit.copies import ENDED_IN_QUEUE, Copies
from onceq.audit.events import ABSENT, NOBODY, Events
from onceq.audit.files import Coverage
from onceq.audit.judge import Verdicts, of_events
from onceq.audit.landed import UNTOLD, Landed, Names, Rows, readers, taken
from onceq.audit.letters import Finding
from onceq.model.wording import plural

LOST, TWICE = ("I6", "landed-lost"), ("I4", "landed-twice")
NOWHERE, ELSEWHERE = ("I3", "landed-from-nowhere"), ("I3", "landed-elsewhere")
ALTERED: Final = ("I3", "landed-altered")
MISSING: Final = ("I6", "landed-missing")
FAULTS: Final = (LOST, TWICE, NOWHERE, ELSEWHERE, ALTERED, MISSING)
_CAME: Final = ("committed", "sent", "accepted", "dead-lettered", "journaled")
_HERE: Final = ("queue", "dead-letter", "journal")


@dataclass(frozen=True, slots=True)
class Found:
    """What is said of one table.

    Attributes:
        said: As JSON has it.
        notes: What could not be known.
        missing: Rows that the landing counts, and that are not there and have no name.
    """

    verdicts: list[Verdicts]
    said: dict[str, Any]
    notes: list[str]
    missing: int


@dataclass(frozen=True, slots=True)
class Beside:
    """Rows of a table beside the events of all queues of histories.

    Attributes:
        at: The events, as rows of ``events``, that are about a message in a queue of its own.
        code, row_code: A number for each message in each queue, of these events and of rows.
        groups: How many numbers there are.
        reader: Of each event; see ``landed.readers``.
        whole: Whether the history of a row's manager is whole.
        newer: Whether a row's place is behind all that its history tells of the queue.
        made: Whether it may be of an acknowledgment or a report of its manager.
    """

    events: Events
    rows: Rows
    at: Ints
    queue: Ints
    code: Ints
    row_code: Ints
    groups: int
    reader: Ints
    whole: Mask
    newer: Mask
    made: Mask

    def are(self, *names: str) -> Mask:
        """Which of the events are one of these."""
        return self.events.are(*names)[self.at]

    def counted(self, mask: Mask) -> Ints:
        """How many of these events each message has."""
        return np.bincount(self.code[mask], minlength=self.groups)

    def event_of(self, mask: Mask, code: Ints) -> Ints:
        """The first of these events of each message, as a row of ``events``; else ABSENT."""
        first = np.full(self.groups + 1, ABSENT, np.int64)
        rows = np.flatnonzero(mask)[::-1]
        first[self.code[rows]] = self.at[rows]
        return first[code]


class Tables:
    """Landed tables, which are judged beside events that are read once."""

    def __init__(
        self, tables: Sequence[Landed], events: Events, histories: Sequence[Coverage],
        *, settled: bool,
    ) -> None:  # fmt: skip
        self._events = events
        self._settled = settled
        self._names = Names()
        self._queue = self._names.numbers(events.queues)[events.queue]
        self._readers, self._reader = readers(histories)
        # Before the ledger is made: senders that only a row names are parties as well.
        self._taken = [(one, taken(one, events, histories, self._names)) for one in tables]
        whole = {one.id for one in histories if one.whole}
        self._whole = np.array([*(party in whole for party in events.parties), False])

    def judge(self, copies: Copies) -> list[Found]:
        """Every rule over every table."""
        return [self._judge(table, rows, copies) for table, rows in self._taken]

    def _beside(self, rows: Rows) -> Beside:
        events = self._events
        here = np.zeros(len(events), np.bool_)
        for kind in _HERE:
            here |= events.at(kind)
        made = self._made(here, rows)
        nobody = events.parties.index(NOBODY) if NOBODY in events.parties else ABSENT
        here &= (events.message != NONE) & (events.source != nobody) & ~events.observed
        at = np.flatnonzero(here & events.are(*_CAME, "moved", "given-back", *ENDED_IN_QUEUE))
        columns = (
            (events.manager[at], rows.manager), (self._queue[at], rows.queue),
            (events.source[at], rows.source), (events.message[at], rows.message),
        )  # fmt: skip
        code, known = coded(*(np.concatenate(both).astype(np.int64) for both in columns))
        return Beside(
            events, rows, at, self._queue[at], code[: len(at)], code[len(at) :], len(known[0]),
            self._reader[at], self._whole[np.maximum(rows.manager, ABSENT)],
            self._newer(at, rows), made,
        )  # fmt: skip

    def _newer(self, at: Ints, rows: Rows) -> Mask:
        if self._settled:
            return np.zeros(len(rows), np.bool_)
        events = self._events
        place = np.concatenate((events.lookup[at], rows.lookup))
        order, groups = grouped(
            np.concatenate((events.manager[at], rows.manager)),
            np.concatenate((self._queue[at], rows.queue)), lane_of(place),
        )  # fmt: skip
        told = groups.most(place[order], order < len(at))[groups.of]
        newest = np.empty(len(order), np.int64)
        newest[order] = told
        return np.asarray(rows.here & (rows.lookup > newest[len(at) :]))

    def _made(self, here: Mask, rows: Rows) -> Mask:
        """Rows that may be of acknowledgments and reports, which the manager itself has made: when
        they come into a queue, its history does not tell their own identifiers."""
        events = self._events
        at = np.flatnonzero(here & (events.lookup != NONE) & ~events.observed)
        code, known = coded(*(np.concatenate(both).astype(np.int64) for both in (
            (events.manager[at], rows.manager), (self._queue[at], rows.queue),
            (events.lookup[at], rows.lookup),
        )))  # fmt: skip
        told = events.are("told")[at]
        often = [np.bincount(code[: len(at)][mask], minlength=len(known[0])) for mask in
                 (told, ~told)]  # fmt: skip
        acks, others = (each[code[len(at) :]] > 0 for each in often)
        return np.asarray((rows.source == rows.manager) & (acks | ~others))

    def _judge(self, table: Landed, rows: Rows, copies: Copies) -> Found:
        beside = self._beside(rows)
        reader = self._readers.index(table.reader) if table.reader in self._readers else UNTOLD - 1
        twice = _twice(beside)
        lost, owed = _lost(beside, reader if table.alone else UNTOLD - 1)
        named = self._planned(table, rows)
        elsewhere, somewhere = _elsewhere(beside)
        elsewhere |= ~named & rows.here  # That needs no history: the plan says which are its own.
        judged = beside.whole & ~beside.newer & ~(beside.made & ~_known(beside))
        nowhere = judged & ~_known(beside) & ~elsewhere
        came = beside.event_of(beside.are(*_CAME, "moved", *ENDED_IN_QUEUE), beside.row_code)
        other = np.where(came == ABSENT, somewhere, came)
        name = table.name.replace("{", "{{").replace("}", "}}")
        its = f"it has a row in {name} (lookup {{lookup}}), and"
        lost_rule = Finding(
            *LOST, f"what the landing has received with the rows of {table.name}",
            f"the landing of {name} has received it, and it stands in no row",
            owed, beside.at[lost], {},
        )  # fmt: skip

        def rule(fault: tuple[str, str], looks_at: str, said: str, wrong: Mask, of: int) -> Finding:
            places = {"lookup": rows.lookup}
            return Finding(*fault, looks_at, said, of, np.flatnonzero(wrong), places)

        told = beside.event_of(_with_sum(beside), beside.row_code)
        sums = np.where(told == ABSENT, NONE, self._events.numbers("crc")[np.maximum(told, 0)])
        summed = (sums != NONE) & (rows.crc != NONE)
        by_rows = (
            (rule(ALTERED, f"sums (CRC-32) of bodies in rows of {table.name} with those of their "
                  "messages", f"{its} the row says another body",
                  summed & (sums != rows.crc), int(summed.sum())), told),
            (rule(TWICE, f"rows of {table.name}", f"{its} another one", twice, len(rows)), came),
            (rule(NOWHERE, f"rows of {table.name} with what came into its queues",
                  f"{its} it was never in that queue", nowhere, int(judged.sum())), came),
            (rule(ELSEWHERE, f"rows of {table.name} with the queues of their messages",
                  f"{its} its queue is another", elsewhere, int(rows.here.sum())), other),
        )  # fmt: skip
        verdicts = [of_events(lost_rule, self._events, copies)]
        verdicts += [self._of_rows(one, rows, event, copies) for one, event in by_rows]
        different = len(rows) - int(twice.sum())
        missing = max(table.committed - different - len(lost), 0)
        said = _said(table, beside, twice=int(twice.sum()), lost=len(lost), missing=missing,
                     owed=owed, reader=reader)  # fmt: skip
        return Found(verdicts, said, _notes(table, beside, said), missing)

    def _planned(self, table: Landed, rows: Rows) -> Mask:
        """Whether a row's queue is one that the table is of."""
        wanted = np.array([self._names.number(name) for name in table.queues], np.int64)
        return np.isin(rows.queue, wanted)

    def _of_rows(self, one: Finding, rows: Rows, event: Ints, copies: Copies) -> Verdicts:
        """A finding about rows of a table, which may be of messages that no event is about."""
        wrong = one.rows
        at = event[wrong]
        order = np.concatenate((wrong[at != ABSENT], wrong[at == ABSENT]))
        known = order[: int((at != ABSENT).sum())]
        found = of_events(
            Finding(one.invariant, one.fault, one.looks_at, one.said, one.looked_at, event[known],
                    {}),
            self._events, copies,
        )  # fmt: skip
        rest = order[len(known) :]
        none = np.full(len(rest), NONE, np.int64)

        def joined(there: Ints, more: Ints) -> Ints:
            return np.concatenate((there.astype(np.int64), more))

        return Verdicts(
            one.invariant, one.fault, one.looks_at, one.looked_at,
            joined(found.copy, np.full(len(rest), ABSENT, np.int64)),
            joined(found.source, rows.source[rest]), joined(found.stream, none),
            joined(found.number, rows.message[rest]), joined(found.message, rows.message[rest]),
            one.said, {name: each[order] for name, each in one.counts.items()},
        )  # fmt: skip


def _with_sum(beside: Beside) -> Mask:
    """Which of the events tell the sum of the body."""
    return np.asarray(beside.events.numbers("crc")[beside.at] != NONE)


def _twice(beside: Beside) -> Mask:
    """Whether a row's message has one already: at the same place, or more of them than often it
    came into the queue. (One send may name a queue twice, by two names.)"""
    rows = beside.rows
    wrong = np.zeros(len(rows), np.bool_)
    order, groups = grouped(beside.row_code, rows.lookup)
    rank = np.arange(len(rows)) - groups.starts[groups.of] if len(rows) else order
    wrong[order] = rank > 0
    rest = np.flatnonzero(~wrong)
    order, groups = grouped(beside.row_code[rest])
    rank = np.arange(len(rest)) - groups.starts[groups.of] if len(rest) else order
    came = np.maximum(beside.counted(beside.are(*_CAME)), 1)[beside.row_code[rest[order]]]
    wrong[rest[order]] = (rank >= came) & beside.whole[rest[order]]
    return wrong


def _lost(beside: Beside, reader: int) -> tuple[Ints, int]:
    """Receptions by the landing (as numbers in ``at``) of messages that have too few rows, and how
    many receptions there are."""
    mine = np.flatnonzero(beside.are("received") & (beside.reader == reader))
    order, groups = grouped(beside.code[mine])
    rank = np.arange(len(mine)) - groups.starts[groups.of] if len(mine) else order
    rows = np.bincount(beside.row_code, minlength=beside.groups)[beside.code[mine[order]]]
    return np.sort(mine[order][rank >= rows]), len(mine)


def _known(beside: Beside) -> Mask:
    """Whether any event is about a row's message in its queue."""
    return beside.counted(np.ones(len(beside.at), np.bool_))[beside.row_code] > 0


def _elsewhere(beside: Beside) -> tuple[Mask, Ints]:
    """Rows of messages that came into other queues alone, and an event of those that did."""
    events, rows = beside.events, beside.rows
    came = beside.at[beside.are(*_CAME, "moved")]
    code, _ = coded(np.concatenate((events.source[came], rows.source)).astype(np.int64),
                    np.concatenate((events.message[came], rows.message)))  # fmt: skip
    first = np.full(int(code.max(initial=0)) + 1, ABSENT, np.int64)
    first[code[: len(came)][::-1]] = came[::-1]
    event = first[code[len(came) :]]
    wrong = (event != ABSENT) & beside.whole & ~beside.newer & ~_known(beside)
    return np.asarray(wrong), event


def _others(beside: Beside, reader: int) -> tuple[int, int]:
    """Messages in no row that were received among those that are: by others, and by nobody knows
    whom."""
    rows, at = beside.rows, beside.at
    place = np.concatenate((rows.lookup, beside.events.lookup[at]))
    order, groups = grouped(
        np.concatenate((rows.manager, beside.events.manager[at])),
        np.concatenate((rows.queue, beside.queue)), lane_of(place),
    )  # fmt: skip
    landed = order < len(rows)
    inside = np.empty(len(order), np.bool_)
    low, high = (how(place[order], landed)[groups.of] for how in (groups.least, groups.most))
    inside[order] = (low != NONE) & (low <= place[order]) & (place[order] <= high)
    bare = np.bincount(beside.row_code, minlength=beside.groups)[beside.code] == 0
    there = inside[len(rows) :] & bare & beside.are("received")
    told = beside.reader != UNTOLD
    return int((there & told & (beside.reader != reader)).sum()), int((there & ~told).sum())


def _said(
    table: Landed, beside: Beside, *, twice: int, lost: int, missing: int, owed: int, reader: int
) -> dict[str, Any]:
    """All figures of a table."""
    rows = beside.rows
    ended = beside.counted(beside.are(*ENDED_IN_QUEUE))[beside.row_code] > 0
    others, untold = _others(beside, reader)
    good = plural(rows.all - rows.bad, "row")
    bad = f" and {plural(rows.bad, 'bad row')}" if rows.bad else ""
    often = f"{twice:,} TWICE" if twice else "none twice"
    gone = f", {lost + missing:,} MISSING" if lost + missing else ""
    return {
        "table": table.name, "library": table.library, "committed": table.committed,
        "rows": rows.all - rows.bad, "bad": rows.bad, "strange": rows.strange,
        "received": owed, "twice": twice, "lost": lost, "missing": missing,
        "waiting": int((_known(beside) & ~ended).sum()), "newer": int(beside.newer.sum()),
        "received_by_others": others, "received_untold": untold,
        "sentence": f"{table.committed:,} committed, {good}{bad}, {often}"
        f"{gone} (read back by {table.library})",
    }  # fmt: skip


def _notes(table: Landed, beside: Beside, said: dict[str, Any]) -> list[str]:
    """What could not be known of a table."""
    rows, name = beside.rows, table.name
    blind = int((~beside.whole & rows.here).sum())
    told = (
        (said["strange"], "row(s) say no message: others have added them"),
        (int((~rows.here).sum()),
         f"row(s) are of {', '.join(rows.unknown)}, whose history is not here"),
        (blind, "row(s) are of managers whose history is not whole: whether their messages were "
                "ever there nobody knows"),
        (said["newer"], "row(s) are of messages that came after the end of the history"),
        (int((beside.made & ~_known(beside)).sum()),
         "row(s) may be of acknowledgments or reports of their manager, whose coming no history "
         "tells"),
        (said["received_untold"], "message(s) in no row were received among those of the table, by "
                                  "others or before histories told who reads"),
    )  # fmt: skip
    notes = [f"{name}: {count:,} {text}" for count, text in told if count]
    if not table.alone:
        notes.append(
            f"{name}: its landing reads under a name that others have as well; of what was "
            "received nobody knows by which, so losses are only counted"
        )
    return notes
