"""The files of a history: written one after another, each whole or not there, the oldest removed.

A file covers one part of the log, and its name says which. It is written under another name,
synced, renamed, and the directory synced. So after a crash the history goes on behind the last
whole file, and each record is in it exactly once. Observations made while the log did not grow have
a file of their own, numbered at that position.

A part that cannot be written now (a full disk) waits in memory, with all that come after it. Until
it is written or a checkpoint covers it, the log from which it would be made again after a crash
stays. A history never stops its manager, though: a checkpoint does not wait for it. So a part is
missing if the process ends between such a checkpoint and the next good write, if too much waits, or
if it was never projected (the setting was off). It is missing between two names: a reader of the
history sees that, and the manager's own log says so.

Upholds: each record once, in files that survive power cuts; the bound on their size.
"""

from __future__ import annotations

import json
import logging
import os.path
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from onceq.core.decision import Observed
from onceq.errors import StorageFailure
from onceq.history.columns import ACTS, FOLDER, META, STARTS, VERSION, Span, span_of
from onceq.history.events import Event, FileEvents, LaneRange
from onceq.history.projector import Projector
from onceq.model.identity import Identity, guid_text
from onceq.model.limits import HISTORY_NOTES_MAX, HISTORY_ROWS_MAX, HISTORY_UNWRITTEN_BYTES_MAX
from onceq.model.run import Buffer
from onceq.model.settings import Settings
from onceq.store.contract import Recovered, Replayed
from onceq.store.files import Files

log = logging.getLogger("onceq")

UNFINISHED: Final = ".new"
NEVER: Final = 1 << 62


class Log(Protocol):
    """What a history reads: ``store.log.LogStore``."""

    @property
    def recovered(self) -> Recovered:
        """Return what was found when it was opened."""

    @property
    def position(self) -> int:
        """Return where it ends."""

    def replay(self, start: int, end: int) -> Iterator[Replayed]:
        """Yield its records between two positions."""

    def read(self, address: int, size: int) -> Buffer:
        """Return the bytes of a message."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A file that is to be written."""

    span: Span
    rows: int
    data: memoryview


