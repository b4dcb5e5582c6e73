"""Inputs about branches of external transactions, after the verbs of XA (XTX-15).

What all inputs have in common is said in ``core/inputs/inputs.py``. The work of a branch goes on
under a transaction number of its owner, like that of any transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceq.core.inputs.batch import SendItem
from onceq.model.branch import Join, Leave
from onceq.model.xid import Xid


@dataclass(frozen=True, slots=True)
class StartBranch:
    """Associate a transaction number of the owner with a branch (xa_start). Answer: None."""

    owner: int
    request: int
    transaction: int
    xid: Xid
    how: Join = Join.NEW


@dataclass(frozen=True, slots=True)
class EndBranch:
    """Dissociate it (xa_end). Answer: None."""

    owner: int
    request: int
    transaction: int
    xid: Xid
    how: Leave = Leave.SUCCESS


@dataclass(slots=True)
class PrepareBranch:
    """Promise to be able to commit and to roll back (xa_prepare). Answer: ``Vote``, once durable.

    A branch that failed, or cannot be promised, is rolled back: the answer is RolledBack; after a
    send that was refused because of the state of things it is SendFailed. If an item is wrong in
    itself nothing happens: the answer is the error and the branch stays as it was.

    Attributes:
        transaction: Under which the owner is at work in it, to be ended first; 0: it has ended.
        items: To be sent by it at the last.
    """

    owner: int
    request: int
    xid: Xid
    transaction: int = 0
    items: tuple[SendItem, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitBranch:
    """Make it happen (xa_commit). Answer: ``Sent``, once durable.

    Attributes:
        one_phase: It was not prepared, because it is the only branch (TMONEPHASE).
        by_hand: An operator decides, not its coordinator (XTX-8).
    """

    owner: int
    request: int
    xid: Xid
    one_phase: bool = False
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class RollbackBranch:
    """Undo it (xa_rollback). Answer: None, once durable.

    Attributes:
        by_hand: An operator decides, not its coordinator (XTX-8).
    """

    owner: int
    request: int
    xid: Xid
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class ForgetBranch:
    """Drop the memory of a branch that was decided by hand (xa_forget). Answer: None."""

    owner: int
    request: int
    xid: Xid


@dataclass(frozen=True, slots=True)
class Enlist:
    """Let the commit of an open transaction decide for partners too. Answer: None.

    Attributes:
        gtrid: Under which its decision can be asked for.
        partner: Name of one that is to be told; those of several calls add up.
    """

    owner: int
    request: int
    transaction: int
    gtrid: bytes
    partner: str


@dataclass(frozen=True, slots=True)
class AskDecision:
    """What was decided for a transaction. Answer: ``Decision``.

    Aborted is for ever. While its application is at work, before the decision and while it tells
    its partners of it, the answer is open: nobody else is to touch the branches.
    """

    owner: int
    request: int
    gtrid: bytes


@dataclass(frozen=True, slots=True)
class LeaveDecision:
    """The application that decided has not reached all partners. Answer: None."""

    owner: int
    request: int
    gtrid: bytes


@dataclass(frozen=True, slots=True)
class DecisionDone:
    """All partners of a decision have carried it out: it may be forgotten. Answer: None."""

    owner: int
    request: int
    gtrid: bytes


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """Commit many prepared branches as one, once for each version. Answer: ``Grouped``, durable.

    Attributes:
        app: Who commits groups one after another, such as a streaming query.
        query: Which life of it this is; empty: it does not say.
        version: Number of the batch, rising; one that is not above the last was committed before.
        prefix: What all branches of the batch begin with (``model/xid.py``); of those that are not
            in the list nothing is committed, and prepared ones are rolled back.
        xids: The branches, in the order in which they take effect.
    """

    owner: int
    request: int
    app: str
    query: str
    version: int
    prefix: bytes
    xids: tuple[Xid, ...]


@dataclass(frozen=True, slots=True)
class RollbackGroup:
    """Roll back every prepared branch of a batch. Answer: how many (int).

    Attributes:
        final: No other attempt at it will be made: what is still at work is not to be prepared.
    """

    owner: int
    request: int
    prefix: bytes
    final: bool = False


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Forget which version an application has committed last. Answer: None."""

    owner: int
    request: int
    app: str
