"""The one answer to the question who may do what: all grants, and what follows from them.

A table and no more: who asks, for what and where go in, the answer comes out, and neither the time
nor anything else plays a part. No answer walks over all grants: those about a queue are found by
its name, or by how their pattern begins, and among them those of an actor in the same way. Answers
are kept until the grants change, as many as ``ANSWERS_KEPT_MAX``.

The owner of a queue gives the rights that go with that queue, and nobody weakens what is not
theirs: so these rights do not reach unproven actors, even if an older version has taken such a
grant.

Also here:

* Grants, found by where they hold and by whom they mean: no answer walks over all of them.

Upholds: I28 (nothing happens without a right), I24 (an answer costs the same with many grants).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from itertools import chain
from typing import Any, Final, TypeVar

from onceq.errors import InsufficientResources
from onceq.model.identity import guid_text
from onceq.model.limits import ALIKE_PATTERNS_MAX
from onceq.model.patterns import (
    WHOLE_MANAGER,
    ActorPattern,
    PatternTable,
    QueueName,
    QueuePattern,
    Where,
    key_of,
)
from onceq.model.record import Record
from onceq.model.rights import (
    EVERYBODY,
    NO_RIGHTS,
    NOBODY,
    RUNS,
    UNPROVEN,
    Actor,
    ActorKind,
    Grant,
    Right,
    RightJudgment,
    SharedRights,
    grant_of_row,
    row_of_grant,
)
from onceq.model.shares import OwnerCounts

# ---- grant index ---------------------------------------------------------------------------------


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
    """Grants by where they hold, and there by whom they mean.

    Grants about a queue are found by its name, or by how their pattern begins, and among them those
    of an actor in the same way.
    """

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


# ---- policy --------------------------------------------------------------------------------------


P = TypeVar("P", ActorPattern, QueuePattern)

ANSWERS_KEPT_MAX: Final = 4_096
"""Answers that are kept until a right changes: some 1 MiB."""
_ELSEWHERE: Final = ("direct=", "private=", "public=")
"""How names of queues of other computers begin."""
MANAGER: Final = QueueName("")
"""Where rights over the whole queue manager are asked for."""


class Door(Enum):
    """Where somebody may come in of whom nothing is known."""

    APPLICATIONS = "applications"
    POSTS = "posts"
    METRICS = "metrics"


_OPENED_BY: Final[Mapping[Door, frozenset[Right]]] = {
    Door.APPLICATIONS: frozenset(Right) - {Right.FORWARD},
    Door.POSTS: frozenset((Right.SEND,)),
    Door.METRICS: frozenset((Right.MONITOR,)),
}
"""A door takes more than a greeting of an actor without a name only if any of these rights was
granted to such actors. Nothing else can be done there."""


class _Reason(Record, frozen=True):
    """The grant that gives somebody a right.

    Attributes:
        given: The right of it that does.
        origin: Where it stands.
    """

    grant: Grant
    given: Right
    origin: str


class Policy:
    """All grants of a queue manager, and what follows from them; see the module. What it iterates
    over, counts and changes are its own."""

    __slots__ = ("_answers", "_grants", "_own", "_shared", "_shared_index", "given_by")

    def __init__(self) -> None:
        self._grants: dict[Key, Grant] = {}
        self._own = GrantIndex()
        self.given_by = OwnerCounts()
        """Who has given the grants, without those of owners."""
        self._shared = NO_RIGHTS
        self._shared_index = GrantIndex()
        self._answers: dict[tuple[Actor, Right, str], _Reason | None] = {}

    def __iter__(self) -> Iterator[Grant]:
        return iter(self._grants.values())

    def __len__(self) -> int:
        return len(self._grants)

    @property
    def shared(self) -> SharedRights:
        """The rights in the directory, for every queue manager that shares it."""
        return self._shared

    @shared.setter
    def shared(self, book: SharedRights) -> None:
        self._shared, self._shared_index = book, GrantIndex(book.grants)
        self._answers.clear()

    # ---- what changes it -------------------------------------------------------------------

    def grant(self, grant: Grant) -> None:
        """Give rights, beside those that were given to the same actors there before. What goes with
        a queue is kept apart from what stays."""
        before = self._grants.get(key_of_grant(grant))
        if before is not None:
            grant = replace(grant, rights=grant.rights | before.rights)
        self._put(grant)

    def _put(self, grant: Grant) -> None:
        assert not grant.of_one_queue or grant.pattern.name is not None, "it is about one queue"
        self._uncount(self._grants.get(key_of_grant(grant)))
        self._grants[key_of_grant(grant)] = grant
        if not grant.owner:
            self.given_by.add(grant.by)
        self._own.add(grant)
        self._answers.clear()

    def _drop(self, grant: Grant) -> None:
        self._uncount(self._grants.pop(key_of_grant(grant)))
        self._own.remove(grant)
        self._answers.clear()

    def _uncount(self, grant: Grant | None) -> None:
        if grant is not None and not grant.owner:
            self.given_by.drop(grant.by)

    def revoke(self, who: ActorPattern, rights: frozenset[Right], pattern: QueuePattern) -> None:
        """Take rights away that were given by these words, or by owning the queue; others stay."""
        for one in self.given(who, pattern):
            if one.rights - rights:
                self._put(replace(one, rights=one.rights - rights))
            else:
                self._drop(one)

    def given(self, who: ActorPattern, pattern: QueuePattern) -> list[Grant]:
        """What is given by exactly these words, or by owning the queue that is called so."""
        whom = dict.fromkeys((who, ActorPattern.exactly(str(who))))
        where = dict.fromkeys((pattern, QueuePattern.exactly(str(pattern))))
        return [
            one
            for actors in whom
            for queues in where
            for one in self._own.by(actors, queues)
            # Versions before 0.3 said names of queues and of their owners as they are.
            if (actors, queues) == (who, pattern) or one.of_one_queue
        ]

    def check_room(self, grant: Grant) -> None:
        """Refuse a pattern if too many begin like it: a name is compared with all of these.

        Raises:
            InsufficientResources: There are ``ALIKE_PATTERNS_MAX``.
        """
        if self._own.crowded(grant):
            raise InsufficientResources(
                f"{ALIKE_PATTERNS_MAX} patterns begin as this one does, and each name is compared "
                "with all of them: use names, or fewer patterns"
            )

    def forget_queue(self, queue: str, number: int) -> None:
        """A queue is gone, and with it what its owner had by owning it, and has given on."""
        for one in self._own.exactly(QueuePattern.exactly(queue)):
            if one.queue == number or (one.owner and not one.queue):
                self._drop(one)

    def forget_actor(self, who: ActorPattern) -> None:
        """Forget an actor that is gone: another actor of the same name starts without grants."""
        for key in self._own.of(who):
            self._drop(self._grants[key])

    # ---- what it answers -------------------------------------------------------------------

    def judge(
        self, actor: Actor, right: Right, where: Where = MANAGER, *, said: str = ""
    ) -> RightJudgment:
        """May this actor do that?

        Args:
            where: The queue; a pattern: all queues that it matches; ``MANAGER``: the whole queue
                manager.
            said: How the queue is called in the reason; "": by its name.
        """
        called = said or str(where)
        at = f" at {called}" if called else ""
        if actor.free:
            return RightJudgment(True, f"{actor} runs this queue manager, and may do everything")
        reason = self._reason(actor, right, where)
        if reason is not None:
            return RightJudgment(True, _why(actor, reason, right, at=at))
        if actor.kind is ActorKind.NOBODY:
            return RightJudgment(
                False, f"the requester has not said who it is, and {right.value} needs a name"
            )
        return RightJudgment(False, f"nobody has granted {right.value}{at} to {actor}")

    def allows(self, actor: Actor, right: Right, where: Where = MANAGER) -> bool:
        """The answer of ``judge``, without its reason."""
        return actor.free or self._reason(actor, right, where) is not None

    def _reason(self, actor: Actor, right: Right, where: Where) -> _Reason | None:
        asked = actor, right, key_of(where)
        try:
            return self._answers[asked]
        except KeyError:
            reason = self._sought(*asked)
        if len(self._answers) >= ANSWERS_KEPT_MAX:
            self._answers.clear()
        self._answers[asked] = reason
        return reason

    def _sought(self, actor: Actor, right: Right, key: str) -> _Reason | None:
        for index, origin in ((self._own, ""), (self._shared_index, " in the directory")):
            for grant in index.reaching(actor, key):
                given = giving(grant.rights, actor, right)
                if given is not None:
                    return _Reason(grant, given, origin)
        return None

    def stays(self, actor: Actor, rights: Iterable[Right], where: Where) -> bool:
        """Whether an actor has all these rights at a name, for any queue that has it: then the
        rights that it gives on there are not bound to a queue either."""
        if actor.free:
            return True
        key = key_of(where)
        grants = [
            one
            for index in (self._own, self._shared_index)
            for one in index.reaching(actor, key)
            if not one.of_one_queue
        ]
        return all(
            any(giving(one.rights, actor, right) is not None for one in grants) for right in rights
        )

    def allows_somewhere(self, actor: Actor, right: Right) -> bool:
        """Whether this actor may do that at any queue at all."""
        return actor.free or any(
            index.gives_somewhere(actor, right) for index in (self._own, self._shared_index)
        )

    def allows_elsewhere(self, actor: Actor, right: Right, place: QueueName) -> bool:
        """Whether somebody has given an actor a right at a queue of another computer, by a pattern
        that names other computers: ``*`` means the queues here."""
        return any(
            grant.pattern.parts[0].startswith(_ELSEWHERE)
            and giving(grant.rights, actor, right) is not None
            for index in (self._own, self._shared_index)
            for grant in index.reaching(actor, place)
        )

    def names_peer(self, guid: bytes) -> bool:
        """Whether a queue manager has a right by its own name, not by a pattern."""
        who = ActorPattern.exactly(str(Actor(ActorKind.PEER, guid_text(guid))))
        return any(index.of(who) for index in (self._own, self._shared_index))

    def admits_nobody(self, door: Door) -> bool:
        """Whether somebody of whom nothing is known may do something at a door."""
        return any(self._own.gives_somewhere(NOBODY, right) for right in _OPENED_BY[door])

    def concerns(self, grant: Grant, queue: QueueName) -> bool:
        """Whether a grant is about a queue."""
        return grant.pattern == WHOLE_MANAGER or grant.pattern.matches(queue)

    def means(self, grant: Grant, actor: Actor) -> bool:
        """Whether a grant is about an actor."""
        return reaches(grant, actor) and grant.who.matches(str(actor))

    # ---- checkpoints -----------------------------------------------------------------------

    def dump(self) -> list[list[object]]:
        """For a checkpoint."""
        return [list(row_of_grant(one)) for one in self]

    def load(self, rows: Iterable[Iterable[Any]]) -> None:
        """From a checkpoint."""
        for row in rows:
            self._put(grant_of_row(*row))


def _why(actor: Actor, reason: _Reason, right: Right, *, at: str) -> str:
    grant, given = reason.grant, reason.given
    whom = str(actor) if grant.who.name is not None else f"{grant.who}, which {actor} is one of,"
    if grant.owner:
        return f"{actor} has made the queue{at}, and owns it"
    where = ""
    if grant.pattern != WHOLE_MANAGER:
        where = at if grant.pattern.name is not None else f" at {grant.pattern}"
    more = "" if given is right else f", and {given.value} includes {right.value}"
    said = f"{given.value}{where} was granted{reason.origin} to {whom}{more}"
    return said.replace(",,", ",")
