"""The rows of a history as they come: files that exist, and those that appear.

Files are whole or not there, and are never changed. Their names give the part of the log that they
cover, so a reader that remembers its last file misses none and reads none twice. The oldest go
first (``history_bytes_max``): a file that goes meanwhile is skipped, and reported.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow.parquet as pq
from pyarrow import ArrowException

from onceq.errors import ConfigurationError
from onceq.history.columns import Span, span_of

ROWS: Final = 1_000
"""In memory at once."""
Row = dict[str, Any]


class Following:
    """One history, read once from somewhere on. It belongs to one thread.

    Args:
        folder: Of its files.
        wanted: Which rows.
        gone: Called with the name of a file that had gone before it was read.
    """

    def __init__(
        self, folder: str, wanted: Callable[[Row], bool], gone: Callable[[str], None]
    ) -> None:
        self._folder, self._wanted, self._gone = folder, wanted, gone
        self._read: Span | None = None

    def last(self, count: int) -> list[Row]:
        """Return the last existing rows; ``new`` goes on behind them.

        Args:
            count: Largest number of rows; 0: none.
        """
        spans = self._spans()
        if spans:
            self._read = spans[-1]
        found: deque[Row] = deque(maxlen=count)
        for span in reversed(spans):
            if len(found) >= count:
                break
            rows = deque(self._rows(span), maxlen=count - len(found))
            found.extendleft(reversed(rows))
        return list(found)

    def new(self) -> Iterator[Row]:
        """Yield the rows since; raises ConfigurationError for a file that is damaged inside."""
        for span in self._spans():
            if self._read is None or span > self._read:
                yield from self._rows(span)
                self._read = span

    def _spans(self) -> list[Span]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:  # it is made with the first file
            return []
        except OSError as error:
            raise ConfigurationError(f"{self._folder} cannot be read: {error.strerror}") from None
        return sorted(span for name in names if (span := span_of(name)) is not None)

    def _rows(self, span: Span) -> Iterator[Row]:
        path = os.path.join(self._folder, span.name)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for batch in file.iter_batches(ROWS):
                    yield from filter(self._wanted, batch.to_pylist())
        except FileNotFoundError:
            self._gone(span.name)
        except (ArrowException, OSError) as error:
            said = " ".join(str(error).split())
            raise ConfigurationError(f"{path} is damaged inside ({said})") from None
