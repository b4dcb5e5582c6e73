"""The engine: gather the inputs, let the core decide, persist, then act.

It is the loop of production and of the simulator alike. It knows no event loop and no threads: its
host calls ``pump`` when there is something in the inbox. Everything that arrived since the last
pump shares one sync (group commit). ``committer.py`` persists and acts; planted mistakes in the
order of the two are found (P15).

A failing disk, a mistake of ours, or an exception thrown in from outside may stop an engine in the
middle of a step. Such an engine does nothing more: its memory is then ahead of what is durable, and
only a new start from the disk is true.

Upholds: I1, I9 (with ``committer.py``: by the order of persisting and acting).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from onceq import errors
from onceq.core.decision import (
    CloseSession,
    Connect,
    Declined,
    Hold,
    Measured,
    Notice,
    Persisted,
    Ready,
    Register,
    Reload,
    Rewrite,
    RewriteRights,
    RunJobs,
    Scrub,
    TellAct,
    Transmit,
)
from onceq.core.inputs import Compose, Input, OwnerCame, OwnerGone, Tick
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.directory.contract import Directory
from onceq.model.directory import Snapshot
from onceq.model.http import HttpNames, Mappings
from onceq.model.marks import Now
from onceq.model.rights import Actor
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.service.answers import Answers
from onceq.service.clock import NEVER, Clock, at, soonest, ticks_ns
from onceq.service.committer import (
    AnswerTo,
    Background,
    Committer,
    History,
    Holding,
    OpenStore,
    Takes,
)
from onceq.service.config import MappingFolder
from onceq.service.naming import Naming
from onceq.service.pacing import Portions, WorkKind
from onceq.service.sessions import Network, Sessions
from onceq.service.tokens import TokenDoor
from onceq.service.trail_files import TellingActs, TrailExport
from onceq.service.upkeep import Scrubbing, Upkeep

OWED_BYTES = 4 << 20
"""Bytes of messages read at once in order to acknowledge them."""


class Engine(Committer):
    """The engine of one queue manager. It has one caller at a time; hosts ensure that."""

    def __init__(
        self,
        *,
        manager: Manager,
        store: OpenStore,
        clock: Clock,
        network: Network,
        settings: Settings,
        wake: Callable[[], None] | None,
        fatal: Callable[[BaseException], None],
        background: Background | None = None,
        said: Callable[[], None] | None = None,
        directory: Directory | None = None,
        learned: Callable[[Snapshot], None] | None = None,
        http: HttpNames | None = None,
        mappings: MappingFolder | None = None,
        history: History | None = None,
        trail_export: TrailExport | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Wire the parts.

        Args:
            wake: Called when the inbox is no longer empty and nobody is pumping; None: the thread
                that fills it pumps.
            fatal: Called once if the disk fails; the process must end then.
            background: For the slow half of checkpoints; None: they are written in the pump.
            said: Called in a pump after everything that follows from its inputs was written, if the
                host has set ``unsaid``; for hosts that collect what is written.
            directory: Where public queues and lists are found; None: nowhere (workgroup mode).
            learned: Called with the content of the directory, at each change.
            http: Its addresses for other managers over HTTP.
            mappings: Files that translate addresses at a border; None: there are none.
            history: Where events are written for audits; None: nowhere.
            trail_export: Reports acts of administration outside the store; None: nothing does.
            entropy: Returns the given number of random bytes, which no other process gets.
        """
        super().__init__(
            manager=manager, store=store, clock=clock, settings=settings, wake=wake,
            history=history, background=background,
        )  # fmt: skip
        self._http = http or HttpNames()
        self._mappings = mappings
        self._mapped = (self._http, Mappings(), self._http)
        self.trail_export = trail_export
        self._telling_acts = TellingActs(self, trail_export)
        self._entropy = entropy
        self._fatal = fatal
        self._said = said
        self.unsaid = False
        """True if the host has collected output since the last call of ``said``; set by the
        host."""
        self.answers = Answers()
        self.tokens = TokenDoor(manager, clock, self.rates)
        self._next_owner = 1
        self.stopped = False
        self._portions = Portions()
        self.sessions = Sessions(self, network, lambda: self.http, lambda: self.pump(portion=False))
        """Where hosts report what happens to connections with other managers."""
        self.scrubbing = Scrubbing(self)
        self._upkeep = Upkeep(self)
        self.naming = Naming(self, directory, learned)
        self._named = directory is not None
        self.holding = Holding(self, self.reclaim)
        self.reloading: Callable[[], object] | None = None
        """Reads the configuration again; set by the host, if there is a file."""
        self.run_jobs: Callable[[], None] = lambda: None
        """Starts work on jobs; set by the host, else jobs stay unchanged."""
        self._perform |= self._performers()

    def _performers(self) -> dict[type[object], Callable[[Any], None]]:
        """Return the performer of each other kind of action."""
        return {
            Connect: self.sessions.connect,
            Ready: self.sessions.ready,
            Transmit: self.sessions.transmit,
            Persisted: self.sessions.persisted,
            Declined: self.sessions.declined,
            CloseSession: self.sessions.close,
            Notice: self._notice,
            Register: self.naming.register,
            Rewrite: self.naming.rewrite,
            RewriteRights: self.naming.rewrite_rights,
            Hold: self.holding.perform,
            Reload: self._reload,
            Measured: self.measuring.perform,
            RunJobs: lambda _: self.run_jobs(),
            Scrub: self.scrubbing.perform,
            TellAct: self._telling_acts.perform,
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
            raise errors.ConfigurationError(
                "onceq does not run under 'python -O': its assertions are part of its promises"
            )
        if self._mappings is not None:
            self._mappings.load()
        found = self.store.recovered
        decision = self.manager.recover(
            self.clock.read(), found.checkpoint, self.store.records(), self.store.position,
            entropy=self._entropy(ENTROPY_BYTES), made_ns=getattr(self.store, "made_ns", 0),
            orderly=found.clean,
        )  # fmt: skip
        self.settle([decision])
        if found.damaged:
            self.set_aside(found.damaged)
        self._telling_acts.begin()
        self.sessions.known.remember(self.manager.acquainted())
        self.naming.check_directory(self.clock.read())
        self._catch_up()
        self._upkeep.started()
        self._keep_house(self.clock.read())
        if self.manager.owing and self.manager.owed(OWED_BYTES) is not None:
            self.nudge()

    def stop(self) -> None:
        """Finish what is in the inbox, make a checkpoint, close the store.

        Raises:
            StorageFailure: The disk failed now; everything said before is still true.
        """
        # Requests are answered first: a client without an answer would have to take its request for
        # in doubt.
        manager = self.manager
        while (self.inbox or manager.at_work or manager.owing) and not self.stopped:
            self._portions.core = manager.at_work
            self.pump()
        self.sessions.close_all("this queue manager stops")
        self._upkeep.tell_endings()
        self.rates.tell(all_of_it=True)
        if not self.stopped:
            self.stopped = True
            self._upkeep.stop()
            self._telling_acts.close()
            self.store.close()

    @property
    def http(self) -> HttpNames:
        """Return its addresses for other managers over HTTP, with the mappings in force."""
        if self._mappings is None:
            return self._http
        found = self._mappings.current(self.clock.read().mono_us)
        names, mappings, _ = self._mapped
        if names is not self._http or mappings is not found:
            # Needed for each message: put together again only when something has changed.
            self._mapped = (self._http, found, self._http.mapped_by(found))
        return self._mapped[2]

    @http.setter
    def http(self, names: HttpNames) -> None:
        self._http = names

    # ---- applications ---------------------------------------------------------------------

    def owner(
        self, answer: AnswerTo, takes: Takes | None = None, *, actor: Actor | None = None,
        where: str = "",
    ) -> int:  # fmt: skip
        """Register an application; its answers go to ``answer``, in the thread that pumps.

        Args:
            actor: Who it is; None: this process itself, which may do everything.
            where: Its address, or "local", with the process if that is known; for operators.
            takes: Called before the messages for a request are fetched: returns whether the
                application takes that many bytes. If not, it has put the request off itself.
        """
        owner = self._next_owner
        self._next_owner += 1
        self._owners[owner] = answer
        if takes is not None:
            self._asking[owner] = takes
        if actor is not None:
            self.submit(OwnerCame(owner, actor, where=where))
        return owner

    def owner_gone(self, owner: int) -> None:
        """Remove an application that is lost or has left."""
        self._asking.pop(owner, None)
        if self._owners.pop(owner, None) is not None:
            self.holding.gone(owner)
            self.submit(OwnerGone(owner))

    @property
    def has_work(self) -> bool:
        """Return True if a pump would find anything to do."""
        return not self.stopped and bool(
            self.inbox or self.sessions.waiting or self._portions.core or self.manager.owing
        )

    # ---- the loop -------------------------------------------------------------------------

    def pump(self, *, portion: bool = True) -> bool:
        """Process what is in the inbox now; return True if there is more to do by then.

        Args:
            portion: Whether a portion of long work is done, too, if there is any.

        One sync serves all of it, if any of it needs one. A StorageFailure goes to ``fatal``; any
        other exception is a mistake of ours and leaves here, with the engine stopped.
        """
        if self.stopped:
            return False
        inbox, sessions = self.inbox, self.sessions
        items: list[Input] = []
        # A fixed number: what other threads add meanwhile belongs to the next pump, so this one
        # ends.
        for _ in range(len(inbox)):
            items.append(inbox.popleft())
        answers = self.answers
        if answers.at_work:
            answers.begin()
        self.pumping, self._turn_ns = True, ticks_ns()
        kind, portions, manager = WorkKind.NONE, self._portions, self.manager
        try:
            now = self.clock.read()
            if (portions.core or manager.owing) and portion:
                kind = self._portion(now, items)
            if self._named:
                self.naming.prepare(now, items)
            self.settle(self.verifying.decide(now, items))
            if answers.at_work:
                answers.end()
            # After everything of this turn is durable: what is transmitted now may be among it.
            if sessions.wanting or sessions.dirty or sessions.looped:
                sessions.drain(now)
            if self.unsaid and self._said is not None:
                self._said()
            house = self.due.look_us <= now.mono_us or self.due.position <= self.store.position
            if house and portion and kind in (WorkKind.NONE, WorkKind.HOUSE):
                self._keep_house(now)
                portions.done(WorkKind.HOUSE)
                house = False
            if self._behind:
                self._catch_up()
        except errors.StorageFailure as error:
            # A disk that fails is expected, and the host is informed; anything else is a mistake of
            # ours and must be seen. In both cases memory may be ahead of the disk.
            self.stopped = True
            self._fatal(error)
            return False
        except BaseException:
            self.stopped = True
            raise
        finally:
            self.pumping = False
        return bool(
            inbox or ((sessions.wanting or sessions.looped) and sessions.waiting)
            or house or portions.core or manager.owing
        )  # fmt: skip

    def _portion(self, now: Now, items: list[Input]) -> WorkKind:
        """Return the kind of work whose portion this pump does; its input goes before the other
        items."""
        portions, manager = self._portions, self.manager
        house = self.due.look_us <= now.mono_us or self.due.position <= self.store.position
        kind = portions.next(owing=manager.owing, house=house)
        if kind is WorkKind.ACKS:
            found = self._owed()
            if found is not None:
                items.insert(0, found)
            elif not manager.owing:
                kind = portions.next(owing=False, house=house)
        if kind is WorkKind.CORE:
            portions.core = False
            items.insert(0, Tick())
        portions.done(kind)
        return kind

    def _keep_house(self, now: Now) -> None:
        """Check everything that has a time of its own, and ask when the next check is due."""
        if self._held_us <= now.mono_us:
            self._make_durable()
        self._upkeep.work(now)
        self.scrubbing.work(now)
        self.holding.check_hold(now, low=self._upkeep.low)
        if self.trail_export is not None:
            self._telling_acts.work(now)
        self.due = soonest(
            self._upkeep.due(), self.scrubbing.due(), self.holding.due(), self.naming.due(),
            at(self.sessions.next_timer()), at(self._held_us),
            *(() if self.trail_export is None else (self.trail_export.due(),)),
        )  # fmt: skip

    def _owed(self) -> Compose | None:
        """Read the messages that need acknowledgments, so that these are made (I13)."""
        found = self.manager.owed(OWED_BYTES)
        if found is None:
            return None
        try:
            packets = Run(self.fetch(found.extents), found.lengths)
        except errors.DamagedRecord:
            self.set_aside(self.verifying.damaged(found.extents))
            return None
        return Compose(found.lane, found.counters, packets)

    def _reload(self, action: Reload) -> None:
        try:
            if self.reloading is None:
                raise errors.UnsupportedOperation(
                    "this queue manager has no configuration file to be read again"
                )
            result: object = self.reloading()
        except errors.OnceqError as error:
            result = error
        self.answer(action.owner, action.request, result)

    # ---- time -----------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """Return the monotonic microseconds at which ``tick`` is due, or None. May be early."""
        core_us = self.manager.next_timer()
        due_us = self.due.timer_us if core_us is None else min(core_us, self.due.timer_us)
        return due_us if due_us != NEVER else None

    def tick(self) -> None:
        """Handle a due time; a pump must follow."""
        now = self.clock.read()
        self.sessions.tick(now)
        if self.manager.portion_due(now):
            self._portions.core = True
            self.nudge()
        else:
            self.submit(Tick())

    def checkpoint(self) -> None:
        """Make a checkpoint now."""
        self._upkeep.checkpoint()

    @property
    def low(self) -> bool:
        """Return True if the reserve of the disk is reached."""
        return self._upkeep.low

    def reclaim(self) -> None:
        """Give back segments that nothing needs any more."""
        self._upkeep.reclaim()

    # ---- notices -----------------------------------------------------------------------------

    def _notice(self, action: Notice) -> None:
        """Log a notice; anybody can cause some of these, so they are rates."""
        self.rates.note(action.what, action.values, level=logging.WARNING)
