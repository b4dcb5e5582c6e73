"""Who may do what: actors, rights, grants, and the one answer to a question about them.

An *actor* is whoever asks: an account of this computer, a token, a certificate, another queue
manager, or somebody of whom nothing is known. A *grant* gives rights to actors, at the queues whose
names a pattern matches, or over the whole queue manager. What no grant gives is refused. The
account that a queue manager runs under is its administrator, without a grant.

The words are those of MSMQ's access rights (MS-MQMQ 2.2.25), with two of our own: to see that a
message is there (``peek``) and to see what it says (``peek-body``) are two things here, and what
concerns a whole queue manager (``monitor``, ``operate``, ``administer``) is MSMQ's machine object.

Grants may also stand in a directory (``model/shared_rights.py``), for all queue managers that share
it. They are judged after a queue manager's own, and kept apart from these: what is taken away there
leaves what was given here, and the other way round.

Upholds: I28 (nothing happens without a right).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.limits import ACTOR_CHARS_MAX, PATTERN_CHARS_MAX
from onceq.model.record import Record


class Right(Enum):
    """What somebody may be allowed to do; the values are the words of commands and views."""

    SEND = "send"
    RECEIVE = "receive"
    PEEK = "peek"
    PEEK_BODY = "peek-body"
    JOURNAL = "journal"
    DELETE = "delete"
    GET_PROPERTIES = "get-properties"
    SET_PROPERTIES = "set-properties"
    GET_RIGHTS = "get-rights"
    SET_RIGHTS = "set-rights"
    CREATE = "create"
    FORWARD = "forward"
    MONITOR = "monitor"
    OPERATE = "operate"
    ADMINISTER = "administer"


MEANING: Final[Mapping[Right, str]] = {
    Right.SEND: "send messages there",
    Right.RECEIVE: "take messages out, and see them",
    Right.PEEK: "see that messages are there, and their headers",
    Right.PEEK_BODY: "see what messages say",
    Right.JOURNAL: "see and take what stands in the queue's journal",
    Right.DELETE: "delete the queue",
    Right.GET_PROPERTIES: "see how the queue is made, and how much is in it",
    Right.SET_PROPERTIES: "change how the queue is made",
    Right.GET_RIGHTS: "see who may do what there",
    Right.SET_RIGHTS: "let others do what one may oneself there",
    Right.CREATE: "make queues of such names, and own them",
    Right.FORWARD: "for queue managers: send what others have sent, and what is for others",
    Right.MONITOR: "see the whole queue manager and every queue, but no body",
    Right.OPERATE: "monitor; and pause, resend, purge, return, decide branches in doubt, back up",
    Right.ADMINISTER: "everything",
}
"""What each right allows, as the documentation and ``onceq rights`` say it."""

WHOLE: Final = frozenset((Right.FORWARD, Right.MONITOR, Right.OPERATE, Right.ADMINISTER))
"""Rights over a whole queue manager: their grants have no pattern."""
OWNS: Final = frozenset(Right) - WHOLE - {Right.CREATE}
"""What the creator of a queue may do there."""
_IMPLIED: Final[Mapping[Right, frozenset[Right]]] = {
    Right.RECEIVE: frozenset((Right.PEEK, Right.PEEK_BODY)),
    Right.PEEK_BODY: frozenset((Right.PEEK,)),
    Right.SET_PROPERTIES: frozenset((Right.GET_PROPERTIES,)),
    Right.SET_RIGHTS: frozenset((Right.GET_RIGHTS,)),
    Right.MONITOR: frozenset((Right.PEEK, Right.GET_PROPERTIES, Right.GET_RIGHTS)),
    Right.OPERATE: frozenset((Right.MONITOR, Right.PEEK, Right.GET_PROPERTIES, Right.GET_RIGHTS)),
    Right.ADMINISTER: frozenset(Right),
}
ROWS: Final = "rows="
"""What is before the name of a database where rights say who may have its rows decide."""
ANYWHERE: Final = "*"
"""The pattern of every queue, and the name of everybody who has proven one."""


class ActorKind(Enum):
    """How somebody is known; the values stand before the names."""

    ACCOUNT = "account"
    TOKEN = "token"
    CERTIFICATE = "certificate"
    PEER = "peer"
    ADDRESS = "address"
    NOBODY = "nobody"


class Actor(Record, frozen=True):
    """Whoever asks.

    Attributes:
        name: Of the account, the token, the certificate; GUID of a queue manager; address of a
            computer whose queue managers may speak without proving who they are
            (``plain_peers``).
        free: It is the account that the queue manager runs under, which may do everything.
    """

    kind: ActorKind
    name: str = ""
    free: bool = False

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}" if self.name else self.kind.value


UNPROVEN: Final = frozenset((ActorKind.ADDRESS, ActorKind.NOBODY))
"""Kinds of which nothing is proven: what is given to all does not reach them."""
RUNS: Final = frozenset((Right.MONITOR, Right.OPERATE, Right.ADMINISTER))
"""Rights to run a queue manager, which no address has: whoever can use it would have them."""

NOBODY: Final = Actor(ActorKind.NOBODY)
"""Somebody who has not said who he is, or could not prove it."""


HERE: Final = Actor(ActorKind.PEER, free=True)
"""A queue manager on this computer, to which nothing has to be proven."""


class Grant(Record, frozen=True):
    """Rights of actors.

    Attributes:
        who: Actor or pattern of actors as ``actor_pattern`` makes it.
        pattern: Of queue names; "" for rights over the whole queue manager.
        owner: It was given to the creator of a queue, and goes with that.
    """

    who: str
    rights: frozenset[Right]
    pattern: str = ""
    owner: bool = False


class Judgment(Record, frozen=True):
    """The answer to one question: may this actor do that there?

    Attributes:
        because: Why or why not, one sentence.
    """

    allowed: bool
    because: str


_FOLDED: Final = frozenset((ActorKind.PEER.value, ActorKind.ADDRESS.value))
"""Kinds whose names are written in any case."""


def actor_pattern(text: str) -> str:
    """Whom a grant means, in the one spelling that is kept: ``kind:name``.

    Args:
        text: A name alone is that of an account; ``*`` is everybody who has proven a name, and
            ``nobody`` whoever has none.

    Raises:
        InvalidParameter: It is neither.
    """
    kind, colon, name = text.partition(":")
    if not colon:
        alone = text in (ANYWHERE, ActorKind.NOBODY.value)
        kind, name = (text, "") if alone else (ActorKind.ACCOUNT.value, text)
    known = [one.value for one in ActorKind]
    if kind == ANYWHERE and not name:
        return ANYWHERE
    if kind == ActorKind.NOBODY.value and not name:
        return kind
    if kind not in known[:-1] or not name:
        raise InvalidParameter(
            f"{text[:ACTOR_CHARS_MAX]!r} is nobody who can have rights: write the name of an "
            "account, or token:NAME, certificate:NAME, peer:GUID, * for all of them, or "
            "address:ADDRESS, or nobody"
        )
    if len(name) > ACTOR_CHARS_MAX or not name.isprintable() or " " in name:
        raise InvalidParameter(
            f"a name has 1 to {ACTOR_CHARS_MAX} characters that can be printed, and no space"
        )
    return f"{kind}:{name.casefold() if kind in _FOLDED else name}"


def queue_pattern(text: str) -> str:
    """The queues that a grant is about, in the one spelling that is kept; raises
    InvalidParameter."""
    if not 0 < len(text) <= PATTERN_CHARS_MAX or not text.isprintable():
        raise InvalidParameter(
            f"a pattern of queue names has 1 to {PATTERN_CHARS_MAX} characters that can be "
            "printed, such as private$\\orders*"
        )
    # As in names of queues, either slash will do; in a URL or a path it cannot be the other one.
    name = text.casefold()
    return name if name.startswith(("direct=http", ROWS)) else name.replace("/", "\\")


def rights_of(words: Iterable[str]) -> frozenset[Right]:
    """Rights by their words; raises InvalidParameter for a word that is none."""
    try:
        found = frozenset(map(Right, words))
    except ValueError as error:
        raise InvalidParameter(f"{error}; rights are {', '.join(r.value for r in Right)}") from None
    if not found:
        raise InvalidParameter("no right is named")
    return found


def words_of(rights: Iterable[Right]) -> list[str]:
    """The words of rights, always in the same order."""
    given = frozenset(rights)
    return [right.value for right in Right if right in given]


class SharedRights(Record, frozen=True):
    """The grants of a directory, as they were at one moment (``model/shared_rights.py``).

    Attributes:
        id: Which book of grants it is, a GUID; empty: there is none.
        number: Of the change that was the last one.
        grants: One for each pair of actors and queues, none of them empty.
    """

    id: bytes = b""
    number: int = 0
    grants: tuple[Grant, ...] = ()

    def older_than(self, other: SharedRights) -> bool:
        """Whether this is the same book at an earlier time."""
        return self.id == other.id and self.number < other.number


NO_RIGHTS: Final = SharedRights()
"""Of a queue manager that has no directory, and of a directory without rights."""


def grant_of(who: str, words: Iterable[str], pattern: str) -> Grant:
    """What somebody wants to grant, in the one spelling that is kept; raises InvalidParameter."""
    who, rights = actor_pattern(who), rights_of(words)
    whole = rights & WHOLE
    if whole and (pattern or rights - WHOLE):
        raise InvalidParameter(
            f"{', '.join(words_of(whole))} is about the whole queue manager: grant it alone, "
            "and without a queue"
        )
    if not whole and not pattern:
        raise InvalidParameter(
            f"{', '.join(words_of(rights))} needs the name of a queue, or a pattern such "
            "as private$\\orders* ('*': every queue)"
        )
    return Grant(who, rights, queue_pattern(pattern) if pattern else "")


def check_given(grant: Grant) -> None:
    """Refuse to give what would not hold, so that nobody believes that it does; it can be taken
    away, because older versions have taken it.

    Raises:
        InvalidParameter: It is a right to run the queue manager, for addresses.
    """
    runs = words_of(grant.rights & RUNS)
    if runs and grant.who.startswith(f"{ActorKind.ADDRESS.value}:"):
        raise InvalidParameter(
            f"no address has {', '.join(runs)}, because whoever can use it would have that: grant "
            "it to an account, a certificate or a token"
        )


class Policy:
    """All grants of a queue manager, and what follows from them; see the module. What it iterates
    over, counts and changes are its own.

    A table and no more: who asks, for what and where go in, the answer comes out, and neither the
    time nor anything else plays a part.
    """

    __slots__ = ("_grants", "shared")

    def __init__(self) -> None:
        self._grants: dict[tuple[str, str, bool], Grant] = {}
        self.shared = NO_RIGHTS
        """What stands in the directory, for every queue manager that shares it."""

    def __iter__(self) -> Iterator[Grant]:
        return iter(self._grants.values())

    def __len__(self) -> int:
        return len(self._grants)

    def grant(self, grant: Grant) -> None:
        """Give rights, beside those that were given to the same actors there before. What somebody
        has by owning a queue is kept apart from what he was granted, because it goes with it."""
        key = grant.who, grant.pattern, grant.owner
        before = self._grants.get(key)
        rights = grant.rights | (before.rights if before is not None else frozenset())
        self._grants[key] = Grant(grant.who, rights, grant.pattern, grant.owner)

    def revoke(self, who: str, rights: frozenset[Right], pattern: str) -> None:
        """Take rights away that were given by these words, or by owning the queue; others stay."""
        for owner in (False, True):
            before = self._grants.pop((who, pattern, owner), None)
            left = before.rights - rights if before is not None else frozenset()
            if left:
                self._grants[who, pattern, owner] = Grant(who, left, pattern, owner)

    def has(self, who: str, pattern: str, *, owner: bool) -> frozenset[Right]:
        """What is given by exactly these words, or (``owner``) by owning the queue."""
        found = self._grants.get((who, pattern, owner))
        return found.rights if found is not None else frozenset()

    def forget_queue(self, queue: str) -> None:
        """A queue is gone, and with it what its owner had by owning it."""
        for key in [k for k, one in self._grants.items() if one.owner and one.pattern == queue]:
            del self._grants[key]

    def forget_actor(self, who: str) -> None:
        """Whoever was meant by exactly these words is gone: another of that name starts anew."""
        for key in [key for key in self._grants if key[0] == who]:
            del self._grants[key]

    def judge(self, actor: Actor, right: Right, queue: str = "", *, said: str = "") -> Judgment:
        """May this actor do that?

        Args:
            queue: Name of the queue, case-folded; "" for the whole queue manager.
            said: How the queue is called in the reason; "": by its name.
        """
        at = f" at {said or queue}" if queue else ""
        if actor.free:
            return Judgment(True, f"{actor} runs this queue manager, and may do everything")
        for grants, origin in (
            (self._grants.values(), ""),
            (self.shared.grants, " in the directory"),
        ):
            for grant in grants:
                if not _names(grant.who, actor) or not _covers(grant, queue):
                    continue
                given = _giving(grant, actor, right)
                if given is not None:
                    return Judgment(True, _why(actor, grant, given, right, at=at, origin=origin))
        if actor.kind is ActorKind.NOBODY:
            return Judgment(
                False, f"whoever asks has not said who he is, and {right.value} needs a name"
            )
        return Judgment(False, f"nobody has granted {right.value}{at} to {actor}")

    def allows(self, actor: Actor, right: Right, queue: str = "") -> bool:
        """The answer of ``judge``, without its reason."""
        return actor.free or self.judge(actor, right, queue).allowed

    def allows_somewhere(self, actor: Actor, right: Right) -> bool:
        """Whether this actor may do that at any queue at all."""
        return actor.free or any(
            _names(grant.who, actor) and _giving(grant, actor, right) is not None
            for grant in (*self, *self.shared.grants)
        )

    def admits_nobody(self) -> bool:
        """Whether somebody may have a right of whom nothing is known."""
        return any(grant.who == ActorKind.NOBODY.value for grant in self._grants.values())

    def concerns(self, grant: Grant, queue: str) -> bool:
        """Whether a grant is about a queue."""
        return _covers(grant, queue)

    def means(self, grant: Grant, actor: Actor) -> bool:
        """Whether a grant is about an actor."""
        return _names(grant.who, actor)

    def dump(self) -> list[list[object]]:
        """For a checkpoint."""
        return [[one.who, words_of(one.rights), one.pattern, one.owner] for one in self]

    def load(self, rows: Iterable[Iterable[object]]) -> None:
        """From a checkpoint."""
        for who, words, pattern, owner in rows:
            grant = Grant(str(who), rights_of(words), str(pattern), bool(owner))  # type: ignore[arg-type]
            self._grants[grant.who, grant.pattern, grant.owner] = grant


def _names(who: str, actor: Actor) -> bool:
    """Whether a grant is about an actor."""
    if who == ANYWHERE:
        return actor.kind not in UNPROVEN
    return _matches(str(actor), who)


def _giving(grant: Grant, actor: Actor, right: Right) -> Right | None:
    """The right of a grant that gives this one to an actor whom it means; None: none does."""
    gives = grant.rights - RUNS if actor.kind is ActorKind.ADDRESS else grant.rights
    return next(
        (one for one in gives if one is right or right in _IMPLIED.get(one, frozenset())), None
    )


def _covers(grant: Grant, queue: str) -> bool:
    """Whether a grant is about a queue; one of the whole queue manager is about all of them."""
    if not grant.pattern:
        return True
    return bool(queue) and _matches(queue, grant.pattern)


def _matches(name: str, pattern: str) -> bool:
    """Only ``*`` means something in a pattern: ``?`` and brackets are characters of names."""
    first, *others = pattern.split(ANYWHERE)
    if not others:
        return name == pattern
    *middle, last = others
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _why(
    actor: Actor, grant: Grant, given: Right, right: Right, *, at: str, origin: str
) -> str:  # fmt: skip
    whom = str(actor) if grant.who == str(actor) else f"{grant.who}, which {actor} is one of,"
    where = f" at {grant.pattern}" if grant.pattern and f" at {grant.pattern}" != at else at
    if grant.owner:
        return f"{actor} has made the queue{at}, and owns it"
    more = "" if given is right else f", and {given.value} includes {right.value}"
    said = f"{given.value}{where if grant.pattern else ''} was granted{origin} to {whom}{more}"
    return said.replace(",,", ",")
