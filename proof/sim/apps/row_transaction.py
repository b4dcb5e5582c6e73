"""One transaction that a row in a database decides, as a program of an application.

What the client library does (``client/plans/branches.py``) is done here in virtual time, step by
step as ``partners/procedures.py`` says, with every failure thrown in.

Watches, by ``row_books.py``: I20, I21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from onceq.errors import LinkLost, OnceqError, PartnerLost, SendFailed, UnknownBranch
from onceq.model.requests import (
    Begin,
    CommitBranch,
    DecisionDone,
    LeaveDecision,
    Promise,
    Request,
    RollbackBranch,
)
from onceq.partners import procedures
from onceq.partners.procedures import ProcedureStep, Steps, What
from proof.sim.apps import deciders
from proof.sim.apps.apps import Lost, Sleep
from proof.sim.apps.clients import Client, Link, Talk
from proof.sim.apps.databases import Connection
from proof.sim.apps.deciders import Program
from proof.sim.apps.row_books import Case, RowBooks
from proof.sim.apps.shared_transaction import enlists
from proof.sim.apps.work import Work
from proof.sim.base.options import MINUTE, MS, SECOND


class Owner(deciders.Owner, Protocol):
    """What runs such transactions."""

    books: RowBooks
    work: Work

    def trouble(self, client: Client) -> None:
        """A step is about to be asked for; the manager may soon crash over it."""


class RowTransaction(Program):
    """See the module."""

    idle_share = 0.08

    def __init__(self, owner: Owner, client: Client, link: Link, case: Case) -> None:
        super().__init__(owner, client, link, owner.books, case)
        self.owner, self.books, self.case = owner, owner.books, case
        self.connection: Connection | None = None
        self._laid = False

    @property
    def count(self) -> int:
        """How many partners there are."""
        return len(self.case.others) + 1

    def _commit(self, *, idle: bool) -> Steps:
        self.case.alone = idle and not self.case.others
        return procedures.committing_by_row(self.count, idle=idle)

    def abandon(self) -> None:
        """Its connection to the database ends."""
        if self.connection is not None and self.connection.usable:
            self.case.database.abandon(self.connection)
        for other in self.case.others:
            other.abandon()

    # ---- work ---------------------------------------------------------------------------

    def _work(self, *, idle: bool) -> Talk:
        database, node, unit = self.case.database, self.client.node, self.case.unit
        self.connection = connection = database.connect()
        alone = not idle and self.rng.random() < 0.3 and not self.case.others
        if alone:
            self.number = 0  # What is sent at the last is all of it.
        else:
            yield from self._home(Begin(self.number))
        for other in self.case.others:
            name = other.database.name
            yield from self._home(enlists(self.number, self.case.gtrid, name))
            for _ in range(other.database.rng.choice([1, 1, 2])):
                yield from other.write(self.books.write_other())
        for _ in range(self.rng.choice([1, 1, 2])):
            row = self.books.write(self.case)
            yield from database.call(lambda row=row: connection.rows.add(row), connection)  # type: ignore[misc]
        work = self.owner.work
        for _ in range(0 if idle or alone else self.rng.choice([0, 1, 1, 2])):
            talk = work.receive if self.rng.random() < 0.4 else work.send
            yield from self.client.over(self.link, talk(node, unit, self.number))

    def _anywhere(self, request: Request, asked: Callable[[], None] | None = None) -> Talk:
        """Over any connection to the manager; that it is lost is an error like others."""
        node = self.client.node
        try:
            answer = yield from self.client.ask(self.client.link(node), request, asked)
        except Lost as lost:
            raise LinkLost(f"{node.name} gives no answer") from lost
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    # ---- steps --------------------------------------------------------------------------

    def _do(self, step: ProcedureStep) -> Talk:
        self.owner.trouble(self.client)
        database, case, connection = self.case.database, self.case, self.connection
        if step.what is What.PROMISE:
            return (yield from self._promise())
        if step.what is What.FULFIL:
            return (yield from self._fulfil())
        if step.what is What.BREAK:
            return (yield from self._break())
        if step.what is What.LEAVE:
            return (yield from self._leave())
        if step.what is What.DONE:
            return (yield from self._anywhere(DecisionDone(case.gtrid)))
        if step.partner < len(case.others):
            other = case.others[step.partner]
            verbs = {What.PREPARE: other.prepare, What.COMMIT: other.commit}
            return (yield from verbs.get(step.what, other.undo)())
        if connection is None:
            raise PartnerLost(f"{database.name} was never reached")
        if step.what is What.RECORD:
            assert case.row is not None
            return (yield from database.record(case.row, connection))
        if step.what is What.COMMIT_ONE_PHASE:
            return (yield from database.call(self._commit_alone, connection))
        assert step.what is What.ROLLBACK
        return (yield from database.call(lambda: database.undo(connection), connection))

    def _leave(self) -> Talk:
        yield from self._anywhere(LeaveDecision(self.case.xid.gtrid))
        if self.case.others:
            yield from self._anywhere(LeaveDecision(self.case.gtrid))

    def _commit_alone(self) -> None:
        assert self.connection is not None
        self.case.database.commit_one_phase(self.connection)
        self.case.landed = True

    def _promise(self) -> Talk:
        case, node, sends = self.case, self.client.node, self.owner.work.sends
        items = [sends.item(node.index, case.unit) for _ in range(self.rng.choice([0, 1, 1, 2]))]

        def going() -> None:
            case.asked = True

        request = Promise(self.number, case.xid, tuple(item for item, _ in items))
        try:
            answer = yield from self._home(request, going)
        except Lost as lost:
            raise LinkLost(f"{node.name} gives no answer to a promise") from lost
        except OnceqError as error:
            sends.refused(error, [message for _, messages in items for message in messages])
            if isinstance(error, SendFailed):
                self.books.ledger.aborted(case.unit)  # its manager has given it up
            raise
        self.books.promised(case, answer)
        self._laid = answer is not None and bool(answer.first_message or not answer.messages)
        return answer

    def _fulfil(self) -> Talk:
        """Commit the branch; where nobody waits for that, nobody hears of it."""
        case, link = self.case, self.link
        request = CommitBranch(case.xid)
        if self._laid and not case.others:
            # An embedded manager may work it off with what is asked next, or after a while.
            yield Sleep(self.rng.choice([0, MS, 100 * MS]))
            if not link.alive:
                raise LinkLost("the connection is lost")
            self.books.committing(case)
            told = replace(request, owner=link.owner)
            link.node.run(lambda engine: engine.submit(told))
            self._soon_durable()
            return None
        try:
            answer = yield from self.client.ask(link, request, lambda: self.books.committing(case))
        except Lost as lost:
            raise LinkLost(f"{link.node.name} gives no answer") from lost
        known = not isinstance(answer, UnknownBranch)
        if known and isinstance(answer, OnceqError):
            self.client.kernel.wrong(f"I20: {case.xid} cannot be committed: {answer!r}")
        self.books.committed(case, known=known, recovered=False)
        return answer

    def _soon_durable(self) -> None:
        """What is held is durable when nothing else was said for a while."""
        node, kernel, life = self.link.node, self.client.kernel, self.link.node.life

        def durable() -> None:
            awake = node.paused_us < kernel.now - SECOND
            if node.life == life and node.engine is not None and awake:
                self.case.heard = True

        kernel.at(kernel.now + MINUTE, durable)

    def _break(self) -> Talk:
        case = self.case
        asked = lambda: self.books.rolling_back(case, recovered=False)  # noqa: E731
        try:
            yield from self._anywhere(RollbackBranch(case.xid), asked)
        finally:
            self.books.rolled_back(case, recovered=False)

    # ---- the end without a commit -------------------------------------------------------

    def _abort(self) -> Talk:
        if self.case.row is None:
            yield from super()._abort()
