"""The interface of a directory to a queue manager, wherever it is kept (DL-14).

An LDAP directory has its place behind the same interface. All calls come in the thread that pumps,
so ``look`` has to be quick when nothing has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot
from onceq.model.rights import SharedRights
from onceq.model.shared_rights import Regrant


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
        """Grant or revoke rights, by ``model/shared_rights.py``.

        Raises:
            DirectoryError: It could not be changed; nothing was.
        """
