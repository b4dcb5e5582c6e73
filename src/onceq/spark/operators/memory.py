"""What an operator remembers of a bucket: one record for each pair of sender and queue.

One table, read and written as a whole with the rows of a micro-batch, so that the state store sees
one value for thousands of streams. The number of buckets stands in it: with another one the keys
would lie elsewhere, and what was decided would be decided again.

Upholds: I24 (one record for each pair).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.spark.operators.parcels import pack, unpack
from onceq.spark.operators.rules import Flags, Ints
from onceq.spark.options import wrong

VERSION: Final = b"1"
KEY: Final = "key"


def _made(table: Any) -> tuple[str, str]:
    """For how many buckets a table was written, and in which format."""
    found = table.schema.metadata or {}
    return found.get(b"buckets", b"?").decode(), found.get(b"version", b"?").decode()


@dataclass(frozen=True, slots=True)
class Memory:
    """Records of a bucket: their keys, and each field as an array."""

    keys: Any
    fields: Mapping[str, Any]

    @classmethod
    def empty(cls, kinds: Mapping[str, Any]) -> Memory:
        """Of a bucket that nothing was seen of; ``kinds``: type of each field."""
        return cls(pa.array([], pa.string()), {n: np.empty(0, kind) for n, kind in kinds.items()})

    @classmethod
    def read(cls, blob: bytes, buckets: int) -> Memory:
        """What ``write`` wrote; raises ConfigurationError if it was for other buckets."""
        table = unpack(blob)
        was, version = _made(table)
        if (was, version) != (str(buckets), VERSION.decode()):
            raise wrong(
                f"this checkpoint was made with buckets={was} and format {version} of the state; "
                f"the operator now has buckets={buckets} and format {VERSION.decode()}. Go back to "
                "these, or begin with a new checkpoint AND a new folder or table: with the old "
                "one a sink would take the first batches for those that it has written"
            )
        return cls._of(table)

    @classmethod
    def opened(cls, blob: Any, place: str) -> Memory:
        """What ``write`` wrote, for however many buckets.

        Args:
            blob: As bytes or a buffer.
            place: Where it comes from, for an error.

        Raises:
            ConfigurationError: It is none, or has another format.
        """
        try:
            table = unpack(blob)
            _, version = _made(table)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise wrong(f"{place} has a state that is none of an operator of onceq") from None
        if version != VERSION.decode():
            raise wrong(
                f"{place} has a state of format {version}, and this version of onceq reads format "
                f"{VERSION.decode()}; read it with the version that made it"
            )
        return cls._of(table)

    @classmethod
    def _of(cls, table: Any) -> Memory:
        fields = {name: table[name].to_numpy() for name in table.column_names if name != KEY}
        return cls(table[KEY].combine_chunks(), fields)

    def write(self, buckets: int) -> bytes:
        """As bytes for the state store."""
        table = pa.table({KEY: self.keys, **self.fields})
        return pack(table.replace_schema_metadata({"version": VERSION, "buckets": str(buckets)}))

    def part(self, keep: Flags) -> Memory:
        """Some of the records."""
        if keep.all():
            return self
        fields = {name: values[keep] for name, values in self.fields.items()}
        return Memory(self.keys.filter(pa.array(keep)), fields)

    def of(self, keys: Any) -> tuple[dict[str, Any], Ints]:
        """The fields of keys, zeros where nothing is known; and their places here, -1 for none."""
        found = pc.index_in(keys, value_set=self.keys)
        at = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        here = at >= 0
        fields = {}
        for name, values in self.fields.items():
            fields[name] = np.zeros(len(keys), values.dtype)
            fields[name][here] = values[at[here]]
        return fields, at

    def after(self, keys: Any, at: Ints, fields: Mapping[str, Any], known: Flags) -> Memory:
        """With those of these keys that are ``known`` as they are now; ``at`` is from ``of``."""
        keep = np.ones(len(self.keys), np.bool_)
        keep[at[at >= 0]] = False
        others = self.part(keep)
        new = keys.filter(pa.array(known))
        joined = {
            name: np.concatenate((values, fields[name][known]))
            for name, values in others.fields.items()
        }
        return Memory(pa.concat_arrays([others.keys, new]), joined)
