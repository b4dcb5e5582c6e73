"""Inputs of the core as requests of an application, and results back: what a client would say.

Nothing is checked on this side, so that the queue manager has to.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from onceq.core.inputs import inputs
from onceq.model import requests
from onceq.model.requests import EditDirectory
from onceq.model.run import Run
from onceq.wire.app import frames
from onceq.wire.app.answers import kind_of
from onceq.wire.app.frames import Code


def request_frame(request: int, item: inputs.Input, now_us: int) -> tuple[bytes, object]:
    """The frame in which an application asks for this, and the type of its answer."""
    code, head, runs = _request(item, now_us)
    frame = b"".join(frames.frame(request, code, head, *frames.pack_runs(runs)))
    return frame, kind_of(code, head)


def _request(item: Any, now_us: int) -> tuple[int, object, list[Run]]:
    runs: list[Run] = []
    if isinstance(item, requests.PrepareBranch):
        xid = item.xid
        return Code.PREPARE, frames.PrepareHead(
            item.transaction, xid.format_id, xid.gtrid, xid.bqual, _heads(item.items)
        ), _runs(item.items)  # fmt: skip
    if isinstance(item, (requests.Send, requests.Commit)):
        runs = _runs(item.items)
        heads = _heads(item.items)
        if isinstance(item, requests.Send):
            return Code.SEND, frames.SendHead(item.transaction, heads), runs
        session = (item.id.session, item.id.number) if item.id else (b"", 0)
        return Code.COMMIT, frames.CommitHead(item.transaction, *session, heads), runs
    if isinstance(item, requests.Receive):
        wait_ms = -(-(item.wait_until_us - now_us) // 1000) if item.wait_until_us else 0
        receive = frames.ReceiveHead(
            item.queue, item.transaction, item.count_max, item.bytes_max, wait_ms, item.peek,
            item.after, item.lookup, item.handle, int(item.seek), item.cursor, item.allow_peek,
            int(item.pick), item.value,
        )  # fmt: skip
        return Code.RECEIVE, receive, runs
    code, head = _plain(item)
    return code, head, runs


def _heads(items: Any) -> list[frames.Item]:
    return [
        frames.Item(
            part.destination, changed(part.properties), part.age_s, len(part.bodies),
            part.own is not None,
        )
        for part in items
    ]  # fmt: skip


def _runs(items: Any) -> list[Run]:
    return [run for part in items for run in (part.own, part.bodies) if run is not None]


def _plain(item: Any) -> tuple[int, object]:
    makers: dict[type, Any] = {
        requests.OpenQueue: lambda i: (
            Code.OPEN, frames.Open(i.name, int(i.access), int(i.share), i.note)
        ),
        requests.CloseQueue: lambda i: (Code.CLOSE, frames.Number(i.handle)),
        requests.Begin: lambda i: (Code.BEGIN, frames.Number(i.transaction)),
        requests.Abort: lambda i: (Code.ABORT, frames.Number(i.transaction)),
        requests.Remove: lambda i: (
            Code.REMOVE, frames.RemoveHead(i.queue, i.transaction, i.first, i.last)),
        requests.OpenCursor: lambda i: (Code.CURSOR, frames.Number(i.handle)),
        requests.CloseCursor: lambda i: (Code.UNCURSOR, frames.Number(i.cursor)),
        requests.MoveMessage: lambda i: (
            Code.MOVE, frames.MoveHead(i.queue, i.to, i.lookup, i.transaction, i.handle)),
        requests.Reject: lambda i: (
            Code.REJECT, frames.RejectHead(i.queue, i.transaction, list(i.lookups), i.keep)),
        requests.Claim: lambda i: (
            Code.CLAIM, frames.ClaimHead(i.queue, i.transaction, list(i.ranges))),
        requests.Fetch: lambda i: (
            Code.FETCH, frames.FetchHead(i.queue, i.transaction, i.first, i.last, i.bytes_max)),
        requests.CancelReceive: lambda i: (Code.CANCEL, frames.Number(i.waiting)),
        requests.AskOutcome: lambda i: (
            Code.OUTCOME, frames.OutcomeHead(i.id.session, i.id.number)),
        requests.CreateQueue: lambda i: (Code.CREATE, frames.CreateHead(changed(i.properties))),
        requests.SetQueue: lambda i: (Code.SET, frames.SetHead(i.name, dict(i.values))),
        requests.DeleteQueue: lambda i: (Code.DELETE, frames.Named(i.name)),
        requests.PurgeQueue: lambda i: (Code.PURGE, frames.Named(i.name)),
        requests.SteerOutgoing: lambda i: (
            Code.STEER, frames.SteerHead(i.destination, i.action.value)),
        EditDirectory: lambda i: (
            Code.LIST, frames.ListHead(i.what, i.name, list(i.members))),
        requests.Look: lambda i: (Code.LOOK, frames.LookHead(i.what, i.name)),
        **_BRANCHES,
    }  # fmt: skip
    return makers[type(item)](item)  # type: ignore[no-any-return]


def _verb(name: str, transaction: Any = None, how: Any = None) -> Any:
    def make(i: Any) -> tuple[int, object]:
        return Code.BRANCH, frames.BranchHead(
            name, transaction(i) if transaction else 0, i.xid.format_id, i.xid.gtrid, i.xid.bqual,
            int(how(i)) if how else 0, bool(getattr(i, "by_hand", False)),
        )  # fmt: skip

    return make


_BRANCHES: dict[type, Any] = {
    requests.StartBranch: _verb("start", lambda i: i.transaction, lambda i: i.how),
    requests.EndBranch: _verb("end", lambda i: i.transaction, lambda i: i.how),
    requests.CommitBranch: _verb("commit", None, lambda i: i.one_phase),
    requests.RollbackBranch: _verb("rollback"),
    requests.ForgetBranch: _verb("forget"),
    requests.Enlist: lambda i: (
        Code.DECIDE, frames.DecideHead("enlist", i.transaction, i.gtrid, i.partner)),
    requests.AskDecision: lambda i: (Code.DECIDE, frames.DecideHead("ask", 0, i.gtrid)),
    requests.LeaveDecision: lambda i: (Code.DECIDE, frames.DecideHead("leave", 0, i.gtrid)),
    requests.DecisionDone: lambda i: (Code.DECIDE, frames.DecideHead("done", 0, i.gtrid)),
    requests.CommitGroup: lambda i: (Code.GROUP, frames.GroupHead(
        "commit", i.app, i.query, i.version, i.prefix, [(x.gtrid, x.bqual) for x in i.xids])),
    requests.RollbackGroup: lambda i: (
        Code.GROUP,
        frames.GroupHead("close" if i.final else "rollback", "", "", 0, i.prefix, [])),
    requests.ForgetGroup: lambda i: (
        Code.GROUP, frames.GroupHead("forget", i.app, "", 0, b"", [])),
}  # fmt: skip


def changed(properties: Any) -> dict[str, Any]:
    """Properties that are not what they are by default, as plain values."""
    values = {}
    for field in fields(properties):
        value = getattr(properties, field.name)
        if field.default is MISSING or value != field.default:
            values[field.name] = (
                value if isinstance(value, bool) or not isinstance(value, int) else int(value)
            )
    return values


def hello() -> bytes:
    """What an application says first."""
    return b"".join(frames.frame(1, Code.HELLO, frames.Hello(frames.VERSION, "conformance")))
