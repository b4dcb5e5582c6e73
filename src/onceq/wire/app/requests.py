"""Requests into frames: the classes of ``model/requests`` as bytes.

``CODES`` says which code each class has. Most heads are the fields of their class, in order, but
for those that are the service's. A code whose head begins with a verb (branch, decide, group,
stream) stands for one class a verb; batches have their bodies in the frame's data. The way back is
``wire/app/reading.py``, which no application needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, cast

from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.requests import Request, SendItem
from onceq.model.requests.request import said
from onceq.model.requests.transactions import AS_SET
from onceq.model.run import Buffer
from onceq.model.xid import Xid
from onceq.wire.app import frames
from onceq.wire.app.frames import Code
from onceq.wire.app.heads import (
    BlamelessRow,
    BranchRow,
    CommitRow,
    CommitThenRow,
    DecideRow,
    FailedUnitRow,
    GroupNotedRow,
    GroupRow,
    ItemRow,
    LimitedUnitRow,
    OutcomeRow,
    PrepareRow,
    RightsRow,
    RightsWhereRow,
    Row,
    SendRow,
    StreamRow,
    UnitRow,
)

CODES: Final[dict[type[Request], Code]] = {
    requests.OpenQueue: Code.OPEN,
    requests.CloseQueue: Code.CLOSE,
    requests.Begin: Code.BEGIN,
    requests.Send: Code.SEND,
    requests.Commit: Code.COMMIT,
    requests.Abort: Code.ABORT,
    requests.Receive: Code.RECEIVE,
    requests.Remove: Code.REMOVE,
    requests.CancelReceive: Code.CANCEL,
    requests.AskOutcome: Code.OUTCOME,
    requests.CreateQueue: Code.CREATE,
    requests.DeleteQueue: Code.DELETE,
    requests.PurgeQueue: Code.PURGE,
    requests.SteerOutgoing: Code.STEER,
    requests.Look: Code.LOOK,
    requests.SetQueue: Code.SET,
    requests.OpenCursor: Code.CURSOR,
    requests.CloseCursor: Code.UNCURSOR,
    requests.MoveMessage: Code.MOVE,
    requests.Reject: Code.REJECT,
    requests.Claim: Code.CLAIM,
    requests.Fetch: Code.FETCH,
    requests.EditDirectory: Code.LIST,
    requests.StartBranch: Code.BRANCH,
    requests.EndBranch: Code.BRANCH,
    requests.CommitBranch: Code.BRANCH,
    requests.RollbackBranch: Code.BRANCH,
    requests.ForgetBranch: Code.BRANCH,
    requests.Enlist: Code.DECIDE,
    requests.AskDecision: Code.DECIDE,
    requests.AskRows: Code.DECIDE,
    requests.LeaveDecision: Code.DECIDE,
    requests.DecisionDone: Code.DECIDE,
    requests.PrepareBranch: Code.PREPARE,
    requests.Promise: Code.PROMISE,
    requests.BeginAttempt: Code.GROUP,
    requests.CommitGroup: Code.GROUP,
    requests.RollbackGroup: Code.GROUP,
    requests.ForgetGroup: Code.GROUP,
    requests.HoldLog: Code.HOLD,
    requests.ResetStream: Code.STREAM,
    requests.ForgetPeer: Code.STREAM,
    requests.AcceptClock: Code.STREAM,
    requests.TakeRead: Code.TAKE,
    requests.RenewHold: Code.RENEW,
    requests.ForgetReader: Code.FORGET,
    requests.SetRights: Code.RIGHTS,
    requests.ExplainRight: Code.EXPLAIN,
    requests.CreateToken: Code.TOKEN,
    requests.RevokeToken: Code.UNTOKEN,
    requests.StartJob: Code.JOB,
    requests.CancelJob: Code.UNJOB,
}


def written(number: int, request: Request) -> list[Buffer]:
    """The pieces of a frame with a request.

    Raises:
        InvalidParameter: A property of it cannot be said in a frame.
    """
    kind = type(request)
    plain = _SAID.get(kind)
    try:
        if plain is not None:
            values, alone = plain
            head = values(request)
            return frames.frame(number, CODES[kind], (head,) if alone else head)
        row, items = _WRITERS[kind](request)
        if not items:
            return frames.frame(number, CODES[kind], row)
        runs = [run for item in items for run in (item.own, item.bodies) if run is not None]
        return frames.frame(number, CODES[kind], row, *frames.pack_runs(runs))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidParameter(f"a value cannot be sent to a queue manager: {error}") from None


def _rows(items: Sequence[SendItem]) -> list[ItemRow]:
    return [
        ItemRow(
            item.destination, item.values, item.age_s, len(item.bodies.lengths),
            item.own is not None,
        )
        for item in items
    ]  # fmt: skip


def _commit_row(asked: requests.Commit) -> CommitRow:
    said = (asked.transaction, *_id(asked.id), _rows(asked.items))
    # A manager that knows less refuses a row with more.
    return CommitThenRow(*said, asked.then) if asked.then else CommitRow(*said)


def _group_row(asked: requests.CommitGroup) -> GroupRow:
    branches = [(xid.gtrid, xid.bqual) for xid in asked.xids]
    said = ("commit", asked.app, asked.query, asked.version, asked.prefix, branches)
    # A manager that knows less refuses a row with more.
    noted = asked.target or asked.digest
    return GroupNotedRow(*said, asked.target, asked.digest) if noted else GroupRow(*said)


def _with_why(asked: requests.Reject) -> Row:
    """The fields of a request, without the words of a failure where there are none."""
    names = said(type(asked))
    # A manager that knows less refuses a row with more.
    values = tuple(getattr(asked, name) for name in (names if asked.why else names[:-1]))
    return cast(Row, values)


def _look_row(asked: requests.Look) -> Row:
    names = said(requests.Look)
    values = tuple(getattr(asked, name) for name in names)
    # A manager that knows less refuses a row with more.
    return cast(Row, values if any(values[2:]) else values[:2])


def _rights_row(asked: requests.SetRights) -> RightsRow:
    said = (asked.who, list(asked.words), asked.pattern, asked.take)
    # A manager that knows less refuses a row with more.
    return RightsWhereRow(*said, asked.everywhere) if asked.everywhere else RightsRow(*said)


def _begin_row(asked: requests.Begin) -> UnitRow:
    # A manager that knows less refuses a row with more.
    said = asked.transaction
    return UnitRow(said) if asked.idle_s == AS_SET else LimitedUnitRow(said, asked.idle_s)


def _abort_row(asked: requests.Abort) -> UnitRow:
    # A manager that knows less refuses a row with more.
    if asked.blameless:
        return BlamelessRow(asked.transaction, asked.why, True)
    if asked.why:
        return FailedUnitRow(asked.transaction, asked.why)
    return UnitRow(asked.transaction)


def _id(id: TransactionId | None) -> tuple[bytes, int]:
    return (id.session, id.number) if id is not None else (b"", 0)


def _xid(xid: Xid) -> tuple[int, bytes, bytes]:
    return xid.format_id, xid.gtrid, xid.bqual


_WRITERS: Final[dict[type[Request], Callable[[Any], tuple[Row, Sequence[SendItem]]]]] = {
    requests.Begin: lambda r: (_begin_row(r), ()),
    requests.Abort: lambda r: (_abort_row(r), ()),
    requests.Send: lambda r: (SendRow(r.transaction, _rows(r.items)), r.items),
    requests.Commit: lambda r: (_commit_row(r), r.items),
    requests.PrepareBranch: lambda r: (
        PrepareRow(r.transaction, *_xid(r.xid), _rows(r.items)), r.items),
    requests.Promise: lambda r: (
        PrepareRow(r.transaction, *_xid(r.xid), _rows(r.items)), r.items),
    requests.AskOutcome: lambda r: (OutcomeRow(*_id(r.id)), ()),
    requests.StartBranch: lambda r: (BranchRow("start", r.transaction, *_xid(r.xid), r.how), ()),
    requests.EndBranch: lambda r: (BranchRow("end", r.transaction, *_xid(r.xid), r.how), ()),
    requests.CommitBranch: lambda r: (
        BranchRow("commit", 0, *_xid(r.xid), int(r.one_phase), r.by_hand), ()),
    requests.RollbackBranch: lambda r: (BranchRow("rollback", 0, *_xid(r.xid), 0, r.by_hand), ()),
    requests.ForgetBranch: lambda r: (BranchRow("forget", 0, *_xid(r.xid)), ()),
    requests.Reject: lambda r: (_with_why(r), ()),
    requests.Look: lambda r: (_look_row(r), ()),
    requests.Enlist: lambda r: (DecideRow("enlist", r.transaction, b"", r.partner), ()),
    requests.AskDecision: lambda r: (DecideRow("ask", 0, r.gtrid), ()),
    requests.AskRows: lambda r: (DecideRow("rows", r.found, b"", r.agent), ()),
    requests.LeaveDecision: lambda r: (DecideRow("leave", 0, r.gtrid), ()),
    requests.DecisionDone: lambda r: (DecideRow("done", 0, r.gtrid), ()),
    requests.BeginAttempt: lambda r: (GroupRow("attempt", "", "", 0, r.prefix, []), ()),
    requests.CommitGroup: lambda r: (_group_row(r), ()),
    requests.RollbackGroup: lambda r: (
        GroupRow("close" if r.final else "rollback", "", "", 0, r.prefix, []), ()),
    requests.ForgetGroup: lambda r: (GroupRow("forget", r.app, "", 0, b"", []), ()),
    requests.SetRights: lambda r: (_rights_row(r), ()),
    requests.ResetStream: lambda r: (
        StreamRow("reset", r.queue, r.source, r.reason, r.whole, r.dry_run), ()),
    requests.ForgetPeer: lambda r: (
        StreamRow("forget-peer", r.name, r.to, "", False, r.dry_run), ()),
    requests.AcceptClock: lambda r: (
        StreamRow("accept-clock", "", r.source, r.reason, False, r.dry_run), ()),
}  # fmt: skip
"""The head of a request that is not its fields, and its batches."""
_SAID: Final = {
    kind: (attrgetter(*names), len(names) == 1)
    for kind in CODES
    if kind not in _WRITERS and (names := said(kind))
}
"""Of a request whose head is its fields: these, and whether it is one, which stands alone then."""
