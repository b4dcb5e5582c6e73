"""The engine: gather what has happened, let the core decide, persist, then act.

It is the loop of production and of the simulator alike, and knows no event loop and no threads:
somebody calls ``pump`` when there is something in the inbox. Everything that arrived since the
last pump shares one sync (group commit). Actions are performed in order after that sync, never
before; if the sync fails nothing is performed, ever. Mistakes planted there are found (P15).

An engine that was left in the middle of a step, by a failing disk, by a mistake of ours or by an
exception thrown into it from outside, does nothing more: what it has in memory is then ahead of
what is durable, and only a new start from the disk is true.

LONG: deciding, persisting and acting are one loop, and are read in one place.

Upholds: I1, I9 (by the order of persisting and acting).
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from onceq.core.decision import (
    Answer,
    CloseSession,
    Connect,
    Decision,
    Declined,
    Handed,
    Hold,
    Notice,
    Observed,
    Persisted,
    Piece,
    Ready,
    Register,
    Reload,
    Rewrite,
    Scrub,
    Transmit,
)
from onceq.core.inputs.damage import Spoiled
from onceq.core.inputs.inputs import Compose, Input, OwnerGone, Tick
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.directory.contract import Directory
from onceq.errors import (
    ConfigurationError,
    DamagedPiece,
    DamagedRecord,
    OnceqError,
    StorageFailure,
    UnsupportedOperation,
)
from onceq.model.connection import ConnectionStatus
from onceq.model.directory import Snapshot
from onceq.model.http import HttpNames, Mappings
from onceq.model.limits import Settings
from onceq.model.run import Buffer, Run
from onceq.service.answers import Answers
from onceq.service.clock import Clock
from onceq.service.delivered import delivered
from onceq.service.history import History
from onceq.service.holding import Holding
from onceq.service.mappings import MappingFolder
from onceq.service.naming import Naming
from onceq.service.rates import Rates
from onceq.service.scrub import Scrubbing
from onceq.service.sessions import Connection, Network, Sessions
from onceq.service.upkeep import Upkeep
from onceq.service.verifying import Verifying
from onceq.store.contract import Recovered, Store

T = TypeVar("T")

OWED_BYTES = 4 << 20
"""Bytes of messages read at once in order to acknowledge them."""

AnswerTo = Callable[[int, object], None]
"""Takes a request number and its result; an OnceqError instance is to be raised."""
Takes = Callable[[int, Handed], bool]
"""Says whether messages may be fetched for a request."""


class OpenStore(Store, Protocol):
    """A store that was opened."""

    @property
    def recovered(self) -> Recovered:
        """What was found."""


class Background(Protocol):
    """Runs something slow that does not use the engine, elsewhere."""

    def __call__(self, work: Callable[[], T]) -> Future[T]:
        """Begin ``work`` in another thread, and see to a pump when it is done."""


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
        background: Background | None = None,
        said: Callable[[], None] | None = None,
        directory: Directory | None = None,
        learned: Callable[[Snapshot], None] | None = None,
        http: HttpNames | None = None,
        mappings: MappingFolder | None = None,
        history: History | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Wire the parts.

        Args:
            wake: Called when the inbox is no longer empty and nobody is pumping.
            fatal: Called once if the disk fails; the process must end then.
            background: For the slow half of checkpoints; None: they are written in the pump.
            said: Called in each pump after everything that follows from its inputs was written;
                for hosts that collect what is written.
            directory: Where public queues and lists are found; None: nowhere (workgroup mode).
            learned: Called with what the directory says, whenever that has changed.
            http: Its addresses for other managers over HTTP.
            mappings: Files that translate addresses at a border; None: there are none.
            history: Where what has happened is written for audits; None: nowhere.
            entropy: Gives so many random bytes, which no other process is given.
        """
        self.manager = manager
        self.store = store
        self.clock = clock
        self.settings = settings
        self._http = http or HttpNames()
        self._mappings = mappings
        self._mapped = (self._http, Mappings(), self._http)
        self.history = history
        self.background = background
        self._entropy = entropy
        self._wake = wake
        self._fatal = fatal
        self._said = said
        self._inbox: deque[Input] = deque()
        self._owners: dict[int, AnswerTo] = {}
        self._asking: dict[int, Takes] = {}
        self.answers = Answers()
        self._next_owner = 1
        self.pumping = False
        self.stopped = False
        self._behind = False
        self.rates = Rates(clock)
        self.sessions = Sessions(self, network)
        self.verifying = Verifying(self)
        self.scrubbing = Scrubbing(self)
        self._upkeep = Upkeep(self)
        self.naming = Naming(self, directory, learned)
        self.holding = Holding(self)
        self.reloading: Callable[[], object] = _no_configuration
        """Reads the configuration again; the host's."""
        self._perform = self._performers()

    def _performers(self) -> dict[type[object], Callable[[Any], None]]:
        """Who performs which action."""
        return {
            Answer: self._answer,
            Connect: self.sessions.connect,
            Ready: self.sessions.ready,
            Transmit: self.sessions.transmit,
            Persisted: self.sessions.persisted,
            Declined: self.sessions.declined,
            CloseSession: self.sessions.close,
            Notice: self._notice,
            Register: self.naming.register,
            Rewrite: self.naming.rewrite,
            Observed: self._observe,
            Hold: self.holding.perform,
            Reload: self._reload,
            Scrub: self.scrubbing.perform,
        }

    # ---- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Recover; what follows from the restart is durable when this returns.

        Raises:
            StorageFailure: The store is damaged, or the disk failed.
            ConfigurationError: Assertions are switched off; they are part of the product. Or a
                mapping file cannot be used.
        """
        if not __debug__:
            raise ConfigurationError(
                "onceq does not run under 'python -O': its assertions are part of its promises"
            )
        if self._mappings is not None:
            self._mappings.load()
        found = self.store.recovered
        decision = self.manager.recover(
            self.clock.read(), found.checkpoint, self.store.records(), self.store.position,
            entropy=self._entropy(ENTROPY_BYTES), made_ns=getattr(self.store, "made_ns", 0),
        )  # fmt: skip
        self.settle([decision])
        if found.damaged:
            self.set_aside(found.damaged)
        self.sessions.known.remember(self.manager.acquainted())
        self.naming.look(self.clock.read())
        self._catch_up()
        self._upkeep.started()
        self._pay()

    def stop(self) -> None:
        """Finish what is in the inbox, make a checkpoint, close the store.

        Raises:
            StorageFailure: The disk failed now; what was said before is true all the same.
        """
        while self._inbox and not self.stopped:
            self.pump()
        self.sessions.close_all("this queue manager stops")
        self.rates.tell(all_of_it=True)
        if not self.stopped:
            self.stopped = True
            self._upkeep.stop()
            self.store.close()

    @property
    def http(self) -> HttpNames:
        """Its addresses for other managers over HTTP, with the mappings that are in force now."""
        if self._mappings is None:
            return self._http
        found = self._mappings.current(self.clock.read().mono_us)
        names, mappings, _ = self._mapped
        if names is not self._http or mappings is not found:
            # Asked for with each message: put together again only when something has changed.
            self._mapped = (self._http, found, self._http.mapped_by(found))
        return self._mapped[2]

    @http.setter
    def http(self, names: HttpNames) -> None:
        self._http = names

    # ---- applications ---------------------------------------------------------------------

    def owner(self, answer: AnswerTo, takes: Takes | None = None) -> int:
        """Register an application; its answers go to ``answer``, in the thread that pumps.

        Args:
            takes: Asked, before messages that were found for a request are fetched, whether the
                application takes so many bytes. If not, it has put the request off itself.
        """
        owner = self._next_owner
        self._next_owner += 1
        self._owners[owner] = answer
        if takes is not None:
            self._asking[owner] = takes
        return owner

    def owner_gone(self, owner: int) -> None:
        """An application is lost or has left."""
        self._asking.pop(owner, None)
        if self._owners.pop(owner, None) is not None:
            self.holding.gone(owner)
            self.submit(OwnerGone(owner))

    def submit(self, item: Input) -> None:
        """Put something into the inbox. May be called from any thread."""
        self._inbox.append(item)
        if len(self._inbox) == 1 and not self.pumping:
            self._wake()

    @property
    def has_work(self) -> bool:
        """Whether a pump would find anything to do."""
        return not self.stopped and (bool(self._inbox) or self.sessions.waiting)

    # ---- the loop -------------------------------------------------------------------------

    def pump(self) -> bool:
        """Work off what is in the inbox now; True if there is more by then.

        One sync for all of it, if any of it needs one. A StorageFailure goes to ``fatal``; any
        other exception is a mistake of ours and leaves here, with the engine stopped.
        """
        if self.stopped:
            return False
        inbox = self._inbox
        items = [inbox.popleft() for _ in range(len(inbox))]
        self.answers.begin()
        self.pumping = True
        try:
            now = self.clock.read()
            step = self.verifying.step
            if self.naming.look_us <= now.mono_us or self.naming.asked(items):
                self.naming.look(now)
            self.settle([decision for item in items for decision in step(now, item)])
            self.answers.end()
            self.sessions.drain(now)
            if self._said is not None:
                self._said()
            self._upkeep.work(now)
            self.scrubbing.work(now)
            self.holding.look(now, low=self._upkeep.low)
            self._pay()
            if self._behind:
                self._catch_up()
        except StorageFailure as error:
            self.stopped = True
            self._fatal(error)
            return False
        except BaseException:
            self.stopped = True
            raise
        finally:
            self.pumping = False
        return bool(inbox) or self.sessions.waiting

    def _pay(self) -> None:
        """Read messages of which acknowledgments are owed; the next pump makes these (I13)."""
        found = self.manager.owed(OWED_BYTES)
        if found is not None:
            try:
                packets = Run(self.fetch(found.extents), found.lengths)
            except DamagedRecord:
                self.set_aside(self.verifying.damaged(found.extents))
                self.nudge()
                return
            self.submit(Compose(found.counters, packets))

    def nudge(self) -> None:
        """There is something to do although nothing was put into the inbox."""
        if not self.pumping:
            self._wake()

    def settle(self, decisions: Sequence[Decision]) -> None:
        """Make the records of decisions durable, all together; then perform their actions.

        Records that promise nothing (``forced=False``) are written at the end of the pump: who
        waits for an answer does not wait for them.

        Raises:
            StorageFailure: Nothing of it was performed, nor may be, ever.
        """
        forced, any_record = self._append(decisions)
        more = self.verifying.look(decisions)
        while more:
            forced = self._append(more)[0] or forced
            any_record = True
            decisions = [*decisions, *more]
            more = self.verifying.look(more)
        if forced:
            self.store.sync()
            self._behind = False
            if self.history is not None:
                self.history.mark(self.store.position, self.clock.read().wall_us)
        elif any_record:
            self._behind = True
        perform = self._perform
        for decision in decisions:
            for action in decision.actions:
                perform[type(action)](action)
        self.verifying.done()

    def _append(self, decisions: Sequence[Decision]) -> tuple[bool, bool]:
        """Append all records; whether any of them is forced, and whether there were any."""
        append = self.store.append
        any_record = forced = False
        for decision in decisions:
            for record in decision.records:
                position = append(record.payload, record.head)
                assert position == record.position, (
                    f"the store put a record at {position}, the core expected {record.position}"
                )
                any_record = True
                forced = forced or record.forced
        return forced, any_record

    def set_aside(self, pieces: tuple[DamagedPiece, ...]) -> None:
        """Let the core set messages aside that lie in damaged bytes."""
        self.settle([self.manager.step(self.clock.read(), Spoiled(pieces))])

    def _catch_up(self) -> None:
        """Write what stands in the log but is not written yet."""
        self._behind = False
        self.store.flush()

    def answer(self, owner: int, request: int, result: object) -> None:
        """Answer a request whose result is not the core's."""
        if request:
            self._answer(Answer(owner, request, result))

    def _answer(self, action: Answer) -> None:
        to = self._owners.get(action.owner)
        if to is None:
            return
        result = action.result
        if isinstance(result, Handed):
            takes = self._asking.get(action.owner)
            if takes is not None and not takes(action.request, result):
                return
            try:
                result = delivered(result, self.fetch)
            except DamagedRecord as error:
                # It was whole a moment ago; whoever asks again finds it set aside.
                result = error
        to(action.request, result)

    def _reload(self, action: Reload) -> None:
        try:
            result: object = self.reloading()
        except OnceqError as error:
            result = error
        self.answer(action.owner, action.request, result)

    def _observe(self, action: Observed) -> None:
        if self.history is not None:
            self.history.observe(self.store.position, self.clock.read().wall_us, action)

    def fetch(self, pieces: Sequence[Piece]) -> Buffer:
        """Bytes from the log or from the core, joined."""
        ahead = self.verifying.read_ahead(pieces)
        if ahead is not None:
            return ahead
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
        """Monotonic microseconds at which ``tick`` is wanted, or None. May be early."""
        soonest = self.manager.next_timer()
        others = (
            self.sessions.next_timer(), self._upkeep.next_timer(), self.naming.next_look,
            self.holding.next_timer(),
            self.scrubbing.next_timer(),
        )  # fmt: skip
        for other in others:
            if other is not None and (soonest is None or other < soonest):
                soonest = other
        return soonest

    def tick(self) -> None:
        """Time has come for something; a pump must follow."""
        self.sessions.tick(self.clock.read())
        self.submit(Tick())

    def checkpoint(self) -> None:
        """Make a checkpoint now."""
        self._upkeep.checkpoint()

    def reclaim(self) -> None:
        """Give back what nothing needs any more."""
        self._upkeep.reclaim()

    # ---- peers, for hosts -----------------------------------------------------------------

    def accepted(self, connection: Connection, address: str) -> int:
        """Another manager has connected; returns the number of the session."""
        return self.sessions.accepted(connection, address)

    def accepted_http(self, connection: Connection, address: str) -> int:
        """Somebody has connected to the HTTP address; returns the number of the session."""
        return self.sessions.accepted_http(connection, address)

    def connected(self, outgoing: int, connection: Connection, address: str) -> int:
        """A connection asked for is there; returns the number of the session."""
        return self.sessions.connected(outgoing, connection, address)

    def connect_failed(
        self,
        outgoing: int,
        reason: str,
        status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE,
    ) -> None:
        """A connection asked for cannot be made."""
        self.sessions.connect_failed(outgoing, reason, status)

    def data(self, session: int, data: Buffer) -> None:
        """Bytes have come on a session's connection."""
        self.sessions.data(session, data)

    def closed(self, session: int, reason: str) -> None:
        """A session's connection is gone."""
        self.sessions.gone(session, reason)

    def writable(self, session: int) -> None:
        """A connection can take bytes again."""
        self.sessions.writable(session)

    def _notice(self, action: Notice) -> None:
        """Some of these can be caused by anybody, so they are rates."""
        self.rates.note(action.what, action.values, level=logging.WARNING)


def _no_configuration() -> object:
    raise UnsupportedOperation("this queue manager has no configuration file to be read again")
