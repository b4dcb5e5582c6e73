"""Requests in frames: one of each, with the bytes that they have always had."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceq.errors import InvalidParameter, MalformedPacket
from onceq.model import requests
from onceq.model.branch import Join, Leave
from onceq.model.identity import TransactionId
from onceq.model.message import PLAIN
from onceq.model.requests import Access, Grip, PickBy, Request, Seek, SendItem, Share
from onceq.model.run import Run
from onceq.model.xid import ONCEQ_FORMAT, Xid
from onceq.service.requests import split_items
from onceq.wire.app import frames
from onceq.wire.app.frames import Code, Parser
from onceq.wire.app.requests import request_of

FRAMES = dict(
    line.split() for line in Path(__file__).with_name("request_frames.txt").read_text().splitlines()
)
"""Name of a request, and its frame; number 7. A line is never changed, only added."""
SESSION = bytes(range(16))
XID = Xid(7, b"g", b"b")
PREFIX = b"onceq-" + b"0" * 32 + b"-" + b"1" * 12
ITEM = SendItem(
    "private$\\q", PLAIN, Run.of([b"a", b"bb"]), 5, values={"label": "x", "priority": 7}
)
OWN = SendItem("DIRECT=OS:beta\\q", PLAIN, Run.of([b"ccc"]), own=Run.of([b"own"]))
SAID: dict[str, Request] = {
    "open": requests.OpenQueue("private$\\q", Access.RECEIVE, Share.DENY_NONE),
    "open-noted": requests.OpenQueue("q", Access.PEEK, Share.DENY_RECEIVE, "who"),
    "close": requests.CloseQueue(4),
    "begin": requests.Begin(1),
    "send": requests.Send(0, [ITEM]),
    "send-own": requests.Send(3, [ITEM, OWN]),
    "commit": requests.Commit(1, [ITEM], TransactionId(SESSION, 9)),
    "commit-nothing": requests.Commit(1, []),
    "abort": requests.Abort(1),
    "receive": requests.Receive("q", 1, 10, 100, -1),
    "receive-all": requests.Receive(
        "q", 0, 10, 100, 2500, True, 7, 8, 9, Seek.PREV, 11, True, PickBy.MESSAGE, bytes(20), True
    ),
    "remove": requests.Remove("q", 1, 1, 1 << 63),
    "cancel": requests.CancelReceive(9),
    "outcome": requests.AskOutcome(TransactionId(SESSION, 1)),
    "create": requests.CreateQueue({"name": "q", "transactional": True, "quota_kb": 4}),
    "delete": requests.DeleteQueue("q"),
    "purge": requests.PurgeQueue("q"),
    "steer": requests.SteerOutgoing("q", "pause"),
    "look": requests.Look("queue", "q"),
    "set": requests.SetQueue("q", {"label": "x"}),
    "cursor": requests.OpenCursor(3),
    "uncursor": requests.CloseCursor(4),
    "move": requests.MoveMessage("q", "q;retry", 17, 1),
    "reject": requests.Reject("q", 1, [17, 18], True),
    "claim": requests.Claim("q", 1, [(17, 18), (20, 20)]),
    "fetch": requests.Fetch("q", 1, 17, 20, 1 << 20),
    "list": requests.EditDirectory("add", "shops", ["DL=x"]),
    "branch-start": requests.StartBranch(3, XID, Join.RESUME),
    "branch-end": requests.EndBranch(3, XID, Leave.FAIL),
    "branch-commit": requests.CommitBranch(XID, one_phase=True, by_hand=True),
    "branch-rollback": requests.RollbackBranch(XID, by_hand=True),
    "branch-forget": requests.ForgetBranch(XID),
    "enlist": requests.Enlist(3, b"g", "db"),
    "ask": requests.AskDecision(b"g"),
    "leave": requests.LeaveDecision(b"g"),
    "done": requests.DecisionDone(b"g"),
    "prepare": requests.PrepareBranch(XID, 3, [ITEM]),
    "group-commit": requests.CommitGroup(
        "app", "q", 3, PREFIX,
        [Xid(ONCEQ_FORMAT, b"g", b"group.0"), Xid(ONCEQ_FORMAT, b"h", b"group.1")],
    ),
    "group-rollback": requests.RollbackGroup(PREFIX),
    "group-close": requests.RollbackGroup(PREFIX, final=True),
    "group-forget": requests.ForgetGroup("app"),
    "hold": requests.HoldLog(Grip.KEEP, 3),
    "stream-reset": requests.ResetStream("q", "A", "why", whole=True, dry_run=True),
    "forget-peer": requests.ForgetPeer("os:beta", dry_run=True),
    "accept-clock": requests.AcceptClock("A", "why"),
}  # fmt: skip


def read(frame: bytes) -> Request:
    """The request in a frame, and checked."""
    ((number, code, raw, data),) = Parser().feed(frame)
    assert number == 7
    head = frames.decode_request(code, raw)
    found = request_of(code, head, split_items(head.items, data) if data else ())
    return found


def test_every_request_has_a_frame_to_compare_with() -> None:
    assert list(SAID) == list(FRAMES)
    public = {getattr(requests, name) for name in requests.__all__}
    classes = {kind for kind in public if issubclass(kind, Request)} - {Request}
    assert {type(request) for request in SAID.values()} == classes


@pytest.mark.parametrize("name", SAID)
def test_a_request_is_read_from_the_bytes_that_it_has_always_had(name: str) -> None:
    found, said = read(bytes.fromhex(FRAMES[name])), SAID[name]
    found.check()
    said.check()
    assert found == said
    assert (found.owner, found.request) == (0, 0), "an application cannot speak for another"


@pytest.mark.parametrize(
    ("code", "head"),
    [
        (Code.BRANCH, frames.BranchHead("explode", 0, 7, b"g", b"b")),
        (Code.BRANCH, frames.BranchHead("start", 1, 7, b"g", b"b", 9)),
        (Code.BRANCH, frames.BranchHead("end", 1, 7, b"g", b"b", 9)),
        (Code.BRANCH, frames.BranchHead("commit", 0, -1, b"g", b"b")),
        (Code.PREPARE, frames.PrepareHead(0, 7, b"", b"b", [])),
        (Code.DECIDE, frames.DecideHead("explode", 0, b"g")),
        (Code.GROUP, frames.GroupHead("explode", "app", "", 0, b"", [])),
        (Code.GROUP, frames.GroupHead("commit", "app", "", 0, b"", [(b"", b"")])),
        (Code.STREAM, frames.StreamHead("explode", "", "", "")),
    ],
)
def test_a_value_that_cannot_be_is_an_error_of_the_request(code: int, head: object) -> None:
    with pytest.raises(InvalidParameter):
        request_of(code, head, ())


def test_a_hello_is_no_request() -> None:
    with pytest.raises(MalformedPacket):
        request_of(Code.HELLO, frames.Hello(1), ())
