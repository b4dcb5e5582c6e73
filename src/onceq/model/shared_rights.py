"""Rights that stand in a directory: given once, for every queue manager that shares it.

They are one value, the *book*. Each change of it counts its number up, so that a copy that is older
than what was read before is known for one, and is not believed: it would give back what was taken
away since. The identifier says which book it is: numbers of two books say nothing of each other.

Whoever can write the book gives rights at every queue manager that reads it, and should not become
the administrator of all of them by that. So rights to run a queue manager, and to give rights, are
never shared; and only they can be meant who are the same everywhere. A reader leaves the rest out.

Upholds: I28 (nothing happens without a right).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from onceq.errors import DirectoryError, InvalidParameter
from onceq.model.limits import SHARED_GRANTS_MAX, SHARED_RIGHTS_NUMBER_MAX
from onceq.model.patterns import WHOLE_MANAGER, ActorPattern
from onceq.model.record import Record
from onceq.model.rights import (
    EVERYBODY,
    ActorKind,
    Grant,
    Right,
    SharedRights,
    grant_of_row,
    words_of,
)

LOCAL_RIGHTS: Final = frozenset((Right.ADMINISTER, Right.OPERATE, Right.FORWARD, Right.SET_RIGHTS))
"""Rights that each queue manager gives itself, and none takes from a directory."""
_EVERYWHERE: Final = frozenset((ActorKind.CERTIFICATE.value, ActorKind.PEER.value))
"""Kinds of actors that are the same at every queue manager. An account is a computer's own, and a
token that of the queue manager that has made it: somebody else may have the name elsewhere."""


def why_not(who: ActorPattern) -> str:
    """Why somebody cannot have rights everywhere; "" if he can.

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
            f"{', '.join(words_of(local))} is given by each queue manager for itself: else whoever "
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
