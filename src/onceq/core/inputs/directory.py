"""What is said to the core of a directory: inputs, beside those of ``core/inputs/inputs.py``."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.model.directory import Snapshot


@dataclass(frozen=True, slots=True)
class EditDirectory:
    """Change a list of the directory. Answer: a ListView (``core/management/directory_rules.py``).

    Attributes:
        what: create, add, remove or drop.
        name: Of the list, or ``DL=guid``.
        members: Format names to be added or removed.
        guid: Of a new list.
    """

    owner: int
    request: int
    what: str
    name: str
    members: tuple[str, ...] = ()
    guid: bytes = b""


@dataclass(frozen=True, slots=True)
class DirectoryChanged:
    """The directory was read, or cannot be read any more (DL-14).

    Attributes:
        snapshot: What it says; None: it was never read.
        trouble: Why it cannot be read now; "" if it can.
    """

    snapshot: Snapshot | None
    trouble: str = ""
