"""The store finds a descriptor when nobody else does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceq.store import files as files_module
from onceq.store.files import RealFiles, Spares


@pytest.fixture
def spares(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spares]:
    made = Spares(4)
    assert made.refill()
    monkeypatch.setattr(files_module, "SPARES", made)
    yield made
    while len(made):
        assert made._give_up()


def short(spares: Spares, work: Callable[..., int]) -> Callable[..., int]:
    """The system has no descriptor beyond the four that are spare."""

    def opened(*arguments: object, **more: object) -> int:
        if len(spares) >= 4:
            raise OSError(errno.EMFILE, "Too many open files")
        return work(*arguments, **more)

    return opened


def test_the_store_opens_files_although_the_process_has_no_descriptor_left(
    spares: Spares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    spares.call_when_short(lambda: told.append(len(spares)))
    real = os.open
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", short(spares, real))
        files = RealFiles()
        files.close(files.open(str(tmp_path / "x"), create=True))
        files.sync_directory(str(tmp_path))
        patch.setattr(os, "listdir", lambda path: [f"{short(spares, lambda: 0)()}"])
        assert files.names(str(tmp_path)) == ["0"]
    assert told == [3, 3, 3], "each time connections hear that they shall make room"
    assert len(spares) == 4, "as soon as there was room they were taken back"


def test_other_errors_cost_no_spare(spares: Spares) -> None:
    with pytest.raises(FileNotFoundError):
        spares.use(lambda: os.open("/nowhere/at/all", os.O_RDONLY))
    assert len(spares) == 4


def test_without_a_spare_the_error_is_told(spares: Spares) -> None:
    def never() -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(OSError, match="Too many"):
        spares.use(never)
    assert len(spares) == 0
