"""Partners of a transaction: what enlists them, and how it commits and aborts together with them.

Written once for threads and tasks, as generators of calls (``partners/procedures.py``). Which
partner is asked what, and when it is decided, is in ``partners/procedures.py``.

Upholds: I21.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from onceq.client.plans.branches import ByRow, Deciding, rows
from onceq.client.plans.plan import Plan
from onceq.client.plans.unit_of_work import Unit
from onceq.client.results import MessageIds
from onceq.errors import CallInCall, EnlistRefused, InDoubt, OnceqError, RolledBack
from onceq.model.branches import Vote, Xid
from onceq.model.requests.request import kept_failure
from onceq.partners.contract import AnyPartner, is_last_agent
from onceq.partners.procedures import (
    Call,
    Calls,
    ProcedureStep,
    StepResult,
    Steps,
    What,
    call,
    committing,
    committing_by_row,
    translated,
    undoing,
)
from onceq.partners.recovery import look_before_work

if TYPE_CHECKING:
    from onceq.client.recovering import RecoveryThread

T = TypeVar("T")


class Partners:
    """Those of one transaction, in the order in which they were enlisted.

    Attributes:
        deciding: The unit of work whose commit decides for them.
        votes: What they have voted, as far as they were asked.
        open: Whether they may still be rolled back from here.
        by_row: The unit of work, if a row in the last partner's database decides.
    """

    def __init__(self, deciding: Deciding) -> None:
        self.deciding = deciding
        self._all: list[tuple[AnyPartner, Xid]] = []
        self.votes: list[Vote] = []
        self.open = True
        self.by_row: ByRow | None = None

    def __len__(self) -> int:
        return len(self._all)

    def add(self, partner: AnyPartner, xid: Xid) -> None:
        """It is at work from now on. A last agent stays the last."""
        last = is_last_agent(partner) or self.by_row is None
        self._all.insert(len(self._all) if last else -1, (partner, xid))

    def names(self, pending: list[tuple[int, BaseException]]) -> list[str]:
        """Those that are still to be told of the decision, of those that were enlisted."""
        return [self._all[index][0].name for index, _ in pending if index >= 0]

    def carry_out(self, steps: Steps, home: Callable[[What], Any]) -> Calls[StepResult]:
        """Do all steps.

        Args:
            home: Does those of the home manager: DECIDE, DONE and LEAVE.
        """
        return translated(
            steps,
            lambda step: partial(home, step.what) if step.partner < 0 else self._verb(step),
        )

    def _verb(self, step: ProcedureStep) -> Call:
        """What a step asks of a partner."""
        partner, xid = self._all[step.partner]
        if step.what is What.RECORD:
            assert self.by_row is not None
            return partial(partner.record, self.by_row.row)
        return partial(getattr(partner, step.what.value), xid)

    def home(self, tx: AnyTransaction, what: What) -> object:
        """Do a step of the home manager; the result, or what to await for it."""
        if what is What.DECIDE:
            return tx._run(tx._state.commit())
        return tx._manager._run(self.deciding.report(what.value))

    def home_by_row(self, tx: AnyTransaction, by_row: ByRow, what: What) -> object:
        """The same where a row decides."""
        if what is What.PROMISE:
            return tx._run(by_row.promise())
        if what is What.FULFIL:
            # On its own connection, so that the next request on it finds the branch committed.
            return tx._run(by_row.fulfil(others=len(self._all) > 1))
        # Its connection may be gone, and need not be there for these.
        if what is What.DONE:
            return tx._manager._run(self.deciding.report(what.value))
        return tx._manager._run(by_row.undo() if what is What.BREAK else self._leave(by_row))

    def _leave(self, by_row: ByRow) -> Plan[None]:
        """Recovery may ask for the row, and tell the others."""
        yield from by_row.leave()
        if len(self) > 1:
            yield from self.deciding.report(What.LEAVE.value)

    def abandon(self, indices: Iterable[int] | None = None) -> None:
        """Cut the connections of those (or all) whose outcome will come from recovery: some
        databases let nobody else end a branch whose own connection lives."""
        for index, (partner, _) in enumerate(self._all):
            if indices is None or index in set(indices):
                with contextlib.suppress(Exception):
                    partner.abandon()

    def roll_back(self) -> Calls[None]:
        """Undo all of them, once; those that have voted read-only are told nothing more."""
        if self.open:
            self.open = False
            yield from translated(undoing(len(self._all), self.votes), self._verb)


class AnyHome(Protocol):
    """A queue manager whose transactions may have partners, of either face."""

    def _run(self, plan: Plan[T], on: Any = None, /) -> Awaitable[T] | T:
        """Carry a plan out: on this connection and no other; None: on any."""

    def _partner_for(self, connection: object, /) -> AnyPartner:
        """What takes part for a connection."""

    @property
    def _recovering(self) -> RecoveryThread:
        """What recovers resources of partners."""


class AnyPinned(Protocol):
    """The connection of a transaction, of either face."""

    link: Any

    @property
    def alive(self) -> bool:
        """Whether requests can be made, as far as is known."""


class AnyTransaction(Protocol):
    """A transaction, of either face."""

    pending: list[str]
    _partners: Partners | None

    @property
    def _manager(self) -> AnyHome: ...

    @property
    def _state(self) -> Unit: ...

    @property
    def _on(self) -> AnyPinned: ...

    def _run(self, plan: Plan[T], /) -> Awaitable[T] | T:
        """Carry a plan out on its connection."""

    def abort(self, why: str = "") -> Awaitable[None] | None:
        """Undo all of it."""


def enlist(tx: AnyTransaction, connection: Any) -> Calls[Any]:
    """Let a database, or another queue manager, commit with this transaction or not at all.

    What is done on the connection from now on belongs to the transaction; do not commit or
    roll back there.

    Args:
        connection: Of psycopg 3, PyMySQL or SQLAlchemy, and for tasks of psycopg 3 (asynchronous);
            a queue manager for the same kind of code; or a partner of your own
            (docs/reference/partners.md).

    Returns:
        For another queue manager: a branch, in which to send and receive there. Else the
        connection.

    Raises:
        TwoPhaseForbidden: The server does not allow it; the text says which line to change.
        EnlistRefused: It cannot take part; the text says why.
        NoCoordinator: This manager takes no part in external transactions.
        DatabaseRestored: A last agent was set back to an earlier state.
    """
    partner = tx._manager._partner_for(connection)
    tx._state.check_open()
    last = is_last_agent(partner)
    if last and tx._partners is not None and tx._partners.by_row is not None:
        raise EnlistRefused(
            "a transaction has one last agent, and there is one; enlist a connection that takes "
            "part in two-phase commit"
        )
    yield partner.check
    if tx._partners is None:
        tx._partners = Partners(Deciding(tx._state))
    partners = tx._partners
    if last:
        by_row = ByRow(tx._state, partner.name)
        # See that its database was not set back; on a new connection it is asked.
        manager = tx._state.session.source.hex()
        if tx._manager._recovering.look_after_rows(partner) or partner.is_new(manager):
            try:
                yield from look_before_work(_Asking(tx), manager, partner, partner.name)
            except BaseException:
                yield partner.withdraw
                raise
            partner.set_looked(manager)
        yield partial(partner.begin, by_row.xid)
        partners.by_row = by_row
        partners.add(partner, by_row.xid)
        return partner.connection
    xid = yield from call(tx._run, partners.deciding.enlist(partner.name))
    yield partial(partner.begin, xid)
    partners.add(partner, xid)
    tx._manager._recovering.look_after(partner)
    return getattr(partner, "work", connection)


class _Asking:
    """The rows that the queue manager of a transaction has seen; see ``recovery.RowsSeen``."""

    def __init__(self, tx: AnyTransaction) -> None:
        self._tx = tx

    def rows(self, agent: str, found: int = 0) -> object:
        """Return which rows of a database the manager has seen."""
        return self._tx._manager._run(rows(self._tx._state.session, agent, found))


def commit(tx: AnyTransaction, partners: Partners) -> Calls[MessageIds]:
    """Make all of it happen, here and at every partner; see ``Transaction.commit``."""
    unit = tx._state
    unit.check_open()
    if unit.owed:
        unit.check_awaited()
    if unit.doomed is not None:
        return _commit_doomed(tx, partners)
    if partners.by_row is not None:
        return _commit_by_row(tx, partners, partners.by_row)
    return _commit_in_two_phases(tx, partners)


def _commit_doomed(tx: AnyTransaction, partners: Partners) -> Calls[MessageIds]:
    """A send in it was refused; its commit says which."""
    yield from partners.roll_back()
    return (yield from call(tx._run, tx._state.commit()))


def _commit_in_two_phases(tx: AnyTransaction, partners: Partners) -> Calls[MessageIds]:
    unit = tx._state
    steps = committing(len(partners), partners.votes, idle=unit.idle)
    try:
        made = yield from partners.carry_out(steps, partial(partners.home, tx))
    except BaseException as error:
        if isinstance(error, RolledBack):
            partners.open = False
            if not unit.over:
                yield tx.abort
        elif unit.decided or unit.idle:
            partners.open = False
            partners.abandon()
        elif isinstance(error, OnceqError):
            partners.open = False  # The home manager refused: they were told to roll back.
        raise
    partners.open = False
    if made.result is None:
        yield tx.abort
        return MessageIds(unit.session.source)
    tx.pending = partners.names(made.pending)
    if tx.pending:
        partners.abandon(index for index, _ in made.pending)
        tx._manager._recovering.soon()
    ids: MessageIds = made.result
    return ids


def _commit_by_row(tx: AnyTransaction, partners: Partners, by_row: ByRow) -> Calls[MessageIds]:
    unit = tx._state
    partners.open = False
    steps = committing_by_row(len(partners), partners.votes, idle=unit.idle)
    try:
        made = yield from partners.carry_out(steps, partial(partners.home_by_row, tx, by_row))
    except BaseException as error:
        if unit.decided or not isinstance(error, OnceqError) or isinstance(error, InDoubt):
            partners.abandon()
            tx._manager._recovering.soon()
        elif not unit.over:
            yield tx.abort
        raise
    if made.result is None and not made.pending:
        if not unit.over:
            yield tx.abort
        return MessageIds(unit.session.source)
    if made.pending:
        here = [unit.session.name for index, _ in made.pending if index < 0]
        tx.pending = here + partners.names(made.pending)
        partners.abandon(index for index, _ in made.pending if index >= 0)
        tx._manager._recovering.soon()
    return unit.sent if unit.sent is not None else MessageIds(unit.session.source)


def failure_of(error: BaseException) -> str:
    """What is kept of an error with the messages that it gives back."""
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def abort(tx: AnyTransaction, why: str = "") -> Calls[None]:
    """Undo all of it: nothing is sent, what was received goes back, partners roll back.

    Args:
        why: What is kept with each message that goes back, of at most ``FAILURE_CHARS_MAX``
            characters; what is longer is cut (``Message.failure``).

    Raises:
        WrongProcess: It is the parent's, and so are the connections of its partners.
    """
    if tx._state.life is not tx._state.session.life:
        tx._state.check_process()
    if tx._partners is not None:
        yield from tx._partners.roll_back()
    if tx._state.begun and tx._on.alive:
        unit = tx._state
        kept = kept_failure(why)
        yield partial(tx._manager._run, unit.abort(kept), tx._on)
    else:
        tx._state.drop()


def leave(tx: AnyTransaction, error: BaseException | None = None) -> Calls[None]:
    """Leave a block without a commit: undo what is open. In a forked child the parent goes on.

    Args:
        error: What it is left with; what was received goes back with that.

    Raises:
        CallInCall: It is still to be undone, when the call is over in which this came.
    """
    unit = tx._state
    if unit.life is not unit.session.life:
        return
    if not unit.over:
        try:
            yield partial(tx.abort, failure_of(error)) if error is not None else tx.abort
        except CallInCall:
            raise
        except OnceqError:
            pass  # The error that has ended the block is told.
    elif tx._partners is not None and not unit.decided:
        yield from tx._partners.roll_back()
