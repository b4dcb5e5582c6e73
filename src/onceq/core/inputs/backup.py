"""Backups: the log is held while one is made, and a store was put back from one.

Holding is asked by an application and done by the engine.

The core keeps nothing of it: what a backup copies is what is durable, and that is the engine's and
the store's. Only the order is decided here: a cut is made after everything that was decided before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Grip(Enum):
    """What is asked of a hold."""

    BEGIN = "begin"
    KEEP = "keep"
    END = "end"


@dataclass(frozen=True, slots=True)
class HoldLog:
    """Hold the files of the log as they are now, go on holding them, or let them go.

    Attributes:
        number: Which hold, as BEGIN has answered; 0 for BEGIN.
    """

    owner: int
    request: int
    grip: Grip
    number: int = 0


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
