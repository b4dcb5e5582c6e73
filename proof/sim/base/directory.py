"""The directory of a simulated world, which also knows what its managers must know of it.

It goes away and comes back, and an older copy of its rights is put in their place: those who have
read the newer ones must not follow it.

Watches: I28, with ``judge/permissions.py``: what stands here is what its managers have to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from onceq.directory import MemoryDirectory, SeenRights
from onceq.model.rights import NO_RIGHTS, Grant, Regrant, SharedRights
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import SECOND

FOLLOWED_US: Final = SECOND
"""By then every manager that does something has looked, by any clock: ten times a look's wait."""


class SimDirectory(MemoryDirectory):
    """See the module."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel
        self.newest = NO_RIGHTS
        """The rights that count."""
        self._before: list[SharedRights] = []
        self._changed_us = 0
        self.changes = 0
        """Rises whenever somebody may have to follow, or cannot."""

    def online(self, reachable: bool) -> None:
        """See MemoryDirectory."""
        super().online(reachable)
        self._noted()

    def put_rights(self, change: Regrant) -> None:
        """See Directory."""
        super().put_rights(change)
        book = self.look_rights().book
        assert book is not None
        if _others(book, change) != _others(self.newest, change):
            self._kernel.wrong("I28: a change of the directory's rights has changed others, too")
        if book != self.newest:
            self._before.append(self.newest)
            self.newest = book
            self._noted()

    def _noted(self) -> None:
        self._changed_us, self.changes = self._kernel.now, self.changes + 1

    @property
    def steady(self) -> bool:
        """Whether everybody who does something now has followed."""
        calm_us = self._kernel.now - self._changed_us
        return not self.look_rights().trouble and calm_us >= FOLLOWED_US

    def gives(self, who: str, rights: Iterable[str], queue: str) -> bool:
        """Whether the newest rights allow what needs one of these."""
        return _gives(self.newest, who, rights, queue)

    def ever_gave(self, who: str, rights: Iterable[str], queue: str) -> bool:
        """Whether any rights here have ever allowed it."""
        wanted = tuple(rights)
        return any(_gives(book, who, wanted, queue) for book in (self.newest, *self._before))

    def put_back(self, which: int) -> bool:
        """Put an older copy in place of the newest rights; return whether there is one."""
        older = [book for book in self._before if book.id == self.newest.id]
        if not older or self.look_rights().trouble:
            return False
        self._rights = SeenRights(older[which % len(older)])
        return True


def _others(book: SharedRights, change: Regrant) -> set[Grant]:
    """What stands there that a change is not about."""
    key = change.grant.who, change.grant.pattern
    return {one for one in book.grants if (one.who, one.pattern) != key}


def _gives(book: SharedRights, who: str, rights: Iterable[str], queue: str) -> bool:
    """Whether a book allows what needs one of these."""
    kind, _, _ = who.partition(":")
    wanted = set(rights)
    return any(
        str(one.who) in (who, f"{kind}:*", "*")
        and str(one.pattern) in (queue, "*")
        and wanted & {right.value for right in one.rights}
        for one in book.grants
    )
