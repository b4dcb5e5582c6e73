"""What calls return: identifiers of messages that were sent together, and reports of backups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from onceq.model.identity import MessageId
from onceq.model.record import Record


class MessageIds(Sequence[MessageId]):
    """Identifiers of messages that were sent together, in order: ranges of numbers."""

    __slots__ = ("_count", "_ranges", "_source")

    def __init__(self, source: bytes, first: int = 0, count: int = 0) -> None:
        self._source = source
        self._ranges = [(first, count)] if count else []
        self._count = count

    def add(self, first: int, count: int) -> None:
        """More of them (a batch that was sent in several parts)."""
        if count:
            self._ranges.append((first, count))
            self._count += count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> MessageId: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageId]: ...
    def __getitem__(self, index: int | slice) -> MessageId | list[MessageId]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if 0 <= index < self._count:
            for first, count in self._ranges:
                if index < count:
                    return MessageId(self._source, first + index)
                index -= count
        raise IndexError(index)

    def __repr__(self) -> str:
        first = f" from {self._ranges[0][0]}" if self._ranges else ""
        return f"<{self._count} message identifiers{first}>"


Progress = Callable[[int, int], object]
"""Told how many bytes are copied, and how many there are."""


class BackupReport(Record, frozen=True):
    """A backup that was made, read back and found whole.

    Attributes:
        path: Where it is.
        queue_manager, id: Name and GUID of the queue manager.
        position: Up to where its log goes.
        taken_at: When that was, in seconds since 1970 by the queue manager's clock.
        files, bytes: How many files it has, and their size.
        signed_by: SHA-256 of the certificate that has signed it, hexadecimal; "": it is not signed.
    """

    path: str
    queue_manager: str
    id: str
    position: int
    taken_at: int
    files: int
    bytes: int
    signed_by: str = ""


class RestoreReport(Record, frozen=True):
    """What a restore has done, or (``dry_run``) would do.

    Attributes:
        path: The data directory.
        queue_manager, id: Who lives there.
        previous: GUID of the queue manager that the backup is of, if it got another one; else "".
        position, taken_at: Of the backup: everything later is undone.
        made_by: Version of onceq that has made the backup.
        files, bytes: How many files were compared with its manifest, and their size.
        set_aside: Messages that waited for other queue managers then and are dead letters now
            (only with a new identity).
        replaced: Directory in which the files of the queue manager that was there are kept; "" if
            there was none.
        configuration: "restored", "kept" (there was an ``onceq.toml``) or "none".
        signed_by: SHA-256 of the certificate that has signed the backup, hexadecimal; "": that was
            not asked (``unsigned``).
    """

    path: str
    queue_manager: str
    id: str
    previous: str
    position: int
    taken_at: int
    made_by: str
    files: int
    bytes: int
    set_aside: int = 0
    replaced: str = ""
    configuration: str = "none"
    signed_by: str = ""
    dry_run: bool = False
