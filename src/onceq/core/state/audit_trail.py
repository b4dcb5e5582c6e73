"""The audit trail: who did what to this queue manager, and the ends of the trails of others.

Every act of administration is a record of the log, written with the act itself, so that neither a
crash nor a restart loses it; a refusal for want of a right is an act, too. The numbers of acts rise
by one.

TRAIL_MAX acts are kept. When there are more, the actor with the most acts loses the oldest act of
the kind that this actor has most of: many acts of one kind push out acts of that kind and of that
actor, and no others. An act that is repeated within NOTICE_EVERY_S is not kept a second time: the
first one counts how often, and when last.

Each act has a digest, which covers the act and the digest of the act before it
(``model/audit_trail.py``), also of acts that are not kept any more. A manager tells the number and
the digest of its last act when a session begins. These are witnesses: an intruder who can change
the files of one manager cannot change what another one holds.

Also here:

* Who wants to know how messages end: ranges of a lane, found by counter.

Upholds: I22, I24 (TRAIL_MAX, HEADS_MAX, HEAD_PEERS_MAX), I28 (every act is attributed).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from onceq.core.state.setups import ActRepeated, HeadTold, Noted, Setup
from onceq.model.audit_trail import BEGIN, digest_act
from onceq.model.identity import NO_GUID
from onceq.model.limits import NOTICE_EVERY_S, TRAIL_MAX

# ---- audit trail ---------------------------------------------------------------------------------


Key = tuple[str, str, str, str, str]


class Act(NamedTuple):
    """One act.

    Attributes:
        at_s: Second since 1970.
        who: The actor, as ``kind:name``.
        where: From where: an address, or "local", with the process if that is known.
        what: The act in a few words, such as ``purge queue``.
        about: Of what: a queue, a name, what was granted.
        result: "" for done or begun; else the code of the error.
        before: Digest of the act before it; empty: it is of a version without digests.
        digest: Its own; empty as ``before``.
        times: How often it was done within the hour that follows it, itself included.
        last_s: When last.
    """

    number: int
    at_s: int
    who: str
    where: str
    what: str
    about: str
    result: str
    before: bytes = b""
    digest: bytes = b""
    times: int = 1
    last_s: int = 0


class Trail:
    """The acts that are kept, and the digest of the last one."""

    __slots__ = ("_by_actor", "_kept", "_latest", "broken", "fresh", "head", "next")

    def __init__(self) -> None:
        self._kept: dict[int, Act] = {}
        """By number, which rises."""
        self._by_actor: dict[str, dict[str, list[int]]] = {}
        """By actor and kind: the numbers of the acts that are kept."""
        self._latest: dict[Key, int] = {}
        self.next = 1
        """Number of the next act."""
        self.head = b""
        """Digest of the last act; empty: none has one."""
        self.broken = 0
        """Number of the first act that does not go on from the act before it; 0: all do."""
        self.fresh: deque[Act] = deque(maxlen=TRAIL_MAX)
        """Each act since this was loaded, for callers that report acts; not durable."""

    def __iter__(self) -> Iterator[Act]:
        return iter(self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def apply(self, setup: Setup) -> None:
        """Apply a setup."""
        match setup:
            case Noted():
                s = setup
                act = Act(s.number, s.at_s, s.who, s.where, s.what, s.about, s.result, s.before)
                self.note(act)
            case ActRepeated(number, at_s):
                self.repeat(number, at_s)

    def note(self, act: Act) -> None:
        """A record says that something was done."""
        if act.before:
            if act.before != (self.head or BEGIN):
                self.broken = self.broken or act.number
            self.head = digest_act(act.before, *act[:7])
            act = act._replace(digest=self.head)
        self.next = act.number + 1
        self.fresh.append(act)
        again = self.find_recent(act.who, act.where, act.what, act.about, act.result, act.at_s)
        if again:
            self.repeat(again, act.at_s)
        else:
            self._keep(act._replace(last_s=act.at_s))

    def find_recent(
        self, who: str, where: str, what: str, about: str, result: str, at_s: int
    ) -> int:
        """Number of the act that is kept for such an act at this time; 0: none is."""
        number = self._latest.get((who, _place(where), what, about, result), 0)
        return number if number and 0 <= at_s - self._kept[number].at_s < NOTICE_EVERY_S else 0

    def repeat(self, number: int, at_s: int) -> None:
        """An act was done again; one that is not kept any more counts nothing."""
        act = self._kept.get(number)
        if act is not None:
            self._kept[number] = act._replace(times=act.times + 1, last_s=at_s)

    def behind(self, number: int, count_max: int) -> list[Act]:
        """The next acts behind a number, in their order."""
        numbers = list(self._kept)
        at = bisect_right(numbers, number)
        return [self._kept[one] for one in numbers[at : at + count_max]]

    def dump(self) -> list[list[Any]]:
        """The acts for a checkpoint."""
        return [list(act) for act in self]

    def dump_chain(self) -> list[Any]:
        """The rest for a checkpoint."""
        return [self.next, self.head, self.broken]

    def load(self, rows: list[list[Any]]) -> None:
        """Take the rows of a checkpoint; those of an older version have no digests."""
        for row in rows:
            before, digest, times, last_s = row[7:] or ("", "", 1, row[1])
            act = Act(*row[:7])._replace(
                before=bytes.fromhex(before), digest=bytes.fromhex(digest), times=times,
                last_s=last_s,
            )  # fmt: skip
            self._keep(act)
            self.next = act.number + 1

    def load_chain(self, chain: list[Any] | None) -> None:
        """Take the rest of a checkpoint; an older version has none."""
        if chain is not None:
            self.next, head, self.broken = chain
            self.head = bytes.fromhex(head)

    def _keep(self, act: Act) -> None:
        self._kept[act.number] = act
        self._latest[_key(act)] = act.number
        kinds = self._by_actor.setdefault(act.who, {})
        kinds.setdefault(act.what, []).append(act.number)
        if len(self._kept) <= TRAIL_MAX:
            return
        # Drop the oldest act of the largest kind of the actor with the most acts.
        by_actor = self._by_actor
        who = max(by_actor, key=lambda name: (sum(map(len, by_actor[name].values())), name))
        kinds = by_actor[who]
        what = max(kinds, key=lambda kind: (len(kinds[kind]), kind))
        number = kinds[what].pop(0)
        if not kinds[what]:
            del kinds[what]
        if not kinds:
            del by_actor[who]
        key = _key(self._kept.pop(number))
        if self._latest.get(key) == number:
            del self._latest[key]


def _key(act: Act) -> Key:
    return act.who, _place(act.where), act.what, act.about, act.result


def _place(where: str) -> str:
    """From where, without the process: each command is another one."""
    return where.partition(",")[0]


HEADS_MAX: Final = 8
"""Of one queue manager; an older one goes, and those within an hour are one."""
HEAD_PEERS_MAX: Final = 1_000
"""Queue managers whose ends are kept; the one that was heard longest ago goes."""


class TrailHead(NamedTuple):
    """The end of a trail: the number of its last act, its digest, and when it was told."""

    number: int
    digest: bytes
    at_s: int


class TrailHeads:
    """The ends of the trails of other managers, as they told them."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[bytes, list[TrailHead]] = {}

    def __iter__(self) -> Iterator[tuple[bytes, list[TrailHead]]]:
        return iter(self._of.items())

    def knows(self, guid: bytes, number: int, digest: bytes) -> bool:
        """Whether that is the last one that a manager has told."""
        heads = self._of.get(guid)
        return heads is not None and heads[-1][:2] == (number, digest)

    def apply(self, setup: HeadTold) -> None:
        """Apply a setup."""
        self.note_head(setup.source, TrailHead(setup.number, setup.digest, setup.at_s))

    def note_head(self, guid: bytes, head: TrailHead) -> None:
        """A manager has told its end."""
        heads = self._of.setdefault(guid, [])
        # The first of an hour stays: what comes quickly pushes out nothing.
        if len(heads) > 1 and 0 <= head.at_s - heads[-2].at_s < NOTICE_EVERY_S:
            heads.pop()
        heads.append(head)
        del heads[:-HEADS_MAX]
        if len(self._of) > HEAD_PEERS_MAX:
            del self._of[min(self._of, key=lambda one: (self._of[one][-1].at_s, one))]

    def dump(self) -> list[list[Any]]:
        """For a checkpoint."""
        return [
            [guid, *head]
            for guid, heads in self for head in heads
        ]  # fmt: skip

    def load(self, rows: list[list[Any]]) -> None:
        """From a checkpoint."""
        for guid, number, digest, at_s in rows:
            head = TrailHead(number, bytes.fromhex(digest), at_s)
            self._of.setdefault(bytes.fromhex(guid), []).append(head)


