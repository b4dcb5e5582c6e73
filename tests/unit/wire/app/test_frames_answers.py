"""Answers: what a manager says is what a client gets, of the same type."""

from __future__ import annotations

from array import array

import msgspec
import pytest

from onceq.errors import MalformedPacket, OnceqError, QueueNotFound
from onceq.model import requests
from onceq.model.branches import DecisionState, Vote, Xid
from onceq.model.identity import TransactionId
from onceq.model.queue import QueueProperties
from onceq.model.results import Opened, Outcome, Promised, Sent
from onceq.model.run import Run
from onceq.model.views import looks
from onceq.model.views.looks import GroupResult, RowsView
from onceq.model.views.managers import BackupHold, Reloaded, Restored, StatusView, StoreCut
from onceq.model.views.queues import (
    ConnectionView,
    OutgoingView,
    PutBackView,
    QueueView,
    ReceiveInfo,
    SequenceInfo,
)
from onceq.model.views.view import Page
from onceq.packet.arrived import Batch
from onceq.wire.app import frames

XID = Xid(1, b"g", b"b")
PURGE = requests.PurgeQueue("q")
OPEN = requests.OpenQueue("q", requests.Access.RECEIVE)


def crossed(request: requests.Request, result: object) -> object:
    """An answer after its way to a client."""
    pieces = frames.encode(3, request.code, result)
    ((_, said, raw, data),) = frames.Parser().feed(b"".join(pieces))
    return frames.decode(request.answer_type(), said, raw, data)


def look(what: str) -> requests.Look:
    return requests.Look(what, "")


@pytest.mark.parametrize(
    ("asked", "result"),
    [
        (requests.Send(0, ()), None),
        (requests.Send(0, ()), Sent(7, 2, 0)),
        (requests.Commit(1), Sent(7, 2, 9)),
        (OPEN, Opened(4, True, None, places=(7, 9))),
        (requests.AskOutcome(TransactionId(b"S" * 16, 1)), Outcome.UNKNOWN),
        (requests.PrepareBranch(XID, 1), Vote.READ_ONLY),
        (requests.Promise(1, XID), Promised(5, 7, 2, 9)),
        (requests.Promise(1, XID), None),
        (PURGE, 17),
        (requests.Abort(1), None),
        (requests.AskDecision(b"g"), DecisionState.OPEN),
        (requests.DecisionDone(b"g"), None),
        (requests.AskRows("db"), RowsView("db", 3, 7, 2, (5, 6), (2,), 3)),
        (requests.CommitGroup("a", "", 1, b"", ()), GroupResult(True, 2, 3)),
        (requests.RollbackGroup(b"", True), 3),
        (requests.CommitBranch(XID), Sent(1, 2, 3)),
        (requests.SteerOutgoing("", "RELOAD"), Reloaded(("a",), ())),
        (requests.SteerOutgoing("", requests.Steer.TIDY), 4),
        (
            requests.HoldLog(requests.Grip.BEGIN),
            BackupHold(1, StoreCut("/x", 9, 2, 8, ((0, 5, 6), (6, 9, 9))), 60.0),
        ),
        (
            look("status"),
            StatusView("A", disbelieved={"x": 3}, restored=Restored(1, 2, 3, "ab", 4, True)),
        ),
        (
            look("queues"),
            Page((QueueView(name="q", put_back=PutBackView(1, 2, 3, ("x",))),), "[1]"),
        ),
        (
            look("outgoing-queue"),
            OutgoingView(retry_in_s=2.5, next_hops=("OS:B",), history=(ConnectionView(1),)),
        ),
        (
            look("management"),
            {
                "type": "PUBLIC",
                "message_count": 3,
                "nexthops": ["OS:B"],
                "eod_last_ack": SequenceInfo(1, 2, 3),
                "eod_source_info": [ReceiveInfo("q", seq_no=3)],
                "connection_history": [[1, 2, 3, "10.0.0.2"]],
            },
        ),
        (look("copies"), ["DIRECT=OS:B\\private$\\q"]),
    ],
)  # fmt: skip
def test_an_answer_arrives_as_it_was_given(asked: requests.Request, result: object) -> None:
    found = crossed(asked, result)
    assert found == result
    assert type(found) is type(result)


