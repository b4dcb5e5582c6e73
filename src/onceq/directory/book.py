"""Changes of a directory's content: one value in, another one out.

The keeper of a directory reads its content, lets one of these functions make the next, and replaces
the content while nobody else can.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceq.errors import DirectoryError
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import DIRECTORY_ENTRIES_MAX


def registered(now: Snapshot, computer: Computer, queues: Sequence[PublicQueue]) -> Snapshot:
    """Return a snapshot in which a computer and all its public queues replace its old entries.

    Raises:
        DirectoryError: Another queue manager has that name or one of the queues, or there are too
            many entries.
    """
    name = computer.name.casefold()
    # A manager that calls itself in another way has one entry all the same.
    same = (one for one in now.computers if one.guid == computer.guid != NO_GUID)
    own = {name, *(one.name.casefold() for one in same)}
    others = [one for one in now.computers if one.name.casefold() not in own]
    for one in now.computers:
        if one.name.casefold() == name and one.guid not in (computer.guid, NO_GUID):
            raise DirectoryError(
                f"the directory has another queue manager called {one.name}: two computers of one "
                "directory cannot have one name"
            )
    kept = [queue for queue in now.queues.values() if queue.computer.casefold() not in own]
    guids = {queue.guid for queue in queues}
    for taken in kept:
        if taken.guid in guids:
            raise DirectoryError(
                f"the directory has {taken.computer}\\{taken.name} under the GUID "
                f"{guid_text(taken.guid)}: nobody else can register a queue under it"
            )
    if len(others) + len(kept) + len(queues) >= DIRECTORY_ENTRIES_MAX:
        raise DirectoryError(f"a directory has at most {DIRECTORY_ENTRIES_MAX} entries")
    return Snapshot((*others, computer), (*kept, *queues), now.lists.values())


def relisted(
    now: Snapshot, after: DistributionList | None, before: DistributionList | None
) -> Snapshot:
    """Return a snapshot with a list in place of another.

    Raises:
        DirectoryError: The list is not (or no more) equal to ``before``; or a new one has the name
            of one that is there.
    """
    lists = dict(now.lists)
    if before is not None:
        if lists.pop(before.guid, None) != before:
            raise DirectoryError(
                f"{before.name} was changed by somebody else in this moment; look at it, and try "
                "again"
            )
    elif after is not None and now.list_named(after.name) is not None:
        raise DirectoryError(f"somebody else has made a list {after.name} in this moment")
    if after is not None:
        lists[after.guid] = after
    return Snapshot(now.computers, now.queues.values(), lists.values())


def same(one: Snapshot, other: Snapshot) -> bool:
    """Return True if two snapshots have the same content."""
    return (
        sorted(one.computers, key=_name) == sorted(other.computers, key=_name)
        and dict(one.queues) == dict(other.queues)
        and dict(one.lists) == dict(other.lists)
    )


def _name(computer: Computer) -> str:
    return computer.name
