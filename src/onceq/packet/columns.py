"""Fields of many equally long headers at once: byte k of all of them is a column.

Writing a column costs a nanosecond or two for each header, and writing a field of one header a
hundred times as much. So headers that differ in some fields are made as one piece of bytes, of
which columns are set, and cut apart at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack
from typing import Final

_NUMBER: Final = 4


def spread(out: bytearray, place: int, stride: int, raw: bytes, size: int) -> None:
    """Write one field of ``size`` bytes into each of several headers.

    Args:
        out: The headers, one every ``stride`` bytes.
        place: Where in each header the field begins.
        raw: The fields, one after another.
    """
    for k in range(size):
        out[place + k :: stride] = raw[k::size]


def spread_numbers(
    out: bytearray, place: int, stride: int, numbers: Iterable[int], count: int
) -> None:
    """Write one 32-bit number into each of ``count`` headers."""
    spread(out, place, stride, pack(f"<{count}I", *numbers), _NUMBER)


def cut(data: bytes, size: int) -> list[bytes]:
    """Pieces of one size."""
    return [data[at : at + size] for at in range(0, len(data), size)]
