"""Requests in frames: one of each, with the bytes that they have had since version 2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from onceq.errors import InvalidParameter, MalformedPacket
from onceq.model import requests
from onceq.model.branches import ONCEQ_FORMAT, Join, Leave, Xid, xid_by_row
from onceq.model.identity import TransactionId
from onceq.model.message import PLAIN
from onceq.model.requests import KINDS, Access, Grip, PickBy, Request, Seek, SendItem, Share
from onceq.model.run import Run
from onceq.packet.own import own_headers
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode, Parser, read, row_of, written

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
    "begin-limited": requests.Begin(1, 60),
    "send": requests.Send(0, [ITEM]),
    "send-own": requests.Send(3, [ITEM, OWN]),
    "commit": requests.Commit(1, [ITEM], TransactionId(SESSION, 9)),
    "commit-nothing": requests.Commit(1, []),
    "abort": requests.Abort(1),
    "abort-blameless": requests.Abort(1, "", True),
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
    "enlist": requests.Enlist(3, "db"),
    "ask": requests.AskDecision(b"g"),
    "rows": requests.AskRows("db", 17),
    "leave": requests.LeaveDecision(b"g"),
    "done": requests.DecisionDone(b"g"),
    "prepare": requests.PrepareBranch(XID, 3, [ITEM]),
    "promise": requests.Promise(3, xid_by_row(bytes(16), 7, "sqlite:/x"), [ITEM]),
    "group-attempt": requests.BeginAttempt(b"p"),
    "group-commit": requests.CommitGroup(
        "app", "q", 3, PREFIX,
        [Xid(ONCEQ_FORMAT, b"g", b"group.0"), Xid(ONCEQ_FORMAT, b"h", b"group.1")],
    ),
    "group-noted": requests.CommitGroup("app", "", 3, PREFIX, [], "target", "3 rows 17"),
    "group-rollback": requests.RollbackGroup(PREFIX),
    "group-close": requests.RollbackGroup(PREFIX, final=True),
    "group-forget": requests.ForgetGroup("app"),
    "hold": requests.HoldLog(Grip.KEEP, 3),
    "stream-reset": requests.ResetStream("q", "A", "why", whole=True, dry_run=True),
    "forget-peer": requests.ForgetPeer("os:beta", dry_run=True),
    "accept-clock": requests.AcceptClock("A", "why"),
    "commit-then": requests.Commit(1, [ITEM], TransactionId(SESSION, 9), 2),
    "take-read": requests.TakeRead("q", 3, 17, 20, 4, "orders", "q1", "a stream", True),
    "renew-hold": requests.RenewHold(4, 10_000),
    "forget-reader": requests.ForgetReader("q", "orders"),
    "token": requests.CreateToken("billing", 3600, [("send,peek", "private$\\q*")]),
    "untoken": requests.RevokeToken("billing"),
    "grant": requests.SetRights("account:alice", ["send", "peek"], "private$\\q*"),
    "revoke": requests.SetRights("token:x", ["monitor"], "", take=True),
    "explain": requests.ExplainRight("account:alice", "send", "private$\\q"),
    "share": requests.SetRights("peer:x", ["send"], "*", False, True),
    "start-job": requests.StartJob(
        "return", ["SYSTEM$;DEADXACT"], "private$\\q", 9, 3, True, True, "expired", "orders",
        "rush", "", 60, 3600, "{00112233-4455-6677-8899-aabbccddeeff}/1",
    ),
    "cancel-job": requests.CancelJob(3),
}  # fmt: skip


def in_frame(frame: bytes) -> Request:
    """The request in a frame."""
    ((number, code, head, data),) = Parser().feed(frame)
    assert number == 7
    return read(code, head, data)


def raw(*head: object) -> bytes:
    return msgspec.msgpack.encode(head)


def test_every_request_has_a_frame_to_compare_with() -> None:
    assert list(SAID) == list(FRAMES)
    assert {type(request) for request in SAID.values()} == set(KINDS.values())


@pytest.mark.parametrize("name", SAID)
def test_a_request_is_read_from_the_bytes_that_it_has_always_had(name: str) -> None:
    found, said = in_frame(bytes.fromhex(FRAMES[name])), SAID[name]
    found.check()
    said.check()
    assert found == said
    assert (found.owner, found.request) == (0, 0), "an application cannot speak for another"


@pytest.mark.parametrize("name", SAID)
def test_a_request_is_written_as_the_bytes_that_it_has_always_had(name: str) -> None:
    request = replace(SAID[name], owner=5, request=6)
    assert b"".join(written(7, request)).hex() == FRAMES[name]


def test_a_name_is_given_to_a_queue_manager() -> None:
    said = requests.ForgetPeer("os:beta", to="b" * 32)
    assert in_frame(b"".join(map(bytes, written(7, said)))) == said


@pytest.mark.parametrize("code", sorted(KINDS))
def test_who_asks_cannot_be_said(code: int) -> None:
    """Not by more values in a head, nor by names."""
    name = next(name for name, said in SAID.items() if said.code == code)
    ((_, _, head, data),) = Parser().feed(bytes.fromhex(FRAMES[name]))
    values = msgspec.msgpack.decode(head)
    columns = [column.name for column in msgspec.structs.fields(row_of(KINDS[code]))]
    assert not {"owner", "request", "wait_until_us", "instance", "guid"} & set(columns)
    defaults = [None] * (len(columns) - len(values))
    with pytest.raises(MalformedPacket):
        read(code, raw(*values, *defaults, 5, 6), data)
    with pytest.raises(MalformedPacket):
        read(code, msgspec.msgpack.encode({"owner": 5, "request": 6}), data)


@pytest.mark.parametrize(
    ("code", "head"),
    [
        (requests.StartBranch.code, raw(1, (7, b"g", b"b"), 9)),
        (requests.EndBranch.code, raw(1, (7, b"g", b"b"), 9)),
        (requests.CommitBranch.code, raw((-1, b"g", b"b"))),
        (requests.PrepareBranch.code, raw((7, b"", b"b"), 0, [])),
        (requests.CommitGroup.code, raw("app", "", 0, b"", [(7, b"", b"")])),
        (requests.AskOutcome.code, raw((b"short", 1))),
    ],
)
def test_a_value_that_cannot_be_is_an_error_of_the_request(code: int, head: bytes) -> None:
    with pytest.raises(InvalidParameter):
        read(code, head, memoryview(b"")).check()


@pytest.mark.parametrize(
    "head", [raw((7, b"g", b"b", 1)), raw((7,)), raw(7, b"g"), raw({"gtrid": b"g"})]
)
def test_an_identifier_of_another_shape_is_malformed(head: bytes) -> None:
    with pytest.raises(MalformedPacket):
        read(requests.ForgetBranch.code, head, memoryview(b""))


@pytest.mark.parametrize("code", [FrameCode.HELLO, 0, 0x101, 0xFFFF])
def test_what_is_no_request_is_malformed(code: int) -> None:
    with pytest.raises(MalformedPacket):
        read(code, b"\x90", memoryview(b""))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\xc1",
        raw(1, 2, 3, 4),
        raw("text"),
        msgspec.msgpack.encode({"transaction": 1}),
        raw(1 << 63) + b"x",
        b"\x91" * 100_000,
        b"\x91\xa2\xff\xfe",
    ],
)
def test_heads_that_make_no_sense_are_refused(head: bytes) -> None:
    with pytest.raises(MalformedPacket):
        read(requests.Begin.code, head, memoryview(b""))


def test_broken_text_and_deep_nesting_are_refused_too() -> None:
    for head in (b"\x92\xa2\xff\xfe\xa0", b"\x91\x81\xa1k" + b"\x91" * 100_000):
        for code in (requests.Look.code, requests.CreateQueue.code):
            with pytest.raises(MalformedPacket):
                read(code, head, memoryview(b""))


def test_batches_are_split_by_their_counts() -> None:
    data = memoryview(b"".join(frames.pack_runs([Run.of([b"a", b"bb", b"", b"c"])])))
    found = read(requests.Send.code, raw(0, [["q", {}, 0, n] for n in (2, 0, 2)]), data)
    assert isinstance(found, requests.Send)
    bodies = [[bytes(body) for body in item.bodies] for item in found.items]
    assert bodies == [[b"a", b"bb"], [], [b"", b"c"]]


def test_batches_with_headers_of_their_own_are_split_and_put_together() -> None:
    own = own_headers(2, {"label": ["one", "two"]})
    runs = [Run.of([b"a"]), own, Run.of([b"b", b"cc"]), Run.of([])]
    rows = [["q", {}, 0, n, kind] for n, kind in ((1, False), (2, True), (0, False))]
    data = memoryview(b"".join(frames.pack_runs(runs)))
    found = read(requests.Send.code, raw(0, rows), data)
    assert isinstance(found, requests.Send)
    items = found.items
    assert [[bytes(b) for b in item.bodies] for item in items] == [[b"a"], [b"b", b"cc"], []]
    assert [item.own is None for item in items] == [True, False, True]
    assert items[1].own is not None
    assert [bytes(h) for h in items[1].own] == [bytes(h) for h in own]


def test_batches_of_less_than_nothing_are_refused() -> None:
    with pytest.raises(MalformedPacket):
        read(requests.Send.code, raw(0, [["q", {}, 0, -1], ["q", {}, 0, 1]]), memoryview(b""))
