"""Torn tails: sectors of unsynced writes come back, and nothing else."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from proof.torture import torn

NAME = "log-0000000000000000.seg"
SECTORS = 40


def sectors_of(data: bytes, size: int = 512) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The first ten sectors are durable, five more are written, the rest is as it was prepared."""
    written = b"".join(bytes([n]) * 512 for n in range(1, 16))
    (tmp_path / NAME).write_bytes(written.ljust(SECTORS * 512, b"\0"))
    return tmp_path


def forget(store: Path) -> bytes:
    """What no sync has covered is gone."""
    data = (store / NAME).read_bytes()
    durable = data[: 10 * 512].ljust(len(data), b"\0")
    with (store / NAME).open("r+b") as file:
        file.write(durable)
    return durable


def test_only_sectors_that_were_written_come_back(store: Path) -> None:
    before = torn.segments(store)
    kinds = set()
    for seed in range(200):
        durable = forget(store)
        count = torn.tear(store, before, Random(seed))
        after = (store / NAME).read_bytes()
        assert count > 0
        assert after[: 10 * 512] == durable[: 10 * 512]
        assert after[15 * 512 :] == durable[15 * 512 :]
        there = tuple(
            new == old
            for new, old in zip(
                sectors_of(after)[10:15], sectors_of(before[NAME].data)[10:15], strict=True
            )
        )
        assert any(there)
        kinds.add(there)
    assert (True, False, False, False, False) in kinds, "cut behind the first"
    assert (False, False, False, False, True) in kinds, "only the last"
    assert (True, True, True, True, True) in kinds, "all of it"
    assert len(kinds) > 15, "in any order"


def test_nothing_comes_back_where_nothing_was_lost(store: Path) -> None:
    assert torn.tear(store, torn.segments(store), Random(1)) == 0


def test_a_file_that_is_gone_or_another_is_left_alone(store: Path) -> None:
    """Its places are not where the writes went to."""
    before = torn.segments(store)
    (store / NAME).rename(store / "ready-1.seg")
    assert torn.tear(store, before, Random(1)) == 0
    (store / NAME).write_bytes(bytes(SECTORS * 512))
    assert torn.tear(store, before, Random(1)) == 0
    assert (store / NAME).read_bytes() == bytes(SECTORS * 512)
