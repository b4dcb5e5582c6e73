"""What applications ask, as inputs of the core: every value checked before a rule sees it."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import (
    IllegalPathName,
    IllegalPropertyValue,
    InvalidParameter,
    MalformedPacket,
    OnceqError,
)
from onceq.model import requests
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal
from onceq.model.requests.batch import AGE_S_MAX, properties_of
from onceq.model.run import Run
from onceq.model.time import Now
from onceq.packet.own import own_headers
from onceq.service.requests import FOR_EVER_US, admit, split_items
from onceq.wire.app import frames
from onceq.wire.app.frames import Code
from onceq.wire.app.requests import request_of

SESSION = bytes(range(16))


class _Clock:
    """Stands still."""

    def read(self) -> Now:
        return Now(0, 1_000)


def made(code: int, head: object, runs: tuple[Run, ...] = ()) -> Any:
    return admit(
        request_of(code, head, runs), 3, 9, clock=_Clock(), random=lambda size: b"\x07" * size
    )


def test_a_commit_carries_its_items_and_its_name() -> None:
    item = frames.Item("q", {"label": "x", "priority": None}, 5, 1)
    found = made(Code.COMMIT, frames.CommitHead(2, SESSION, 4, [item]), (Run.of([b"a"]),))
    assert isinstance(found, requests.Commit)
    assert (found.owner, found.request, found.transaction) == (3, 9, 2)
    assert found.id is not None
    assert (found.id.session, found.id.number) == (SESSION, 4)
    (send,) = found.items
    assert (send.destination, send.age_s, send.properties.label) == ("q", 5, "x")


def test_a_commit_without_a_number_has_no_name() -> None:
    assert made(Code.COMMIT, frames.CommitHead(2, b"", 0, [])).id is None


@pytest.mark.parametrize(("session", "number"), [(b"", 1), (bytes(15), 1), (SESSION, -1),
                                                 (SESSION, 1 << 63)])  # fmt: skip
def test_names_of_commits_are_checked(session: bytes, number: int) -> None:
    with pytest.raises(InvalidParameter):
        made(Code.COMMIT, frames.CommitHead(2, session, number, []))
    with pytest.raises(InvalidParameter):
        made(Code.OUTCOME, frames.OutcomeHead(session, number))


@pytest.mark.parametrize(("age", "seen"), [(-5, 0), (0, 0), (1 << 60, AGE_S_MAX)])
def test_ages_are_kept_in_range(age: int, seen: int) -> None:
    head = frames.SendHead(0, [frames.Item("q", {}, age, 0)])
    assert made(Code.SEND, head, (Run.of([]),)).items[0].age_s == seen


@pytest.mark.parametrize(
    ("wait_ms", "until"),
    [(0, 0), (5, 6_000), (-1, FOR_EVER_US), (1 << 62, FOR_EVER_US)],
)
def test_waits_become_times(wait_ms: int, until: int) -> None:
    head = frames.ReceiveHead("q", 0, 1, 1, wait_ms, False, 0, 0, 0)
    assert made(Code.RECEIVE, head).wait_until_us == until


@pytest.mark.parametrize("bad", [-1, 1 << 64])
def test_lookup_identifiers_are_64_bit(bad: int) -> None:
    for head in (
        frames.ReceiveHead("q", 0, 1, 1, 0, True, bad, 0, 0),
        frames.ReceiveHead("q", 0, 1, 1, 0, True, 0, bad, 0),
    ):
        with pytest.raises(InvalidParameter):
            made(Code.RECEIVE, head)
    for first, last in ((bad, 1), (1, bad)):
        with pytest.raises(InvalidParameter):
            made(Code.REMOVE, frames.RemoveHead("q", 0, first, last))


def test_properties_take_their_types() -> None:
    found = properties_of({"label": "x", "delivery": 0, "acknowledge": 5, "journal": 3})
    assert (found.delivery, found.journal) == (Delivery.EXPRESS, Journal.DEADLETTER | Journal(2))
    assert found.acknowledge == Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL
    assert properties_of({}) is PLAIN


@pytest.mark.parametrize(
    "values",
    [
        {"label": 5},
        {"label": "\ud800"},
        {"admin_queue": b"x"},
        {"correlation_id": "x"},
        {"extension": [1]},
        {"priority": "high"},
        {"delivery": 7},
        {"delivery": "express"},
        {"acknowledge": 16},
        {"acknowledge": -1},
        {"journal": 4},
        {"app_specific": None},
        {"body_type": {"a": 1}},
    ],
)
def test_property_values_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(IllegalPropertyValue):
        properties_of(values)


def test_unknown_properties_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="lable"):
        properties_of({"lable": "x"})


def test_errors_repeat_no_more_than_a_little_of_what_was_said() -> None:
    with pytest.raises(IllegalPropertyValue) as caught:
        properties_of({"app_specific": "x" * 1_000_000})
    assert len(caught.value.text) < 1_000


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({}, InvalidParameter),
        ({"name": 5}, IllegalPropertyValue),
        ({"name": "a\\b"}, IllegalPathName),
        ({"name": "q", "transactional": 1}, IllegalPropertyValue),
        ({"name": "q", "quota_kb": True}, IllegalPropertyValue),
        ({"name": "q", "quota_kb": -1}, IllegalPropertyValue),
        ({"name": "q", "label": "\ud800"}, IllegalPropertyValue),
        ({"name": "q", "number": 5}, InvalidParameter),
        ({"name": "q", "instance": bytes(16)}, InvalidParameter),
        ({"name": "q", "private": 0}, IllegalPropertyValue),
    ],
)
def test_queues_are_made_of_what_an_application_may_say(
    values: dict[str, Any], error: type[OnceqError]
) -> None:
    with pytest.raises(error):
        made(Code.CREATE, frames.CreateHead(values))


def test_a_queue_gets_its_instance_from_the_manager() -> None:
    found = made(Code.CREATE, frames.CreateHead({"name": "q", "transactional": True}))
    assert (found.properties.name, found.properties.transactional) == ("q", True)
    assert found.instance == b"\x07" * 16


@pytest.mark.parametrize(
    ("code", "head"),
    [
        (Code.OPEN, frames.Open("q", 3, 0)),
        (Code.OPEN, frames.Open("q", 1, 9)),
        (Code.STEER, frames.SteerHead("q", "explode")),
    ],
)
def test_choices_that_do_not_exist_are_refused(code: int, head: object) -> None:
    with pytest.raises(InvalidParameter):
        made(code, head)


def test_what_is_no_request_is_malformed() -> None:
    with pytest.raises(MalformedPacket):
        made(Code.HELLO, frames.Hello(1))


def test_batches_are_split_by_their_counts() -> None:
    data = memoryview(b"".join(frames.pack_runs([Run.of([b"a", b"bb", b"", b"c"])])))
    heads = [frames.Item("q", {}, 0, n) for n in (2, 0, 2)]
    runs = split_items(heads, data)
    assert [[bytes(b) for b in run] for run in runs] == [[b"a", b"bb"], [], [b"", b"c"]]


def test_batches_with_headers_of_their_own_are_split_and_put_together() -> None:
    own = own_headers(2, {"label": ["one", "two"]})
    runs = [Run.of([b"a"]), own, Run.of([b"b", b"cc"]), Run.of([])]
    heads = [frames.Item("q", {}, 0, n, kind) for n, kind in ((1, False), (2, True), (0, False))]
    found = split_items(heads, memoryview(b"".join(frames.pack_runs(runs))))
    items = made(Code.SEND, frames.SendHead(0, heads), tuple(found)).items
    assert [[bytes(b) for b in item.bodies] for item in items] == [[b"a"], [b"b", b"cc"], []]
    assert [item.own is None for item in items] == [True, False, True]
    assert items[1].own is not None
    assert [bytes(h) for h in items[1].own] == [bytes(h) for h in own]


def test_batches_of_less_than_nothing_are_refused() -> None:
    with pytest.raises(MalformedPacket):
        split_items([frames.Item("q", {}, 0, -1), frames.Item("q", {}, 0, 1)], memoryview(b""))
