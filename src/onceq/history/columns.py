"""The content of a history's files: the events, the columns, and the names of files.

It needs nothing but the standard library, so that the documentation can be compared with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

FOLDER: Final = "history"
"""Folder of the files in the data directory of a manager."""
VERSION: Final = 1
META: Final = b"onceq.history"
"""Key of a file's own metadata: JSON; ``keeper`` says with which fields."""

EVENTS: Final = {
    "committed": "sent in a transaction that is committed; in an outgoing queue it has its number",
    "sent": "sent outside a transaction",
    "forwarded": "on its way between two other managers, kept here",
    "accepted": "arrived from another manager, next in order, and stored in its queue",
    "refused": "arrived, next in order, and refused for good: `class` says why",
    "passed-over": "numbers of a stream, `number` to `lastNumber`, that this receiver will never "
    "accept any more",
    "acknowledged": "an order acknowledgment covers it: the sender need not keep it",
    "released": "sent outside a transaction: it was delivered, or forgotten at a restart",
    "confirmed": "the sender has learned that it was received",
    "not-received": "the sender has learned that it had arrived, but was not received: see `class`",
    "not-delivered": "it ended in its outgoing queue, or was refused there: see `class`",
    "in-doubt": "it expired after its transmission: nobody knows whether it arrived",
    "settled": "of a dead letter in doubt is known now what had become of the message: see `class`",
    "received": "an application has received it for good",
    "given-back": "a transaction that had received it was undone: it is in its place again",
    "expired": "its time was over in its queue",
    "rejected": "the application that received it refused it",
    "purged": "an operator removed it",
    "deleted": "its queue was deleted",
    "moved": "moved to or from a subqueue",
    "dead-lettered": "it is in a dead-letter queue from now on, with `class`",
    "journaled": "a copy of it is in a journal from now on",
    "lost": "an express message that a restart has forgotten, as promised",
    "told": "an acknowledgment message about it was made; `class` is what that says",
    "transmitted": "observed: it was given to a session with its destination",
    "duplicate": "observed: it arrived again",
    "gap": "observed: it arrived before one that it follows",
    "stale-stream": "observed: it arrived in a stream that is over",
    "conflict": "observed: it arrived under a number that another message was accepted under",
    "act": "somebody did an act of administration, or was refused one for want of a right; it is "
    "about no message: see `act` to `since`",
}
"""Every event and its meaning. The observed ones are not derived from the log: those of the last
minutes before a crash may be missing."""

