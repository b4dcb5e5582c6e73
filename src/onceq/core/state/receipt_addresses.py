"""Where the streams that came over HTTP want their receipts, and for which queue: durable, one
entry for each.

A head of a stream says it (``sendReceiptsTo``), and it is known as long as the receiver is in that
stream. Of messages of a stream that was left the end may still have to be told: then whatever
their sender has announced last leads to its order queue just as well.

Upholds: I24 (one entry for each sender and queue, however many streams there were).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from onceq.core.state.setups import ReceiptsTo
from onceq.model.limits import STREAMS_MAX


class Receipts:
    """Direct names for receipts, and of the destination queue, by source and stream."""

    def __init__(self) -> None:
        self._names: OrderedDict[tuple[bytes, int], tuple[str, str]] = OrderedDict()
        self._streams: dict[tuple[bytes, str], int] = {}
        self._latest: dict[bytes, int] = {}
        """By source: the stream whose address was learned last."""

    def __len__(self) -> int:
        return len(self._names)

    def apply(self, setup: ReceiptsTo) -> None:
        """Apply a setup."""
        self.learn(setup.source, setup.stream, setup.name, left=setup.left, queue=setup.queue)

    def learn(
        self, source: bytes, stream: int, name: str, *, left: int = 0, queue: str = ""
    ) -> None:
        """Receipts of a stream go to ``name``; ``left`` is the stream to the same queue that it
        takes the place of, ``queue`` the URL of that queue ("" in records of older versions)."""
        if left != stream:
            self._drop(source, left)
        self._names[source, stream] = (name, queue)
        self._streams[source, queue] = stream
        self._names.move_to_end((source, stream))
        self._latest[source] = stream
        if len(self._names) > STREAMS_MAX:
            oldest, number = next(iter(self._names))
            self._drop(oldest, number)
            if self._latest[oldest] == number:
                del self._latest[oldest]

    def _drop(self, source: bytes, stream: int) -> None:
        known = self._names.pop((source, stream), None)
        if known is not None and self._streams.get((source, known[1])) == stream:
            del self._streams[source, known[1]]

    def of_stream(self, source: bytes, stream: int) -> str | None:
        """Where receipts of a stream go; None if it has not said so."""
        found = self._names.get((source, stream))
        return None if found is None else found[0]

    def queue_of(self, source: bytes, stream: int) -> str:
        """The URL of the destination queue of a stream; "" if it is not known."""
        return self._names.get((source, stream), ("", ""))[1]

    def stream_to(self, source: bytes, queue: str) -> int:
        """The stream of a sender to a queue that was learned last; 0 if none was."""
        return self._streams.get((source, queue), 0)

    def of_source(self, source: bytes) -> str | None:
        """The address that a sender has announced last; None if it has announced none."""
        return self.of_stream(source, self._latest.get(source, 0))

    def dump(self) -> list[list[Any]]:
        """For a checkpoint, the one learned last at the end."""
        return [
            [source, stream, name, queue] for (source, stream), (name, queue) in self._names.items()
        ]

    def load(self, values: Iterable[Sequence[Any]]) -> None:
        """From a checkpoint; those of older versions know no queues."""
        for source, stream, name, *queue in values:
            self.learn(bytes.fromhex(source), stream, name, queue="".join(queue))
