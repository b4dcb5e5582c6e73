"""A store as format 3 had it: records with packets in blocks of 4 KiB, however large they are."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence

from onceq.store import promises
from onceq.store.checkpoints import CheckpointHead, name_of
from onceq.store.checkpoints import write as write_checkpoint
from onceq.testing.disk import SimFiles

ID = b"S" * 16
BLOCK = 4_096


def store(
    path: str, records: Sequence[tuple[int, int]], *, covered: bool = False
) -> tuple[SimFiles, list[tuple[int, bytes]]]:
    """The disk, and address and bytes of each record in its one segment.

    Args:
        records: Size of each, and of its head; all bring packets.
        covered: A checkpoint lies behind them.
    """
    disk = SimFiles()
    digest = hashlib.blake2b(ID, digest_size=12, person=b"onceq frame").digest()
    seed, mask = struct.unpack("<IQ", digest)
    head = struct.pack("<8sI16sQI", b"onceq\0st", 3, ID, 0, 0)
    _write(disk, f"{path}/STORE", head + struct.pack("<I", zlib.crc32(head)))
    log, places = b"", []
    for n, (size, before) in enumerate(records):
        data = bytes((n * 7 + at * 13 + at // 256) & 0xFF for at in range(size))
        places.append((len(log) + 32, data))
        log += _frame(data, before, seed, mask, len(log))
    size = 64 + len(log) + 4_096
    head = struct.pack("<8sI16sQQ", b"onceq\0sg", 2, ID, 0, size)
    head = (head + struct.pack("<I", zlib.crc32(head))).ljust(64, b"\0")
    _write(disk, f"{path}/log-{0:016x}.seg", (head + log).ljust(size, b"\0"))
    checkpoint = len(log) if covered else 0
    if covered:
        written = write_checkpoint(
            disk, path, ID, CheckpointHead(checkpoint, 1, ((0, checkpoint),)), [b"s"]
        )
        disk.rename(written, f"{path}/{name_of(checkpoint)}")
    promise = promises.StorePromise(len(log), 0, size, checkpoint)
    promises.write_promised(disk, path, ID, promise)
    disk.sync_directory(path)
    return disk, places


def _frame(data: bytes, head: int, seed: int, mask: int, position: int) -> bytes:
    whole = data + bytes(-len(data) % 8)
    start = (seed ^ position // 8) & 0x7FFFFFFF
    sums = [
        zlib.crc32(whole[max(at, head) : at + BLOCK], start + at // BLOCK)
        if at + BLOCK > head else 0
        for at in range(0, len(whole), BLOCK)
    ]  # fmt: skip
    table = struct.pack(f"<{1 + len(sums)}I", head, *sums)
    table += bytes(-len(table) % 8)
    rest = struct.pack("<IQQQ", len(data) | 1 << 30, position ^ mask, position, 1)
    own = zlib.crc32(table, zlib.crc32(data[:head], zlib.crc32(rest, seed)))
    return struct.pack("<I", own) + rest + whole + table


def _write(disk: SimFiles, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    disk.write(file, 0, [data])
    disk.sync(file)
