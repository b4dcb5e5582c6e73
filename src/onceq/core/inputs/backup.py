"""A store was put back from a backup: an input of the one who did it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PutBack:
    """The store was put back from a backup; once, before anybody else is heard.

    Attributes:
        taken_s, position: Of the backup.
        previous: GUID of the manager that it is of, if this one is another; empty if it is the
            same.
        instances: New identifiers for the public queues of another manager, one for each.
    """

    owner: int
    request: int
    taken_s: int
    position: int
    previous: bytes = b""
    instances: tuple[bytes, ...] = ()
