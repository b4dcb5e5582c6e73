"""Values as bodies and back; what is no JSON is said, and not what it says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import BodyNotJson, InvalidParameter
from onceq.model.message import BODY_TYPE, decoded, encoded, encoded_each

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=10,
)  # fmt: skip


@dataclass
class Order:
    id: int
    lines: list[str]


@given(VALUES)
def test_values_come_back(value: object) -> None:
    assert decoded(encoded(value), Any, "m") == value


def test_a_type_is_checked_while_it_is_read() -> None:
    assert decoded(encoded(Order(1, ["a"])), Order, "m") == Order(1, ["a"])
    with pytest.raises(BodyNotJson, match=r"body of m, 16 bytes, is not the JSON of a Order: .*id"):
        decoded(b'{"lines": ["a"]}', Order, "m")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"a": 1} x', b"[" * 100_000, "{}".encode("utf-16")]
)
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(BodyNotJson, match=r"message 7, .* is not JSON"):
        decoded(body, Any, "message 7")


@given(st.binary())
def test_any_bytes_are_a_value_or_an_error(body: bytes) -> None:
    with suppress(BodyNotJson):
        decoded(body, Any, "m")


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, "\ud800", {"a": [1, object()]}])
def test_what_cannot_be_said_in_json(value: object) -> None:
    with pytest.raises(InvalidParameter, match=f"a {type(value).__name__} cannot be sent as JSON"):
        encoded(value)


def test_a_value_that_contains_itself() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(InvalidParameter, match="list cannot be sent"):
        encoded(value)


def test_a_batch_says_which_is_wrong() -> None:
    assert encoded_each([1, {"a": 2}]) == [b"1", b'{"a":2}']
    with pytest.raises(InvalidParameter, match="message 1 of the batch: a object"):
        encoded_each([1, object()])
    with pytest.raises(InvalidParameter, match="several values"):
        encoded_each({"a": 1})


def test_the_mark_can_be_read_in_a_packet() -> None:
    assert BODY_TYPE.to_bytes(4, "little") == b"JSON"