class Keeper:
    """Keeps the history of one manager. The owner calls ``mark`` and ``observe``; ``project``
    may run in another thread, and only these two may be called meanwhile."""

    def __init__(
        self, store: Log, files: Files, path: str, identity: Identity, settings: Settings,
        *, rows_max: int = HISTORY_ROWS_MAX,
    ) -> None:  # fmt: skip
        """Find the existing files; nothing is read from the log yet.

        Args:
            path: The data directory of the manager.
            rows_max: Rows of one file.
        """
        self._store = store
        self._files = files
        self._folder = os.path.join(path, FOLDER)
        self._identity = identity
        self._bytes_max = settings.history_bytes_max
        self._rows_max = rows_max
        self._projector: Projector | None = None
        self._marks: deque[tuple[int, int]] = deque(maxlen=HISTORY_NOTES_MAX)
        self._observed: deque[tuple[int, int, Observed]] = deque(maxlen=HISTORY_NOTES_MAX)
        files.make_directory(self._folder)
        self._sizes = self._found()
        last = max(self._sizes, default=None)
        covered = store.recovered.checkpoint_position
        self._life = last.life if last is not None else 1
        self._unwritten: deque[_Part] = deque()
        self._covered = self._filed = self._projected = covered
        if last is not None and last.end > store.position:
            self._life += 1
        elif last is not None:
            self._filed = self._projected = max(last.end, covered)
            if last.end < covered:
                _missing("it was not kept then, or could not be written", last.end, covered)

    @property
    def position(self) -> int:
        """Return the position before which everything is in a file, or reported as missing."""
        return self._unwritten[0].span.start if self._unwritten else self._projected

    @property
    def notes(self) -> int:
        """Return the number of events in memory, which wait even if the log has nothing more to
        report."""
        return len(self._observed) + len(self._unwritten)

    def _found(self) -> dict[Span, int]:
        """Return the whole files and their sizes; unfinished ones are removed."""
        found = {}
        for name in self._files.names(self._folder):
            path = os.path.join(self._folder, name)
            span = span_of(name)
            if name.endswith(UNFINISHED):
                self._files.unlink(path)
            elif span is not None:
                file = self._files.open(path)
                try:
                    found[span] = self._files.size(file)
                finally:
                    self._files.close(file)
        return found

    # ---- the owner's ------------------------------------------------------------------------

    def mark(self, position: int, wall_us: int) -> None:
        """Note that everything before a position had happened at that time."""
        self._marks.append((position, wall_us))

    def observe(self, position: int, wall_us: int, what: Observed) -> None:
        """Note an event without a record, at this position of the log."""
        if self._projected != NEVER:
            self._observed.append((position, wall_us, what))

    def covered(self, position: int) -> None:
        """Note that a checkpoint is in force: after a crash nothing before it can be recovered
        any more."""
        self._covered = position

    def needs(self, base: int, end: int) -> bool:
        """Return True if a part of the log holds messages that the history may still have to
        read."""
        if self._projected == NEVER:
            return False
        if self._projected > max(self._filed, self._covered):
            return True  # after a crash it is all projected again
        return self._projector is None or self._projector.state.space.live_bytes(base, end) > 0

    # ---- in the background --------------------------------------------------------------------

    def project(self, upto: int, wall_us: int) -> None:
        """Project every record before a position, which is durable.

        Args:
            wall_us: The time now: nothing that the files lack had happened by then.
        """
        try:
            self._write_waiting()
            if self._projected < upto or (self._observed and self._projected != NEVER):
                self._project(upto, wall_us)
        except Exception:
            log.exception("the history has failed and is not kept on: see the text below")
            self._projected = NEVER
            self._projector = None
            self._observed.clear()
            self._unwritten.clear()

    def _project(self, upto: int, wall_us: int) -> None:
        projector = self._projector
        if projector is None:
            # The state at the position where the history goes on.
            projector = Projector(self._identity, self._store.read)
            found = self._store.recovered
            projector.restore(found.checkpoint)
            before = self._store.replay(found.checkpoint_position, self._projected)
            for position, payload, _ in before:
                projector.follow(position, payload)
            self._projector = projector
        rows = self._rows()
        start = self._projected
        upto = max(upto, start)
        for position, payload, damaged in self._store.replay(start, upto):
            if rows.count >= self._rows_max:
                self._write(rows, start, position, projector.wall_us)
                rows, start = self._rows(), position
            self._observe_before(position, rows)
            marks = self._marks
            while marks and marks[0][0] <= position:
                marks.popleft()
            durable_us = marks[0][1] if marks else 0
            projector.take(position, payload, rows, durable_us, damaged)
        self._observe_before(upto + 1, rows)
        self._write(rows, start, upto, wall_us)

    def _rows(self) -> FileEvents:
        return FileEvents(self._identity.name, self._identity.guid)

    def _observe_before(self, position: int, rows: FileEvents) -> None:
        observed = self._observed
        while observed and observed[0][0] < position:
            at, wall_us, what = observed.popleft()
            rows.add(
                Event(
                    what.what.value, at, 0, wall_us, True, what.count,
                    LaneRange(0, 0, 0, "", what.key),
                    source=what.source, stream=what.stream, number=what.number, observed=True,
                )
            )  # fmt: skip

    # ---- files ----------------------------------------------------------------------------------

    def _write(self, rows: FileEvents, start: int, end: int, wall_us: int) -> None:
        """Make a part durable behind all that wait, or let it wait as well."""
        if start == end and not rows.count:
            return
        assert self._projector is not None, "it has made the rows"
        span = self._span(start, end)
        meta = {
            "version": VERSION, "manager": self._identity.name,
            "managerId": guid_text(self._identity.guid), "life": span.life, "from": span.start,
            "to": span.end, "upTo": wall_us, STARTS: [one.plain() for one in rows.starts],
            ACTS: self._projector.acts,
        }  # fmt: skip
        table = rows.table().replace_schema_metadata({META: json.dumps(meta)})
        sink = pa.BufferOutputStream()
        pq.write_table(
            table, sink, compression="zstd", use_dictionary=True, write_page_checksum=True
        )
        self._unwritten.append(_Part(span, rows.count, memoryview(sink.getvalue())))
        self._projected = end
        if len(self._unwritten) == 1:
            self._write_waiting()
        while sum(len(part.data) for part in self._unwritten) > HISTORY_UNWRITTEN_BYTES_MAX:
            part = self._unwritten.popleft()
            _missing("too much waits for a disk that fails", part.span.start, part.span.end)

    def _span(self, start: int, end: int) -> Span:
        """Return a name that no file and no part has."""
        if start < end:
            return Span(self._life, start, end)
        taken = [*self._sizes, *(part.span for part in self._unwritten)]
        last = max((span.part for span in taken if span.end == end), default=0)
        return Span(self._life, end, end, 1 + last)

    def _write_waiting(self) -> None:
        """Write what waits, in order, as far as the disk lets us."""
        while self._unwritten:
            part = self._unwritten[0]
            try:
                self._place(part)
            except StorageFailure as error:
                log.warning(
                    "a part of the history cannot be written now: rows=%d from=%d to=%d reason=%s",
                    part.rows, part.span.start, part.span.end, error.text,
                )  # fmt: skip
                return
            self._sizes[part.span] = len(part.data)
            self._filed = part.span.end
            self._unwritten.popleft()

    def _place(self, part: _Part) -> None:
        """Write a file that is whole and durable under its name; raises StorageFailure.

        A retry repeats all of it: a sync that failed once covers nothing later.
        """
        path = os.path.join(self._folder, part.span.name)
        self._make_room(len(part.data))
        if self._files.exists(path + UNFINISHED):
            self._files.unlink(path + UNFINISHED)
        file = self._files.open(path + UNFINISHED, create=True)
        try:
            self._files.write(file, 0, [part.data])
            self._files.sync(file)
        finally:
            self._files.close(file)
        self._files.rename(path + UNFINISHED, path)
        self._files.sync_directory(self._folder)

    def _make_room(self, size: int) -> None:
        """Remove the oldest files, so that all of them together keep to their bound."""
        total = sum(self._sizes.values()) + size
        for span in sorted(self._sizes):
            if total <= self._bytes_max:
                break
            try:
                self._files.unlink(os.path.join(self._folder, span.name))
            except StorageFailure as error:
                log.warning("an old part of the history stays: %s", error.text)
                break
            total -= self._sizes.pop(span)


def _missing(reason: str, start: int, end: int) -> None:
    log.warning("a part of the history is missing: from=%d to=%d reason=%s", start, end, reason)


def keeper(store: Any, files: Files, path: str, identity: Identity, settings: Settings) -> Keeper:
    """Return the keeper; ``service.history`` loads this function by name."""
    return Keeper(store, files, path, identity, settings)
