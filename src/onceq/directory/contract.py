"""The interface of a directory to a queue manager, wherever it is kept (DL-14).

An LDAP directory has its place behind the same interface. All calls come in the thread that pumps,
so ``look`` has to be quick when nothing has changed.

Also here:

* Changes of a directory's content: one value in, another one out.
* A directory in memory, shared by the queue managers of one process; for tests, and for programs
  that have their own way of knowing where each manager is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from onceq.errors import DirectoryError
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import DIRECTORY_ENTRIES_MAX
from onceq.model.rights import NO_RIGHTS, Regrant, SharedRights, regranted


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a look at a directory.

    Attributes:
        snapshot: What it says; None: it was never read.
        trouble: Why it cannot be read now; "" if it can.
    """

    snapshot: Snapshot | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class SeenRights:
    """The result of a look at the rights in a directory.

    Attributes:
        book: What it says; None: it has none, or they cannot be read.
        trouble: Why they cannot be read; "": there are none.
    """

    book: SharedRights | None
    trouble: str = ""


class Directory(Protocol):
    """One directory, as one queue manager uses it."""

    @property
    def where(self) -> str:
        """Return the name of this directory, for people."""

    def look(self) -> Seen:
        """Return its current content; the same object as before where nothing has changed."""

    def register(self, computer: Computer, queues: Sequence[PublicQueue]) -> None:
        """Replace the entries of a computer and all its public queues.

        Raises:
            DirectoryError: It could not be changed; nothing was.
        """

    def put_list(self, after: DistributionList | None, before: DistributionList | None) -> None:
        """Put a list in place of another, add it (``before`` None), or drop it (``after`` None).

        Raises:
            DirectoryError: It was changed meanwhile, or it could not be written.
        """

    def look_rights(self) -> SeenRights:
        """Return its current rights; the same object as before where nothing has changed."""

    def put_rights(self, change: Regrant) -> None:
        """Grant or revoke rights, by ``model/rights.py``.

        Raises:
            DirectoryError: It could not be changed; nothing was.
        """


# ---- book ----------------------------------------------------------------------------------------


def registered(now: Snapshot, computer: Computer, queues: Sequence[PublicQueue]) -> Snapshot:
    """Return a snapshot in which a computer and all its public queues replace its old entries.

    The keeper of a directory reads its content, lets one of these functions make the next, and
    replaces the content while nobody else can.

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


# ---- memory --------------------------------------------------------------------------------------


class MemoryDirectory:
    """A ``Directory`` in memory. Every method may be called from any thread."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.snapshot = snapshot if snapshot is not None else Snapshot()
        """Its content."""
        self._seen = Seen(self.snapshot)
        self._rights = SeenRights(None)
        self._lock = threading.Lock()

    @property
    def where(self) -> str:
        """Return a name that says: in memory."""
        return "in memory"

    def online(self, reachable: bool) -> None:
        """Make it unreachable, or reachable again."""
        with self._lock:
            trouble = "" if reachable else "out of reach"
            self._seen = Seen(None, trouble) if trouble else Seen(self.snapshot)
            self._rights = SeenRights(self._rights.book, trouble)

    def look(self) -> Seen:
        """Return its current content."""
        return self._seen

    def register(self, computer: Computer, queues: Sequence[PublicQueue]) -> None:
        """Replace the entries of a computer."""
        with self._lock:
            self._put(registered(self._known(), computer, queues))

    def put_list(self, after: DistributionList | None, before: DistributionList | None) -> None:
        """Replace a list."""
        with self._lock:
            self._put(relisted(self._known(), after, before))

    def look_rights(self) -> SeenRights:
        """Return its current rights."""
        return self._rights

    def put_rights(self, change: Regrant) -> None:
        """Grant or revoke rights."""
        with self._lock:
            self._known()
            self._rights = SeenRights(regranted(self._rights.book or NO_RIGHTS, change))

    def _known(self) -> Snapshot:
        if self._seen.trouble:
            raise DirectoryError(f"the directory is {self._seen.trouble}")
        return self.snapshot

    def _put(self, snapshot: Snapshot) -> None:
        if not same(snapshot, self.snapshot):
            self.snapshot = snapshot
            self._seen = Seen(snapshot)
