"""Transactions that a row in a database decides, in simulated worlds.

Applications run them with the product's own procedure (``partners/procedures.py``), and the
product's own recovery (``partners/recovery.py``) brings what is left of them to its outcome.
Applications and recovery die at any step, managers and databases crash, a commit arrives when its
application is gone, and a database is set back to a backup until an operator accepts that.

Watches, by ``row_books.py``: I20, I21; and with the books of messages I1 to I5, I16, I17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onceq.errors import LinkLost, OnceqError, UnknownBranch
from onceq.model.branches import ONCEQ_FORMAT, DecisionState, Xid, make_gtrid, xid_by_row
from onceq.model.requests import (
    AskDecision,
    AskRows,
    CommitBranch,
    DecisionDone,
    Look,
    Request,
    RollbackBranch,
)
from onceq.partners.contract import Row
from onceq.partners.recovery import Recovery, promises_in
from proof.sim.apps.apps import Lost
from proof.sim.apps.clients import Client, Died, Talk
from proof.sim.apps.databases import Connection
from proof.sim.apps.deciders import Deciders
from proof.sim.apps.row_books import Case, RowBooks
from proof.sim.apps.row_databases import RowDatabase
from proof.sim.apps.row_others import Other, OtherDatabase, OtherResource
from proof.sim.apps.row_transaction import RowTransaction
from proof.sim.apps.simulated_partners import one_round
from proof.sim.apps.work import Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MINUTE, MS, SECOND

SEVERAL_SHARE = 0.4
"""Of the worlds with last agents, those in which other databases take part beside them."""


class SimulatedAgent:
    """A database for recovery at one manager, over a connection of its own; see ``Agent``."""

    def __init__(self, books: RowBooks, home: Node, database: RowDatabase) -> None:
        self.books, self.home, self.database = books, home, database
        self.name = database.name
        self._connection: Connection | None = None

    def settle(self, row: Row) -> Talk:
        """See Agent."""

        def work() -> bool:
            committed = self.database.settle(row)
            self.books.settled(self.home, self.database, row, committed=committed)
            return committed

        return self._call(work)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> Talk:  # fmt: skip
        """See Agent."""
        return self._call(lambda: self.database.count(manager, after, upto, but, must, note))

    def note(self, manager: str, number: int) -> Talk:
        """See Agent."""
        return self._call(lambda: self.database.note(manager, number))

    def remove(self, manager: str, below: int, but: Sequence[int]) -> Talk:
        """See Agent."""
        return self._call(lambda: self.database.remove(manager, below, but))

    def _call(self, work: Callable[[], Any]) -> Talk:
        """That the connection is lost is told by one call; the next one connects again."""
        if self._connection is None:
            self._connection = self.database.connect()
        connection = self._connection
        try:
            return (yield from self.database.call(work, connection))
        finally:
            if not connection.usable:
                self._connection = None


class SimulatedPromiser:
    """The home manager for recovery; see ``Promiser``, and ``Decider``."""

    def __init__(self, books: RowBooks, client: Client) -> None:
        self.books = books
        self.client = client
        self.guid = client.node.guid

    def _ask(self, request: Request, asked: Callable[[], None] | None = None) -> Talk:
        node = self.client.node
        try:
            answer = yield from self.client.ask(self.client.link(node), request, asked)
        except Lost as lost:
            raise LinkLost(f"{node.name} gives no answer") from lost
        if isinstance(answer, OnceqError) and not isinstance(answer, UnknownBranch):
            self.client.kernel.wrong(f"I20: {request} is refused: {answer!r}")
        return answer

    def promises(self) -> Talk:
        """See Promiser."""
        return promises_in((yield from self._ask(Look("branches"))))

    def rows(self, agent: str, found: int = 0) -> Talk:
        """See Promiser."""
        return (yield from self._ask(AskRows(agent, found)))

    def commit(self, xid: Xid) -> Talk:
        """See Promiser."""
        case = self.books.cases[xid]
        answer = yield from self._ask(CommitBranch(xid), lambda: self.books.committing(case))
        known = not isinstance(answer, UnknownBranch)
        self.books.committed(case, known=known, recovered=True)
        if not known:
            raise answer

    def rollback(self, xid: Xid) -> Talk:
        """See Promiser."""
        case = self.books.cases[xid]
        answer = yield from self._ask(
            RollbackBranch(xid), lambda: self.books.rolling_back(case, recovered=True)
        )
        self.books.rolled_back(case, recovered=True)
        if isinstance(answer, UnknownBranch):
            raise answer

    def decision(self, gtrid: bytes) -> Talk:
        """See Decider."""
        decision: DecisionState = yield from self._ask(AskDecision(gtrid))
        return decision

    def open_decisions(self) -> Talk:
        """See Decider: those that rows have made."""
        views = yield from self._ask(Look("decisions"))
        found = {view.gtrid.encode(): view.partners for view in views}
        return {gtrid: names for gtrid, names in found.items() if gtrid in self.books.by_gtrid}

    def done(self, gtrid: bytes) -> Talk:
        """See Decider."""
        yield from self._ask(DecisionDone(gtrid))


class LastAgents(Deciders):
    """See the module."""

    def __init__(self, kernel: Kernel, nodes: list[Node], work: Work) -> None:
        super().__init__(kernel, nodes, "last agents")
        self.work = work
        self.books = RowBooks(kernel, work.ledger)
        self.databases = [
            RowDatabase(kernel, index, self.books.landed, self.books.set_back)
            for index in range(self.rng.choice([1, 1, 2]) if kernel.options.by_row else 0)
        ]
        self._others_rng = rng = kernel.stream("row others")
        several = self.databases and rng.random() < SEVERAL_SHARE
        self.others = [
            OtherDatabase(kernel, index) for index in range(rng.choice([1, 2]) if several else 0)
        ]

    # ---- who does it, and when ----------------------------------------------------------

    def begin(self) -> None:
        """Applications go to work, if this world has any."""
        options, rng = self.kernel.options, self.rng
        if not options.by_row:
            return
        homes = rng.sample(self.nodes, min(2, len(self.nodes)))
        for home in homes:
            stream = self.kernel.stream(f"row client {home.index}")
            deaths = options.deaths
            for _ in range(rng.choice([1, 2, 3])):
                self._workers.append(Client(home, self.nodes, stream, deaths, self._next))
            self._recoverers[home.index] = Client(
                home, self.nodes, stream, deaths, self._next_round
            )
        for _ in range(options.by_row):
            self._plan(rng.randrange(options.safety_us), rng.choice(self._workers))
        for client in self._recoverers.values():
            self._plan_rounds(client)
        every = options.database_every_us
        for _ in range(options.safety_us // every if every else 0):
            at = self.kernel.now + rng.randrange(options.safety_us)
            self.kernel.at(at, self._fault, rng.choice(self.databases))
            if self.others:
                at = self.kernel.now + self._others_rng.randrange(options.safety_us)
                self.kernel.at(at, self._fault, self._others_rng.choice(self.others))

    # ---- one transaction ----------------------------------------------------------------

    def transaction(self, client: Client) -> Talk:
        """Work at home and in a database, then commit or abort both."""
        client.pace_us = client.rng.choice([10 * MS, SECOND, 20 * SECOND])
        client.deaths = self.kernel.options.deaths / 6
        home, database = client.node, self.rng.choice(self.databases)
        try:
            link = client.link(home)
        except Lost:
            self._plan(self.rng.choice([10 * SECOND, 10 * MINUTE]), client)
            return
        self._count += 1
        xid = xid_by_row(home.guid, client.rng.getrandbits(64) << 32 | self._count, database.name)
        case = self.books.begin(home, xid, database)
        if self.others and self._others_rng.random() < 0.6:
            self._let_follow(client, case)
        link.on_lost.append(lambda: self.books.home_lost(case))
        one = RowTransaction(self, client, link, case)
        try:
            yield from one.run()
        except Died:
            self.books.died(case)
            self.soon(home)
            raise
        finally:
            one.abandon()

    def _let_follow(self, client: Client, case: Case) -> None:
        """Other databases take part, too."""
        rng = self._others_rng
        case.gtrid = make_gtrid(client.node.guid, rng.getrandbits(56) << 32 | self._count)
        self.books.by_gtrid[case.gtrid] = case
        chosen = rng.sample(self.others, rng.randint(1, len(self.others)))
        case.others = [
            Other(database, Xid(ONCEQ_FORMAT, case.gtrid, b"%d" % number), self.books)
            for number, database in enumerate(chosen, 1)
        ]

    def trouble(self, client: Client) -> None:
        """The manager may soon crash."""
        kernel = self.kernel
        if kernel.options.crash_every_us and kernel.faulty and client.rng.random() < 0.1:
            client.node.crash_within(client.rng.choice([1, 3, 10, 30]))

    # ---- recovery -----------------------------------------------------------------------

    def _make_recovery(self, client: Client, *, all_known: bool) -> Recovery:
        promiser: Any = SimulatedPromiser(self.books, client)
        recovery = Recovery(promiser)
        for database in self.databases:
            agent: Any = SimulatedAgent(self.books, client.node, database)
            recovery.add_agent(agent, database.name)
        for other in self.others:
            resource: Any = OtherResource(self.books, other)
            recovery.add(resource, other.name)
        return recovery

    def _round(self, client: Client, recovery: Recovery) -> Talk:
        """One round; whether nothing is left, and when the next is worth while."""
        now_s = self.kernel.now / SECOND
        report = yield from one_round(recovery, now_s)
        if recovery.restored:
            self.kernel.marks[marks.DATABASE_SET_BACK] += 1
            for database in self.databases:
                if database.name in recovery.restored:
                    self.books.alarmed(client.node, database)
            if client.rng.random() < 0.3 or not self.kernel.faulty:
                yield from self._accept(client, recovery)
        return report.clean, recovery.next_s(now_s, report)

    def _accept(self, client: Client, recovery: Recovery) -> Talk:
        """An operator has compared both, and goes on with the restored database."""
        for database in self.databases:
            if database.name not in recovery.restored:
                continue
            try:
                yield from client.ask(
                    client.link(client.node), AskRows(database.name, -1),
                    lambda database=database: self.books.accepted(client.node, database),  # type: ignore[misc]
                )  # fmt: skip
            except Lost as lost:
                raise LinkLost("the manager gives no answer") from lost

    # ---- the end ------------------------------------------------------------------------

    def calm(self) -> None:
        """The faults stop."""
        for database in (*self.databases, *self.others):
            database.calm()

    def _under_way(self) -> Iterable[object]:
        return [database.under_way for database in self.databases]
