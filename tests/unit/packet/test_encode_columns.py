"""Fields written column by column are those that are written one by one."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.packet import encode
from onceq.packet.encode import consecutive, cut, gathered, move, spread, spread_numbers

HIGHEST = 0xFFFF_FFFF


@given(st.integers(0, HIGHEST), st.integers(0, 300))
def test_consecutive_numbers(first: int, count: int) -> None:
    count = min(count, HIGHEST - first + 1)
    assert consecutive(first, count) == struct.pack(f"<{count}I", *range(first, first + count))


@pytest.mark.parametrize(
    ("first", "count"), [(0, 65_537), (65_535, 131_074), (HIGHEST - 70_000, 70_001), (0xFFFFFF, 2)]
)
def test_consecutive_numbers_over_pages(first: int, count: int) -> None:
    assert consecutive(first, count) == struct.pack(f"<{count}I", *range(first, first + count))


@pytest.mark.parametrize("as_stored", [True, False])
@pytest.mark.parametrize("place", [0, 1, 4, 8])
@pytest.mark.parametrize("stride", [12, 13, 16])
@pytest.mark.parametrize(
    "numbers",
    [
        range(7, 17), range(100, 80, -2), array("I", range(HIGHEST - 9, HIGHEST + 1)),
        array("Q", range(10)), list(range(0, 10_000_000, 1_000_000)),
    ],
    ids=["in a row", "falling", "table", "wide table", "list"],
)  # fmt: skip
def test_one_number_in_each_header(
    monkeypatch: pytest.MonkeyPatch, as_stored: bool, place: int, stride: int,
    numbers: Iterable[int],
) -> None:  # fmt: skip
    monkeypatch.setattr(encode, "_AS_STORED", as_stored and encode._AS_STORED)
    found = bytearray(range(10 * stride))
    wanted = bytearray(found)
    for index, number in enumerate(numbers):
        struct.pack_into("<I", wanted, index * stride + place, number)
    spread_numbers(found, place, stride, numbers, 10)
    assert found == wanted
    found += b"."  # No view of it is left.


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("stride", [60, 61, 62, 64])
@pytest.mark.parametrize("size", [1, 4, 6, 8, 56])
def test_one_field_in_each_header(place: int, stride: int, size: int) -> None:
    fields = [bytes([index] * size) for index in range(20)]
    found = bytearray(b"." * 20 * stride)
    wanted = bytearray(found)
    for index, field in enumerate(fields):
        wanted[index * stride + place : index * stride + place + size] = field
    spread(found, place, stride, b"".join(fields), size)
    assert found == wanted


@pytest.mark.parametrize("count", [0, 1, 7, 1_024, 1_025, 3_000])
@pytest.mark.parametrize(
    ("size", "skip", "rest"), [(5, 0, 0), (5, 3, 0), (5, 0, 2), (1, 4, 4), (0, 2, 1)]
)
def test_pieces_of_one_size(count: int, size: int, skip: int, rest: int) -> None:
    stride = skip + size + rest
    data = bytes(k % 251 for k in range(stride * count))
    wanted = [data[at + skip : at + skip + size] for at in range(0, len(data), stride)]
    assert list(cut(data, size, skip=skip, rest=rest)) == wanted
    assert list(cut(memoryview(data), size, skip=skip, rest=rest)) == wanted


def test_no_pieces() -> None:
    assert list(cut(b"", 0)) == []


@pytest.mark.parametrize("size", [1, 4, 9])
def test_fields_are_gathered_and_moved(size: int) -> None:
    count, step, stride = 10, 13, 17
    of = bytes(range(count * step))
    fields = gathered(of, 3, step, size, count)
    assert fields == b"".join(of[at + 3 : at + 3 + size] for at in range(0, len(of), step))
    found, wanted = bytearray(count * stride), bytearray(count * stride)
    for index in range(count):
        wanted[index * stride + 2 : index * stride + 2 + size] = fields[index * size :][:size]
    move(found, 2, stride, of, 3, step, size)
    assert found == wanted
