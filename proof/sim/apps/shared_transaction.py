"""One transaction that a manager decides for its partners, as a program of an application.

What the client library does with threads is done here in virtual time: enlist, work, then the steps
of ``partners/procedures.py`` one by one, with every failure thrown in.

Watches, by ``shared_books.py``: I20, I21.
"""

from __future__ import annotations

from typing import Protocol

from onceq.errors import InDoubt, OnceqError, SendFailed, TransactionOver
from onceq.model.branches import NUMBER_BYTES
from onceq.model.identity import TransactionId
from onceq.model.requests import Begin, Commit, DecisionDone, Enlist, LeaveDecision
from onceq.partners import procedures
from onceq.partners.procedures import ProcedureStep, Steps, What
from proof.sim.apps import deciders
from proof.sim.apps.apps import Lost
from proof.sim.apps.clients import Client, Link, Talk
from proof.sim.apps.deciders import Program
from proof.sim.apps.shared_books import SharedBooks, Whole
from proof.sim.apps.simulated_partners import DatabasePartner, ManagerPartner, Partner
from proof.sim.apps.work import Work
from proof.sim.base.options import SECOND
from proof.sim.judge.books import Status


class Owner(deciders.Owner, Protocol):
    """What runs shared transactions."""

    books: SharedBooks
    work: Work

    def partners(self, client: Client, whole: Whole) -> list[Partner]:
        """Choose those of a transaction."""

    def trouble(self, client: Client, step: ProcedureStep, partners: list[Partner]) -> None:
        """A step is about to be asked for; somebody may soon crash over it."""


def enlists(transaction: int, gtrid: bytes, partner: str) -> Enlist:
    """Asks to enlist a partner, where the manager draws the number of an identifier that the books
    know already."""
    drawn = bytes.fromhex(gtrid.rpartition(b"-")[2].decode().zfill(2 * NUMBER_BYTES))
    return Enlist(transaction, partner, drawn=drawn)


class SharedTransaction(Program):
    """See the module."""

    idle_share = 0.1

    def __init__(
        self, owner: Owner, client: Client, link: Link, whole: Whole,
        partners: list[Partner],
    ) -> None:  # fmt: skip
        super().__init__(owner, client, link, owner.books, whole)
        self.owner, self.books, self.work = owner, owner.books, owner.work
        self.whole = whole
        self.partners = partners

    @property
    def count(self) -> int:
        """How many partners there are."""
        return len(self.partners)

    def _commit(self, *, idle: bool) -> Steps:
        # A manager that is alone could not be asked afterwards what became of it.
        alone = len(self.partners) == 1 and isinstance(self.partners[0], ManagerPartner)
        return procedures.committing(len(self.partners), idle=idle and not alone)

    def _doubt(self) -> Talk:
        if self.whole.alone:
            yield from self._abort()

    def _work(self, *, idle: bool) -> Talk:
        number, gtrid, rng = self.number, self.whole.gtrid, self.rng
        yield from self._home(Begin(number))
        for partner in self.owner.partners(self.client, self.whole):
            yield from self._home(enlists(number, gtrid, partner.name))
            self.partners.append(partner)
            yield from partner.begin()
            for _ in range(rng.choice([0, 1, 1, 2, 3])):
                yield from partner.work()
            if not idle and rng.random() < 0.7:
                yield from self._work_at_home()

    def _work_at_home(self) -> Talk:
        node, unit, number = self.client.node, self.whole.unit, self.number
        talk = self.work.receive if self.rng.random() < 0.4 else self.work.send
        yield from self.client.over(self.link, talk(node, unit, number))

    def _do(self, step: ProcedureStep) -> Talk:
        self.owner.trouble(self.client, step, self.partners)
        if step.what is What.DECIDE:
            return (yield from self._decide())
        if step.partner < 0:
            return (yield from self._report(step.what))
        partner = self.partners[step.partner]
        if step.what is What.PREPARE:
            return (yield from partner.prepare())
        if step.what is What.COMMIT:
            return (yield from partner.commit(partner.share.xid))
        if step.what is What.ROLLBACK:
            return (yield from partner.undo())
        assert isinstance(partner, DatabasePartner)
        return (yield from partner.commit_one_phase())

    def _decide(self) -> Talk:
        whole, unit, node = self.whole, self.whole.unit, self.client.node
        began = node.clock.wall_us() // SECOND
        unit.id = key = TransactionId(began.to_bytes(4, "little") + self.rng.randbytes(12), 1)
        items = [self.work.sends.item(node.index, unit) for _ in range(self.rng.choice([0, 0, 1]))]
        tail, number = tuple(item for item, _ in items), self.number
        try:
            sent = yield from self._home(
                Commit(number, tail, key), lambda: self.books.decide(whole)
            )
        except Lost as lost:
            if not lost.asked:
                raise TransactionOver(f"{node.name} was lost before the commit") from lost
            raise InDoubt(f"{node.name} gives no answer to the commit", transaction="") from lost
        except OnceqError as error:
            self.work.sends.refused(
                error, [message for _, messages in items for message in messages]
            )
            unit.status, whole.asked = Status.OPEN, False
            if isinstance(error, SendFailed):
                self.books.ledger.aborted(unit)  # its manager has given it up
            raise
        self.books.ledger.answered(unit)
        self.books.decided(whole)
        return sent

    def _report(self, what: What) -> Talk:
        """Report that all partners have carried the decision out, or that not all could."""
        gtrid, make = self.whole.gtrid, DecisionDone if what is What.DONE else LeaveDecision
        try:
            yield from self._home(make(gtrid))
        except (Lost, OnceqError):
            return
