"""The files of a history: written one after another, each whole or not there, the oldest removed.

A file tells one part of the log, and its name says which. It is written under another name,
synced, renamed, and the directory synced; so after a crash the history goes on behind the last
whole file, and each record is told exactly once. A part that could not be written (a full disk),
or was never projected (the setting was off), is missing between two names, and whoever reads the
history sees that.

A history never stops its manager: what cannot be written is missing, and the log says so.

Upholds: each record once, in files that survive power cuts; the bound on their size.
"""

from __future__ import annotations

import json
import logging
import os.path
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from onceq.core.decision import Observed
from onceq.core.identity import Identity
from onceq.errors import StorageFailure
from onceq.history.columns import FOLDER, META, VERSION, Span, span_of
from onceq.history.events import Event, Place, Rows
from onceq.history.projector import Projector
from onceq.model.identity import guid_text
from onceq.model.limits import HISTORY_NOTES_MAX, HISTORY_ROWS_MAX, Settings
from onceq.model.run import Buffer
from onceq.store.contract import Recovered
from onceq.store.files import Files

log = logging.getLogger("onceq")

UNFINISHED: Final = ".new"
NEVER: Final = 1 << 62


class Log(Protocol):
    """What a history reads: ``store.log.LogStore``."""

    @property
    def recovered(self) -> Recovered:
        """What was found when it was opened."""

    @property
    def position(self) -> int:
        """Where it ends."""

    def replay(self, start: int, end: int) -> Iterator[tuple[int, memoryview]]:
        """Its records between two positions."""

    def read(self, address: int, size: int) -> Buffer:
        """Bytes of a message."""


class Keeper:
    """See the module. ``mark`` and ``observe`` are the owner's; ``project`` may run in another
    thread, and nothing else but these two meanwhile."""

    def __init__(
        self, store: Log, files: Files, path: str, identity: Identity, settings: Settings,
        *, rows_max: int = HISTORY_ROWS_MAX,
    ) -> None:  # fmt: skip
        """Look at what is there; nothing is read from the log yet.

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
        self.position = covered
        """Everything before it is in a file, or told as missing."""
        if last is not None and last.end > store.position:
            self._life += 1
        elif last is not None:
            self.position = max(last.end, covered)

    def _found(self) -> dict[Span, int]:
        """The whole files and their sizes; what was never finished is removed."""
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
        """Everything before a position had happened at that time."""
        self._marks.append((position, wall_us))

    def observe(self, position: int, wall_us: int, what: Observed) -> None:
        """Something happened without a record, when the log was there."""
        self._observed.append((position, wall_us, what))

    def needs(self, base: int, end: int) -> bool:
        """Whether a part of the log holds messages that the history may have to look at yet."""
        if self.position == NEVER:
            return False
        return self._projector is None or self._projector.state.space.live_bytes(base, end) > 0

    # ---- in the background --------------------------------------------------------------------

    def project(self, upto: int, wall_us: int) -> None:
        """Tell every record before a position, which is durable.

        Args:
            wall_us: The time now: nothing that the files lack had happened by then.
        """
        if self.position >= upto:
            return
        try:
            self._project(upto, wall_us)
        except Exception:
            log.exception("the history has failed and is not kept on: see the text below")
            self.position = NEVER
            self._projector = None

    def _project(self, upto: int, wall_us: int) -> None:
        projector = self._projector
        if projector is None:
            projector = self._projector = self._restored()
        rows = self._rows()
        start = self.position
        for position, payload in self._store.replay(start, upto):
            if rows.count >= self._rows_max:
                self._write(rows, start, position, projector.wall_us)
                rows, start = self._rows(), position
            self._observe_before(position, rows)
            projector.take(position, payload, rows, self._time_of(position))
        self._observe_before(upto + 1, rows)
        self._write(rows, start, upto, wall_us)

    def _restored(self) -> Projector:
        """A state as it was where the history goes on."""
        projector = Projector(self._identity, self._store.read)
        found = self._store.recovered
        projector.restore(found.checkpoint)
        for position, payload in self._store.replay(found.checkpoint_position, self.position):
            projector.follow(position, payload)
        return projector

    def _rows(self) -> Rows:
        return Rows(self._identity.name, self._identity.guid)

    def _time_of(self, position: int) -> int:
        """When a record became durable; 0 if that is not known."""
        marks = self._marks
        while marks and marks[0][0] <= position:
            marks.popleft()
        return marks[0][1] if marks else 0

    def _observe_before(self, position: int, rows: Rows) -> None:
        observed = self._observed
        while observed and observed[0][0] < position:
            at, wall_us, what = observed.popleft()
            rows.add(
                Event(
                    what.what.value, at, 0, wall_us, True, what.count, Place(0, 0, 0, "", what.key),
                    source=what.source, stream=what.stream, number=what.number, observed=True,
                )
            )  # fmt: skip

    # ---- files ----------------------------------------------------------------------------------

    def _write(self, rows: Rows, start: int, end: int, wall_us: int) -> None:
        """Make a part durable, or note that it is missing."""
        self.position = end
        span = Span(self._life, start, end)
        data = self._encoded(rows, span, wall_us)
        path = os.path.join(self._folder, span.name)
        self._make_room(len(data))
        try:
            if self._files.exists(path + UNFINISHED):
                self._files.unlink(path + UNFINISHED)
            file = self._files.open(path + UNFINISHED, create=True)
            try:
                self._files.write(file, 0, [data])
                self._files.sync(file)
            finally:
                self._files.close(file)
            self._files.rename(path + UNFINISHED, path)
            self._files.sync_directory(self._folder)
        except StorageFailure as error:
            log.warning(
                "a part of the history is missing: rows=%d from=%d to=%d reason=%s",
                rows.count, start, end, error.text,
            )  # fmt: skip
            return
        self._sizes[span] = len(data)

    def _encoded(self, rows: Rows, span: Span, wall_us: int) -> memoryview:
        meta = {
            "version": VERSION, "manager": self._identity.name,
            "managerId": guid_text(self._identity.guid), "life": span.life, "from": span.start,
            "to": span.end, "upTo": wall_us,
        }  # fmt: skip
        table = rows.table().replace_schema_metadata({META: json.dumps(meta)})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", use_dictionary=True)
        return memoryview(sink.getvalue())

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


def keeper(store: Any, files: Files, path: str, identity: Identity, settings: Settings) -> Keeper:
    """What ``service.history`` loads by name."""
    return Keeper(store, files, path, identity, settings)
