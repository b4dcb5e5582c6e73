"""Requests about branches of external transactions, after the verbs of XA (XTX-15).

The work of a branch goes on under a transaction number of its owner, as in any transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model import limits
from onceq.model.branches import DecisionState, Join, Leave, Vote, Xid, agent_of
from onceq.model.requests.request import Needs, Request, choice
from onceq.model.requests.transactions import SendItem
from onceq.model.results import Promised, Sent
from onceq.model.rights import Right
from onceq.model.views.looks import GroupResult, RowsView

VERSION_MAX: Final = (1 << 63) - 1
"""Of a group: 64 bits with a sign, as batches have them."""


class StartBranch(Request):
    """Associate a transaction number of the owner with a branch (xa_start). Answer: None."""

    code = 25
    needs = Needs.STATE
    quiet = True
    transaction: int
    xid: Xid
    how: Join = Join.NEW

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        self.how = choice(Join, self.how)


class EndBranch(Request):
    """Dissociate it (xa_end). Answer: None."""

    code = 43
    needs = Needs.STATE
    quiet = True
    transaction: int
    xid: Xid
    how: Leave = Leave.SUCCESS

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        self.how = choice(Leave, self.how)


class PrepareBranch(Request):
    """Promise to be able to commit and to roll back (xa_prepare). Answer: ``Vote``, once durable.

    A branch that failed, or cannot be promised, is rolled back: the answer is RolledBack; after a
    send that was refused because of the state of things it is SendFailed. If an item is wrong in
    itself nothing happens: the answer is the error and the branch stays as it was.

    Attributes:
        transaction: Under which the owner is at work in it, to be ended first; 0: it has ended.
        items: To be sent by it at the last.
    """

    code = 27
    needs = Needs.STATE
    answer = Vote
    xid: Xid
    transaction: int = 0
    items: Sequence[SendItem] = ()

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        for item in self.items:
            item.check()


class Promise(Request):
    """Make an open transaction a prepared branch whose outcome is a row in a database.

    Answer: ``Promised``, once durable; None if it has nothing to decide, and is over. Like a
    commit it brings the last sends along; a transaction in which one is refused is undone.

    Attributes:
        transaction: 0: the items alone are the transaction.
        xid: As ``xid_by_row`` makes it.
        items: To be sent by it at the last.
    """

    code = 31
    needs = Needs.STATE
    answer = Promised | None
    transaction: int
    xid: Xid
    items: Sequence[SendItem] = ()

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if not agent_of(self.xid):
            raise InvalidParameter(f"{self.xid} names no database whose row decides it")
        for item in self.items:
            item.check()


class CommitBranch(Request):
    """Make it happen (xa_commit). Answer: ``Sent``, once durable.

    Attributes:
        one_phase: It was not prepared, because it is the only branch (TMONEPHASE).
        by_hand: An operator decides, not its coordinator (XTX-8).
    """

    code = 44
    needs = Needs.STATE
    answer = Sent
    quiet = True
    xid: Xid
    one_phase: bool = False
    by_hand: bool = False


class RollbackBranch(Request):
    """Undo it (xa_rollback). Answer: None, once durable.

    Attributes:
        by_hand: An operator decides, not its coordinator (XTX-8).
    """

    code = 45
    needs = Needs.STATE
    quiet = True
    xid: Xid
    by_hand: bool = False


class ForgetBranch(Request):
    """Drop the memory of a branch that was decided by hand (xa_forget). Answer: None."""

    code = 46
    needs = Right.OPERATE
    quiet = True
    xid: Xid


class _Drawn(Request, kw_only=True):
    """Of what makes an identifier, what the service fills in."""

    drawn: bytes = b""


class Enlist(_Drawn):
    """Let the commit of an open transaction decide for partners too.

    Answer: the global identifier (bytes) under which its decision can be asked for. The queue
    manager makes it, once for each transaction: nobody can decide under an identifier of another
    transaction that they have read.

    Attributes:
        partner: Name of one that is to be told; those of several calls add up.
        drawn: NUMBER_BYTES random bytes.
    """

    code = 26
    needs = Needs.NAME
    answer = bytes
    quiet = True
    transaction: int
    partner: str

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_partner(self.partner)


class AskDecision(Request):
    """What was decided for a transaction. Answer: ``DecisionState``.

    Aborted is final. While its application is at work, before the decision and while it tells its
    partners of the decision, the answer is open: nobody else is to touch the branches.
    """

    code = 47
    needs = Needs.NAME
    answer = DecisionState
    quiet = True
    gtrid: bytes

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_gtrid(self.gtrid)


ROWS_ACCEPTED: Final = -1
ROWS_MISSING: Final = -2
"""What ``AskRows.found`` says beside numbers."""


class AskRows(Request):
    """What is to be found in a database that is a last agent. Answer: ``RowsView``.

    Attributes:
        agent: Its name.
        found: The mark of an earlier answer (where there is none, its kept number) up to which the
            client has found all rows; 0: it has not looked for rows yet; ``ROWS_ACCEPTED``: the
            database is accepted with its present rows; ``ROWS_MISSING``: some rows are missing.
    """

    code = 48
    needs = Needs.STATE
    answer = RowsView
    quiet = True
    agent: str
    found: int = 0

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_partner(self.agent)


class LeaveDecision(Request):
    """The application that decided has not reached all partners. Answer: None."""

    code = 49
    needs = Needs.STATE
    quiet = True
    gtrid: bytes

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_gtrid(self.gtrid)


class DecisionDone(Request):
    """All partners of a decision have carried it out: it may be forgotten. Answer: None."""

    code = 50
    needs = Needs.STATE
    quiet = True
    gtrid: bytes

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_gtrid(self.gtrid)


class BeginAttempt(_Drawn):
    """Begin an attempt at a batch. Answer: the global identifier (bytes) of all its branches at
    this queue manager, where nobody else begins one under it.

    Attributes:
        prefix: See CommitGroup.
        drawn: TAG_BYTES random bytes.
    """

    code = 28
    needs = Needs.NAME
    answer = bytes
    prefix: bytes


class CommitGroup(Request):
    """Commit many prepared branches as one, once for each version. Answer: ``Grouped``, durable.

    Attributes:
        app: Who commits groups one after another, such as a streaming query.
        query: Which life of it this is; empty: it does not say.
        version: Number of the batch, rising; one that is not above the last was committed before.
        prefix: What all branches of the batch begin with (``model/branches.py``); of those that
            are not in the list nothing is committed, and prepared ones are rolled back.
        xids: The branches, in the order in which they take effect.
        target: Where its groups go. One that was committed before for another is refused, instead
            of being taken for done. Empty: it does not say.
        digest: What is in the group, as the application calculates it. The last version with other
            content is refused in the same way. Empty: it does not say.
    """

    code = 51
    needs = Needs.STATE
    answer = GroupResult
    app: str
    query: str
    version: int
    prefix: bytes
    xids: Sequence[Xid]
    target: str = ""
    digest: str = ""

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_name(self.app, "an application", least=1)
        _check_name(self.query, "a query", least=0)
        if not 0 <= self.version <= VERSION_MAX:
            raise InvalidParameter(f"a version is 0 to {VERSION_MAX}, not {self.version}")
        if len(self.xids) > limits.PREPARED_MAX:
            raise InvalidParameter(
                f"{len(self.xids)} branches; a group has at most {limits.PREPARED_MAX}"
            )
        for note in (self.target, self.digest):
            if len(note) > limits.GROUP_NOTE_CHARS_MAX or not note.isprintable():
                raise InvalidParameter(
                    f"what is remembered of a group has up to {limits.GROUP_NOTE_CHARS_MAX} "
                    "printable characters"
                )


class RollbackGroup(Request):
    """Roll back every prepared branch of a batch. Answer: how many (int).

    Attributes:
        final: No other attempt at it will be made: what is still at work is not to be prepared.
    """

    code = 52
    needs = Needs.NAME
    prefix: bytes
    final: bool = False


class ForgetGroup(Request):
    """Forget which version an application has committed last. Answer: None."""

    code = 53
    needs = Needs.STATE
    app: str

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_name(self.app, "an application", least=1)


def _check_gtrid(gtrid: bytes) -> None:
    if not 0 < len(gtrid) <= limits.GTRID_BYTES_MAX:
        raise InvalidParameter(
            f"a global transaction identifier has 1 to {limits.GTRID_BYTES_MAX} bytes, "
            f"not {len(gtrid)}"
        )


def _check_partner(name: str) -> None:
    if not 0 < len(name) <= limits.PARTNER_CHARS_MAX or not name.isprintable():
        raise InvalidParameter(
            f"a partner's name has 1 to {limits.PARTNER_CHARS_MAX} printable characters"
        )


def _check_name(name: str, whose: str, *, least: int) -> None:
    if not least <= len(name) <= limits.GROUP_APP_CHARS_MAX or not name.isprintable():
        raise InvalidParameter(
            f"the name of {whose} has {least} to {limits.GROUP_APP_CHARS_MAX} printable characters"
        )
