"""A queue manager inside this process is made when that is asked for, never by a mistyped name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import onceq
from onceq import aio
from onceq.errors import NotAStore
from onceq.file_access import CONFIGURATION_FILE


def test_a_mistyped_name_makes_nothing(tmp_path: Path) -> None:
    onceq.open(str(tmp_path / "alpha"), create=True).close()
    with pytest.raises(
        NotAStore, match=r"no directory .*alhpa \(did you mean .*/alpha\?\).*create=True"
    ):
        onceq.open(str(tmp_path / "alhpa"))
    assert not (tmp_path / "alhpa").exists()


def test_nor_for_tasks(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="create=True"):
        asyncio.run(aio.open(str(tmp_path / "a")))
    assert not (tmp_path / "a").exists()


def test_an_empty_directory_is_no_queue_manager_either(tmp_path: Path) -> None:
    (tmp_path / CONFIGURATION_FILE).write_text('listen = ""\n')
    with pytest.raises(NotAStore, match="no queue manager in"):
        onceq.open(str(tmp_path), name="ALPHA")
    assert [file.name for file in tmp_path.iterdir()] == [CONFIGURATION_FILE]
    onceq.open(str(tmp_path), name="ALPHA", create=True).close()
    with onceq.open(str(tmp_path)) as qm:
        assert qm.name == "ALPHA"


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    for create in (False, True):
        with pytest.raises(NotAStore, match="holds other files"):
            onceq.open(str(tmp_path), create=create)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_what_a_crash_left_of_making_one_does_not_keep_it_from_being_made(tmp_path: Path) -> None:
    (tmp_path / "LOCK").write_text("17\n")
    (tmp_path / "STORE.new").write_bytes(b"half of it")
    with onceq.open(str(tmp_path), name="ALPHA", create=True) as qm:
        assert qm.name == "ALPHA"
