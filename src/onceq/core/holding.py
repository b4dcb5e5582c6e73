"""Holding the log for a backup: asked by an application, done by the engine.

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
