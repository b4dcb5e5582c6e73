"""A store as format 1 had it: one checksum for each record, no promise beside the log."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence

from onceq.store.checkpoints import CheckpointHead, name_of
from onceq.store.checkpoints import write as write_checkpoint
from onceq.testing.disk import SimFiles

ID = b"S" * 16


def store(
    path: str, sizes: Sequence[int], segment_bytes: int, *, covered: bool = False
) -> tuple[SimFiles, list[tuple[int, bytes]]]:
    """The disk, and address and bytes of each record in its one segment.

    Args:
        covered: A checkpoint lies behind them.
    """
    disk = SimFiles()
    digest = hashlib.blake2b(ID, digest_size=12, person=b"onceq frame").digest()
    seed, mask = struct.unpack("<IQ", digest)
    head = struct.pack("<8sI16sQI", b"onceq\0st", 1, ID, 0, 0)
    _write(disk, f"{path}/STORE", head + struct.pack("<I", zlib.crc32(head)))
    log, places = b"", []
    for n, size in enumerate(sizes):
        data = bytes((n * 7 + at * 13) & 0xFF for at in range(size))
        places.append((len(log) + 32, data))
        rest = struct.pack("<IQQQ", size, len(log) ^ mask, len(log), 1)
        crc = zlib.crc32(data, zlib.crc32(rest, seed))
        log += struct.pack("<I", crc) + rest + data + bytes(-size % 8)
    head = struct.pack("<8sI16sQ", b"onceq\0sg", 1, ID, 0)
    head = (head + struct.pack("<I", zlib.crc32(head))).ljust(64, b"\0")
    _write(disk, f"{path}/log-{0:016x}.seg", (head + log).ljust(segment_bytes, b"\0"))
    if covered:
        written = write_checkpoint(disk, path, ID, CheckpointHead(len(log), 1, ()), [b"state"])
        disk.rename(written, f"{path}/{name_of(len(log))}")
    disk.sync_directory(path)
    return disk, places


def _write(disk: SimFiles, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    disk.write(file, 0, [data])
    disk.sync(file)
