"""The bytes in ``docs/reference/formats/store.md`` are those that the store writes, and mean that.

They are taken apart here with the tables of that page, not with the store's own code.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from pathlib import Path

from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.testing.disk import SimFiles

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "formats" / "store.md"
PATH = "/store"
ID = bytes(range(16))


def _printed() -> dict[str, bytes]:
    """The files of the worked example, filled up to their sizes."""
    found: dict[str, bytes] = {}
    text = PAGE.read_text()
    for name, size, dump in re.findall(
        r"`([\w.-]+)`, (\d+) bytes[^\n]*\n\n```text\n(.*?)```", text, re.S
    ):
        data = bytearray(int(size))
        for row in dump.strip().splitlines():
            at, printed = row.split("  ")
            piece = bytes.fromhex(printed)
            data[int(at, 16) : int(at, 16) + len(piece)] = piece
        found[name] = bytes(data)
    return found


def test_the_store_writes_the_printed_bytes() -> None:
    disk = SimFiles()
    store = LogStore.create(
        PATH, disk, store_id=ID, identity=b"ALPHA", created_s=1_700_000_000, segment_bytes=256
    )
    for record in (b"hello", b"a second record"):
        store.append(record)
        store.sync()
    store.checkpoint([b"the state"], store.position)
    store.append(b"third")
    store.sync()
    store.close()
    written = {name: disk.contents(f"{PATH}/{name}") for name in disk.names(PATH)}
    assert written == _printed()


def test_the_printed_bytes_are_a_store() -> None:
    disk = SimFiles()
    for name, data in _printed().items():
        disk.write(disk.open(f"{PATH}/{name}", create=True), 0, [data])
    report = check(PATH, disk)
    assert (report.problem, report.records, report.end_position) == ("", 3, 128)
    store = LogStore.open(PATH, disk, segment_bytes=256)
    assert store.recovered.checkpoint == b"the state"
    assert store.recovered.clean
    assert [bytes(data) for _, data in store.records()] == [b"third"]


def test_the_tables_take_them_apart() -> None:
    files = _printed()
    segment = files["log-0000000000000000.seg"]
    assert segment[:44] == b"onceq\0sg" + struct.pack("<I", 2) + ID + struct.pack("<QQ", 0, 256)
    assert struct.unpack_from("<I", segment, 44)[0] == zlib.crc32(segment[:44])
    assert segment[48:64] == bytes(16)
    digest = hashlib.blake2b(ID, digest_size=12, person=b"onceq frame").digest()
    seed, mask = struct.unpack("<IQ", digest)
    assert digest[:4].hex() in PAGE.read_text()
    assert digest[4:].hex() in PAGE.read_text()
    at, frames = 64, []
    while any(segment[at : at + 32]):
        crc, size, place, synced, epoch = struct.unpack_from("<IIQQQ", segment, at)
        assert crc == zlib.crc32(segment[at + 4 : at + 32 + size], seed)
        frames.append((place ^ mask, synced, epoch, segment[at + 32 : at + 32 + size]))
        assert place ^ mask == at - 64
        at += 32 + (size + 7) // 8 * 8
    assert frames == [(0, 0, 1, b"hello"), (40, 40, 1, b"a second record"), (88, 88, 1, b"third")]


def test_the_tables_take_the_other_files_apart() -> None:
    files = _printed()
    head = struct.unpack_from("<8sI16sQI", files["STORE"])
    assert head == (b"onceq\0st", 4, ID, 1_700_000_000, 5)
    assert files["STORE"][40:45] == b"ALPHA"
    state = files["state-0000000000000058.ckp"]
    assert struct.unpack_from("<8sI16sQQQII", state) == (
        b"onceq\0ck", 1, ID, 88, 1, 9, 1 << 20, 1
    )  # fmt: skip
    assert struct.unpack_from("<QQ", state, 60) == (0, 88)
    assert struct.unpack_from("<I", state, 76)[0] == zlib.crc32(state[:76])
    assert state[80:89] == b"the state"
    assert struct.unpack_from("<I", state, 89)[0] == zlib.crc32(b"the state")
    assert struct.unpack_from("<8sI16sQQ", files["CLOSED"]) == (b"onceq\0cl", 1, ID, 128, 1)
    for name in ("STORE", "CLOSED"):
        raw = files[name]
        assert struct.unpack("<I", raw[-4:])[0] == zlib.crc32(raw[:-4])


def test_the_tables_take_the_promise_apart() -> None:
    data = _printed()["PROMISED"]
    slots = [struct.unpack_from("<8sI16sQQQQQ", data, at) for at in (0, 512)]
    assert slots == [
        (b"onceq\0pr", 1, ID, 4, 128, 0, 256, 88),
        (b"onceq\0pr", 1, ID, 3, 88, 0, 256, 88),
    ]
    for at in (0, 512):
        assert struct.unpack_from("<I", data, at + 68)[0] == zlib.crc32(data[at : at + 68])


def test_the_printed_blocks_are_right() -> None:
    """The frame of a large record, made with the sentences of the page."""
    digest = hashlib.blake2b(ID, digest_size=12, person=b"onceq frame").digest()
    seed, mask = struct.unpack("<IQ", digest)
    payload = b"x" * 5_000
    start = (seed ^ 0 // 8) & 0x7FFFFFFF
    table = struct.pack(
        "<II", zlib.crc32(payload[:4_096], start), zlib.crc32(payload[4_096:], start + 1)
    )
    rest = struct.pack("<IQQQ", 5_000 | 1 << 31, mask, 0, 1)
    head = struct.pack("<I", zlib.crc32(table, zlib.crc32(rest, seed))) + rest
    printed = re.search(r"header  ([0-9a-f \n]+)table   ([0-9a-f ]+)", PAGE.read_text())
    assert printed is not None
    assert bytes.fromhex(printed[1].replace("\n", " ")) == head
    assert bytes.fromhex(printed[2]) == table
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=ID, segment_bytes=8_192)
    store.append(payload)
    store.sync()
    frame = disk.contents(f"{PATH}/log-{0:016x}.seg")[64 : 64 + 5_040]
    assert frame == head + payload + table


def test_the_printed_record_with_packets_is_right() -> None:
    digest = hashlib.blake2b(ID, digest_size=12, person=b"onceq frame").digest()
    seed, mask = struct.unpack("<IQ", digest)
    payload, head = b"headpackets", 4
    padded = payload.ljust(16, b"\0")
    start = (seed ^ 0 // 8) & 0x7FFFFFFF
    table = struct.pack("<II", head, zlib.crc32(padded[head:], start))
    rest = struct.pack("<IQQQ", len(payload) | 1 << 30, mask, 0, 1)
    own = zlib.crc32(table, zlib.crc32(payload[:head], zlib.crc32(rest, seed)))
    whole = struct.pack("<I", own) + rest + padded + table
    printed = re.search(r"whole   ([0-9a-f \n]+)```", PAGE.read_text())
    assert printed is not None
    assert bytes.fromhex(printed[1].replace("\n", " ")) == whole
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=ID, segment_bytes=8_192)
    store.append(payload, head)
    store.sync()
    assert disk.contents(f"{PATH}/log-{0:016x}.seg")[64 : 64 + len(whole)] == whole


def test_the_printed_large_record_with_packets_is_right() -> None:
    digest = hashlib.blake2b(ID, digest_size=12, person=b"onceq frame").digest()
    seed, mask = struct.unpack("<IQ", digest)
    payload, head = b"head" + b"x" * 299_996, 4
    blocks = [payload[at : at + 32_768] for at in range(0, len(payload), 32_768)]
    start = (seed ^ 0 // 8) & 0x7FFFFFFF
    sums = [zlib.crc32(blocks[0][head:], start)]
    sums += [zlib.crc32(data, start + n) for n, data in enumerate(blocks[1:], 1)]
    table = struct.pack("<11I", head, *sums) + bytes(4)
    rest = struct.pack("<IQQQ", len(payload) | 3 << 30, mask, 0, 1)
    own = zlib.crc32(table, zlib.crc32(payload[:head], zlib.crc32(rest, seed)))
    header = struct.pack("<I", own) + rest
    printed = re.search(r"of 300,000 bytes.*?header  ([0-9a-f \n]+)table   ([0-9a-f \n]+)```",
                        PAGE.read_text(), re.S)  # fmt: skip
    assert printed is not None
    assert bytes.fromhex(printed[1].replace("\n", " ")) == header
    assert bytes.fromhex(printed[2].replace("\n", " ")) == table
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=ID, segment_bytes=8_192)
    store.append(payload, head)
    store.sync()
    frame = disk.contents(f"{PATH}/log-{0:016x}.seg")[64:]
    assert frame[: 32 + len(payload) + len(table)] == header + payload + table
