"""What an operator remembers of a bucket: one record for each pair of sender and queue.

One table, read and written as a whole with the rows of a micro-batch, so that the state store sees
one value for thousands of streams. The number of buckets stands in it: with another one the keys
would lie elsewhere, and what was accepted would be accepted again.

Upholds: I24 (one record for each pair, and those of which nothing is heard any more go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.spark.operators.packing import pack, unpack
from onceq.spark.operators.rules import Flags, Ints, Streams
from onceq.spark.options import wrong

VERSION: Final = b"1"
NEVER_RETIRED: Final = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """Records of a bucket, one place in all arrays for each key.

    Attributes:
        streams: The stream that the key is in.
        lasts: The last number accepted, or given, in it.
        seen: When a row of the key was last seen: seconds since 1970.
    """

    keys: Any
    streams: Streams
    lasts: Ints
    seen: Ints

    @classmethod
    def empty(cls) -> Memory:
        """Of a bucket that nothing was seen of."""
        none = np.empty(0, np.int64)
        return cls(pa.array([], pa.string()), none.astype(np.uint64), none, none)

    @classmethod
    def read(cls, blob: bytes, buckets: int) -> Memory:
        """What ``write`` wrote; raises ConfigurationError if it was for other buckets."""
        table = unpack(blob)
        found = table.schema.metadata or {}
        if found.get(b"version") != VERSION or found.get(b"buckets") != b"%d" % buckets:
            was = found.get(b"buckets", b"?").decode(), found.get(b"version", b"?").decode()
            raise wrong(
                f"this checkpoint was made with buckets={was[0]} and format {was[1]} of the state; "
                f"the operator now has buckets={buckets} and format {VERSION.decode()}. Go back to "
                "these, or begin a new checkpoint"
            )
        return cls(
            table["key"].combine_chunks(),
            table["stream"].to_numpy(),
            table["last"].to_numpy(),
            table["seen"].to_numpy(),
        )

    def write(self, buckets: int) -> bytes:
        """As bytes for the state store."""
        table = pa.table(
            {"key": self.keys, "stream": self.streams, "last": self.lasts, "seen": self.seen}
        )
        return pack(table.replace_schema_metadata({"version": VERSION, "buckets": str(buckets)}))

    def without_old(self, now_s: int, retire_after_s: int) -> Memory:
        """What is left when streams are forgotten of which nothing was heard for so long."""
        if retire_after_s == NEVER_RETIRED or not len(self.seen):
            return self
        return self._part(self.seen > now_s - retire_after_s)

    def _part(self, keep: Flags) -> Memory:
        if keep.all():
            return self
        kept = self.keys.filter(pa.array(keep))
        return Memory(kept, self.streams[keep], self.lasts[keep], self.seen[keep])

    def of(self, keys: Sequence[str]) -> tuple[Streams, Ints, Ints]:
        """Streams and last numbers of keys, zeros where nothing is known; and their places here,
        -1 for none."""
        found = pc.index_in(pa.array(keys, pa.string()), value_set=self.keys)
        at = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        streams, lasts = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.int64)
        here = at >= 0
        streams[here], lasts[here] = self.streams[at[here]], self.lasts[at[here]]
        return streams, lasts, at

    def after(
        self, keys: Sequence[str], at: Ints, streams: Streams, lasts: Ints, now_s: int
    ) -> Memory:
        """With these keys as they are now; those in no stream yet are not remembered."""
        keep = np.ones(len(self.seen), np.bool_)
        keep[at[at >= 0]] = False
        others = self._part(keep)
        known = lasts > 0
        seen = np.full(int(known.sum()), now_s, np.int64)
        return Memory(
            pa.concat_arrays([others.keys, pa.array(keys, pa.string()).filter(pa.array(known))]),
            np.concatenate((others.streams, streams[known])),
            np.concatenate((others.lasts, lasts[known])),
            np.concatenate((others.seen, seen)),
        )
