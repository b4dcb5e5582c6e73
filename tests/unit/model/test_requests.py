"""Requests check themselves: what no rule has an answer for is refused, by its own error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.client.link import check_types
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.limits import (
    GROUP_APP_CHARS_MAX,
    GROUP_NOTE_CHARS_MAX,
    GTRID_BYTES_MAX,
    LEASE_MS_MAX,
    PARTNER_CHARS_MAX,
    PREPARED_MAX,
    READER_CHARS_MAX,
)
from onceq.model.requests import PickBy, Request, Steer
from onceq.model.requests.xa import VERSION_MAX

XID = Xid(7, b"g", b"b")
LONG = "x" * (GROUP_APP_CHARS_MAX + 1)


@pytest.mark.parametrize(
    "wrong",
    [
        requests.Receive("q", peek=True, pick=PickBy.CORRELATION, value=b"short"),
        requests.Receive("q", pick=PickBy.HEADS),
        requests.Receive("q", peek=True, pick=9),  # type: ignore[arg-type]
        requests.Receive("q", lookup=5, seek=3),  # type: ignore[arg-type]
        requests.MoveMessage("q", "q;retry", -1),
        requests.Reject("q", 1, [1, 1 << 64]),
        requests.Claim("q", 1, [(1, -1)]),
        requests.Fetch("q", 1, 0, 1 << 64),
        requests.HoldLog("grab"),  # type: ignore[arg-type]
        requests.ResetStream("q", "A", "\ud800"),
        requests.AcceptClock("A", "\ud800"),
        requests.TakeRead("q", 1, -1, 1),
        requests.TakeRead("q", 1, 1, 1, reader="x" * (READER_CHARS_MAX + 1)),
        requests.TakeRead("q", 1, 1, 1, query="\ud800"),
        requests.ForgetReader("q", "x" * (READER_CHARS_MAX + 1)),
        requests.RenewHold(1, -1),
        requests.RenewHold(1, LEASE_MS_MAX + 1),
        requests.AskDecision(b""),
        requests.LeaveDecision(bytes(GTRID_BYTES_MAX + 1)),
        requests.DecisionDone(b""),
        requests.Enlist(1, ""),
        requests.Enlist(1, "x" * (PARTNER_CHARS_MAX + 1)),
        requests.Enlist(1, "a\nb"),
        requests.ForgetGroup(""),
        requests.ForgetGroup(LONG),
        requests.CommitGroup("app", LONG, 1, b"", []),
        requests.CommitGroup("app", "", VERSION_MAX + 1, b"", []),
        requests.CommitGroup("app", "", -1, b"", []),
        requests.CommitGroup("app", "", 1, b"", [XID] * (PREPARED_MAX + 1)),
        requests.CommitGroup("app", "", 1, b"", [], "x" * (GROUP_NOTE_CHARS_MAX + 1)),
        requests.CommitGroup("app", "", 1, b"", [], "", "a\nb"),
    ],
    ids=repr,
)
def test_what_cannot_be_is_refused(wrong: Request) -> None:
    with pytest.raises(InvalidParameter):
        wrong.check()


@pytest.mark.parametrize("said", ["pause", "PAUSE", "EOD_pause", Steer.PAUSE])
def test_actions_are_written_in_many_ways(said: Steer | str) -> None:
    request = requests.SteerOutgoing("q", said)
    request.check()
    assert request.action is Steer.PAUSE


def test_a_note_is_cut() -> None:
    request = requests.OpenQueue("q", requests.Access.SEND, note="x" * 1_000)
    request.check()
    assert len(request.note) == 200


def test_who_asks_is_not_said_by_position() -> None:
    with pytest.raises(TypeError):
        requests.PurgeQueue("q", 5)  # type: ignore[call-arg]


RECEIVE, REJECT = requests.Receive("q"), requests.Reject("q", 1, [7])
LIST = requests.EditDirectory("create", "list", ["q"])


@pytest.mark.parametrize(
    ("asked", "field", "wrong"),
    [
        (requests.PurgeQueue("q"), "name", 5), (RECEIVE, "queue", "half \ud800 of a pair"),
        (RECEIVE, "count_max", 1.5), (RECEIVE, "count_max", True), (RECEIVE, "lookup", 1 << 64),
        (RECEIVE, "peek", 1), (RECEIVE, "value", "x"), (RECEIVE, "seek", "first"),
        (REJECT, "lookups", (b"x",)), (REJECT, "lookups", 5), (LIST, "members", ["q", 5]),
        (requests.CreateQueue({}), "values", 5), (requests.Commit(1), "transaction", None),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_type_is_refused(asked: Request, field: str, wrong: Any) -> None:
    check_types(asked)
    with pytest.raises(InvalidParameter, match=f"{field} cannot"):
        check_types(replace(asked, **{field: wrong}))


@pytest.mark.parametrize(
    ("asked", "field", "right"),
    [
        (requests.PurgeQueue("q"), "name", "Größe"), (RECEIVE, "lookup", (1 << 64) - 1),
        (RECEIVE, "wait_ms", -1), (RECEIVE, "seek", 4), (RECEIVE, "seek", requests.Seek.FIRST),
        (REJECT, "lookups", [7, 8]), (LIST, "members", ("q",)), (requests.Commit(1), "id", None),
        (requests.SteerOutgoing("q", Steer.PAUSE), "action", "Pause"),
    ],
)  # fmt: skip
def test_a_value_of_its_type_is_taken(asked: Request, field: str, right: Any) -> None:
    check_types(replace(asked, **{field: right}))
