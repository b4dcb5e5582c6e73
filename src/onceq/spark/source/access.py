"""The source's connection to a queue manager: look, hold, read a range, remove what was written.

A connection is made where it is needed (planner, driver-side process, executors) and never
travels: readers are pickled without it. Every request here may be repeated with the same effect, so
a lost connection is answered by asking again, a bounded number of times.

A hold keeps other receivers from a queue. It ends with its connection, and is taken again before
anything is removed. A reader that finds then that another one held the queue meanwhile was
replaced, and must not remove what its successor may not have written yet.

The driver's computer can die silently. Its queue manager notices that after minutes, and until then
nothing else can receive from the queue. So a hold has a lease: a thread of the driver renews it,
also while Spark is busy, and a hold that was not renewed for ``LEASE_MS`` ends as soon as another
receiver wants the queue. A driver that was only slow or stopped, and was not replaced, goes on. One
that was replaced learns it from its next request: each removal names its hold.

Upholds: I4 at the connector (removal is one transaction; what is missing is noticed; of two readers
one removes).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Self, TypeVar

from onceq import errors
from onceq.client.opening import connect_for_job
from onceq.client.plans import receive
from onceq.client.stopping import pause
from onceq.client.threads.manager import OpenQueue, QueueManager
from onceq.model import requests
from onceq.model.views.queues import QueueView, RangeView, ReaderView
from onceq.spark import connections
from onceq.spark.argument_checks import coded
from onceq.spark.connections import FROM_ENVIRONMENT, CredentialFiles, Patience, Spell
from onceq.spark.source import offsets
from onceq.spark.source.conflicts import StreamIdentity, is_from_here
from onceq.spark.source.offsets import QueueSample, Range

if TYPE_CHECKING:
    from onceq import Batch


LEASE_MS: Final = 10_000
"""How long a hold lasts that nobody renews: far longer than a busy computer makes a thread wait."""
RENEW_S: Final = 2.5
"""How often it is renewed: three times may fail before it ends."""
PEEK_MESSAGES: Final = 10_000
"""Messages of one request; the client library limits its bytes as well."""
HOLD_S_MAX: Final = LEASE_MS / 1_000 + 5.0
"""A reader whose computer has died holds its queues as long as its lease lasts."""
HOLD_SAY_S: Final = 1.0
"""From then on it is worth a word who is waited for."""
HOLD_RETRY_S: Final = 0.1
OURS: Final = (
    ". That is a stream of this Spark application: another query, or this one, if it uses the "
    "stream twice, as a join with itself does. Spark reads a stream once for each use: read the "
    "queue once, and join in foreachBatch"
)
SIZE_BYTES: Final = 16
"""So much of a packet says how large it is."""

T = TypeVar("T")

log = logging.getLogger("onceq.spark")


class HoldRenewal:
    """Does something again and again, in a thread of its own, until it is stopped."""

    def __init__(self, work: Callable[[], None], every_s: float) -> None:
        self._work = work
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceq lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more; what is under way may still end."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._work()


class LazyConnection:
    """One connection, made when it is first used."""

    def __init__(
        self, where: str, patience: Patience | None = None,
        credentials: CredentialFiles = FROM_ENVIRONMENT,
    ) -> None:  # fmt: skip
        self.where = where
        self.patience = patience or Patience()
        self.credentials = credentials
        self._manager: QueueManager | None = None
        self._held: dict[str, OpenQueue] = {}
        self._turns: dict[str, int] = {}
        self._renewal: HoldRenewal | None = None
        self.holds = 0
        """How often a queue was opened to be held: each time somebody else may have been there."""

    def __getstate__(self) -> tuple[str, Patience, CredentialFiles]:
        return self.where, self.patience, self.credentials

    def __setstate__(self, state: tuple[str, Patience, CredentialFiles]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave; queues held open are given back by that."""
        self._rest()
        self._held.clear()
        manager, self._manager = self._manager, None
        if manager is not None:
            with contextlib.suppress(errors.OnceqError):
                manager.close()

    def _do(self, about: str, work: Callable[[QueueManager], T]) -> T:
        """Ask, and ask again if the connection breaks meanwhile.

        Args:
            about: The queue, for what is said if it does not work.
        """
        spell: Spell | None = None
        while True:
            old = self._manager is not None
            try:
                done = work(self._connected())
            except (
                errors.ServiceNotAvailable,
                errors.TransactionOver,
                errors.InDoubt,
                errors.InvalidHandle,
            ) as error:
                self.close()
                if old:  # It may have broken long ago: only a new one says how things are.
                    continue
                spell = spell or Spell(self.patience, f"the queue manager at {self.where}")
                if not spell.again(error):
                    # Without its cause: Spark would print each of them before our last line.
                    raise self._locate(error, about, spell.describe_tries()) from None
            except errors.OnceqError as error:
                raise self._locate(error, about) from None
            else:
                if spell is not None:
                    spell.over()
                return done

    def _connected(self) -> QueueManager:
        if self._manager is None:
            self._manager = connect_for_job(
                self.where, timeout=self.patience.timeout_s,
                credentials=self.credentials.credentials(),
            )  # fmt: skip
        return self._manager

    def _locate(self, error: errors.OnceqError, about: str, tried: str = "") -> errors.OnceqError:
        return coded(error, f"queue {about}, queue manager at {self.where}{tried}")

    # ---- looking --------------------------------------------------------------------------

    def who(self, queue: str) -> tuple[str, str]:
        """Computer name and GUID of the queue manager.

        Args:
            queue: What it is asked for, in case that it does not answer.
        """
        return self._do(queue, lambda manager: (manager.name, manager.id))

    def sample(self, queue: str) -> QueueSample:
        """Return the present content of a queue in figures; raises QueueNotFound."""

        def work(manager: QueueManager) -> QueueSample:
            view = manager.queue(queue)
            # Messages with priorities come in between others. Those of system queues do not: a
            # copy or dead letter is put behind all that are there, at any priority.
            steady = view.transactional or view.system
            return QueueSample(
                instance=view.instance if int(view.instance, 16) else manager.id,
                first=view.first_lookup,
                last=view.last_lookup,
                messages=view.messages,
                locked=view.locked,
                transactional=view.transactional,
                steady=steady and not view.parent,
                bytes=view.bytes,
                apart=view.name.casefold() if view.system else "",
            )

        return self._do(queue, work)

    def queues(self, about: str) -> list[QueueView]:
        """All queues of the queue manager.

        Args:
            about: What they are wanted for, in case that it does not answer.
        """
        return self._do(about, lambda manager: manager.queues())

    def wait(self, queue: str, after: int, seconds: float) -> None:
        """Until there is a message after a place, but not longer than that."""
        seconds = min(seconds, self.patience.timeout_s / 2)
        with contextlib.suppress(errors.ReceiveTimeout):
            self._do(
                queue, lambda manager: manager.peek_many(queue, 1, after=after, timeout=seconds)
            )

    # ---- holding --------------------------------------------------------------------------

    def hold(self, queue: str, note: str = "") -> None:
        """Keep all others from receiving from a queue as long as this connection lives.

        Args:
            note: Who does, for those who are kept from it.

        Raises:
            SharingViolation: Somebody else has it open for receiving, or had it meanwhile.
        """
        self._do(queue, lambda manager: self._hold(manager, queue, note))

    def _hold(self, manager: QueueManager, queue: str, note: str) -> None:
        held = self._held.pop(queue, None)
        if held is not None and held.is_open and _renewed(manager, held):
            self._held[queue] = held
            return
        opened = self._open(manager, queue, note)
        before = self._turns.get(queue)
        # A queue manager that was started again counts from 1; then nobody was there since.
        if before is not None and opened.turn not in (before + 1, 1):
            opened.close()
            raise errors.SharingViolation(
                "another reader has held the queue after this one lost its connection, and goes "
                "on in its place; this query ends, and what it has written last is removed by "
                "the other one"
            )
        self._turns[queue] = opened.turn
        self._held[queue] = opened
        self.holds += 1
        if _renewed(manager, opened):
            self._renewal = self._renewal or HoldRenewal(self._renew, RENEW_S)

    def _renew(self) -> None:
        """Of the renewal: one that is lost is noticed when it is needed next."""
        manager = self._manager
        for held in list(self._held.values()):
            if manager is not None:
                with contextlib.suppress(errors.OnceqError):
                    _renewed(manager, held)

    def _rest(self) -> None:
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.stop()

    def _open(self, manager: QueueManager, queue: str, note: str) -> OpenQueue:
        began = time.monotonic()
        give_up, told = began + HOLD_S_MAX, False
        while True:
            try:
                return manager.open_queue(queue, share="deny-receive", note=note)
            except errors.SharingViolation as error:
                if time.monotonic() >= give_up:
                    ours = OURS if is_from_here(error.text) else ""
                    raise errors.SharingViolation(
                        f"{error.text}{ours}. readMode receive needs the queue for itself, because "
                        "it removes what was written; end the other reader, or leave messages "
                        "where they are (readMode peek, --keep of a command)"
                    ) from None
                if not told and time.monotonic() >= began + HOLD_SAY_S:
                    told = True
                    log.warning(
                        "%s. Waiting for it up to %g s: a reader that has died is not waited for "
                        "any longer", error.text, HOLD_S_MAX,
                    )  # fmt: skip
            # A reader that has just ended, or crashed, may be on its way out.
            pause(HOLD_RETRY_S)

    def release(self) -> None:
        """Let others receive again."""
        self._rest()
        held, self._held = self._held, {}
        for opened in held.values():
            with contextlib.suppress(errors.OnceqError):
                opened.close()

    # ---- reading --------------------------------------------------------------------------

    def page(
        self, queue: str, after: int, to: int, top: int | None = None, most: int = 0
    ) -> Batch | None:
        """Some messages behind one place and up to another; None if there are none.

        Args:
            top: How many bytes of each packet are wanted; None: all.
            most: How many messages are wanted at once; 0: as many as one request may have.
        """
        count = min(to - after, most or PEEK_MESSAGES)

        def work(manager: QueueManager) -> Batch | None:
            try:
                if top is None:
                    return manager.peek_many(queue, count, after=after, timeout=0.0)
                return manager.peek_tops(queue, count, after=after, size=top)
            except errors.ReceiveTimeout:
                return None

        batch = self._do(queue, work)
        if batch is None or batch.lookup_ids[-1] <= to:
            return batch
        size = sum(lookup <= to for lookup in batch.lookup_ids)
        return batch.part(0, size) if size else None

    def pages(self, queue: str, part: Range, top: int | None = None) -> Iterator[Batch]:
        """All messages of a range."""
        after = part.after
        while after < part.to:
            batch = self.page(queue, after, part.to, top)
            if batch is None:
                return
            after = batch.lookup_ids[-1]
            yield batch

    def count(self, queue: str, part: Range, *, messages: int = 0, bytes: int = 0) -> RangeView:
        """Count the messages of a range, up to the first one that a transaction holds.

        Args:
            messages, bytes: The most that is counted, but at least one message; 0: there is no such
                limit.
        """

        def work(manager: QueueManager) -> RangeView:
            return manager.count_range(
                queue, part.after + 1, part.to, messages=messages, bytes=bytes
            )

        return self._do(queue, work)

    def place_before(self, queue: str, sight: QueueSample, second: int) -> int:
        """The place before the first message that arrived in a second or later."""

        def next_behind(place: int) -> tuple[int, int] | None:
            batch = self.page(queue, place, place + (1 << 62), 0, 1)
            return None if batch is None else (batch.lookup_ids[0], batch.arrived_times[0])

        return offsets.place_before(sight, second, next_behind)

    # ---- removing -------------------------------------------------------------------------

    def readers(self, queue: str) -> list[ReaderView]:
        """Return the readers that have removed messages of a queue after reading them."""

        def work(manager: QueueManager) -> list[ReaderView]:
            return manager._run(receive.readers(manager._state, queue))

        return self._do(queue, work)

    def remove(
        self, parts: Sequence[tuple[str, Range]], sights: Sequence[QueueSample],
        reader: StreamIdentity,
    ) -> list[int]:  # fmt: skip
        """Remove ranges of queues that are held; how many messages were there in each.

        All of transactional queues go in one transaction, the others each at once. Asked again it
        removes nothing more: that is why an outcome in doubt needs no care here. Who has read is
        remembered with it.
        """

        def work(manager: QueueManager) -> list[int]:
            for queue, _ in parts:
                self._hold(manager, queue, reader.who)
            found: list[int] = []
            with manager.transaction() as tx:
                for (queue, part), sight in zip(parts, sights, strict=True):
                    take = self._take(queue, part, reader)
                    plan = receive.take(tx._state if sight.transactional else None, take)
                    run = tx._run if sight.transactional else manager._run
                    found.append(run(plan))
            return found

        return self._do(", ".join(queue for queue, _ in parts), work)

    def _take(self, queue: str, part: Range, reader: StreamIdentity) -> requests.TakeRead:
        held = self._held[queue]
        return requests.TakeRead(
            queue, 0, part.after + 1, part.to, held.handle, reader.name, reader.query, reader.who,
            reader.keep,
        )  # fmt: skip


def _renewed(manager: QueueManager, held: OpenQueue) -> bool:
    """Renew a hold; False: it is over. One without a lease ends with its connection alone."""
    try:
        held._run(receive.renew(held._state, LEASE_MS))
    except (errors.InvalidHandle, errors.HandleLost):
        return False
    return True


def borrowed(
    where: str, patience: Patience, credentials: CredentialFiles
) -> contextlib.AbstractContextManager[LazyConnection]:
    """A connection of this process for reading, for the time of one task."""
    return connections.POOL.borrowed(
        (LazyConnection, where, patience, credentials),
        lambda: LazyConnection(where, patience, credentials),
    )
