"""Who may do what: actors, rights and grants. ``model/policy.py`` judges by them.

An *actor* is the origin of a request: an account of this computer, a token, a certificate, another
queue manager, or somebody unknown. A *grant* gives rights to actors, at the queues whose names a
pattern matches, or over the whole queue manager. Everything that no grant gives is refused. The
account that a queue manager runs under is its administrator, without a grant.

The words are those of MSMQ's access rights (MS-MQMQ 2.2.25), with two of our own: to see that a
message is there (``peek``) and to see what it says (``peek-body``) are two things here, and what
concerns a whole queue manager (``monitor``, ``operate``, ``administer``) is MSMQ's machine object.

A directory may also have grants (``SharedRights``), for all queue managers that share it. They are
judged after a queue manager's own, and kept apart from these: taking a grant away there leaves the
grants here, and the other way round.

Also here:

* The user for whom a program works, as it says itself: the trail has it beside the proven actor.
* Rights in a directory: given once, for every queue manager that shares it.

Upholds: I28 (nothing happens without a right).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from onceq.errors import DirectoryError, InvalidParameter
from onceq.model.limits import ACTOR_CHARS_MAX, SHARED_GRANTS_MAX, SHARED_RIGHTS_NUMBER_MAX
from onceq.model.patterns import ANY, WHOLE_MANAGER, ActorPattern, QueuePattern, queue_pattern
from onceq.model.record import Record

# ---- rights --------------------------------------------------------------------------------------


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
    Right.JOURNAL: "see and take the messages of the queue's journal",
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


class ActorKind(Enum):
    """How somebody is known; the values stand before the names."""

    ACCOUNT = "account"
    TOKEN = "token"
    CERTIFICATE = "certificate"
    PEER = "peer"
    ADDRESS = "address"
    NOBODY = "nobody"


class Actor(Record, frozen=True):
    """The origin of a request.

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


EVERYBODY: Final = ActorPattern.read(ANY)
"""All who have proven a name."""
UNPROVEN: Final = frozenset((ActorKind.ADDRESS, ActorKind.NOBODY))
"""Kinds of actors without proof: grants to everybody do not reach them."""
RUNS: Final = frozenset((Right.MONITOR, Right.OPERATE, Right.ADMINISTER))
"""Rights to run a queue manager, which no address has: all users of it would have them."""


def means_unproven(who: ActorPattern) -> bool:
    """Whether it means somebody of whom nothing is proven: then it is a door that opens."""
    return who.parts[0].partition(":")[0] in {kind.value for kind in UNPROVEN}


NOBODY: Final = Actor(ActorKind.NOBODY)
"""A requester that has not said who it is, or could not prove it."""


HERE: Final = Actor(ActorKind.PEER, free=True)
"""A queue manager on this computer, to which nothing has to be proven."""


class Grant(Record, frozen=True):
    """Rights of actors.

    Attributes:
        who: Actor or pattern of actors as ``actor_pattern`` makes it.
        pattern: Of queue names; ``WHOLE_MANAGER`` for rights over the whole queue manager.
        owner: It was given to the creator of a queue: one actor, and one queue.
        queue: Number of the queue that it goes with; 0: it is about names, and applies to every
            queue that has them.
        by: The actor that has given it, if not the account that runs the queue manager; "" in
            older stores.
    """

    who: ActorPattern
    rights: frozenset[Right]
    pattern: QueuePattern = WHOLE_MANAGER
    owner: bool = False
    queue: int = 0
    by: str = ""

    @property
    def of_one_queue(self) -> bool:
        """Whether it is about one queue, and its pattern the name of that and nothing else. Grants
        of owners in older stores do not say which queue."""
        return self.owner or bool(self.queue)


class RightJudgment(Record, frozen=True):
    """The answer to one question: may this actor do that there?

    Attributes:
        because: Why or why not, one sentence.
    """

    allowed: bool
    because: str


def grant_of_row(
    who: str, words: Iterable[str], pattern: str, owner: bool = False, queue: int = 0, by: str = ""
) -> Grant:
    """The grant that a record, or a row of a checkpoint, says: an owner, and a queue with which a
    grant goes, are named there, and everything else is a pattern."""
    whom, where = ActorPattern.read(who), QueuePattern.read(pattern)
    if owner:
        whom = ActorPattern.exactly(who)
    if owner or queue:
        where = QueuePattern.exactly(pattern)
    return Grant(whom, rights_of(words), where, owner, queue, by)


def row_of_grant(grant: Grant) -> tuple[str, list[str], str, bool, int, str]:
    """What ``grant_of_row`` reads."""
    who = grant.who.name if grant.owner else None
    where = grant.pattern.name if grant.of_one_queue else None
    return (
        str(grant.who) if who is None else who,
        words_of(grant.rights),
        str(grant.pattern) if where is None else where,
        grant.owner,
        grant.queue,
        grant.by,
    )


_FOLDED: Final = frozenset((ActorKind.PEER.value, ActorKind.ADDRESS.value))
"""Kinds whose names are written in any case."""


