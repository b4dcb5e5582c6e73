"""Sequence numbers for what was committed: ``number``.

A receiver tells repetitions and gaps by numbers alone, so a number is for ever: given once, to one
message, in the order of the sender's commits, with the messages of a transaction together and in
the order of their sends. For each pair of sender and queue there is one stream; its memory is
the last number, and the place that has it.

Upholds: I5 (commit order), I7 (numbers are for ever), I8 (true links).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.spark.operators.buckets import BUCKETS, bucketed
from onceq.spark.operators.columns import (
    TEXT,
    WHOLE,
    checked_buckets,
    free,
    need,
    with_columns,
)
from onceq.spark.operators.keys import keyed
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.rules import NUMBER_MAX
from onceq.spark.operators.rules import number as number_rule
from onceq.spark.options import wrong

WHAT: Final = "number"
KEY: Final = ("sourceMachine", "queue")
COLUMNS: Final = {
    "sourceMachine": (TEXT, "who sends it"),
    "queue": (TEXT, "its destination: one queue"),
    "commitOrder": (WHOLE, "its transaction's place among the commits of the sender"),
    "sendOrder": (WHOLE, "its own place in the transaction"),
}
ADDED: Final = {"streamId": "string", "seqNumber": "bigint", "prevNumber": "bigint"}
STAMP_MAX: Final = (1 << 32) - 1
FIRST_ORDINAL: Final = 1


def number(frame: Any, *, stamp: int | None = None, buckets: int = BUCKETS) -> Any:
    """Give messages their stream, sequence number and previous number, in commit order.

    Args:
        frame: Committed messages as rows, one for each destination, a stream or not; columns
            ``COLUMNS``, and any others. A stream brings commits in their order: what comes
            after a later commit to the same queue was numbered gets no number any more.
        stamp: When this numbering began, in seconds since 1970: the upper half of stream
            identifiers. Without it the time of the first micro-batch that has a message of the
            stream, or, for a frame that is no stream, the time of this call.
        buckets: How many tasks can share the work at one time. With a stream it is settled for
            the life of its checkpoint.

    Returns:
        The rows, and columns ``streamId``, ``seqNumber`` and ``prevNumber``. All three are null
        where no number was given: the row repeats one that has its number, or comes too late, or
        lacks its sender, queue or place.

    Raises:
        ConfigurationError: A column is missing, or a parameter makes no sense.
    """
    need(frame, WHAT, COLUMNS)
    free(frame, WHAT, tuple(ADDED))
    if stamp is not None and not 1 <= stamp <= STAMP_MAX:
        raise wrong(f"stamp is a time in seconds from 1 to {STAMP_MAX}, not {stamp}")
    if stamp is None and not frame.isStreaming:
        # Once for the whole frame, however often its tasks are run.
        stamp = int(time.time())
    work = Numbering(stamp, checked_buckets(buckets))
    return bucketed(frame, WHAT, KEY, work, with_columns(frame, ADDED))


class Numbering:
    """What is done with the rows of a bucket."""

    fields: Final[Mapping[str, Any]] = {
        "stream": np.uint64, "last": np.int64, "commit": np.int64, "send": np.int64,
    }  # fmt: skip
    """The stream of a key, the last number given there, and the place that has it."""

    def __init__(self, stamp: int | None, buckets: int) -> None:
        self._stamp = stamp
        self.buckets = buckets

    def done(self, table: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
        """Rows with their numbers, by stream and in order, and what is remembered then."""
        codes, keys, good = keyed(table, KEY)
        commits, fine = _places(table["commitOrder"])
        sends, sound = _places(table["sendOrder"])
        good &= fine & sound
        held, at = memory.of(keys)
        found = number_rule(
            codes[good], commits[good], sends[good], held["last"], held["commit"], held["send"]
        )
        if len(keys) and found.lasts.max() > NUMBER_MAX:
            raise wrong(
                f"a stream has {NUMBER_MAX} messages, and its numbers are used up; begin a new "
                "checkpoint when everything has been acknowledged"
            )
        numbers = np.zeros(table.num_rows, np.int64)
        numbers[good] = found.numbers
        begun = (self._stamp or now_s) << 32 | FIRST_ORDINAL
        streams = np.where(held["stream"] > 0, held["stream"], np.uint64(begun))
        order = np.lexsort((numbers, codes))
        rows = _with_numbers(table.take(pa.array(order)), streams[codes[order]], numbers[order])
        fields = {
            "stream": streams, "last": found.lasts, "commit": found.commits, "send": found.sends,
        }  # fmt: skip
        return rows, memory.after(keys, at, fields, found.lasts > 0)


def _places(column: Any) -> tuple[Any, Any]:
    good = column.is_valid().to_numpy()
    return pc.fill_null(column, 0).to_numpy().astype(np.int64), good


def _with_numbers(table: Any, streams: Any, numbers: Any) -> Any:
    none = numbers == 0
    table = table.append_column("streamId", pa.array(streams, mask=none).cast(pa.string()))
    table = table.append_column("seqNumber", pa.array(numbers, mask=none))
    return table.append_column("prevNumber", pa.array(numbers - 1, mask=none))
