"""Inputs about single messages in queues: cursors, moves, rejections, exact receives.

What all inputs have in common is said in ``core/inputs/inputs.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Seek(IntEnum):
    """Which message is meant, from a lookup identifier or from a cursor (RCV-21)."""

    CURRENT = 0
    NEXT = 1
    PREV = 2
    FIRST = 4
    LAST = 8


class PickBy(IntEnum):
    """What a peek compares or tells."""

    HEADS = 1
    CORRELATION = 2
    MESSAGE = 3
    TOPS = 4


@dataclass(frozen=True, slots=True)
class Pick:
    """Of the messages that a peek looked at: the first with these bytes, one small record for each
    (HEADS), or the first bytes of each (TOPS; ``value`` says how many, u32). So a search does not
    carry every body to the application (RCV-10)."""

    by: PickBy
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class OpenCursor:
    """A place in a queue that moves from message to message. Answer: its number.

    Attributes:
        handle: The queue, opened for receive or peek; the cursor ends with it.
    """

    owner: int
    request: int
    handle: int


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """Give a cursor back. Answer: None."""

    owner: int
    request: int
    cursor: int


@dataclass(frozen=True, slots=True)
class MoveMessage:
    """Move a message between a queue and its subqueues (Q-32).

    Answer: its new lookup identifier; 0 in a transaction, which moves it at its commit.

    Attributes:
        queue: Where it is.
        to: Where it goes; "" if ``handle`` says so.
        handle: The target, opened for move; 0: by its name.
    """

    owner: int
    request: int
    queue: str
    to: str
    lookup: int
    transaction: int = 0
    handle: int = 0


@dataclass(frozen=True, slots=True)
class Reject:
    """Mark messages that this transaction has received as rejected (RCV-15). Answer: None.

    Attributes:
        keep: Also put them into the dead-letter queue of this computer.
    """

    owner: int
    request: int
    queue: str
    transaction: int
    lookups: tuple[int, ...]
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """Receive exactly these messages, all or none, without their bytes. Answer: how many.

    Attributes:
        ranges: First and last lookup identifier of each range, rising.
    """

    owner: int
    request: int
    queue: str
    transaction: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """The bytes of messages that the transaction holds. Answer: ``Handed``, one at least.

    Attributes:
        first, last: Lookup identifiers, both included.
    """

    owner: int
    request: int
    queue: str
    transaction: int
    first: int
    last: int
    bytes_max: int = 1 << 22