def actor_pattern(text: str) -> ActorPattern:
    """Whom a grant means, in the one spelling that is kept: ``kind:name``.

    Args:
        text: A name alone means an account; ``*`` is everybody who has proven a name, and
            ``nobody`` everybody who has none.

    Raises:
        InvalidParameter: It is neither.
    """
    kind, colon, name = text.partition(":")
    if not colon:
        alone = text in (ANY, ActorKind.NOBODY.value)
        kind, name = (text, "") if alone else (ActorKind.ACCOUNT.value, text)
    known = [one.value for one in ActorKind]
    if kind in (ANY, ActorKind.NOBODY.value) and not name:
        return ActorPattern.read(kind)
    if kind not in known[:-1] or not name:
        raise InvalidParameter(
            f"{text[:ACTOR_CHARS_MAX]!r} cannot have rights: write the name of an "
            "account, or token:NAME, certificate:NAME, peer:GUID, * for all of them, or "
            "address:ADDRESS, or nobody"
        )
    if len(name) > ACTOR_CHARS_MAX or not name.isprintable() or " " in name:
        raise InvalidParameter(
            f"a name has 1 to {ACTOR_CHARS_MAX} characters that can be printed, and no space"
        )
    return ActorPattern.read(f"{kind}:{name.casefold() if kind in _FOLDED else name}")


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
    """The grants of a directory, as they were at one moment.

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
    whom, rights = actor_pattern(who), rights_of(words)
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
    return Grant(whom, rights, queue_pattern(pattern) if pattern else WHOLE_MANAGER)


_ALL_WORDS: Final = frozenset((
    "all", "anybody", "anyone", "authenticated", "authenticated users", "domain users", "everybody",
    "everyone", "users", "world",
))  # fmt: skip
_NOBODY_WORDS: Final = frozenset((
    "anonymous", "anonymous logon", "guest", "guests", "nobody", "no one", "none",
))  # fmt: skip
_GROUP_WORDS: Final = frozenset((
    "administrators", "admins", "backup operators", "domain admins", "operators", "power users",
))  # fmt: skip
"""What groups of that kind are called elsewhere."""


def check_word(who: str) -> None:
    """Refuse to give rights to a group that is called otherwise here: an account of that name would
    have them, which there is not.

    Args:
        who: As it was written.

    Raises:
        InvalidParameter: It is one; the text says how it is written here.
    """
    word = who.casefold().replace("_", " ").replace("-", " ").strip()
    if word in _ALL_WORDS:
        right = "everybody who has a name is written *"
    elif word in _NOBODY_WORDS and who != ActorKind.NOBODY.value:
        right = "everybody without a name is written nobody"
    elif word in _GROUP_WORDS:
        right = "there are no groups: name each account, or use a pattern such as account:ops-*"
    else:
        return
    raise InvalidParameter(
        f"{who} is no group here, and would be an account of that name: {right}. An account that "
        f"is called so is written account:{who.strip()}"
    )


def check_given(grant: Grant) -> None:
    """Refuse to give what would not hold, so that nobody believes that it does; it can be taken
    away, because older versions have taken it.

    Raises:
        InvalidParameter: It is a right to run the queue manager, for addresses.
    """
    runs = words_of(grant.rights & RUNS)
    if runs and grant.who.parts[0].startswith(f"{ActorKind.ADDRESS.value}:"):
        raise InvalidParameter(
            f"no address has {', '.join(runs)}, because everybody who can use it would have that: "
            "grant it to an account, a certificate or a token"
        )


# ---- persons -------------------------------------------------------------------------------------


PERSON_CHARS_MAX: Final = 320
"""Characters of what is said; the rest is left out."""


def place_for(place: str, person: str) -> str:
    """The place of a connection, with the person for whom somebody there says to work.

    It is a claim of the program, and no proof: a right is never judged by it. So it stands where
    the place of a connection stands, behind ``for``, and never where an actor does.

    Args:
        place: An address, or ``local``, and behind a comma the process.
        person: As it was said; "": nothing was.
    """
    kept = "".join(c if c.isprintable() and c != "," else "_" for c in person[:PERSON_CHARS_MAX])
    if not kept.strip():
        return place
    where, comma, process = place.partition(",")
    return f"{where} for {kept.strip()}{comma}{process}"


# ---- shared rights -------------------------------------------------------------------------------


LOCAL_RIGHTS: Final = frozenset((Right.ADMINISTER, Right.OPERATE, Right.FORWARD, Right.SET_RIGHTS))
"""Rights that each queue manager gives itself, and none takes from a directory."""
_EVERYWHERE: Final = frozenset((ActorKind.CERTIFICATE.value, ActorKind.PEER.value))
"""Kinds of actors that are the same at every queue manager. An account belongs to a computer, and a
token to the queue manager that has made it: somebody else may have the name elsewhere."""


def why_not(who: ActorPattern) -> str:
    """Return why an actor cannot have rights everywhere; "" if it can.

    The shared rights are one value, the *book*. Each change of it counts its number up, so that a
    reader recognizes a copy that is older than one it has read, and does not believe it: it would
    give back rights that were taken away since. The identifier says which book it is: numbers of
    two books say nothing of each other.

    A writer of the book gives rights at every queue manager that reads it, and should not become
    the administrator of all of them by that. So rights to run a queue manager, and to give rights,
    are never shared; and the book can name only actors that are the same everywhere. A reader
    leaves the rest out.

    Args:
        who: As ``actor_pattern`` makes it.
    """
    kind, _, name = str(who).partition(":")
    if who == EVERYBODY or kind in _EVERYWHERE:
        return ""
    if kind == ActorKind.ACCOUNT.value:
        return f"the account {name} is somebody else on every computer"
    if kind == ActorKind.TOKEN.value:
        return f"the token {name} is good at the queue manager alone that has made it"
    if kind == ActorKind.ADDRESS.value:
        return f"what has the address {name} proves nothing, and each plain_peers names its own"
    return "who has no name is let in by each queue manager for itself"


def check_shareable(grant: Grant) -> None:
    """Refuse what no queue manager takes from a directory.

    Raises:
        InvalidParameter: It is such a grant; the text says what to do instead.
    """
    reason = why_not(grant.who)
    if reason:
        raise InvalidParameter(
            f"{reason}: a right that holds everywhere is given to certificate:NAME, peer:GUID, or "
            "* for everybody who has a name; for others, grant it at each queue manager"
        )
    local = grant.rights & LOCAL_RIGHTS
    if local:
        raise InvalidParameter(
            f"{', '.join(words_of(local))} is given by each queue manager for itself: else all who "
            "can write the directory would run all of them; grant it there, without 'everywhere'"
        )


def believed(grants: Iterable[Grant]) -> tuple[tuple[Grant, ...], list[str]]:
    """The grants of a book that are taken, and what is left out, each in a few words."""
    taken, left = [], []
    for grant in grants:
        rights = frozenset() if why_not(grant.who) else grant.rights - LOCAL_RIGHTS
        if rights != grant.rights:
            left.append(described(replace(grant, rights=grant.rights - rights)))
        if rights:
            taken.append(replace(grant, rights=rights))
    return tuple(taken), left


def described(grant: Grant) -> str:
    """A grant in a few words."""
    at = f" at {grant.pattern}" if grant.pattern != WHOLE_MANAGER else ""
    return f"{grant.who} {','.join(words_of(grant.rights))}{at}"


def difference(after: Iterable[Grant], before: Iterable[Grant]) -> list[Grant]:
    """What is granted by ``after`` that is not granted by ``before``, by the same words."""
    known = {(one.who, one.pattern): one.rights for one in before}
    found = []
    for one in after:
        rights = one.rights - known.get((one.who, one.pattern), frozenset())
        if rights:
            found.append(replace(one, rights=rights))
    return found


class Regrant(Record, frozen=True):
    """A change of a book, as one queue manager wants it.

    Attributes:
        take: Take these rights away, instead of giving them.
        known: The book as that queue manager has it: what stands is written again from it where it
            is gone, or older.
        id: Of the book, if this is its beginning.
    """

    grant: Grant
    take: bool
    known: SharedRights
    id: bytes


def regranted(now: SharedRights, change: Regrant) -> SharedRights:
    """A book after a change; the same object if that changes nothing.

    Args:
        now: What stands; ``NO_RIGHTS`` if nothing does.

    Raises:
        DirectoryError: There are too many grants.
    """
    gone = not now.id or now.older_than(change.known)
    base = change.known if gone else now
    key = change.grant.who, change.grant.pattern
    table = {(one.who, one.pattern): one for one in base.grants}
    before = table[key].rights if key in table else frozenset()
    after = before - change.grant.rights if change.take else before | change.grant.rights
    if after == before and (base is now or not base.id):
        return now
    table.pop(key, None)
    if after:
        table[key] = replace(change.grant, rights=after)
    if len(table) > SHARED_GRANTS_MAX:
        raise DirectoryError(
            f"the directory has {SHARED_GRANTS_MAX:,} grants already: use patterns, or revoke some"
        )
    fresh = not base.id or base.number >= SHARED_RIGHTS_NUMBER_MAX
    grants = tuple(table[key] for key in sorted(table, key=lambda key: (str(key[0]), str(key[1]))))
    return SharedRights(*((change.id, 1) if fresh else (base.id, base.number + 1)), grants)


def dump_grants(grants: Iterable[Grant]) -> list[list[object]]:
    """For records and checkpoints."""
    return [[str(one.who), words_of(one.rights), str(one.pattern)] for one in grants]


def load_grants(rows: Iterable[Iterable[Any]]) -> tuple[Grant, ...]:
    """What ``dump_grants`` has made; raises InvalidParameter."""
    return tuple(grant_of_row(*row) for row in rows)
