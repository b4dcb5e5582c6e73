"""Message properties checked where they are written."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import pytest

from onceq.client.properties import (
    _RANGES,
    NAMES,
    BatchProperties,
    SendProperties,
    checked,
    parted,
    weight,
)
from onceq.errors import (
    IllegalPropertySize,
    IllegalPropertyValue,
    InvalidParameter,
    LabelTooLong,
    OnceqError,
)
from onceq.model.identity import MessageId
from onceq.model.limits import DELAY_S_MAX, EXTENSION_BYTES_MAX
from onceq.model.marks import trace_trailer
from onceq.model.message import OWN, Acknowledge, Delivery, Journal, Properties
from onceq.model.requests.transactions import properties_of
from onceq.packet.own import own_headers


def test_properties_become_plain_values() -> None:
    found = checked(
        {
            "label": "order 17",
            "delivery": "express",
            "journal": Journal.DEADLETTER,
            "acknowledge": Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
            "priority": 7,
            "extension": bytearray(b"x"),
            "correlation_id": MessageId(bytes(range(16)), 5),
            "admin_queue": None,
        }
    )
    assert found == {
        "label": "order 17",
        "delivery": 0,
        "journal": 1,
        "acknowledge": 5,
        "priority": 7,
        "extension": b"x",
        "correlation_id": bytes(range(16)) + b"\x05\0\0\0",
    }
    assert {type(value) for value in found.values()} == {str, int, bytes}
    assert properties_of(found).delivery is Delivery.EXPRESS


def test_every_property_has_a_check() -> None:
    assert set(NAMES) == {*(field.name for field in fields(Properties)), "traceparent"}
    for name in NAMES:
        with pytest.raises(OnceqError):
            checked({name: object()})


def test_type_checkers_know_every_property_and_what_may_be_a_list() -> None:
    assert set(get_type_hints(SendProperties)) == set(NAMES)
    batch = get_type_hints(BatchProperties)
    assert set(batch) == set(NAMES)
    assert {name for name, kind in batch.items() if "Sequence" in str(kind)} == {
        *OWN,
        "traceparent",
    }


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"label": "x" * 250}, LabelTooLong),
        ({"label": "\U0001f600" * 125}, LabelTooLong),
        ({"label": b"x"}, IllegalPropertyValue),
        ({"label": "\ud800"}, IllegalPropertyValue),
        ({"correlation_id": b"x" * 19}, IllegalPropertySize),
        ({"correlation_id": "x" * 20}, IllegalPropertyValue),
        ({"priority": 8}, IllegalPropertyValue),
        ({"priority": -1}, IllegalPropertyValue),
        ({"priority": 1.5}, IllegalPropertyValue),
        ({"delivery": "fast"}, IllegalPropertyValue),
        ({"delivery": 2}, IllegalPropertyValue),
        ({"acknowledge": 16}, IllegalPropertyValue),
        ({"journal": 4}, IllegalPropertyValue),
        ({"time_to_reach_queue": -1}, IllegalPropertyValue),
        ({"time_to_be_received": 1 << 32}, IllegalPropertyValue),
        ({"extension": b"x" * (EXTENSION_BYTES_MAX + 1)}, IllegalPropertySize),
        ({"extension": "x"}, IllegalPropertyValue),
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any], error: type[OnceqError]) -> None:
    with pytest.raises(error):
        checked(values)


@pytest.mark.parametrize("label", ["x" * 249, "\U0001f600" * 124])
def test_the_longest_label_fits(label: str) -> None:
    assert checked({"label": label}) == {"label": label}


@pytest.mark.parametrize(("name", "most"), sorted(_RANGES.items()))
def test_the_largest_value_of_each_number_fits(name: str, most: int) -> None:
    assert checked({name: most}) == {name: most}
    assert checked({name: 0}) == {name: 0}


def test_a_mistyped_property_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidParameter, match="did you mean label"):
        checked({"lable": "x"})


def test_properties_weigh_what_they_take_in_a_frame() -> None:
    assert weight({"extension": b"x" * 1_000}) - weight({}) == 1_000


# ---- properties of each message -----------------------------------------------------------


def test_lists_become_headers_of_their_own_and_the_rest_stays() -> None:
    shared, own = parted({"label": ["a", None], "journal": 1, "app_specific": 7}, 2)
    assert shared == {"journal": 1}
    assert own is not None
    expected = own_headers(2, {"label": ["a", ""], "app_specific": [7, 7]})
    assert [bytes(h) for h in own] == [bytes(h) for h in expected]
    assert parted({"label": "a"}, 2) == ({"label": "a"}, None)
    assert parted({}, 2) == ({}, None)


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        ({"label": ["a"]}, InvalidParameter, "label has 1 values for 2 messages"),
        ({"label": ["a", "x" * 250]}, LabelTooLong, "message 1 of the batch: the label has 250"),
        ({"correlation_id": [b"", None]}, IllegalPropertySize, "message 0 of the batch"),
        ({"extension": [None, "text"]}, IllegalPropertyValue, "message 1 of the batch"),
        ({"app_specific": [1 << 32, 0]}, IllegalPropertyValue, "message 0 of the batch"),
        ({"priority": [1, 2]}, IllegalPropertyValue, "priority is the same for all messages"),
        ({"lable": ["a", "b"]}, OnceqError, "did you mean label"),
    ],
)
def test_lists_that_cannot_be_are_refused(
    values: dict[str, Any], error: type[OnceqError], said: str
) -> None:
    with pytest.raises(error, match=said):
        parted(values, 2)


class Instant:
    """As libraries for times have it."""

    def timestamp(self) -> float:
        return 1_700_000_000.25


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("delay", 10, 10), ("delay", 0.001, 1), ("delay", timedelta(minutes=1), 60),
        ("delay", timedelta(milliseconds=1), 1), ("delay", timedelta(0), 0),
        ("deliver_at", 1_700_000_000, 1_700_000_000), ("deliver_at", Instant(), 1_700_000_001),
        ("deliver_at", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000),
        ("deliver_at", datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC), 1_700_000_001),
    ],
)  # fmt: skip
def test_times_are_whole_seconds_and_never_early(name: str, value: object, seconds: int) -> None:
    assert checked({name: value}) == {name: seconds}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delay", -1), ("delay", timedelta(seconds=-1)), ("delay", DELAY_S_MAX + 1),
        ("delay", float("nan")), ("delay", float("inf")), ("delay", "10m"),
        ("delay", datetime.now(UTC)), ("deliver_at", timedelta(1)), ("deliver_at", -1),
        ("deliver_at", datetime(1969, 1, 1, tzinfo=UTC)), ("deliver_at", 1_700_000_000_000),
        ("deliver_at", "tomorrow"),
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(name: str, value: object) -> None:
    with pytest.raises(IllegalPropertyValue, match=name):
        checked({name: value})


def test_a_moment_needs_a_time_zone() -> None:
    with pytest.raises(IllegalPropertyValue, match="no time zone"):
        checked({"deliver_at": datetime(2030, 1, 1)})


# ---- traces ------------------------------------------------------------------------------------

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-00"


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_trace_is_as_if_nothing_was_said(nothing: str | None) -> None:
    assert parted({"traceparent": nothing}, 3) == ({}, None)
    assert parted({"traceparent": TRACE}, 0) == ({}, None)


def test_a_trace_is_a_mark_behind_the_extension_of_each_message() -> None:
    values = {"priority": 5, "extension": b"x", "traceparent": TRACE}
    same = own_headers(2, {"extension": [b"x" + trace_trailer(TRACE)] * 2})
    assert parted(values, 2) == ({"priority": 5}, same)
    values = {"extension": [b"a", None, b"c"], "traceparent": [TRACE, OTHER, None]}
    lists = own_headers(3, {"extension": [b"a" + trace_trailer(TRACE), trace_trailer(OTHER), b"c"]})
    assert parted(values, 3) == ({}, lists)


def test_messages_of_different_traces_travel_as_one_batch() -> None:
    (one, first), (two, second) = (parted({"traceparent": t}, 1) for t in (TRACE, OTHER))
    assert one == two
    assert first is not None
    assert second is not None


def test_a_trace_is_left_out_where_the_extension_has_no_room_for_it() -> None:
    for room, mark in ((0, b""), (len(trace_trailer(TRACE)), trace_trailer(TRACE))):
        extension = bytes(EXTENSION_BYTES_MAX - room)
        found = parted({"extension": extension, "traceparent": TRACE}, 1)
        assert found == ({}, own_headers(1, {"extension": [extension + mark]}))


def test_what_is_no_trace_is_refused() -> None:
    for wrong in ("x", 7, [TRACE, "x"]):
        with pytest.raises(IllegalPropertyValue, match="W3C Trace Context"):
            parted({"traceparent": wrong}, 2)
    with pytest.raises(InvalidParameter, match="traceparent has 1 values for 2 messages"):
        parted({"traceparent": [TRACE]}, 2)
    with pytest.raises(InvalidParameter, match="extension has 1 values for 2 messages"):
        parted({"traceparent": TRACE, "extension": [b"x"]}, 2)
    with pytest.raises(IllegalPropertyValue, match="an extension is bytes"):
        parted({"traceparent": TRACE, "extension": "x"}, 1)
