"""Segments kept ready: files written once before, so that a commit writes data and nothing else.

They are also the reserve: when the disk is full, removals and acknowledgments still find room in
them. The pool gets segments that nothing needs any more, and files filled with zeros. A file leaves
it under another name.

Zeros are written beside the commits of applications, and on a busy disk they cost as much as the
messages. So old segments are kept for the next burst, and given back slowly when all is quiet.
Zeros are written in small steps with pauses. A log that is faster than that goes on in files that
have their room on the disk, but were never written (``LogStore._roll``).

``retire``, ``trim`` and ``load`` belong to the store's own thread. At the same time ``prepare`` may
run in another one (one at a time), and ``sacrifice`` in the thread of a checkpoint: they share a
counter and the ends of a deque, and each step on these is atomic.
"""

from __future__ import annotations

import itertools
import os.path
import re
import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from onceq.errors import NoSpace, StorageFailure
from onceq.store.files import Files
from onceq.store.scan import SEGMENT_HEADER, base_of_header

READY_MIN: Final = 2
"""Segments that shall be ready at any time."""
READY_MAX: Final = 32
"""More than this are given back to the file system; with the usual size of a segment this is 512
MiB, which applications that send in large transactions write in one to five seconds..."""
FREE_SHARE: Final = 8
"""... and so are segments above this fraction (one part in FREE_SHARE) of the free disk space."""
ZEROS: Final = bytes(1 << 20)
"""Written and synced at once while a segment is made ready."""
REST_S: Final = 0.01
"""Pause in seconds after each step for other users of the disk: zeros take no more than 100 MiB
a second."""

_NAME = re.compile(r"ready-(\d{1,18})\.seg")


class Pool:
    """The ready segments of one store."""

    def __init__(self, files: Files, path: str, segment_bytes: int) -> None:
        self._files = files
        self._path = path
        self.segment_bytes = segment_bytes
        self._ready: deque[str] = deque()
        self._numbers = itertools.count(1)

    def load(self, store_id: bytes, bases: Collection[int]) -> list[str]:
        """Take over the files that an earlier process left; return files that are of no use.

        An unfinished file is of no use. Neither is one that says it is a segment of the log that is
        there as well: a rename that a crash has half undone left two names for one file, and it
        must not be used twice.
        """
        useless: list[str] = []
        number = 0
        for name in self._files.names(self._path):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            number = max(number, int(match[1]))
            path = os.path.join(self._path, name)
            file = self._files.open(path)
            try:
                whole = self._files.size(file) == self.segment_bytes
                base = base_of_header(self._files.read(file, 0, SEGMENT_HEADER), store_id)
            finally:
                self._files.close(file)
            if whole and base not in bases:
                self._ready.append(path)
            else:
                useless.append(path)
        self._numbers = itertools.count(number + 1)
        return useless

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def bytes(self) -> int:
        """Return the disk space that the pool holds."""
        return len(self._ready) * self.segment_bytes

    @property
    def wanting(self) -> bool:
        """Return True if another segment should be prepared."""
        return len(self._ready) < READY_MIN

    def take(self) -> str | None:
        """Return the file that was made ready last, which is the caller's now; None if there is
        none.

        The last one: its pages are most likely still in memory, so a commit that writes a part of
        a page need not read it first.
        """
        return self._from(self._ready.pop)

    @staticmethod
    def _from(end: Callable[[], str]) -> str | None:
        try:
            return end()
        except IndexError:  # not checked before: another thread may take the last one meanwhile
            return None

    def _oldest(self) -> str | None:
        """Return the file that has been ready for longest, to be removed."""
        return self._from(self._ready.popleft)

    def _new_path(self) -> str:
        return os.path.join(self._path, f"ready-{next(self._numbers)}.seg")

    def prepare(self, pause: Callable[[], object] = lambda: None) -> bool:
        """Make one more segment ready.

        Args:
            pause: Called after each step.

        Returns:
            False if the disk is full: the pool does not change.

        Raises:
            StorageFailure: The disk failed in another way.
        """
        if self._files.free_bytes(self._path) < self.segment_bytes:
            return False
        path = self._new_path()
        try:
            file = self._files.open(path, create=True)
        except NoSpace:
            return False
        try:
            for offset in range(0, self.segment_bytes, len(ZEROS)):
                size = min(len(ZEROS), self.segment_bytes - offset)
                self._files.write(file, offset, [ZEROS[:size]])
                # Each step for itself: a commit beside it waits for one of them, and not for all.
                self._files.sync(file)
                pause()
        except NoSpace:
            self._files.unlink(path)
            return False
        finally:
            self._files.close(file)
        self._files.sync_directory(self._path)
        self._ready.append(path)
        return True

    def retire(self, path: str, size: int) -> None:
        """Keep an old segment for later, or remove it; the caller syncs the directory."""
        # Its old contents may stay: positions are never used again, so no frame in it fits its next
        # place.
        most = min(READY_MAX * size, self._files.free_bytes(self._path) // FREE_SHARE)
        if size != self.segment_bytes or (
            len(self._ready) >= READY_MIN and self.bytes + size > most
        ):
            self._files.unlink(path)
            return
        ready = self._new_path()
        self._files.rename(path, ready)
        self._ready.append(ready)

    @property
    def plenty(self) -> bool:
        """Return True if more are ready than shall be at any time."""
        return len(self._ready) > READY_MIN

    def trim(self, *, half: bool = False) -> bool:
        """Remove ready segments beyond READY_MIN, or half of these; the caller syncs the directory.

        Returns:
            Whether there were any.
        """
        before = len(self._ready)
        keep = READY_MIN + (max(before - READY_MIN, 0) // 2 if half else 0)
        while len(self._ready) > keep and (path := self._oldest()) is not None:
            self._files.unlink(path)
        return len(self._ready) < before

    def sacrifice(self, count: int) -> None:
        """Give ``count`` ready segments back to a full disk."""
        for _ in range(count):
            path = self._oldest()
            if path is not None:
                self._files.unlink(path)
        self._files.sync_directory(self._path)


class Preparing:
    """Makes segments ready in a thread of its own, one thread at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()
        self.failed: StorageFailure | None = None

    def begin(self) -> None:
        """Begin, unless it is under way."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="onceq segments", daemon=True)
            self._thread.start()

    def join(self) -> None:
        """Wait until it is done; it makes no more pauses."""
        self._hurry.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            while self._pool.wanting and self._pool.prepare(self._pause):
                pass
        except StorageFailure as error:
            self.failed = error

    def _pause(self) -> None:
        self._hurry.wait(REST_S)
