"""The source's hand on a queue manager: looking, reading a range, removing what was written.

A connection is made where it is needed (planner, driver-side process, executors) and never
travels: readers are pickled without it. Every request here may be asked twice with the same
effect, so a lost connection is answered by asking again, a bounded number of times.

Upholds: I4 at the connector (removal is one transaction; what is missing is noticed).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from onceq.client.opening import connect
from onceq.client.sync import QueueManager
from onceq.client.sync_unit import OpenQueue
from onceq.errors import (
    InDoubt,
    InvalidHandle,
    MessagesMissing,
    OnceqError,
    ReceiveTimeout,
    ServiceNotAvailable,
    SharingViolation,
    TransactionOver,
)
from onceq.spark.options import wrong
from onceq.spark.ranges import Range, Sight

if TYPE_CHECKING:
    from onceq.client.results import Batch

PEEK_MESSAGES: Final = 10_000
"""Messages of one request; the client library limits its bytes as well."""
ATTEMPTS_MAX: Final = 4
"""Times that one request is made; the client library also waits for a manager to come back."""
CONNECT_S_MAX: Final = 10.0
HOLD_S_MAX: Final = 5.0
HOLD_RETRY_S: Final = 0.1

T = TypeVar("T")


class Access:
    """One connection, made when it is first used."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._manager: QueueManager | None = None
        self._held: dict[str, OpenQueue] = {}

    def __getstate__(self) -> str:
        return self.where

    def __setstate__(self, where: str) -> None:
        self.__init__(where)  # type: ignore[misc]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave; queues held open are given back by that."""
        self._held.clear()
        manager, self._manager = self._manager, None
        if manager is not None:
            with contextlib.suppress(OnceqError):
                manager.close()

    def _do(self, work: Callable[[QueueManager], T]) -> T:
        """Ask, and ask again if the connection breaks meanwhile."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                if self._manager is None:
                    self._manager = connect(self.where, timeout=CONNECT_S_MAX)
                return work(self._manager)
            except (ServiceNotAvailable, TransactionOver, InDoubt, InvalidHandle) as error:
                self.close()
                if attempt == ATTEMPTS_MAX:
                    raise _said(error, self.where) from error
            except OnceqError as error:
                raise _said(error, self.where) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    # ---- looking --------------------------------------------------------------------------

    def look(self, queue: str) -> tuple[Sight, bool]:
        """What a queue holds now, and whether it is transactional; raises QueueNotFound."""
        view: dict[str, Any] = self._do(lambda manager: manager.queue(queue))
        sight = Sight(
            instance=view["instance"],
            first=view["first_lookup"],
            last=view["last_lookup"],
            messages=view["messages"],
            locked=view["locked"],
        )
        return sight, bool(view["transactional"])

    def wait(self, queue: str, after: int, seconds: float) -> None:
        """Until there is a message after a place, but not longer than that."""
        with contextlib.suppress(ReceiveTimeout):
            self._do(lambda manager: manager.peek_many(queue, 1, after=after, timeout=seconds))

    def hold(self, queue: str) -> None:
        """Keep all others from receiving from a queue as long as this connection lives.

        Raises:
            SharingViolation: Somebody else has it open for receiving.
        """
        held = self._held.get(queue)
        if held is not None:
            try:
                held.peek(timeout=0.0)
                return
            except ReceiveTimeout:
                return
            except (ServiceNotAvailable, InvalidHandle):
                # A handle lives as long as its connection does.
                self._held.clear()
        self._do(lambda manager: self._open(manager, queue))

    def _open(self, manager: QueueManager, queue: str) -> None:
        give_up = time.monotonic() + HOLD_S_MAX
        while True:
            try:
                self._held[queue] = manager.open_queue(queue, share="deny-receive")
                return
            except SharingViolation as error:
                if time.monotonic() >= give_up:
                    raise SharingViolation(
                        f"{error.text}. readMode receive needs the queue for itself, because it "
                        "removes what was written; end the other reader, or use readMode peek"
                    ) from error
            # A reader that has just ended, or crashed, may be on its way out.
            time.sleep(HOLD_RETRY_S)

    def release(self) -> None:
        """Let others receive again."""
        held, self._held = self._held, {}
        for opened in held.values():
            with contextlib.suppress(OnceqError):
                opened.close()

    # ---- reading --------------------------------------------------------------------------

    def read(self, part: Range, *, complete: bool) -> Iterator[tuple[Batch, int]]:
        """The messages of a range, in batches; of each batch the first so many belong to it.

        Args:
            complete: Whether none may be missing.

        Raises:
            MessagesMissing: Some are, and none may.
        """
        after, seen = part.after, 0
        while after < part.to:
            batch = self._peek(part.queue, after, min(part.to - after, PEEK_MESSAGES))
            count = _within(batch, part.to) if batch is not None else 0
            if batch is None or not count:
                break
            seen += count
            after = batch.lookup_ids[count - 1]
            if complete and after - part.after != seen:
                raise missing(part, seen)
            yield batch, count
        if complete and seen != part.size:
            raise missing(part, seen)

    def _peek(self, queue: str, after: int, count: int) -> Batch | None:
        def work(manager: QueueManager) -> Batch | None:
            try:
                return manager.peek_many(queue, count, after=after, timeout=0.0)
            except ReceiveTimeout:
                return None

        return self._do(work)

    def unbroken(self, part: Range, *, bytes_max: int, gapless: bool) -> int:
        """How far a range may be read now.

        Args:
            bytes_max: Stop before the packets are more than that, but not before the first; 0:
                no limit.
            gapless: Stop before the first message that cannot be seen.
        """
        end, size = part.after, 0
        while end < part.to:
            batch = self._peek(part.queue, end, min(part.to - end, PEEK_MESSAGES))
            if batch is None:
                return end if gapless else part.to
            for lookup, length in zip(batch.lookup_ids, batch.run.lengths, strict=True):
                size += length
                if lookup > part.to:
                    return end if gapless else part.to
                too_much = bytes_max and size > bytes_max and size > length
                if too_much or (gapless and lookup != end + 1):
                    return end
                end = lookup
        return end

    # ---- removing -------------------------------------------------------------------------

    def remove(self, ranges: Sequence[Range]) -> list[int]:
        """Remove ranges, all in one transaction; how many messages were there in each.

        Asked again it removes nothing more: that is why an outcome in doubt needs no care here.
        """

        def work(manager: QueueManager) -> list[int]:
            with manager.transaction() as tx:
                return [tx.remove(part.queue, part.after + 1, part.to) for part in ranges]

        return self._do(work)


def _within(batch: Batch, to: int) -> int:
    """How many messages of a batch, from its beginning, are not behind a place."""
    lookups = batch.lookup_ids
    count = len(lookups)
    while count and lookups[count - 1] > to:
        count -= 1
    return count


def _said(error: OnceqError, where: str) -> OnceqError:
    """The same error with its code in its text, which is all that Spark passes on."""
    if error.text.startswith("["):
        return error
    said = type(error)(f"[{error.code}] {error.text} (queue manager at {where})")
    return said if isinstance(said, OnceqError) else wrong(error.text)


def missing(part: Range, seen: int) -> MessagesMissing:
    """Messages of a range are gone."""
    return MessagesMissing(
        f"[{MessagesMissing.code}] of the {part.size} messages of {part.queue} after lookup "
        f"identifier {part.after} and up to {part.to}, {part.size - seen} or more are not there: "
        "received by somebody else, expired, purged, or locked by an open transaction. Set the "
        "option failOnDataLoss to false to go on with what is left"
    )
