"""Requests out of frames: which class of ``model/requests`` a code stands for.

Most heads are the fields of their class, in order. A code whose head begins with a verb (branch,
decide, group, stream) stands for one class a verb; batches have their bodies in the frame's data.

Values are not looked at here: a wrong one is an error of the request (``Request.check``), and does
not make its frame malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from onceq.errors import InvalidParameter, MalformedPacket
from onceq.model import requests
from onceq.model.branch import Join, Leave
from onceq.model.identity import TransactionId
from onceq.model.message import PLAIN
from onceq.model.requests import Request, SendItem
from onceq.model.requests.request import choice, quoted
from onceq.model.run import Run
from onceq.model.xid import ONCEQ_FORMAT, Xid
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

_PLAIN: Final[dict[int, type[Request]]] = {
    Code.OPEN: requests.OpenQueue,
    Code.CLOSE: requests.CloseQueue,
    Code.BEGIN: requests.Begin,
    Code.ABORT: requests.Abort,
    Code.RECEIVE: requests.Receive,
    Code.REMOVE: requests.Remove,
    Code.CANCEL: requests.CancelReceive,
    Code.CREATE: requests.CreateQueue,
    Code.DELETE: requests.DeleteQueue,
    Code.PURGE: requests.PurgeQueue,
    Code.STEER: requests.SteerOutgoing,
    Code.LOOK: requests.Look,
    Code.SET: requests.SetQueue,
    Code.CURSOR: requests.OpenCursor,
    Code.UNCURSOR: requests.CloseCursor,
    Code.MOVE: requests.MoveMessage,
    Code.REJECT: requests.Reject,
    Code.CLAIM: requests.Claim,
    Code.FETCH: requests.Fetch,
    Code.LIST: requests.EditDirectory,
    Code.HOLD: requests.HoldLog,
}
"""Where the head of a frame has the fields of the class."""


def request_of(code: int, head: Any, runs: Sequence[Run]) -> Request:
    """The request in a frame whose head was decoded.

    Args:
        runs: Of each batch its own headers, if it has some, and its bodies.

    Raises:
        InvalidParameter: There is no such verb, or a branch cannot be called so.
        MalformedPacket: The code is none of a request.
    """
    kind = _PLAIN.get(code)
    if kind is not None:
        return kind(*msgspec.structs.astuple(head))
    if code == Code.COMMIT:
        id_ = TransactionId(head.session, head.number) if head.number else None
        return requests.Commit(head.transaction, _items(head.items, runs), id_)
    if code == Code.SEND:
        return requests.Send(head.transaction, _items(head.items, runs))
    if code == Code.PREPARE:
        xid = Xid(head.format_id, head.gtrid, head.bqual)
        return requests.PrepareBranch(xid, head.transaction, _items(head.items, runs))
    if code == Code.OUTCOME:
        return requests.AskOutcome(TransactionId(head.session, head.number))
    reader = _VERBS.get(code)
    if reader is None:
        raise MalformedPacket(f"code {code} is no request")
    return reader(head)


def _items(heads: Sequence[frames.Item], runs: Sequence[Run]) -> list[SendItem]:
    given = iter(runs)
    return [
        SendItem(
            head.destination, PLAIN, own=next(given) if head.own else None, bodies=next(given),
            age_s=head.age_s, values=head.properties,
        )
        for head in heads
    ]  # fmt: skip


def _branch(head: frames.BranchHead) -> Request:
    xid, verb = Xid(head.format_id, head.gtrid, head.bqual), head.verb
    if verb == "start":
        return requests.StartBranch(head.transaction, xid, choice(Join, head.how))
    if verb == "end":
        return requests.EndBranch(head.transaction, xid, choice(Leave, head.how))
    if verb == "commit":
        return requests.CommitBranch(xid, bool(head.how), head.by_hand)
    if verb == "rollback":
        return requests.RollbackBranch(xid, head.by_hand)
    if verb == "forget":
        return requests.ForgetBranch(xid)
    raise _no_verb(verb, "branches")


def _decide(head: frames.DecideHead) -> Request:
    verb = head.verb
    if verb == "enlist":
        return requests.Enlist(head.transaction, head.gtrid, head.partner)
    if verb == "ask":
        return requests.AskDecision(head.gtrid)
    if verb == "leave":
        return requests.LeaveDecision(head.gtrid)
    if verb == "done":
        return requests.DecisionDone(head.gtrid)
    raise _no_verb(verb, "decisions")


def _group(head: frames.GroupHead) -> Request:
    verb = head.verb
    if verb in ("rollback", "close"):
        return requests.RollbackGroup(head.prefix, verb == "close")
    if verb == "forget":
        return requests.ForgetGroup(head.app)
    if verb != "commit":
        raise _no_verb(verb, "groups")
    xids = [Xid(ONCEQ_FORMAT, gtrid, bqual) for gtrid, bqual in head.branches]
    return requests.CommitGroup(head.app, head.query, head.version, head.prefix, xids)


def _stream(head: frames.StreamHead) -> Request:
    verb = head.action
    if verb == "reset":
        return requests.ResetStream(head.queue, head.source, head.reason, head.whole, head.dry_run)
    if verb == "forget-peer":
        return requests.ForgetPeer(head.queue, head.dry_run)
    if verb == "accept-clock":
        return requests.AcceptClock(head.source, head.reason, head.dry_run)
    raise InvalidParameter(f"a stream cannot be {quoted(verb)}: reset")


def _no_verb(verb: str, of: str) -> InvalidParameter:
    return InvalidParameter(f"there is no verb {verb[:20]!r} of {of}")


_VERBS: Final[dict[int, Callable[[Any], Request]]] = {
    Code.BRANCH: _branch,
    Code.DECIDE: _decide,
    Code.GROUP: _group,
    Code.STREAM: _stream,
}
"""Where the head begins with a verb."""