COLUMNS: Final = {
    "manager": ("string", "name of the queue manager that tells it"),
    "managerId": ("string", "its GUID"),
    "event": ("string", "what happened: see the events"),
    "eventTime": ("timestamp", "when, by the manager's clock"),
    "exactTime": ("boolean", "whether `eventTime` is exact; else it has whole seconds"),
    "observed": ("boolean", "whether this is observed only, and not derived from the log"),
    "position": ("bigint", "place of its record in the log; if observed, where the log was"),
    "ordinal": ("int", "place of this row among those of the record"),
    "source": ("string", "GUID of the manager that sent the message; null of `act`"),
    "message": ("bigint", "message number: with `source` the identifier of the message, which all "
                "copies of one send share; null where the record does not say it"),
    "kind": ("string", "where it is: `queue`, `outgoing`, `dead-letter` or `journal`"),
    "queue": ("string", "path name of the queue; of an outgoing queue the format name"),
    "place": ("bigint", "number of the queue at this manager"),
    "lookupId": ("bigint", "lookup identifier there: with `place` it is one message in one queue"),
    "fromPlace": ("bigint", "where a dead letter, a journal copy or a moved message comes from"),
    "fromLookupId": ("bigint", "and its lookup identifier there"),
    "stream": ("bigint", "stream of the message; null outside streams"),
    "number": ("bigint", "sequence number in the stream"),
    "lastNumber": ("bigint", "of `passed-over`: the last number; else null"),
    "transaction": ("bigint", "number of the sending transaction as the packet has it"),
    "transactional": ("boolean", "whether it was sent in a transaction"),
    "class": ("int", "message class: why it ended, or what an acknowledgment says"),
    "className": ("string", "the class in words"),
    "deadLetter": ("boolean", "whether its sender wants a dead letter; known at the sender only"),
    "journal": ("boolean", "whether its sender wants a journal copy; known at the sender only"),
    "bytes": ("int", "size of its packet"),
    "sentTime": ("timestamp", "when it was sent, by the sender's clock, in whole seconds"),
    "bodyCrc": ("bigint", "CRC-32 of its body, of what was committed, accepted and received; null "
                "where the body was not read for the row"),
    "reader": ("string", "of `received`: the reader that says it has read the message, as the "
               "`subscription` of a Spark stream or a landing; null: an application that says no "
               "such thing"),
    "act": ("bigint", "of `act`: its number; they rise by one and never begin again"),
    "actor": ("string", "of `act`: who did it, as `account:alice`"),
    "address": ("string", "of `act`: from where: an address, or `local`, with the "
                "process where the system tells it (`local, process 4711`), and the person for "
                "whom a console says that it was (`local for anna (17), process 4711`)"),
    "action": ("string", "of `act`: what was done, as `onceq trail` says it"),
    "about": ("string", "of `act`: to what: a queue, a name, what was granted"),
    "result": ("string", "of `act`: empty if it was done, or begun; else the code of the error"),
    "since": ("bigint", "of `act`: what it did at once stands from this `position` on, up to its "
              "own; a large purge goes on behind it"),
}  # fmt: skip
"""Every column: SQL type and meaning, in order."""
ACT: Final = "act"
"""Event, and column of its number."""
ACT_COLUMNS: Final = (ACT, "actor", "address", "action", "about", "result", "since")
"""Columns that rows of an act have, and no other row does."""
ADDED: Final = frozenset(("bodyCrc", "reader", *ACT_COLUMNS))
"""Columns that files of earlier versions do not have; there each of them is null."""

STARTS: Final = "starts"
"""Field of the metadata with the starts in the part that a file covers; files of earlier
versions lack it."""

ACTS: Final = "acts"
"""Field of the metadata with the number of the last act up to the end of the file; files of
earlier versions lack it."""

_NAME: Final = re.compile(r"l([0-9]{4,})-([0-9a-f]{16})-([0-9a-f]{16})(?:-([0-9]+))?\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The part of a log that one file covers.

    Attributes:
        life: Rises when a log goes on before the end of its history (a restored backup).
        start, end: Log positions; every record from ``start`` on that begins before ``end``.
        part: 0; or the number of a file of observations made while the log was at ``end``, which is
            ``start`` as well.
    """

    life: int
    start: int
    end: int
    part: int = 0

    @property
    def name(self) -> str:
        """Return the name of its file."""
        part = f"-{self.part}" if self.part else ""
        return f"l{self.life:04}-{self.start:016x}-{self.end:016x}{part}.parquet"


@dataclass(frozen=True, slots=True)
class Start:
    """A queue manager was started: a life began.

    Attributes:
        position: Position of its record in the log; 0: the first start of a store.
        at_us: When, in microseconds since 1970 by its clock.
        orderly: Whether the life before had closed the store in order; None: unknown, or there was
            none.
    """

    position: int
    at_us: int
    orderly: bool | None

    def plain(self) -> dict[str, Any]:
        """Return it in the form of a file."""
        return {"position": self.position, "at": self.at_us, "orderly": self.orderly}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Start:
        """Read it from a file; raises KeyError."""
        return cls(plain["position"], plain["at"], plain["orderly"])


@dataclass(frozen=True, slots=True)
class ActRow:
    """An act of administration in a row; names are those of ``ACT_COLUMNS``."""

    act: int
    actor: str
    address: str
    action: str
    about: str
    result: str
    since: int


def span_of(name: str) -> Span | None:
    """Return the span that a file name says; None if it is no file of a history."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return Span(int(match[1]), int(match[2], 16), int(match[3], 16), int(match[4] or 0))
