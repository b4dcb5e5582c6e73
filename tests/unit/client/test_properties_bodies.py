"""Bodies as runs: joined once, whatever they were handed over as."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.client import properties
from onceq.client.properties import Body, parts, raw, run_of
from onceq.errors import BodyTooLarge, InvalidParameter
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.run import Run


def listed(run: Run) -> list[bytes]:
    return [bytes(body) for body in run]


@given(st.lists(st.one_of(st.binary(max_size=20), st.text(max_size=20))))
def test_bodies_come_back_as_bytes(given: list[bytes | str]) -> None:
    expected = [body.encode() if isinstance(body, str) else body for body in given]
    assert listed(run_of(given)) == expected


def test_every_kind_of_body_and_of_collection() -> None:
    mixed: list[Body] = [b"a", bytearray(b"bb"), memoryview(b"ccc"), "dé"]
    expected = [b"a", b"bb", b"ccc", "dé".encode()]
    assert listed(run_of(mixed)) == expected
    assert listed(run_of(tuple(mixed))) == expected
    assert listed(run_of(body for body in mixed)) == expected
    assert listed(run_of([])) == []


def test_views_of_wider_items_count_their_bytes() -> None:
    view = memoryview(array("I", [1, 2]))
    run = run_of([view, b"x"])
    assert list(run.lengths) == [8, 1]
    assert listed(run)[0] == bytes(view)


def test_a_body_changed_afterwards_does_not_change_the_message() -> None:
    body = bytearray(b"before")
    run = run_of([body, b""])
    body[:] = b"behind"
    assert listed(run)[0] == b"before"


@pytest.mark.parametrize("single", ["text", b"bytes", bytearray(b"x"), memoryview(b"x")])
def test_a_single_body_is_not_taken_for_several(single: Any) -> None:
    with pytest.raises(InvalidParameter, match="list"):
        run_of(single)


@pytest.mark.parametrize("body", [5, None, 1.5, ["x"], {}, "\ud800"])
def test_what_is_no_body_is_refused(body: Any) -> None:
    with pytest.raises(InvalidParameter):
        raw(body)
    with pytest.raises(InvalidParameter):
        run_of([b"good", body])


def test_a_body_larger_than_a_packet_is_refused_at_once() -> None:
    with pytest.raises(BodyTooLarge):
        run_of([b"small", bytes(PACKET_BYTES_MAX + 1)])
    assert len(run_of([bytes(PACKET_BYTES_MAX)])) == 1


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30), st.booleans())
def test_parts_are_the_run_again(sizes: list[tuple[int, int]], with_own: bool) -> None:
    run = run_of([bytes([n % 256]) * size for n, (size, _) in enumerate(sizes)])
    own = run_of([bytes([n % 256]) * size for n, (_, size) in enumerate(sizes)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(properties, "PART_BYTES_MAX", 40)
        patch.setattr(properties, "PART_MESSAGES_MAX", 5)
        found = list(parts(run, own if with_own else None))
    assert [body for part, _ in found for body in listed(part)] == listed(run)
    if with_own:
        assert [head for _, part in found for head in listed(part or Run.of([]))] == listed(own)
    for part, heads in found:
        assert (heads is not None) == with_own
        assert len(part) <= 5
        assert len(part.data) + (len(heads.data) if heads is not None else 0) <= 40
    assert all(len(part) for part, _ in found) or not sizes
