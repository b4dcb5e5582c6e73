"""What a queue manager needs of a directory, wherever that is kept (DL-14).

An LDAP directory has its place behind the same interface. Everything is asked in the thread that
pumps, so that ``look`` has to be quick when nothing has changed.
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
    """What a look at a directory showed.

    Attributes:
        snapshot: What it says; None: it was never read.
        trouble: Why it cannot be read now; "" if it can.
    """

    snapshot: Snapshot | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class SeenRights:
    """What a look at the rights in a directory showed.

    Attributes:
        book: What it says; None: it has none, or they cannot be read.
        trouble: Why they cannot be read; "": there are none.
    """

    book: SharedRights | None
    trouble: str = ""


class Directory(Protocol):
    """One directory, in the hands of one queue manager."""

    @property
    def where(self) -> str:
        """Which directory this is, for people."""

    def look(self) -> Seen:
        """What it says now; the same object as before where nothing has changed."""

    def register(self, computer: Computer, queues: Sequence[PublicQueue]) -> None:
        """Put a computer and all its public queues in place of what there is of them.

        Raises:
            DirectoryError: It could not be changed; nothing was.
        """

    def put_list(self, after: DistributionList | None, before: DistributionList | None) -> None:
        """Put a list in place of another, add it (``before`` None), or drop it (``after`` None).

        Raises:
            DirectoryError: Somebody else has changed it meanwhile, or it could not be written.
        """

    def look_rights(self) -> SeenRights:
        """What it says of rights now; the same object as before where nothing has changed."""

    def put_rights(self, change: Regrant) -> None:
        """Give or take rights, by ``model/shared_rights.py``.

        Raises:
            DirectoryError: It could not be changed; nothing was.
        """
