"""A transaction that a row in a database decides, from the application's side.

What is asked of whom, and when, is in ``partners/procedures.py``.
"""

from __future__ import annotations

import contextlib

from onceq.client.link import Request
from onceq.client.plans.plan import Plan, ask, do, look
from onceq.client.plans.sending_unit import ENDING, offered
from onceq.client.plans.unit_of_work import Unit
from onceq.client.plans.xa import rollback
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.errors import (
    DatabaseRestored,
    LinkLost,
    OnceqError,
    RolledBackByTime,
    ServiceNotAvailable,
    TransactionOver,
    UnknownBranch,
)
from onceq.model import requests
from onceq.model.results import Promised, Sent
from onceq.model.views import looks
from onceq.model.views.work import BranchView, RowsView
from onceq.model.xid import xid_by_row
from onceq.partners.contract import Row, row_of
from onceq.partners.recovery import promises_in


class ByRow:
    """A unit of work that a row in a database decides.

    Attributes:
        xid: The branch that it becomes.
        promised: What was answered to its promise.
    """

    def __init__(self, unit: Unit, agent: str) -> None:
        self._unit = unit
        session = unit.session
        self.xid = xid_by_row(session.source, session.next_global(), agent)
        self.promised: Promised | None = None

    @property
    def row(self) -> Row:
        """The key of its row."""
        assert self.promised is not None, "the row names the branch"
        return row_of(self.xid, self.promised.number)

    def promise(self) -> Plan[Promised | None]:
        """End it with a promise: from now on it is a branch.

        Returns:
            What its messages are called, as far as that is known now; None if it has nothing to
            decide, and is over.

        Raises:
            DatabaseRestored: The queue manager knows that the database was set back.
            SendFailed: A send was refused, here or before; the transaction was undone.
        """
        unit = self._unit
        unit.check_open()
        if unit.owed:
            unit.check_awaited()
        if unit.doomed is not None:
            yield from unit._end_doomed()
        unit.over = ENDING
        items = offered(unit._items, unit.session.clock)
        try:
            # Where nothing had to be asked before, the items alone are the transaction.
            self.promised = yield Request(requests.Promise(unit.number, self.xid, items))
        except (DatabaseRestored, RolledBackByTime, TransactionOver):
            raise
        except ServiceNotAvailable as error:
            # A promise whose answer was lost is undone by recovery: no row was written for it.
            if unit.begun or isinstance(error, LinkLost):
                raise unit.lost() from error
            raise
        except OnceqError as error:
            yield from unit._end_refused(items, error)
            raise
        except GeneratorExit:
            raise
        except BaseException:
            unit.over = "aborted, because its promise was given up while it waited"
            raise
        finally:
            unit.over = "" if unit.over == ENDING else unit.over
        unit.over = "in doubt, because a database decides it"
        unit._items = []
        return self.promised

    def fulfil(self, *, others: bool = False) -> Plan[MessageIds]:
        """The row is there: commit the branch.

        Nobody waits for that: it is decided. But where messages leave this manager, or are
        acknowledged, their identifiers come with the commit.

        Args:
            others: It decides for other partners. What is asked about them comes after it.
        """
        assert self.promised is not None, "it was promised"
        unit, source = self._unit, self._unit.session.source
        _, first, messages, _ = self.promised
        unit.over = "committed"
        unit.sent = MessageIds(source, first, messages if first else 0)
        if others and (first or not messages):
            with contextlib.suppress(UnknownBranch):  # Recovery was first.
                yield from do(requests.CommitBranch(self.xid))
            return unit.sent
        request = requests.CommitBranch(self.xid)
        if first or not messages:
            yield Request(request, waits=False, unhurried=True, shows=True)
        else:
            try:
                sent = yield from ask(request, Sent)
            except UnknownBranch:  # Recovery was first.
                sent = Sent()
            unit.sent = MessageIds(source, sent.first_message, sent.messages)
        return unit.sent

    def undo(self) -> Plan[None]:
        """The database has not committed, and will not."""
        self._unit.over = "aborted"
        yield from rollback(self._unit.session, self.xid)

    def leave(self) -> Plan[None]:
        """This application does not know whether the row is there: others may ask for it."""
        yield from do(requests.LeaveDecision(self.xid.gtrid))


def promises(session: Session) -> Plan[list[BranchView]]:
    """Prepared branches that rows in databases decide."""
    return promises_in((yield from look(looks.BRANCHES)))


def rows(session: Session, agent: str, found: int = 0) -> Plan[RowsView]:
    """What rows of a database the manager has seen; see ``AskRows``."""
    return ask(requests.AskRows(agent, found), RowsView)
