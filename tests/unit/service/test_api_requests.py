"""What applications ask: every value checked, and the service's own filled in."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from onceq.errors import IllegalPathName, IllegalPropertyValue, InvalidParameter, OnceqError
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.marks import FOR_EVER_US, Now
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal
from onceq.model.queue import QueueProperties
from onceq.model.requests import SendItem
from onceq.model.requests.transactions import AGE_S_MAX, properties_of
from onceq.model.run import Run
from onceq.service.api import admit

R = TypeVar("R", bound=requests.Request)
SESSION = bytes(range(16))


class _Clock:
    """Stands still."""

    def read(self) -> Now:
        return Now(0, 1_000)


def made(request: R) -> R:
    admit(request, 3, 9, clock=_Clock(), random=lambda size: b"\x07" * size)
    return request


def test_a_commit_carries_its_items_and_its_name() -> None:
    item = SendItem("q", PLAIN, Run.of([b"a"]), 5, values={"label": "x", "priority": None})
    found = made(requests.Commit(2, [item], TransactionId(SESSION, 4)))
    assert (found.owner, found.request, found.transaction) == (3, 9, 2)
    (send,) = found.items
    assert (send.destination, send.age_s, send.properties.label) == ("q", 5, "x")


def test_nobody_says_what_is_the_services() -> None:
    lie = made(requests.Receive("q", owner=7, request=7, wait_until_us=7))
    assert (lie.owner, lie.request, lie.wait_until_us) == (3, 9, 0)
    made_up = requests.CreateQueue({"name": "q"}, instance=b"mine", properties=QueueProperties("x"))
    queue = made(made_up)
    assert queue.properties is not None
    assert (queue.properties.name, queue.instance) == ("q", b"\x07" * 16)
    assert made(requests.EditDirectory("add", "shops", guid=b"mine")).guid == b"\x07" * 16
    item = SendItem("q", PLAIN, Run.of([b"a"]), values={"label": "said"})
    (send,) = made(requests.Send(0, [item])).items
    assert send.properties.label == "said"


@pytest.mark.parametrize(("session", "number"), [(b"", 1), (bytes(15), 1), (SESSION, -1),
                                                 (SESSION, 1 << 63)])  # fmt: skip
def test_names_of_commits_are_checked(session: bytes, number: int) -> None:
    with pytest.raises(InvalidParameter):
        made(requests.Commit(2, [], TransactionId(session, number)))
    with pytest.raises(InvalidParameter):
        made(requests.AskOutcome(TransactionId(session, number)))


@pytest.mark.parametrize(("age", "seen"), [(-5, 0), (0, 0), (1 << 60, AGE_S_MAX)])
def test_ages_are_kept_in_range(age: int, seen: int) -> None:
    item = SendItem("q", PLAIN, Run.of([]), age)
    assert made(requests.Send(0, [item])).items[0].age_s == seen


@pytest.mark.parametrize(
    ("wait_ms", "until"),
    [(0, 0), (5, 6_000), (-1, FOR_EVER_US), (1 << 62, FOR_EVER_US)],
)
def test_waits_become_times(wait_ms: int, until: int) -> None:
    assert made(requests.Receive("q", wait_ms=wait_ms)).wait_until_us == until


@pytest.mark.parametrize("bad", [-1, 1 << 64])
def test_lookup_identifiers_are_64_bit(bad: int) -> None:
    for request in (
        requests.Receive("q", peek=True, after=bad),
        requests.Receive("q", peek=True, lookup=bad),
        requests.Remove("q", 0, bad, 1),
        requests.Remove("q", 0, 1, bad),
    ):
        with pytest.raises(InvalidParameter):
            made(request)


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
        made(requests.CreateQueue(values))


@pytest.mark.parametrize(
    "request_",
    [
        requests.OpenQueue("q", 3),  # type: ignore[arg-type]
        requests.OpenQueue("q", requests.Access.RECEIVE, 9),  # type: ignore[arg-type]
        requests.SteerOutgoing("q", "explode"),
    ],
)
def test_choices_that_do_not_exist_are_refused(request_: requests.Request) -> None:
    with pytest.raises(InvalidParameter):
        made(request_)
