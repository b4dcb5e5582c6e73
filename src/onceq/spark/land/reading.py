"""Landed tables read back: the rows' identity, for the landing's own proof and for audits.

Nothing here needs Spark. A table is opened by what its landing has left in it (``memory``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from onceq.audit.landed import DIFFERENT, IDENTIFIED, SUM, Landed
from onceq.spark.land.memory import DRAINED, FORMAT, HIDDEN
from onceq.spark.land.plan import ERRORS, IDENTITY, LIBRARIES, Plan
from onceq.spark.land.tables import Table, open_errors, open_table
from onceq.spark.targets import targets_of, wrong

if TYPE_CHECKING:
    import pyarrow as pa

BODY = "body"
_ANYWHERE = "localhost:1"
"""Queues of a plan may have no address; here nobody is asked anything."""


def rows_of(table: Table, names: Sequence[str], prefix: str = "") -> Iterator[pa.RecordBatch]:
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
    plan = Plan(
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
    committed = _committed(to)
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
            f"{folder} is no table that onceq spark land or drain has written: {said}; name the "
            "folder of its --to (the table of bad rows is read with it)"
        ) from None
    except (OSError, ValueError) as error:
        raise wrong(f"{path} cannot be read ({error}); copy the table again") from None
    if kept["format"] > FORMAT:
        raise wrong(f"a newer onceq has landed in {folder}; audit it with that one")
    return kept


def _committed(to: Path) -> int:
    path = to / HIDDEN / "done.json"
    try:
        return int(json.loads(path.read_text())["total"])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError) as error:
        raise wrong(f"{path} cannot be read ({error}); copy the table again") from None


def _read(folder: str, table: Table, prefix: str, there: Sequence[str]) -> Iterator[pa.RecordBatch]:
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
