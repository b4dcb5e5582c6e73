"""Fields of many equally long headers at once: byte k of all of them is a column.

Writing a column costs a nanosecond or two for each header, and writing a field of one header a
hundred times as much. So headers that differ in some fields are made as one piece of bytes, of
which columns are set, and cut apart at the end.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct, pack
from typing import Final

from onceq.model.run import Buffer

_NUMBER: Final = 4
_WORD: Final = memoryview(b"").cast("I").itemsize
_PAGE: Final = 1 << 16
"""Consecutive numbers are made in pieces in which their upper halves are alike."""
_LOWEST: Final = bytes(range(256)) * 256
_SECOND: Final = b"".join(bytes((value,)) * 256 for value in range(256))
"""The two lower bytes of all numbers of a page, as columns."""
_TOGETHER: Final = 1 << 10
"""Pieces that one format cuts; it takes some dozens of bytes for each."""
_AS_STORED: Final = sys.byteorder == "little" and array("I").itemsize == _NUMBER
"""Whether this processor stores numbers in the byte order of messages."""


def spread(out: bytearray, place: int, stride: int, raw: bytes | bytearray, size: int) -> None:
    """Write one field of ``size`` bytes into each of several headers.

    Args:
        out: The headers, one every ``stride`` bytes.
        place: Where in each header the field begins.
        raw: The fields, one after another.
    """
    if (place | stride | size | len(out)) % _WORD:
        for k in range(size):
            out[place + k :: stride] = raw[k::size]
        return
    # The same by columns of four bytes, in any order.
    with memoryview(out) as view, view.cast("I") as words:
        columns = memoryview(raw).cast("I")
        for k in range(size // _WORD):
            words[place // _WORD + k :: stride // _WORD] = columns[k :: size // _WORD]


def move(
    out: bytearray, place: int, stride: int, of: bytes, origin: int, step: int, size: int
) -> None:
    """Copy one field of each of several headers from its place in another piece of bytes.

    Args:
        out, place, stride: As for ``spread``.
        of: One field every ``step`` bytes, of which the first begins at ``origin``.
        size: Bytes of the field.
    """
    for k in range(size):
        out[place + k :: stride] = of[origin + k :: step]


def gathered(of: bytes | bytearray, origin: int, step: int, size: int, count: int) -> bytearray:
    """Return one field of ``size`` bytes of each of ``count`` headers, one after another."""
    out = bytearray(size * count)
    for k in range(size):
        out[k::size] = of[origin + k :: step]
    return out


def spread_numbers(
    out: bytearray, place: int, stride: int, numbers: Iterable[int], count: int
) -> None:
    """Write one 32-bit number into each of ``count`` headers."""
    spread(out, place, stride, _raw(numbers, count), _NUMBER)


def _raw(numbers: Iterable[int], count: int) -> bytes | bytearray:
    """Return numbers one after another in the byte order of messages."""
    if isinstance(numbers, range) and numbers.step == 1:
        return consecutive(numbers.start, count)
    if _AS_STORED and isinstance(numbers, array) and numbers.typecode == "I":
        return numbers.tobytes()
    return pack(f"<{count}I", *numbers)


def consecutive(first: int, count: int) -> bytearray:
    """Return ``count`` 32-bit numbers from ``first`` on, also made by columns."""
    raw = bytearray(_NUMBER * count)
    done = 0
    while done < count:
        at = (first + done) % _PAGE
        here = min(count - done, _PAGE - at)
        upper = (first + done) // _PAGE
        start, stop = _NUMBER * done, _NUMBER * (done + here)
        raw[start:stop:_NUMBER] = _LOWEST[at : at + here]
        raw[start + 1 : stop : _NUMBER] = _SECOND[at : at + here]
        raw[start + 2 : stop : _NUMBER] = bytes((upper % 256,)) * here
        raw[start + 3 : stop : _NUMBER] = bytes((upper // 256,)) * here
        done += here
    return raw


def cut(data: Buffer, size: int, *, skip: int = 0, rest: int = 0) -> Sequence[bytes]:
    """Return pieces of one size.

    Args:
        skip, rest: Bytes before and behind each piece that belong to none.
    """
    stride = skip + size + rest
    count = len(data) // stride if stride else 0
    if count > _TOGETHER:
        view = memoryview(data)
        return [bytes(view[at : at + size]) for at in range(skip, len(data), stride)]
    # One format for all of them takes a fifth of the time of single slices.
    return _pieces(size, skip, rest, count).unpack_from(data)


@lru_cache(maxsize=64)
def _pieces(size: int, skip: int, rest: int, count: int) -> Struct:
    return Struct(f"{skip}x{size}s{rest}x" * count)
