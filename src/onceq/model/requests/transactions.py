"""Requests about units of work of this manager: send, commit, abort, and what became of it.

Transactions are numbered by their owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.identity import GUID_BYTES, TransactionId
from onceq.model.requests.batch import SendItem
from onceq.model.requests.request import Needs, Request, check_failure
from onceq.model.results import Outcome, Sent

COMMITS_MAX: Final = 1 << 62
"""Largest number of a commit."""
AS_SET: Final = -1
"""In place of a limit of a transaction: the settings have it."""
IDLE_S_MAX: Final = 10 * 366 * 24 * 3600
"""Longest time that a transaction can ask to be left alone."""


class Begin(Request):
    """Begin a transaction numbered by its owner. Answer: None.

    Attributes:
        idle_s: Seconds in which nothing is asked in it, after which it is rolled back; 0: never,
            as long as its owner is connected; AS_SET: as the settings say. The same holds for the
            one that begins with its commit.
    """

    code = 4
    needs = Needs.STATE
    quiet = True
    transaction: int
    idle_s: int = AS_SET

    def check(self) -> None:
        """See Request."""
        if not AS_SET <= self.idle_s <= IDLE_S_MAX:
            raise InvalidParameter(f"a transaction is left alone for at most {IDLE_S_MAX} s")


class Send(Request):
    """Send batches: inside a transaction, or now and non-transactionally (transaction 0).

    All items or none. Answer inside a transaction: None. Outside: ``Sent``, after the messages
    are durable (express ones: after they are queued).
    """

    code = 5
    needs = Needs.STATE
    answer = Sent | None
    transaction: int
    items: Sequence[SendItem]

    def check(self) -> None:
        """See Request."""
        for item in self.items:
            item.check()


class Commit(Request):
    """Add the items, then commit. Answer: ``Sent``, once durable.

    Transaction 0 commits the items alone, as one transaction. If an item is wrong in itself
    nothing happens: the answer is the error and the transaction stays open as it was. If a send
    of the transaction was refused because of the state of things (``prepared_all``), now or
    before, the transaction is undone: the answer is SendFailed.

    Attributes:
        id: Under which the outcome can be asked for; its number rises with each commit of the
            session. None: nobody will ask.
        then: The transaction that begins with it, if it commits; 0: none. What is asked behind the
            commit in that transaction is refused if it did not.
    """

    code = 6
    needs = Needs.STATE
    answer = Sent
    transaction: int
    items: Sequence[SendItem] = ()
    id: TransactionId | None = None
    then: int = 0

    def check(self) -> None:
        """See Request."""
        if self.then < 0:
            raise InvalidParameter("numbers of transactions begin at 1")
        if self.id is not None:
            check_id(self.id)
        for item in self.items:
            if item.values or item.age_s:
                item.check()


class Abort(Request):
    """Undo a transaction: nothing is sent, received messages go back (SND-4). Answer: None.

    Attributes:
        why: What its application says of it; it is kept with what it has received.
        blameless: The messages are not what failed: their abort counts stay as they are (SND-21).
    """

    code = 7
    needs = Needs.NOTHING
    quiet = True
    transaction: int
    why: str = ""
    blameless: bool = False

    def check(self) -> None:
        """See Request."""
        check_failure(self.why)


class AskOutcome(Request):
    """What became of a commit. Answer: ``Outcome``; from then on it cannot change (I3a)."""

    code = 11
    needs = Needs.NOTHING
    answer = Outcome
    id: TransactionId

    def check(self) -> None:
        """See Request."""
        check_id(self.id)


def check_id(id: TransactionId) -> None:
    """Raises InvalidParameter if no outcome can be kept under it."""
    if len(id.session) != GUID_BYTES or not 0 < id.number <= COMMITS_MAX:
        raise InvalidParameter(
            f"a commit is known by a session of {GUID_BYTES} bytes and a number from 1 to "
            f"{COMMITS_MAX}"
        )
