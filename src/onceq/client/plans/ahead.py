"""What goes out together with a commit: the next transaction, and what that takes first.

The commit begins that transaction at the queue manager (``Commit.then``), so that it is there only
if the commit has happened, and its receive stands behind the commit in the same write. So a loop
over a queue costs one round trip a transaction, and a commit that fails takes no message along.
"""

from __future__ import annotations

import contextlib
from typing import Final, Protocol

from onceq.client.link import Request
from onceq.client.plans.plan import Plan, tell
from onceq.client.plans.selection import some
from onceq.client.session import Session
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.record import MutableRecord
from onceq.packet.batch import Batch


class Next(Protocol):
    """The unit of work that is to begin."""

    session: Session
    begun: bool
    number: int
    ahead: Ahead | None


class Ahead(MutableRecord):
    """A receive that is asked for before its transaction has begun; or nothing.

    Attributes:
        unit: In which it is.
        number: Of the transaction.
        request: The receive.
    """

    unit: Next | None = None
    number: int = 0
    request: Request | None = None

    def committed(self) -> None:
        """The transaction has begun."""
        if self.unit is not None:
            self.unit.begun, self.unit.number, self.unit.ahead = True, self.number, self

    def answer(self) -> Plan[Batch]:
        """Wait for what it takes."""
        assert self.request is not None
        batch: Batch = yield self.request
        return batch

    def give_up(self) -> Plan[None]:
        """Nobody knows whether the transaction has begun: end it."""
        if self.unit is not None:
            with contextlib.suppress(OnceqError):
                yield from tell(requests.Abort(self.number))


NOTHING: Final = Ahead()


def ahead(unit: Next, queue: str, *, count: int, timeout: float | None) -> Ahead:
    """What a unit of work takes first, for the commit before it."""
    session = unit.session
    number = session.next_transaction()
    asked = holding(session, queue, number, count=count, timeout=timeout)
    return Ahead(unit, number, next(asked))


def holding(
    session: Session, queue: str, transaction: int, *, count: int, timeout: float | None,
    lookup: int = 0,
) -> Plan[Batch]:  # fmt: skip
    """Take messages, also from a queue that is not transactional."""
    return some(
        session, queue, count=count, timeout=timeout, transaction=transaction, lookup=lookup,
        hold=True,
    )  # fmt: skip
