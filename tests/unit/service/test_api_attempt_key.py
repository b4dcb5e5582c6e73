"""The key of attempts: the same at each start, for its account alone, and replaced if damaged."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.step.units import KEY_BYTES
from onceq.errors import StorageFailure
from onceq.file_access import ATTEMPT_KEY_FILE
from onceq.service.api import kept_entropy


def test_it_is_the_same_at_each_start_and_nothing_else_is(tmp_path: Path) -> None:
    one, other = (kept_entropy(str(tmp_path))(ENTROPY_BYTES) for _ in range(2))
    assert len(one) == len(other) == ENTROPY_BYTES
    assert one[-KEY_BYTES:] == other[-KEY_BYTES:] == (tmp_path / ATTEMPT_KEY_FILE).read_bytes()
    assert one[:-KEY_BYTES] != other[:-KEY_BYTES]


def test_only_its_account_may_read_it(tmp_path: Path) -> None:
    kept_entropy(str(tmp_path))(ENTROPY_BYTES)
    assert stat.S_IMODE((tmp_path / ATTEMPT_KEY_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [b"", b"short", bytes(KEY_BYTES + 1)])
def test_a_damaged_one_is_replaced(tmp_path: Path, damage: bytes) -> None:
    entropy = kept_entropy(str(tmp_path))
    before = entropy(ENTROPY_BYTES)[-KEY_BYTES:]
    (tmp_path / ATTEMPT_KEY_FILE).write_bytes(damage)
    (tmp_path / f"{ATTEMPT_KEY_FILE}.new").write_bytes(b"of a start that was killed")
    after = entropy(ENTROPY_BYTES)[-KEY_BYTES:]
    assert len(after) == KEY_BYTES
    assert after != before
    assert [one.name for one in tmp_path.iterdir()] == [ATTEMPT_KEY_FILE]


def test_a_disk_that_does_not_take_it_is_named(tmp_path: Path) -> None:
    (tmp_path / f"{ATTEMPT_KEY_FILE}.new").mkdir()
    with pytest.raises(StorageFailure, match=ATTEMPT_KEY_FILE):
        kept_entropy(str(tmp_path))(ENTROPY_BYTES)
