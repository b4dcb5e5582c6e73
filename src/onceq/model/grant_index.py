"""Grants, found by where they hold and by whom they mean: no answer walks over all of them.

Grants about a queue are found by its name, or by how their pattern begins, and among them those of
an actor in the same way.

Upholds: I24 (an answer costs the same with many grants), I28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from onceq.model.limits import ALIKE_PATTERNS_MAX
from onceq.model.patterns import (
    WHOLE_MANAGER,
    ActorPattern,
    PatternTable,
    QueuePattern,
)
from onceq.model.rights import (
    EVERYBODY,
    RUNS,
    UNPROVEN,
    Actor,
    ActorKind,
    Grant,
    Right,
)

_IMPLIED: Final[Mapping[Right, frozenset[Right]]] = {
    Right.RECEIVE: frozenset((Right.PEEK, Right.PEEK_BODY)),
    Right.PEEK_BODY: frozenset((Right.PEEK,)),
    Right.SET_PROPERTIES: frozenset((Right.GET_PROPERTIES,)),
    Right.SET_RIGHTS: frozenset((Right.GET_RIGHTS,)),
    Right.MONITOR: frozenset((Right.PEEK, Right.GET_PROPERTIES, Right.GET_RIGHTS)),
    Right.OPERATE: frozenset((Right.MONITOR, Right.PEEK, Right.GET_PROPERTIES, Right.GET_RIGHTS)),
    Right.ADMINISTER: frozenset(Right),
}

Key = tuple[ActorPattern, QueuePattern, bool, int]


class GrantIndex:
    """Grants by where they hold, and there by whom they mean."""

    __slots__ = ("_at", "_given")

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self._at: PatternTable[QueuePattern, PatternTable[ActorPattern, dict[Key, Grant]]] = (
            PatternTable()
        )
        self._given: PatternTable[ActorPattern, _Given] = PatternTable()
        for one in grants:
            self.add(one)

    def add(self, grant: Grant) -> None:
        """Take a grant up, in place of the one that has the same key."""
        at = self._at.get(grant.pattern)
        if at is None:
            at = PatternTable()
            self._at.put(grant.pattern, at)
        entry = at.get(grant.who)
        if entry is None:
            entry = {}
            at.put(grant.who, entry)
        given = self._given.get(grant.who)
        if given is None:
            given = _Given()
            self._given.put(grant.who, given)
        before = entry.get(key_of_grant(grant))
        if before is not None:
            given.count(before, -1)
        entry[key_of_grant(grant)] = grant
        given.count(grant, 1)

    def remove(self, grant: Grant) -> None:
        """Forget a grant."""
        at, given = self._at.get(grant.pattern), self._given.get(grant.who)
        entry = at.get(grant.who) if at is not None else None
        assert at is not None, "it stands here"
        assert given is not None, "and is counted"
        assert entry is not None, "with whom it means"
        del entry[key_of_grant(grant)]
        given.count(grant, -1)
        if not given.keys:
            self._given.drop(grant.who)
        if not entry:
            at.drop(grant.who)
        if not at:
            self._at.drop(grant.pattern)

    def exactly(self, pattern: QueuePattern) -> list[Grant]:
        """All grants that have this pattern."""
        at = self._at.get(pattern)
        return [one for entry in at.values() for one in entry.values()] if at is not None else []

    def of(self, who: ActorPattern) -> tuple[Key, ...]:
        """The keys of all grants that mean exactly these."""
        given = self._given.get(who)
        return tuple(given.keys) if given is not None else ()

    def by(self, who: ActorPattern, pattern: QueuePattern) -> list[Grant]:
        """All grants of these actors by this pattern."""
        at = self._at.get(pattern)
        entry = at.get(who) if at is not None else None
        return list(entry.values()) if entry is not None else []

    def reaching(self, actor: Actor, key: str) -> Iterator[Grant]:
        """All grants that mean an actor and hold at a place: those about it, and those over all."""
        whole = self._at.get(WHOLE_MANAGER)
        at_place = self._at.find(key) if key else ()  # no pattern of queues means the whole
        for at in chain(at_place, () if whole is None else (whole,)):
            for entry in at.find(str(actor)):
                for one in entry.values():
                    if reaches(one, actor):
                        yield one

    def gives_somewhere(self, actor: Actor, right: Right) -> bool:
        """Whether an actor has a right at any place."""
        unproven = actor.kind in UNPROVEN
        for given in self._given.find(str(actor)):
            rights = given.staying if unproven else given.rights
            if given.reaches(actor) and giving(frozenset(rights), actor, right) is not None:
                return True
        return False

    def crowded(self, grant: Grant) -> bool:
        """Whether as many patterns are there as a name may be compared with."""
        at = self._at.get(grant.pattern)
        return self._at.alike(grant.pattern) >= ALIKE_PATTERNS_MAX or (
            at is not None and at.alike(grant.who) >= ALIKE_PATTERNS_MAX
        )


class _Given:
    """What the same actors were given, at all places together."""

    __slots__ = ("keys", "rights", "staying", "who")

    def __init__(self) -> None:
        self.who: ActorPattern | None = None
        self.keys: dict[Key, None] = {}
        self.rights: Counter[Right] = Counter()
        self.staying: Counter[Right] = Counter()
        """Of it what does not go with one queue."""

    def reaches(self, actor: Actor) -> bool:
        """Whether one that their words match is one of them."""
        return self.who is not None and _means(self.who, actor)

    def count(self, grant: Grant, by: int) -> None:
        """Count a grant, or not any more."""
        self.who = grant.who
        if by > 0:
            self.keys[key_of_grant(grant)] = None
        else:
            del self.keys[key_of_grant(grant)]
        for counts in (self.rights,) if grant.of_one_queue else (self.rights, self.staying):
            for right in grant.rights:
                counts[right] += by
                if not counts[right]:
                    del counts[right]


def key_of_grant(grant: Grant) -> Key:
    """What is given to the same actors by the same words, and goes at the same time."""
    return grant.who, grant.pattern, grant.owner, grant.queue


def _means(who: ActorPattern, actor: Actor) -> bool:
    """Whether a pattern that matches an actor means it: all are those who have proven a name."""
    return actor.kind not in UNPROVEN or who != EVERYBODY


def reaches(grant: Grant, actor: Actor) -> bool:
    """The same for a grant; of what goes with one queue nothing reaches who has proven nothing."""
    return _means(grant.who, actor) and not (grant.of_one_queue and actor.kind in UNPROVEN)


def giving(rights: frozenset[Right], actor: Actor, right: Right) -> Right | None:
    """The right of these that gives this one to an actor whom they were given; None: none does."""
    gives = rights - RUNS if actor.kind is ActorKind.ADDRESS else rights
    if right in gives:
        return right
    return next((one for one in gives if right in _IMPLIED.get(one, ())), None)
