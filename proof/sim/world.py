"""A world: some queue managers, a network, virtual time, and everything that happens in it.

This module makes everything and hands it to its users; no other module knows the world. Its base
(time, chance and the trace) is in ``base/kernel.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from onceq.core.manager import Manager
from onceq.model.settings import Settings
from onceq.service.committer import History
from onceq.service.engine import Engine
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from proof.sim.apps.apps import App, Program, once
from proof.sim.apps.coordinators import Coordinators
from proof.sim.apps.delaying import Delaying
from proof.sim.apps.holders import HOLDERS, Holder
from proof.sim.apps.jobs import Jobs
from proof.sim.apps.last_agents import LastAgents
from proof.sim.apps.onlookers import Onlookers
from proof.sim.apps.operators import Operators
from proof.sim.apps.pausing import Pausing
from proof.sim.apps.places import Names, make_lists, make_places
from proof.sim.apps.readers import Readers
from proof.sim.apps.sends import Sends
from proof.sim.apps.subjects import NAMES, OPERATOR, Subjects
from proof.sim.apps.wholes import Wholes
from proof.sim.apps.work import Work
from proof.sim.apps.workload import Workload
from proof.sim.base import marks, scale
from proof.sim.base.directory import SimDirectory
from proof.sim.base.kernel import Kernel
from proof.sim.base.network import SimNetwork
from proof.sim.base.node import Node, Surroundings
from proof.sim.base.options import HOUR, MINUTE, SECOND, Options, alone, draw, draw_size, sized
from proof.sim.base.packet_faults import OldPackets, PacketFaultEngine
from proof.sim.base.pair import Pair
from proof.sim.faults import beside, lives, lying_members
from proof.sim.faults.beside import Beside
from proof.sim.faults.early import EarlyHands
from proof.sim.faults.faults import Faults
from proof.sim.faults.greetings import Greetings
from proof.sim.faults.liars import Liars
from proof.sim.faults.lives import Lives
from proof.sim.faults.lying_members import LyingMembers
from proof.sim.faults.reloads import Reloads, reads_again
from proof.sim.faults.rot import Rot
from proof.sim.judge.acknowledgments import Acknowledgments
from proof.sim.judge.arrivals import Arrivals
from proof.sim.judge.books import Books
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.copied_receivers import CopiedReceivers
from proof.sim.judge.copied_senders import CopiedSenders
from proof.sim.judge.draining import Draining
from proof.sim.judge.endings import Endings
from proof.sim.judge.forgetting import Forgetting
from proof.sim.judge.ledger import Ledger
from proof.sim.judge.lies import Lies
from proof.sim.judge.meetings import Meetings
from proof.sim.judge.permissions import Permissions
from proof.sim.judge.reasons import Reasons
from proof.sim.judge.restores import Restores
from proof.sim.judge.siblings import Siblings
from proof.sim.judge.traffic import Traffic
from proof.sim.judge.trails import Trails
from proof.sim.judge.verdict import Verdict

QUIET_US = 48 * HOUR
"""Within this time everything must have drained once the faults stop (I26)."""

READERS = 2
"""Applications of a manager that read so, where any do."""

Keep = Callable[[LogStore, SimFiles, Settings], History | None]


def _no_history(store: LogStore, files: SimFiles, settings: Settings) -> None:
    return None


class World:
    """See the module. ``run`` lives through it, or raises Violation."""

    def __init__(
        self, seed: int, options: Options | None = None, *, whole_story: bool = False,
        keep: Keep | None = None, size: float = 0,
    ) -> None:  # fmt: skip
        """Make it; nothing happens yet.

        Args:
            size: Of the world (``options.sized``); 0: the seed says it.
            keep: Makes what writes the history of a manager; None: there are no histories.
        """
        size = size or draw_size(Random(f"{seed}/size"))
        options = options or sized(draw(Random(f"{seed}/options")), size)
        self.kernel = kernel = Kernel(seed, options, whole_story=whole_story)
        self.nodes: list[Node] = []
        self.pair = Pair(self.nodes)
        drawn = lives.draw(kernel, fit=keep is None and beside.SHARE != 1)
        self.pair.of = beside.draw(kernel, fit=not drawn.active)
        self.apart = drawn.active or self.pair.of >= 0
        if self.apart:
            kernel.options = alone(kernel.options)
        self.directory = SimDirectory(kernel) if kernel.options.lists else None
        self.spelled = Names(kernel, directory=self.directory is not None)
        self.permissions = Permissions(kernel)
        self.named = Subjects.drawn(kernel, fit=not self.apart)
        self.permissions.active = self.named and Subjects.strict(kernel)
        self.permissions.directory = self.directory if self.named else None
        self.delaying = Delaying(kernel, self.nodes, fit=not self.apart)
        self._make_judges(turns=drawn.copies)
        self._make_computers(keep or _no_history)
        self._make_people()
        self.lives = Lives(kernel, self.nodes, self.restores, drawn)
        self.beside = Beside(
            kernel, self.nodes, self.pair, self.network, self.restores, self.queues, self.siblings,
            self.workload, self.greetings, self.operators, self._make_node, self.employ,
        )  # fmt: skip

    def _make_judges(self, *, turns: bool) -> None:
        """Those who watch, from the books up."""
        kernel, nodes, pair = self.kernel, self.nodes, self.pair
        self.books = books = Books(kernel, pair)
        meetings = Meetings(pair)
        self.queues = queues = CopiedQueues(kernel, books, pair, meetings)
        self.traffic = traffic = Traffic(kernel, books, pair, queues)
        self.restores = restores = Restores(kernel, nodes, books, traffic)
        self.siblings = siblings = Siblings(kernel, books, pair, traffic, queues, meetings)
        reasons = Reasons(kernel, nodes, books, pair, traffic, queues, siblings, self.permissions)
        endings = Endings(kernel, books, traffic, reasons, siblings)
        senders = CopiedSenders(kernel, books, siblings, reasons)
        receivers = CopiedReceivers(kernel, books, pair, queues, reasons, endings)
        self.acknowledgments = Acknowledgments(
            kernel, books, queues, siblings, restores, reasons, receivers
        )
        self.forgetting = Forgetting(kernel, nodes, books, queues, traffic, reasons, restores)
        arrivals = Arrivals(kernel, nodes, books, pair, self.permissions, self.delaying.handed)
        self.ledger = Ledger(kernel, nodes, books, queues, arrivals, self.acknowledgments.known)
        self.verdict = Verdict(
            kernel, books, pair, restores, traffic, siblings, reasons, endings, senders, receivers,
            self.acknowledgments, lambda: self.ledger.check_order(siblings.carrier, turns=turns),
        )  # fmt: skip

    def _make_computers(self, keep: Keep) -> None:
        """A network and managers, with their queues."""
        kernel = self.kernel
        self.network = SimNetwork(kernel, self.nodes, self.pair)
        self.network.watch, self.network.connected = self.traffic.watch, self.queues.connected
        self.old_packets = OldPackets()
        self.trails = Trails(kernel, self.nodes)
        self._around = Surroundings(self.network, self._engine, self._ends, self.directory, keep)
        for _ in range(kernel.options.managers):
            self.nodes.append(self._make_node())
        self.draining = Draining(self.nodes, self.network, self.pair, self.queues)
        self.lying_members = None
        if self.permissions.active:
            self.lying_members = LyingMembers(
                kernel, self.nodes, self.network, self.traffic, self.permissions,
                Lies(kernel, self.books), active=lying_members.drawn(kernel),
            )  # fmt: skip
            self.draining.unread = frozenset(liar.guid for liar in self.lying_members.liars)
        bare = self.pair.of if not self.queues.active else -1
        make_places(
            kernel, self.books, [node for node in self.nodes if node.index != bare], self.spelled
        )
        if self.directory is not None:
            make_lists(kernel, self.books, self.directory, self.spelled)

    def _make_node(self) -> Node:
        node = Node(self.kernel, len(self.nodes), self._around)
        node.on_down.append(lambda: self.ledger.crashed(node))
        if self.permissions.active:
            node.on_up.append(lambda: self.trails.check(node))
        return node

    def _engine(self, node: Node, **parts: Any) -> Engine:
        engine = PacketFaultEngine(node, self.old_packets, self.siblings, **parts)
        reads_again(node, engine)
        self.jobs.attach(node, engine)
        self.onlookers.attach(node, engine)
        engine.worked = lambda: self.early.watch(node, engine)
        return engine

    def _make_people(self) -> None:
        """Applications and operators; they go to work later."""
        kernel, books, pair, queues = self.kernel, self.books, self.pair, self.queues
        sends = Sends(kernel, books, self.ledger, pair, queues, self.delaying, self.spelled)
        work = Work(kernel, books, self.ledger, sends)
        self.workload = Workload(kernel, work, apart=self.apart)
        self.readers = Readers(kernel, work)
        self.pausing = Pausing(kernel, work, fit=not self.apart)
        self.jobs = Jobs(kernel, work, fit=not self.apart and not self.named)
        self.onlookers = Onlookers(kernel, work, fit=not self.apart and not self.named)
        self.wholes = Wholes(kernel, work, fit=not self.apart and not self.named)
        self.subjects = Subjects(kernel, self.nodes, work, self.permissions)
        self.coordinators = Coordinators(kernel, self.nodes, work)
        self.last_agents = LastAgents(kernel, self.nodes, work)
        self.operators = Operators(
            kernel, books, pair, queues, work, self.verdict, self.acknowledgments, self.directory
        )
        self.early = EarlyHands(kernel, self.nodes, books, self.operators, work)
        self.greetings = Greetings(kernel, self.nodes, books, pair, queues, work)

    # ---- its life -----------------------------------------------------------------------

    def run(self) -> None:
        """From the first start to the last judgment."""
        with scale.put_in(self.kernel.scale):
            self._run()

    def rest(self) -> None:
        """After the end: let what other threads do under way come to its end."""
        with scale.put_in(self.kernel.scale):
            self.kernel.run_until(
                self.kernel.now + HOUR, lambda: not any(node.busy for node in self.nodes)
            )

    def _run(self) -> None:
        for node in self.nodes:
            node.up()
        self._everybody(self.operators.set_up)
        if not self.kernel.run_until(HOUR, self._has_queues):
            self.kernel.wrong("the queues cannot be made")
        if self.named:
            open_ = self._everybody(self.subjects.open_up)
            self.kernel.run_until(self.kernel.now + HOUR, lambda: _done(open_))
        self.kernel.faulty = True
        begun = self.kernel.now
        apps = self._populate()
        Faults(self.kernel, self.nodes, self.network, self.old_packets)
        Liars(self.kernel, self.nodes)
        if self.lying_members is not None:
            self.lying_members.begin()
        if not self.apart:  # it would be in the copies, too
            Rot(self.kernel, self.nodes, self.books)
        self.lives.begin()
        self.beside.begin()
        Reloads(self.kernel, self.nodes, lives=self.lives.active)
        self.kernel.run_until(begun + self.kernel.options.safety_us, lambda: False)
        self._calm()
        self._quiet([*apps, *self.beside.apps, *self.early.apps])
        readers = self._everybody(self.operators.dead_letters)
        if not self.kernel.run_until(self.kernel.now + HOUR, lambda: _done(readers)):
            self.kernel.wrong("I26: the reader of the system queues waits without end")
        for node in self.nodes:
            assert node.engine is not None
            self._ends(node, node.engine.manager)
            self._recount(node.engine.manager)
            if len(node.engine.manager.state.damages):
                self.kernel.marks[marks.SET_ASIDE] += 1
            node.recovery.in_the_end(node.engine.manager)
            if self.permissions.active:
                self.trails.check(node)
            self.lives.in_the_end(node, node.engine.manager)
            self.siblings.noticed(node, node.engine.manager)
            self.greetings.noticed(node, node.engine.manager)
        self.verdict.judge()
        self.acknowledgments.judge()

    def _ends(self, node: Node, manager: Manager) -> None:
        """A process ends, or the world."""
        scale.looked(self.kernel.marks, self.kernel.scale, manager)
        self.forgetting.check(node, manager)
        self.traffic.ends(manager)
        if self.lying_members is not None:
            self.lying_members.lies.ends(node, manager)

    def _has_queues(self) -> bool:
        return all(p.number for p in self.books.places.values() if not p.late)

    def _everybody(
        self, program: Callable[[App], Program], nodes: Sequence[Node] | None = None
    ) -> list[App]:
        """Every manager (of some) has somebody who runs one program once."""
        return [once(node, SECOND, program) for node in (self.nodes if nodes is None else nodes)]

    def _populate(self) -> list[App]:
        """Applications and operators go to work."""
        apps = [app for node in self.nodes for app in self.employ(node)]
        self.coordinators.begin()
        self.last_agents.begin()
        return apps

    def employ(self, node: Node) -> list[App]:
        """Applications and operators of one manager go to work."""
        apps = []
        for _ in range(2):
            app = App(node, self.kernel.options.think_us, self.workload.next)
            app.start(self.kernel.stream("workload").randrange(self.kernel.options.think_us + 1))
            apps.append(app)
        if self.kernel.options.operator_every_us:
            app = App(node, self.kernel.options.operator_every_us, self.operators.next)
            app.start(self.kernel.options.operator_every_us)
            apps.append(app)
        for _ in range(READERS if self.readers.active else 0):
            app = App(node, self.kernel.options.think_us, self.readers.next)
            app.start(self.readers.rng.randrange(self.kernel.options.think_us + 1))
            apps.append(app)
        for name in NAMES if self.named else ():
            app = App(node, self.kernel.options.think_us, self.subjects.next)
            self.subjects.employ(app, name)
            app.start(self.subjects.rng.randrange(self.kernel.options.think_us + 1))
            apps.append(app)
        for _ in range(HOLDERS if self.named and self.subjects.tokens.active else 0):
            holder = Holder(node, self.kernel.options.think_us, self.subjects.next)
            self.subjects.tokens.employ(holder)
            holder.start(self.subjects.rng.randrange(self.kernel.options.think_us + 1))
            apps.append(holder)
        if self.named:
            giver = App(node, self.kernel.options.think_us, self.subjects.give)
            giver.actor = OPERATOR if self.permissions.active else None
            giver.start(0)
            apps.append(giver)
        if self.pausing.active:
            app = App(node, self.kernel.options.think_us, self.pausing.next)
            app.start(self.pausing.rng.randrange(self.kernel.options.think_us + 1))
            apps.append(app)
        if self.jobs.active:
            app = App(node, 2 * self.kernel.options.think_us, self.jobs.next)
            app.start(self.jobs.rng.randrange(self.kernel.options.think_us + 1))
            apps += [app, self.jobs.worker(node)]
        if self.onlookers.active:
            app = App(node, self.onlookers.think_us, self.onlookers.next)
            app.start(self.onlookers.rng.randrange(self.kernel.options.think_us + 1))
            apps.append(app)
        if self.wholes.active:
            app = App(node, self.kernel.options.think_us, self.wholes.next)
            app.start(self.wholes.rng.randrange(self.kernel.options.think_us + 1))
            apps.append(app)
        return apps

    # ---- the end of all faults ----------------------------------------------------------

    def _calm(self) -> None:
        """The faults stop, and what they left behind is put in order."""
        self.kernel.note("calm")
        for node in self.nodes:
            if node.engine is not None:
                scale.looked(self.kernel.marks, self.kernel.scale, node.engine.manager)
        self.kernel.faulty = False
        self.network.heal()
        for node in self.nodes:
            node.calm()
        self.coordinators.calm()
        self.last_agents.calm()
        # The operator that took a manager off the network may have died. Others would try to reach
        # it every few seconds for as long as some application sleeps: days of nothing else.
        off = [n for n in self.nodes if n.engine is not None and n.engine.manager.state.offline_s]
        self._everybody(self.operators.reconnect, off)
        if self.named:
            self._everybody(self.subjects.open_up)

    def _quiet(self, apps: list[App]) -> None:
        """Everything drains (I26)."""
        end = self.kernel.now + QUIET_US
        if not self.kernel.run_until(end, lambda: all(app.idle for app in apps)):
            self.kernel.wrong("I26: an application waits without end")
        for node in self.nodes:
            if node.engine is None:
                self.kernel.run_until(end, lambda node=node: node.engine is not None)  # type: ignore[misc]
        self._recover(end)
        if self.wholes.active:
            looking = self._everybody(self.wholes.in_the_end)
            self.kernel.run_until(self.kernel.now + HOUR, lambda: _done(looking))
        drainers = self._everybody(self.operators.drain)
        self._drain(end)
        if self.greetings.greet():
            self._drain(end)
            self.greetings.everybody_knows()
        self.operators.drained = True
        self.kernel.run_until(self.kernel.now + HOUR, lambda: _done(drainers))

    def _drain(self, end: int) -> None:
        """Wait until nothing is left."""
        while left := self.draining.left():
            if self.kernel.now >= end:
                self.kernel.wrong(self.draining.undrained(left))
            self.kernel.run_until(min(self.kernel.now + 2 * MINUTE, end), lambda: False)

    def _recover(self, end: int) -> None:
        """Bring every prepared branch to its outcome (I21)."""
        deciders = (self.last_agents, self.coordinators)
        for decider in deciders:
            if not decider.idle and not self.kernel.run_until(end, lambda d=decider: d.idle):  # type: ignore[misc]
                self.kernel.wrong("I26: an application with partners waits without end")
            decider.last_rounds()
            if not decider.clean and not self.kernel.run_until(end, lambda d=decider: d.clean):  # type: ignore[misc]
                self.kernel.wrong("I21: recovery does not end, though everything can be reached")
        for decider in deciders:
            decider.books.finish()

    def _recount(self, manager: Manager) -> None:
        """Counters equal a recount (I19)."""
        for number, count in manager.state.recount().items():
            queue = manager.state.all_queues[number]
            if len(queue) != count:
                self.kernel.wrong(
                    f"I19: queue {number} counts {len(queue)} messages, there are {count}"
                )


def _done(apps: list[App]) -> bool:
    """Whether those that run one program once have done so."""
    return all(app.begun and app.idle for app in apps)
