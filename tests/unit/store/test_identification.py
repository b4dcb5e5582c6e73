"""The files that say who a store is and where it was closed."""

from __future__ import annotations

import struct
import zlib

import pytest

from onceq.errors import DamagedRecord, NewerFormat, NotAStore
from onceq.store.identification import (
    FORMAT,
    OrderlyClose,
    StoreIdentification,
    read_closed,
    read_identification,
    write_closed,
    write_identification,
)
from onceq.testing.disk import SimFiles

PATH = "/store"
WHO = StoreIdentification(b"0123456789abcdef", 1_700_000_000, b"name and guid")


def _disk() -> SimFiles:
    disk = SimFiles()
    write_identification(disk, PATH, WHO)
    return disk


def test_what_was_written_is_read() -> None:
    assert read_identification(_disk(), PATH) == WHO


def test_a_directory_without_it_is_no_store() -> None:
    with pytest.raises(NotAStore, match="qm init"):
        read_identification(SimFiles(), PATH)


def test_any_altered_byte_is_refused() -> None:
    disk = _disk()
    for offset in range(len(disk.contents(f"{PATH}/STORE"))):
        disk.flip(f"{PATH}/STORE", offset, 0x10)
        with pytest.raises((NotAStore, NewerFormat, DamagedRecord)):
            read_identification(disk, PATH)
        disk.flip(f"{PATH}/STORE", offset, 0x10)


def test_a_newer_format_is_refused_by_name() -> None:
    disk = _disk()
    raw = bytearray(disk.contents(f"{PATH}/STORE"))
    struct.pack_into("<I", raw, 8, FORMAT + 1)
    raw[-4:] = struct.pack("<I", zlib.crc32(raw[:-4]))
    disk.write(disk.open(f"{PATH}/STORE"), 0, [raw])
    with pytest.raises(NewerFormat, match=f"has format {FORMAT + 1}"):
        read_identification(disk, PATH)


def test_closed_is_read_or_nothing_is() -> None:
    disk = _disk()
    assert read_closed(disk, PATH, WHO.store_id) == OrderlyClose()
    write_closed(disk, PATH, WHO.store_id, OrderlyClose(4096, 3))
    write_closed(disk, PATH, WHO.store_id, OrderlyClose(8192, 4))
    assert read_closed(disk, PATH, WHO.store_id) == OrderlyClose(8192, 4)
    assert read_closed(disk, PATH, b"T" * 16) == OrderlyClose()
    for offset in range(len(disk.contents(f"{PATH}/CLOSED"))):
        disk.flip(f"{PATH}/CLOSED", offset, 0x10)
        assert read_closed(disk, PATH, WHO.store_id) == OrderlyClose()
        disk.flip(f"{PATH}/CLOSED", offset, 0x10)