# ---- report requests -----------------------------------------------------------------------------


COMPACT_AT: Final = 1_024
"""Entries let go of before the list is made shorter."""


@dataclass(slots=True)
class ReportRequest:
    """A range in a queue whose sender wants to know how it ends.

    A sender may ask for dead letters, journal copies, final acknowledgments and acknowledgment
    messages. That is noted by ranges: what is put one after another with the same wishes is one, so
    that a queue of a million such messages has a few of these and not a million.

    Attributes:
        source: Sending manager of what has arrived; zero for what was sent here.
        stream, number, message: Of the first message of an arrival; the others follow.
        flags: The bits ``PUT_...`` of ``core/state/records.py``.
        confirm_by: In outgoing queues: second at which the wait for their end is over.
        dead_letter_queue: Number of the sender's own dead-letter queue; 0: the system's.
    """

    first: int
    count: int
    source: bytes
    stream: int
    number: int
    message: int
    flags: int
    confirm_by: int
    dead_letter_queue: int = 0

    @property
    def end(self) -> int:
        """The first counter behind it."""
        return self.first + self.count

    def takes(self, other: ReportRequest) -> bool:
        """Whether another range, put later, is just more of this one."""
        same = (
            self.end == other.first
            and self.flags == other.flags
            and self.source == other.source
            and self.confirm_by == other.confirm_by
            and self.dead_letter_queue == other.dead_letter_queue
        )
        if not same or self.source == NO_GUID:
            return same
        return self.stream == other.stream and (
            not self.stream
            or (self.number + self.count, self.message + self.count)
            == (other.number, other.message)
        )


