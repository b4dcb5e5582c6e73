"""JSON bodies through every kind of client: marked, read again, and never lost for being wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import onceq
from onceq.errors import BodyNotJson, InvalidParameter
from onceq.model.message import BODY_TYPE
from tests.daemon.applications import KINDS, emptied, manager_with

T = r"private$\orders"
N = r"private$\plain"
NOW = 0.0


@dataclass
class Order:
    id: int
    goods: list[str]


@pytest.fixture(scope="module", params=KINDS)
def managers(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Any]:
    with manager_with(request.param, tmp_path_factory, transactional=[T], plain=[N]) as qm:
        yield qm


@pytest.fixture
def qm(managers: Any) -> Iterator[Any]:
    with emptied(managers) as qm:
        yield qm


def test_values_at_once_and_in_transactions(qm: Any) -> None:
    qm.send(N, json=Order(1, ["tea"]))
    qm.send_many(N, json=[{"id": 2, "goods": []}, None], label=["two", "three"])
    with qm.open_queue(N, access="send") as opened:
        opened.send(json=[4])
    qm.send_current(N, json="five")
    found = list(qm.receive_many(N, timeout=NOW))
    assert [one.json() for one in found] == [
        {"id": 1, "goods": ["tea"]}, {"id": 2, "goods": []}, None, [4], "five",
    ]  # fmt: skip
    assert found[0].json(Order) == Order(1, ["tea"])
    assert {one.body_type for one in found} == {BODY_TYPE}
    with qm.transaction() as tx:
        tx.send(T, json={"n": 1})
        tx.send_many(T, json=[2, 3])
        tx.send_tracked(T, json=4)
        tx.send(T, b"bytes")
    found = list(qm.receive_many(T, timeout=NOW))
    assert [one.is_json for one in found] == [True] * 4 + [False]
    assert [one.json() for one in found[:4]] == [{"n": 1}, 2, 3, 4]


def test_a_type_of_ones_own_stays(qm: Any) -> None:
    qm.send(N, json=1, body_type=30)
    one = qm.receive(N, timeout=NOW)
    assert (one.body_type, one.json()) == (30, 1)


def test_calls_that_make_no_sense_add_nothing(qm: Any) -> None:
    with qm.transaction() as tx:
        given: tuple[Any, ...]
        values: dict[str, Any]
        for given, values in (((b"x",), {"json": 1}), ((), {}), ((), {"json": object()})):
            with pytest.raises(InvalidParameter):
                tx.send(T, *given, **values)
        for given, values in ((([b"x"],), {"json": [1]}), ((), {}), ((), {"json": "text"})):
            with pytest.raises(InvalidParameter):
                tx.send_many(T, *given, **values)
        tx.send(T, json="sound")
    assert [one.json() for one in qm.receive_many(T, timeout=NOW)] == ["sound"]


def test_a_body_that_does_not_fit_goes_back_with_its_transaction(qm: Any) -> None:
    qm.send(T, b'{"id": "x"}', transactional=True)
    with (
        pytest.raises(BodyNotJson, match=r"orders.*is not the JSON of a Order"),
        qm.transaction() as tx,
    ):
        tx.receive(T, timeout=NOW).json(Order)
    again = qm.receive(T, timeout=NOW)
    assert (again.body, again.abort_count) == (b'{"id": "x"}', 1)


def test_a_body_that_does_not_fit_can_be_refused(qm: Any) -> None:
    qm.send(T, b"{", transactional=True, journal=onceq.Journal.DEADLETTER)
    with qm.transaction() as tx:
        message = tx.receive(T, timeout=NOW)
        try:
            message.json()
        except BodyNotJson:
            tx.reject(message)
    assert qm.receive("SYSTEM$;DEADXACT", timeout=60.0).body == b"{"
