"""Whether a table has each message once: counted by what tells messages apart.

The rows are read back by a library that wrote none of them (``tables``), and nothing of what the
landing remembers is used but the number that it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from onceq.model.spelling import local
from onceq.model.wording import plural
from onceq.spark.land.plan import IDENTITY

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ID_BYTES: Final = 20
_LOW: Final = (1 << 32) - 1
COUNTED: Final = tuple(name for name in IDENTITY if name != "lookupId")
"""A message that came back to its queue has another place, and is the same message."""


@dataclass(frozen=True)
class Count:
    """Rows of a table, and how many of them are a message's second row or a later one."""

    rows: int = 0
    twice: int = 0


@dataclass(frozen=True)
class Proof:
    """What was read back.

    Attributes:
        committed: Messages of batches that are done.
        rows, bad: Rows of the table and of the error table.
        twice: Rows, of both together, of messages that have one already.
        readers: What read them.
    """

    committed: int
    rows: int
    bad: int
    twice: int
    readers: str

    @property
    def holds(self) -> bool:
        """Each message is one row."""
        return not self.twice and self.rows + self.bad == self.committed

    def sentence(self) -> str:
        """The verdict for people."""
        bad = f" and {plural(self.bad, 'bad row')}" if self.bad else ""
        twice = f"{self.twice:,} TWICE" if self.twice else "none twice"
        gone = self.committed - self.rows - self.bad + self.twice
        odd = ""
        if gone > 0:
            odd = f", {gone:,} MISSING (removed from the table since, or lost)"
        elif gone < 0:
            odd = f", {-gone:,} that no batch counts"
        return (
            f"{self.committed:,} committed, {plural(self.rows, 'row')}{bad}, {twice}{odd} "
            f"(read back by {self.readers})"
        )


def count(batches: Iterable[pa.RecordBatch], names: Sequence[str] = COUNTED) -> Count:
    """Count rows, and those of messages that have one already.

    Args:
        names: The columns of queue manager, queue and message identifier, in this order.
    """
    import numpy as np

    places: dict[tuple[str, str], int] = {}
    rows = 0
    keys = [np.zeros((0, 3), np.uint64)]
    for batch in batches:
        rows += batch.num_rows
        # Rows that others have added may be of no message.
        known = batch.filter(batch.column(names[-1]).is_valid())
        if known.num_rows:
            keys.append(_keys(known, names, places))
    found = np.concatenate(keys)
    order = np.lexsort(found.T)
    found = found[order]
    twice = int(np.count_nonzero((found[1:] == found[:-1]).all(axis=1)))
    return Count(rows, twice)


def _keys(
    batch: pa.RecordBatch, names: Sequence[str], places: dict[tuple[str, str], int]
) -> np.ndarray[Any, Any]:
    """Three numbers for each row, which only the same message has: its identifier, its queue."""
    import numpy as np
    import pyarrow as pa

    managers, queues, identifiers = (batch.column(name) for name in names)
    fixed = _fixed(identifiers.cast(pa.binary()))
    size = fixed.offset * ID_BYTES, (fixed.offset + len(fixed)) * ID_BYTES
    raw = np.frombuffer(fixed.buffers()[1], np.uint8)[size[0] : size[1]].reshape(-1, ID_BYTES)
    wide = np.zeros((len(raw), 24), np.uint8)
    wide[:, :ID_BYTES] = raw
    wide[:, ID_BYTES:] = _codes(managers, queues, places).view(np.uint8).reshape(-1, 4)
    return wide.view(np.uint64)


def _fixed(identifiers: pa.Array) -> pa.Array:
    """All of the length that identifiers of messages have; of others a digest."""
    import pyarrow as pa
    import pyarrow.compute as compute

    kind = pa.binary(ID_BYTES)
    if compute.all(compute.equal(compute.binary_length(identifiers), ID_BYTES)).as_py():
        return identifiers.cast(kind)
    return pa.array(
        [
            value if len(value) == ID_BYTES else blake2b(value, digest_size=ID_BYTES).digest()
            for value in identifiers.to_pylist()
        ],
        kind,
    )


def _codes(managers: Any, queues: Any, places: dict[tuple[str, str], int]) -> np.ndarray[Any, Any]:
    """A number for each queue."""
    import numpy as np

    left, right = (column.fill_null("").dictionary_encode() for column in (managers, queues))
    at, of = (c.indices.to_numpy(zero_copy_only=False).astype(np.int64) for c in (left, right))
    pairs, each = np.unique(at << 32 | of, return_inverse=True)
    # A queue may have been named otherwise in a later run.
    named = [local(name) for name in right.dictionary.to_pylist()]
    known = [(left.dictionary[int(pair) >> 32].as_py(), named[int(pair) & _LOW]) for pair in pairs]
    return np.asarray([places.setdefault(place, len(places)) for place in known], np.uint32)[each]
