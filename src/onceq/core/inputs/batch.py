"""What an application sends in one call: a batch."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.model.message import Properties
from onceq.model.run import Run


@dataclass(slots=True)
class SendItem:
    """Messages of one batch: the same destination and properties, different bodies.

    Attributes:
        destination: Format name with one or more elements, as the application gave it.
        age_s: Seconds since the application called send (lifetimes count from there).
        own: Headers of the messages' own (``packet/own.py``), one for each body; None: label and
            the like are those of ``properties`` for all of them.
    """

    destination: str
    properties: Properties
    bodies: Run
    age_s: int = 0
    own: Run | None = None