def test_messages_arrive_with_their_tables() -> None:
    batch = Batch(
        Run.of([b"one", b"three"]), array("Q", [1, 2]), array("I", [7, 8]), array("I", [0, 3]),
        [(1, 2, 9)], 44, [(0, 5)],
    )  # fmt: skip
    found = crossed(requests.Receive("q"), batch)
    assert isinstance(found, Batch)
    assert [bytes(one) for one in found.run] == [b"one", b"three"]
    assert (found.lookup_ids, found.arrived_times, found.abort_counts) == (
        batch.lookup_ids, batch.arrived_times, batch.abort_counts)  # fmt: skip
    assert (found.moves, found.scanned, found.notes) == ([(1, 2, 9)], 44, {0: 5})


def test_an_error_arrives_as_one() -> None:
    found = crossed(PURGE, QueueNotFound("no such queue"))
    assert isinstance(found, QueueNotFound)
    assert found.text == "no such queue"
    assert type(crossed(look("nothing"), OnceqError("x"))) is OnceqError


def test_the_properties_of_a_queue_cross_as_a_map() -> None:
    found = crossed(requests.CreateQueue({}), QueueProperties("q", instance=b"Q" * 16))
    assert isinstance(found, dict)
    assert found["instance"] == (b"Q" * 16).hex()


def test_an_answer_of_another_type_is_malformed() -> None:
    with pytest.raises(MalformedPacket):
        crossed(look("status"), 3)
    with pytest.raises(MalformedPacket):
        crossed(requests.Commit(1), None)


def test_a_view_of_another_version_is_understood() -> None:
    said = {"name": "A", "a field of a later version": [1]}
    assert crossed(look("status"), said) == StatusView("A")


LATER = {"a field of": "a later version"}


def head_of(request: requests.Request, result: object) -> tuple[int, list[object], memoryview]:
    pieces = frames.encode(3, request.code, result)
    ((_, said, raw, data),) = frames.Parser().feed(b"".join(pieces))
    return said, msgspec.msgpack.decode(raw), data


@pytest.mark.parametrize(
    ("asked", "result"),
    [
        (requests.Send(0, ()), Sent(7, 2, 0)),
        (requests.Commit(1), Sent(7, 2, 9)),
        (OPEN, Opened(4, True, None, places=(7, 9))),
        (PURGE, QueueNotFound("no such queue")),
        (requests.Receive("q"), Batch(Run.of([b"a"]), array("Q", [1]), array("I", [2]),
                                      array("I", [3]), [(0, 1, 2)], 9, [(0, 5)])),
    ],
)  # fmt: skip
def test_what_a_later_version_adds_to_an_answer_is_passed_over(
    asked: requests.Request, result: object
) -> None:
    said, fields, data = head_of(asked, result)
    longer = msgspec.msgpack.encode([*fields, LATER, 3])
    kind = asked.answer_type()
    exact = frames.decode(kind, said, msgspec.msgpack.encode(fields), data)
    found = frames.decode(kind, said, longer, data)
    assert type(found) is type(exact) is type(result)
    assert vars_of(found) == vars_of(exact)


def vars_of(result: object) -> object:
    if isinstance(result, Batch):
        return bytes(result.run.data), result.lookup_ids, result.moves, result.notes
    return str(result)


def test_a_list_that_is_too_short_or_no_list_is_malformed() -> None:
    said, fields, data = head_of(OPEN, Opened(4, True, None))
    for wrong in (fields[:1], {"handle": 4}, [LATER, *fields]):
        with pytest.raises(MalformedPacket):
            frames.decode(Opened, said, msgspec.msgpack.encode(wrong), data)


def test_every_look_is_in_the_table() -> None:
    assert look("queues").answer_type() == looks.QUEUES.kind
