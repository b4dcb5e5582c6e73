"""Landed tables read back: for the landing's own proof that each message is there once, and audits.

A library reads the rows that wrote none of them (``tables``), and the proof uses nothing that the
landing remembers but the number that it compares with. Nothing here needs Spark. A table is opened
by what its landing has left in it (``memory``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from onceq.audit.landed import DIFFERENT, IDENTIFIED, SUM, Landed
from onceq.model.names import local
from onceq.model.wording import plural
from onceq.spark.argument_checks import wrong
from onceq.spark.connections import targets_of
from onceq.spark.land.memory import DRAINED, FORMAT, HIDDEN
from onceq.spark.land.plan import ERRORS, IDENTITY, LIBRARIES, LandPlan
from onceq.spark.land.tables import LandTable, open_errors, open_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


BODY = "body"
_ANYWHERE = "localhost:1"
"""Queues of a plan may have no address; here nobody is asked anything."""


def rows_of(table: LandTable, names: Sequence[str], prefix: str = "") -> Iterator[pa.RecordBatch]:
    """Some of a message's columns of all rows, under the message's names.

    Args:
        prefix: Stands before them in the table.
    """
    for batch in table.read([prefix + name for name in names]):
        yield batch.rename_columns(list(names))


def opened(folder: str) -> Landed:
    """A table and its table of bad rows, which are read when they are asked for.

    Raises:
        ConfigurationError: It is none, lacks what tells messages apart, or its library is missing.
    """
    to = Path(folder).absolute()
    kept = _kept(folder, to)
    plan = LandPlan(
        "", kept["queues"], to, kept["table"], body=kept["body"], columns=tuple(kept["columns"]),
        prefix=kept["prefix"], by_date=kept["by_date"], keep=kept["keep"],
    )  # fmt: skip
    library = LIBRARIES.get(plan.table)
    if library and find_spec(library) is None:
        raise wrong(f"{plan.table} needs the package {library}: pip install 'onceq[tables]'")
    lacking = [name for name in IDENTITY if name not in plan.kept]
    if lacking:
        raise wrong(
            f"{folder} has no column {lacking[0]}, so its rows do not say their messages; land "
            f"with all of {', '.join(IDENTITY)}"
        )
    # Before the rows: what is landed meanwhile is more rows, and none that is missing.
    path = to / HIDDEN / "done.json"
    committed = 0
    try:
        committed = int(json.loads(path.read_text())["total"])
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError) as error:
        raise wrong(f"{path} cannot be read ({error}); copy the table again") from None
    reader = str(kept["subscription"])
    table = open_table(plan, reader)
    bad = open_errors(plan, reader) if plan.body else None
    return Landed(
        folder, reader, reader != DRAINED["subscription"], plan.keep,
        tuple(dict.fromkeys(one.queue for one in targets_of(_ANYWHERE, "", plan.queues))),
        committed, table.reader, _read(folder, table, plan.prefix, plan.kept),
        iter(()) if bad is None else _read(str(plan.errors), bad, "", ERRORS),
    )  # fmt: skip


def _sums(batch: pa.RecordBatch) -> pa.Array:
    """The sum of each row's body: of the body itself, and as the row says it; both must agree."""
    import pyarrow as pa

    said = batch.column(SUM).to_pylist() if SUM in batch.schema.names else None
    if BODY not in batch.schema.names:
        return pa.array(said, pa.int64())
    made = [None if body is None else crc32(body) for body in batch.column(BODY).to_pylist()]
    if said is not None:
        pairs = zip(made, said, strict=True)
        made = [one if other in (None, one) else DIFFERENT for one, other in pairs]
    return pa.array(made, pa.int64())


def _kept(folder: str, to: Path) -> dict[str, Any]:
    """What the landing remembers of its plan."""
    path = to / HIDDEN / "plan.json"
    try:
        kept = {**DRAINED, **json.loads(path.read_text())}
    except FileNotFoundError:
        said = "there is no such folder" if not to.is_dir() else f"it has no {HIDDEN}/plan.json"
        raise wrong(
            f"{folder} is no table that onceq spark land has written: {said}; name the "
            "folder of its --to (the table of bad rows is read with it)"
        ) from None
    except (OSError, ValueError) as error:
        raise wrong(f"{path} cannot be read ({error}); copy the table again") from None
    if kept["format"] > FORMAT:
        raise wrong(f"a newer onceq has landed in {folder}; audit it with that one")
    return kept


def _read(
    folder: str, table: LandTable, prefix: str, there: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """What tells messages apart, and the sum of each body, of all rows; raises ConfigurationError.

    Args:
        there: The message's columns that the table has.
    """
    more = [name for name in (BODY, SUM) if name in there]
    try:
        for batch in rows_of(table, [*IDENTITY, *more], prefix):
            told = batch.select(list(IDENTITY)).rename_columns(list(IDENTIFIED))
            yield told.append_column(SUM, _sums(batch)) if more else told
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise wrong(
            f"{folder} cannot be read back by {table.reader} ({said}): a file of it is damaged, "
            "only half there, or not of this table; copy the table again"
        ) from error


ID_BYTES: Final = 20
_LOW: Final = (1 << 32) - 1
COUNTED: Final = tuple(name for name in IDENTITY if name != "lookupId")
"""A message that came back to its queue has another place, and is the same message."""


@dataclass(frozen=True)
class RowCount:
    """Rows of a table, and how many of them are a message's second row or a later one."""

    rows: int = 0
    twice: int = 0


@dataclass(frozen=True)
class LandProof:
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


def count(batches: Iterable[pa.RecordBatch], names: Sequence[str] = COUNTED) -> RowCount:
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
    return RowCount(rows, twice)


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
