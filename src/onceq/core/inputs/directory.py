"""The directory was read: an input of the service."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.model.directory import Snapshot


@dataclass(frozen=True, slots=True)
class DirectoryChanged:
    """The directory was read, or cannot be read any more (DL-14).

    Attributes:
        snapshot: What it says; None: it was never read.
        trouble: Why it cannot be read now; "" if it can.
    """

    snapshot: Snapshot | None
    trouble: str = ""