class ReportRequests:
    """The ranges of one lane, in order."""

    __slots__ = ("_items", "_start")

    def __init__(self, items: Iterable[ReportRequest] = ()) -> None:
        self._items = list(items)
        self._start = 0

    def __bool__(self) -> bool:
        return self._start < len(self._items)

    def __iter__(self) -> Iterator[ReportRequest]:
        items = self._items
        return (items[at] for at in range(self._start, len(items)))

    def since(self, counter: int) -> Iterator[ReportRequest]:
        """The ranges that end behind a counter."""
        items = self._items
        start = max(bisect_right(items, counter, lo=self._start, key=_first) - 1, self._start)
        return (one for one in islice(items, start, None) if one.end > counter)

    def taken(self) -> list[ReportRequest]:
        """The ranges as they are now; later changes do not touch these."""
        items = self._items[self._start :]
        if items:
            # Only the last one can still grow.
            items[-1] = replace(items[-1])
        return items

    def add(self, wanting: ReportRequest) -> None:
        """Note a range that lies behind all others."""
        items = self._items
        if self and items[-1].takes(wanting):
            items[-1].count += wanting.count
        else:
            items.append(wanting)

    def forget_before(self, head: int) -> None:
        """Nothing is left of what lies before a counter."""
        items, start = self._items, self._start
        while start < len(items) and items[start].end <= head:
            start += 1
        if start >= COMPACT_AT:
            del items[:start]
            start = 0
        self._start = start

    def at(self, counter: int) -> ReportRequest | None:
        """The range that a counter is in."""
        items = self._items
        index = bisect_right(items, counter, lo=self._start, key=_first) - 1
        if index < self._start or items[index].end <= counter:
            return None
        return items[index]

    def parts(self, first: int, count: int) -> list[tuple[ReportRequest | None, int, int]]:
        """A range cut where the wishes change: whose they are (None: nobody's), first, count."""
        items, end, at = self._items, first + count, first
        parts: list[tuple[ReportRequest | None, int, int]] = []
        index = max(bisect_right(items, first, lo=self._start, key=_first) - 1, self._start)
        while index < len(items) and items[index].first < end:
            w = items[index]
            index += 1
            start, stop = max(at, w.first), min(end, w.end)
            if start >= stop:
                continue
            if start > at:
                parts.append((None, at, start - at))
            parts.append((w, start, stop - start))
            at = stop
        if at < end:
            parts.append((None, at, end - at))
        return parts


NOBODY: Final = ReportRequests()
"""Where nobody asked. Never added to."""


def _first(wanting: ReportRequest) -> int:
    return wanting.first
