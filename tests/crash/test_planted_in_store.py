"""The crash programme is itself watched: each of these planted mistakes must be found by it (P15).

Each is the kind of thing that is forgotten in a store, and works on every sunny day.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onceq.errors import OnceqError
from onceq.store import checkpoints, identification, promises, recovery, scan
from onceq.store.framing import Framing, Sound
from onceq.store.log import LogStore
from onceq.store.pool import Pool
from onceq.testing.disk import SimFiles
from tests.crash.programme import everything

Plant = Callable[[pytest.MonkeyPatch], None]


def _unsynced_first_segment(patch: pytest.MonkeyPatch) -> None:
    def sync(self: LogStore) -> None:
        self.flush()
        self._unsynced = self._unsynced[-1:]
        real(self)

    real = LogStore.sync
    patch.setattr(LogStore, "sync", sync)


def _acknowledged_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogStore, "sync", LogStore.flush)


def _checkpoint_name_not_synced(patch: pytest.MonkeyPatch) -> None:
    def install(files: SimFiles, path: str, written: str, position: int, *, keep: int = 0) -> None:
        files.rename(written, os.path.join(path, checkpoints.name_of(position)))
        for name in files.names(path):
            if name.startswith("state-") and name < checkpoints.name_of(position):
                files.unlink(os.path.join(path, name))

    patch.setattr(checkpoints, "install", install)


def _checkpoint_not_synced(patch: pytest.MonkeyPatch) -> None:
    _without(patch, checkpoints, "write", "sync")


def _segment_name_not_synced(patch: pytest.MonkeyPatch) -> None:
    _without(patch, LogStore, "_roll", "sync_directory")


def _segment_header_not_synced(patch: pytest.MonkeyPatch) -> None:
    _without(patch, LogStore, "_roll", "sync")


def _recovery_syncs_no_names(patch: pytest.MonkeyPatch) -> None:
    _without(patch, recovery, "tidy", "sync_directory")


def _recovery_syncs_nothing(patch: pytest.MonkeyPatch) -> None:
    _without(patch, recovery, "tidy", "sync")


def _reclaim_syncs_no_names(patch: pytest.MonkeyPatch) -> None:
    _without(patch, LogStore, "reclaim", "sync_directory")


def _identification_not_synced(patch: pytest.MonkeyPatch) -> None:
    _without(patch, identification, "replace_file", "sync")


def _checksum_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    def sound(self: Framing, data: bytes, at: int, *, position: int) -> Sound | None:
        frame = self.head(data, at, position=position)
        if frame is None or at + frame.end - position > len(data):
            return None
        return Sound(frame)

    patch.setattr(Framing, "sound", sound)


def _position_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """Stale frames of a segment that is used again."""

    def sound(self: Framing, data: bytes, at: int, *, position: int) -> Sound | None:
        if at + 32 > len(data):
            return None
        said = int.from_bytes(data[at + 8 : at + 16], "little") ^ self._mask
        found = real(self, data, at, position=said)
        if found is None:
            return None
        return replace(found, frame=replace(found.frame, position=position))

    real = Framing.sound
    patch.setattr(Framing, "sound", sound)


def _checkpoint_forgets_epoch(patch: pytest.MonkeyPatch) -> None:
    """What an earlier process wrote and recovery cut comes to life behind a checkpoint."""

    def begin(self: LogStore, state: Any, position: int) -> Any:
        pending = real(self, state, position)
        return replace(pending, head=replace(pending.head, epoch=0))

    real = LogStore.checkpoint_begin
    patch.setattr(LogStore, "checkpoint_begin", begin)


def _epoch_never_new(patch: pytest.MonkeyPatch) -> None:
    def recover(self: LogStore) -> None:
        real(self)
        self._epoch = 1

    real = LogStore._recover
    patch.setattr(LogStore, "_recover", recover)


def _one_file_ready_twice(patch: pytest.MonkeyPatch) -> None:
    def load(self: Pool, store_id: bytes, bases: Any) -> list[str]:
        return real(self, store_id, ())

    real = Pool.load
    patch.setattr(Pool, "load", load)


def _closed_before_sync(patch: pytest.MonkeyPatch) -> None:
    def close(self: LogStore) -> None:
        closed = identification.OrderlyClose(self.position, self._epoch)
        identification.write_closed(self._files, self.path, self.store_id, closed)
        real(self)

    real = LogStore.close
    patch.setattr(LogStore, "close", close)


def _torn_tail_is_damage(patch: pytest.MonkeyPatch) -> None:
    def frames(*args: Any, **named: Any) -> scan.ScanResult:
        found = real(*args, **named)
        if found.torn_bytes:
            found.problem = scan.Problem("?", 0, "a torn tail")
        return found

    real = scan.frames
    patch.setattr(scan, "frames", frames)


def _stale_segments_stay(patch: pytest.MonkeyPatch) -> None:
    def tidy(files: SimFiles, path: str, judged: recovery.JudgedRecord, loaded: scan.Loaded) -> Any:
        behind = [s for s in loaded.segments if s.base >= judged.end]
        for segment in behind:
            loaded.segments.remove(segment)
        return real(files, path, judged, loaded)

    real = recovery.tidy
    patch.setattr(recovery, "tidy", tidy)


def _half_frame_stays(patch: pytest.MonkeyPatch) -> None:
    def tidy(files: SimFiles, path: str, judged: recovery.JudgedRecord, loaded: scan.Loaded) -> Any:
        return real(files, path, replace(judged, half_frame=False), loaded)

    real = recovery.tidy
    patch.setattr(recovery, "tidy", tidy)


def _epoch_of_half_frames_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "EPOCH_STEP_MAX", -1)


def _closed_epoch_ignored(patch: pytest.MonkeyPatch) -> None:
    def judge(*args: Any) -> recovery.JudgedRecord:
        judged = real(*args)
        return replace(judged, epoch=max(judged.head.epoch, judged.recovered.checkpoint_position))

    real = recovery.judge
    patch.setattr(recovery, "judge", judge)


def _promise_found_is_believed(patch: pytest.MonkeyPatch) -> None:
    """PROMISED is taken for durable because it could be read."""

    class Believing(promises.PromisedFile):
        first = True

        def sync(self) -> None:
            if not self.first:
                super().sync()
            self.first = False

    patch.setattr(recovery, "PromisedFile", Believing)


def _without(patch: pytest.MonkeyPatch, owner: Any, name: str, call: str) -> None:
    """While a function runs, one operation of the disk does nothing."""
    real = getattr(owner, name)
    skipped: list[bool] = []

    def nothing(self: SimFiles, what: Any) -> None:
        if not skipped:
            original(self, what)

    def planted(*args: Any, **named: Any) -> Any:
        skipped.append(True)
        try:
            return real(*args, **named)
        finally:
            skipped.pop()

    original = getattr(SimFiles, call)
    patch.setattr(SimFiles, call, nothing)
    patch.setattr(owner, name, planted)


PLANTS: dict[str, Plant] = {
    name[1:]: plant
    for name, plant in list(globals().items())
    if name.startswith("_") and name != "_without" and getattr(plant, "__module__", "") == __name__
}


@pytest.mark.slow
@pytest.mark.search("store", few=3)
@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name](monkeypatch)
    with pytest.raises((AssertionError, OnceqError, KeyError)):
        everything(8_000)


def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert everything(2_000).images >= 2_000
