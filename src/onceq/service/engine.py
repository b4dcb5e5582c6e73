"""The engine: gather what has happened, let the core decide, persist, then act.

It is the loop of production and of the simulator alike, and knows no event loop and no threads:
somebody calls ``pump`` when there is something in the inbox. Everything that arrived since the
last pump shares one sync (group commit). Actions are performed in order after that sync, never
before; if the sync fails nothing is performed, ever (house idea 2, planted mistakes 1, 18, 19).

Upholds: I1, I9 (by the order of persisting and acting).
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onceq.core.decision import (
    Answer,
    CloseSession,
    Connect,
    Decision,
    Handed,
    Persisted,
    Piece,
    Ready,
    Transmit,
)
from onceq.core.inputs import Input, OwnerGone, Tick
from onceq.core.manager import Manager
from onceq.errors import StorageFailure
from onceq.model.limits import Settings
from onceq.model.run import Buffer, Run
from onceq.packet.decode import set_class
from onceq.service.clock import Clock
from onceq.service.sessions import Connection, Network, Sessions
from onceq.service.upkeep import Upkeep
from onceq.store.contract import Recovered, Store

AnswerTo = Callable[[int, object], None]
"""Takes a request number and its result; an OnceqError instance is to be raised."""


class OpenStore(Store, Protocol):
    """A store that was opened."""

    @property
    def recovered(self) -> Recovered:
        """What was found."""


@dataclass(slots=True)
class Delivered:
    """Messages received or peeked, with their bytes.

    Attributes:
        run: Their packets.
        lookups, arrived, aborts: One number for each.
    """

    run: Run
    lookups: array[int]
    arrived: array[int]
    aborts: array[int]


class Engine:
    """See the module. One caller at a time; hosts see to that."""

    def __init__(
        self,
        *,
        manager: Manager,
        store: OpenStore,
        clock: Clock,
        network: Network,
        settings: Settings,
        wake: Callable[[], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """Wire the parts.

        Args:
            wake: Called when the inbox is no longer empty and nobody is pumping.
            fatal: Called once if the disk fails; the process must end then.
        """
        self.manager = manager
        self.store = store
        self.clock = clock
        self.settings = settings
        self._wake = wake
        self._fatal = fatal
        self._inbox: deque[Input] = deque()
        self._owners: dict[int, AnswerTo] = {}
        self._next_owner = 1
        self._pumping = False
        self.stopped = False
        self.sessions = Sessions(self, network)
        self._upkeep = Upkeep(self)
        self._perform: dict[type[object], Callable[[Any], None]] = {
            Answer: self._answer,
            Connect: self.sessions.connect,
            Ready: self.sessions.ready,
            Transmit: self.sessions.transmit,
            Persisted: self.sessions.persisted,
            CloseSession: self.sessions.close,
        }

    # ---- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Recover; what follows from the restart is durable when this returns."""
        found = self.store.recovered
        decision = self.manager.recover(
            self.clock.read(), found.checkpoint, self.store.records(), self.store.position
        )
        self._persist([decision])
        for action in decision.actions:
            self._perform[type(action)](action)
        self._upkeep.started()

    def stop(self) -> None:
        """Finish what is in the inbox, make a checkpoint, close the store."""
        while self._inbox and not self.stopped:
            self.pump()
        self.sessions.close_all("this queue manager stops")
        if not self.stopped:
            self.stopped = True
            self._upkeep.checkpoint()
            self.store.close()

    # ---- applications ---------------------------------------------------------------------

    def owner(self, answer: AnswerTo) -> int:
        """Register an application; its answers go to ``answer``, in the thread that pumps."""
        owner = self._next_owner
        self._next_owner += 1
        self._owners[owner] = answer
        return owner

    def owner_gone(self, owner: int) -> None:
        """An application is lost or has left."""
        if self._owners.pop(owner, None) is not None:
            self.submit(OwnerGone(owner))

    def submit(self, item: Input) -> None:
        """Put something into the inbox."""
        self._inbox.append(item)
        if len(self._inbox) == 1 and not self._pumping:
            self._wake()

    @property
    def has_input(self) -> bool:
        """Whether the inbox holds anything."""
        return bool(self._inbox) and not self.stopped

    # ---- the loop -------------------------------------------------------------------------

    def pump(self) -> bool:
        """Work off what is in the inbox now; True if there is more by then.

        One sync for all of it, if any of it needs one.
        """
        if self.stopped:
            return False
        inbox = self._inbox
        items = [inbox.popleft() for _ in range(len(inbox))]
        self._pumping = True
        try:
            now = self.clock.read()
            step = self.manager.step
            self._settle([step(now, item) for item in items])
            self.sessions.drain(now)
            self._upkeep.work(now)
        except StorageFailure as error:
            self.stopped = True
            self._fatal(error)
            return False
        finally:
            self._pumping = False
        return bool(inbox)

    def decide(self, item: Input) -> None:
        """Step one input at once, persist, act: for inputs that the engine itself makes."""
        self._settle([self.manager.step(self.clock.read(), item)])

    def _settle(self, decisions: Sequence[Decision]) -> None:
        self._persist(decisions)
        perform = self._perform
        for decision in decisions:
            for action in decision.actions:
                perform[type(action)](action)

    def _persist(self, decisions: Sequence[Decision]) -> None:
        """Make the records of several decisions durable, all together."""
        append = self.store.append
        any_record = forced = False
        for decision in decisions:
            for record in decision.records:
                position = append(record.payload)
                assert position == record.position, (
                    f"the store put a record at {position}, the core expected {record.position}"
                )
                any_record = True
                forced = forced or record.forced
        if forced:
            self.store.sync()
        elif any_record:
            self.store.flush()

    def _answer(self, action: Answer) -> None:
        to = self._owners.get(action.owner)
        if to is None:
            return
        result = action.result
        if isinstance(result, Handed):
            result = self.delivered(result)
        to(action.request, result)

    def delivered(self, handed: Handed) -> Delivered:
        """Fetch the bytes of messages."""
        data = self.fetch(handed.pieces)
        if handed.classes:
            changed = bytearray(data)
            starts = _starts(handed.lengths)
            for index, value in handed.classes:
                set_class(changed, starts[index], handed.lengths[index], value)
            data = bytes(changed)
        return Delivered(Run(data, handed.lengths), handed.lookups, handed.arrived, handed.aborts)

    def fetch(self, pieces: Sequence[Piece]) -> Buffer:
        """Bytes from the log or from the core, joined."""
        read = self.store.read
        if len(pieces) == 1:
            piece = pieces[0]
            return piece if isinstance(piece, bytes) else read(piece.address, piece.size)
        return b"".join(
            piece if isinstance(piece, bytes) else read(piece.address, piece.size)
            for piece in pieces
        )

    # ---- time -----------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """Monotonic microseconds at which ``tick`` is wanted, or None."""
        times = [self.manager.next_timer(), self.sessions.next_timer()]
        return min((at for at in times if at is not None), default=None)

    def tick(self) -> None:
        """Time has come for something."""
        self.sessions.tick(self.clock.read())
        self.submit(Tick())

    def checkpoint(self) -> None:
        """Make a checkpoint now."""
        self._upkeep.checkpoint()

    # ---- peers, for hosts -----------------------------------------------------------------

    def accepted(self, connection: Connection, address: str) -> int:
        """Another manager has connected; returns the number of the session."""
        return self.sessions.accepted(connection, address)

    def connected(self, outgoing: int, connection: Connection, address: str) -> int:
        """A connection asked for is there; returns the number of the session."""
        return self.sessions.connected(outgoing, connection, address)

    def connect_failed(self, outgoing: int, reason: str) -> None:
        """A connection asked for cannot be made."""
        self.sessions.connect_failed(outgoing, reason)

    def data(self, session: int, data: Buffer) -> None:
        """Bytes have come on a session's connection."""
        self.sessions.data(session, data)

    def closed(self, session: int, reason: str) -> None:
        """A session's connection is gone."""
        self.sessions.gone(session, reason)

    def writable(self, session: int) -> None:
        """A connection can take bytes again."""
        self.sessions.writable(session)


def _starts(lengths: array[int]) -> list[int]:
    starts, at = [], 0
    for length in lengths:
        starts.append(at)
        at += length
    return starts
