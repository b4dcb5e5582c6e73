"""Who did what to this queue manager, and when: the acts of administration that are kept.

Every act is a record of the log, written with the act itself, so that neither a crash nor a restart
loses it; a refusal for want of a right is noted, too. The numbers of acts rise by one.

TRAIL_MAX acts are kept. When there are more, the actor with the most acts loses the oldest one of
the kind that this actor has most of: who does one thing ten thousand times pushes out acts of that
kind and of that actor, and no others. An act that is done again within NOTICE_EVERY_S is not kept
a second time: the first one tells how often, and when last.

Each act has a digest, which covers the act and the digest of the act before it
(``model/act_chain.py``): also of the acts that are not kept any more. ``head`` is the last one.

Upholds: I22, I24 (TRAIL_MAX), I28 (who did something is known).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from onceq.core.state.setups import ActRepeated, Noted, Setup
from onceq.model.act_chain import BEGIN, digest_act
from onceq.model.limits import NOTICE_EVERY_S, TRAIL_MAX

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
    """See the module."""

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
        """Acts since this was loaded, each of them, for whoever tells others; no part of what is
        durable."""

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
        if len(self._kept) > TRAIL_MAX:
            self._drop_one()

    def _drop_one(self) -> None:
        """Drop the oldest act of the largest kind of the actor with the most acts."""
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
