"""Transactions that a manager decides for other managers and for databases, in simulated worlds.

Applications run them with the product's own procedure (``partners/procedures.py``), step by step in
virtual time, and the product's own recovery (``partners/recovery.py``) brings what is left of them
to its outcome. An application may die at any step, and so may recovery; managers and databases
crash, and cannot be reached for a while.

Watches, by ``shared_books.py``: I20, I21; and with the books of messages I1 to I5, I16, I17.
"""

from __future__ import annotations

from typing import Any

from onceq.model.branches import ONCEQ_FORMAT, Xid, make_gtrid
from onceq.model.requests import AskOutcome
from onceq.model.results import Outcome
from onceq.partners.procedures import ProcedureStep, What
from onceq.partners.recovery import Recovery
from proof.sim.apps.apps import Lost, Sleep
from proof.sim.apps.clients import Client, Died, Talk
from proof.sim.apps.databases import Database
from proof.sim.apps.deciders import Deciders
from proof.sim.apps.shared_books import SharedBooks, Whole
from proof.sim.apps.shared_transaction import SharedTransaction
from proof.sim.apps.simulated_partners import (
    DatabasePartner,
    DatabaseResource,
    Decider,
    ManagerPartner,
    ManagerResource,
    Partner,
    name_of,
    one_round,
)
from proof.sim.apps.work import Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MINUTE, MS, SECOND
from proof.sim.judge.books import Status


