"""The quick checksum is the one that every store was written with."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from onceq.store.framing import crc32


@given(st.binary(max_size=300), st.binary(max_size=20), st.integers(0, 0xFFFF_FFFF))
def test_it_is_crc_32(data: bytes, more: bytes, seed: int) -> None:
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(more), crc32(bytearray(data), seed)) == zlib.crc32(data + more, seed)


def test_large_pieces() -> None:
    data = bytes(range(256)) * 5_000
    for size in (4_095, 4_096, 65_537, len(data)):
        assert crc32(data[:size], 7) == zlib.crc32(data[:size], 7)
