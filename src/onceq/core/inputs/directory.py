"""The directory was read, or the rights in it: inputs of the service."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.model.directory import Snapshot
from onceq.model.rights import SharedRights


@dataclass(frozen=True, slots=True)
class DirectoryChanged:
    """The directory was read, or cannot be read any more (DL-14).

    Attributes:
        snapshot: What it says; None: it was never read.
        trouble: Why it cannot be read now; "" if it can.
    """

    snapshot: Snapshot | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class RightsRead:
    """The rights were read that a directory has for all who share it, or cannot be read.

    Attributes:
        book: What stands there; ``NO_RIGHTS``: this queue manager has no directory (any more).
            None: nothing is there, or it cannot be read.
        trouble: Why it cannot be read; "": nothing is there.
    """

    book: SharedRights | None
    trouble: str = ""