class Coordinators(Deciders):
    """See the module."""

    def __init__(self, kernel: Kernel, nodes: list[Node], work: Work) -> None:
        super().__init__(kernel, nodes, "coordinators")
        self.work = work
        self.books = SharedBooks(kernel, nodes, work.ledger)
        options = kernel.options
        count = options.databases if options.shared else 0
        self.databases = [Database(kernel, index) for index in range(count)]
        self._doubts: dict[Client, list[Whole]] = {}

    # ---- who does it, and when ----------------------------------------------------------

    def begin(self) -> None:
        """Applications go to work, if this world has any."""
        options = self.kernel.options
        if not options.shared:
            return
        homes = self.rng.sample(self.nodes, 2)
        for home in homes:
            rng = self.kernel.stream(f"client {home.index}")
            self._workers.append(Client(home, self.nodes, rng, options.deaths, self._next))
            self._recoverers[home.index] = Client(
                home, self.nodes, rng, options.deaths, self._next_round
            )
        for _ in range(options.shared):
            at = self.rng.randrange(options.safety_us)
            self._plan(at, self._workers[homes.index(self.rng.choice(homes))])
        for client in self._recoverers.values():
            self._plan_rounds(client)
        every = options.database_every_us if self.databases else 0
        for _ in range(options.safety_us // every if every else 0):
            at = self.kernel.now + self.rng.randrange(options.safety_us)
            self.kernel.at(at, self._fault, self.rng.choice(self.databases))

    def _next(self, client: Client) -> Talk | None:
        """The next program of an application."""
        if self._doubts.get(client):
            return self._find_out(client, self._doubts[client].pop())
        return super()._next(client)

    # ---- one transaction ----------------------------------------------------------------

    def transaction(self, client: Client) -> Talk:
        """Work at home and at partners, then commit or abort all of it."""
        client.pace_us = client.rng.choice([10 * MS, SECOND, 20 * SECOND])
        client.deaths = self.kernel.options.deaths / 6
        home = client.node
        try:
            link = client.link(home)
        except Lost:
            self._plan(self.rng.choice([10 * SECOND, 10 * MINUTE]), client)
            return
        self._count += 1
        gtrid = make_gtrid(home.guid, client.rng.getrandbits(64) << 32 | self._count)
        whole = self.books.begin(home, gtrid)
        link.on_lost.append(lambda: self._home_lost(client, whole))
        partners: list[Partner] = []
        try:
            yield from SharedTransaction(self, client, link, whole, partners).run()
        except Died:
            self.books.died(whole)
            self.soon(home)
            raise
        finally:
            for partner in partners:
                partner.abandon()

    def _home_lost(self, client: Client, whole: Whole) -> None:
        """The manager has lost the application, or the other way round."""
        self.books.home_lost(whole)
        if whole.unit.status is Status.DOUBT:
            self._doubts.setdefault(client, []).append(whole)
            client.wake()

    def partners(self, client: Client, whole: Whole) -> list[Partner]:
        """Those of a transaction: managers, databases, some of them twice."""
        rng = client.rng
        others = [node for node in self.nodes if node is not client.node]
        there: list[Node | Database] = [*others, *self.databases]
        if rng.random() < 0.85:
            there = [at for at in there if at.reachable] or there
        chosen = rng.sample(there, min(rng.choice([1, 1, 2, 2, 3]), len(there)))
        if rng.random() < 0.1:
            chosen.append(rng.choice(chosen))
        made: list[Partner] = []
        for index, at in enumerate(chosen):
            xid = Xid(ONCEQ_FORMAT, whole.gtrid, b"%d" % (index + 1))
            if isinstance(at, Database):
                share = self.books.share(whole, xid, at, at.name)
                made.append(DatabasePartner(self.books, share, at))
            else:
                share = self.books.share(whole, xid, at, name_of(at))
                made.append(ManagerPartner(self.books, self.work, share, client, at))
        return made

    def trouble(self, client: Client, step: ProcedureStep, partners: list[Partner]) -> None:
        """The manager that is asked for a step may soon crash, or the one that has decided."""
        kernel, node = self.kernel, client.node
        telling = step.what is What.COMMIT and client.rng.random() < 0.4
        if step.partner >= 0 and not telling:
            partner = partners[step.partner]
            node = getattr(partner, "node", node)
        if kernel.options.crash_every_us and kernel.faulty and client.rng.random() < 0.07:
            node.crash_within(client.rng.choice([1, 3, 10, 30]))

    def _find_out(self, client: Client, whole: Whole) -> Talk:
        """The answer to a commit was lost: ask its manager what became of it."""
        key = whole.unit.id
        assert key is not None
        while True:
            try:
                yield Sleep(self.rng.choice([SECOND, MINUTE]))
                link = client.link(client.node)
                answer = yield from client.ask(link, AskOutcome(key))
            except Lost:
                continue
            except Died:
                self._doubts[client].append(whole)
                raise
            break
        if not isinstance(answer, Outcome):
            self.kernel.wrong(f"I3a: asked for an outcome, got {answer!r}")
        self.books.found(whole, answer)

    # ---- recovery -----------------------------------------------------------------------

    def _make_recovery(self, client: Client, *, all_known: bool) -> Recovery:
        share = 1.0 if all_known or client.rng.random() < 0.8 else 0.5
        resources: list[Any] = [
            ManagerResource(self.books, client, node, recovered=True)
            for node in self.nodes
            if node is not client.node
        ]
        resources += [DatabaseResource(self.books, database) for database in self.databases]
        known = [resource for resource in resources if client.rng.random() < share]
        return Recovery(Decider(self.books, client), known)  # type: ignore[arg-type]

    def _round(self, client: Client, recovery: Recovery) -> Talk:
        """One round; whether nothing is left, and when the next is worth while."""
        now_s = self.kernel.now / SECOND
        report = yield from one_round(recovery, now_s)
        if report.at_work:
            self.kernel.marks[marks.LEFT_ALONE] += 1
        if report.forgotten:
            self.kernel.marks[marks.DECISION_GONE] += 1
        return report.clean, recovery.next_s(now_s, report)

    # ---- the end ------------------------------------------------------------------------

    def calm(self) -> None:
        """The faults stop."""
        for database in self.databases:
            database.calm()

    @property
    def idle(self) -> bool:
        """Whether nobody is at work."""
        return super().idle and not any(self._doubts.values())
