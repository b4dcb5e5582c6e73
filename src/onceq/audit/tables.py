"""What an audit has found as tables: one row for each copy, violation, and piece of traffic."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit.arrays import NONE, Column, Ints
from onceq.audit.copies import STATES
from onceq.audit.judge import Verdicts
from onceq.audit.measure import Measured

COUNTS = {
    "committed": "committed", "accepted": "accepted", "refused": "refused",
    "acknowledged": "acknowledged", "received": "received", "expired": "expired",
    "rejected": "rejected", "purged": "purged", "deleted": "deleted", "queueEnds": "queue_ends",
    "notDelivered": "not_delivered", "inDoubt": "in_doubt", "removed": "removed",
    "givenUp": "given_up", "confirmed": "confirmed", "notReceived": "not_received",
    "transmitted": "transmitted", "repeated": "repeated",
}  # fmt: skip
"""Columns of ``messages`` that count events, and what they are called in ``Copies``."""
MESSAGES: Final = {
    "source": "string", "stream": "bigint", "number": "bigint", "message": "bigint",
    "sender": "string", "destination": "string", "commitTime": "timestamp",
    "transaction": "bigint", "receiver": "string", "queue": "string", "acceptTime": "timestamp",
    "receiveTime": "timestamp", **dict.fromkeys(COUNTS, "bigint"), "state": "string",
    "route": "string",
}  # fmt: skip
"""Columns of ``messages``, and their SQL types."""
VIOLATIONS: Final = {
    "invariant": "string", "fault": "string", "source": "string", "stream": "bigint",
    "number": "bigint", "message": "bigint", "route": "string", "said": "string",
}  # fmt: skip
"""Columns of ``violated``, and their SQL types."""
TRAFFIC: Final = {"route": "string", "event": "string", "second": "bigint", "messages": "bigint"}
"""Columns of ``points``, and their SQL types."""
_ARROW: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def schema(columns: Mapping[str, str]) -> pa.Schema:
    """Columns with SQL types, as Arrow has them."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])


def messages(found: Measured) -> pa.Table:
    """The ledger: one row for each copy, with its state and the counts behind it."""
    copies = found.copies
    names = [name or copies.parties[at] for at, name in enumerate(copies.known.names[:-1])]
    sender = copies.put.manager
    receiver = copies.taken.manager
    return pa.table(
        {
            "source": _text(copies.parties, copies.source),
            "stream": _whole(copies.stream),
            "number": _whole(copies.number),
            "message": _whole(copies.message),
            "sender": _text(names, sender),
            "destination": _text(copies.queues, copies.put.queue),
            "commitTime": time(copies.put.time),
            "transaction": _whole(copies.put.transaction),
            "receiver": _text(names, receiver),
            "queue": _text(copies.queues, copies.taken.queue),
            "acceptTime": time(copies.taken.time),
            "receiveTime": time(copies.got.time),
            **{name: pa.array(getattr(copies, own), pa.int64()) for name, own in COUNTS.items()},
            "state": _text(STATES, found.state),
            "route": _text(found.routes, found.route),
        }
    )


def violated(found: Measured, verdicts: Sequence[Verdicts]) -> pa.Table:
    """One row for each violation; ``source``, ``stream``, ``number`` and ``message`` join it with
    the rows of ``messages``."""
    parties = found.copies.parties
    parts = [
        pa.table(
            {
                "invariant": pa.array([one.invariant] * len(one), pa.string()),
                "fault": pa.array([one.fault] * len(one), pa.string()),
                "source": pa.array([parties[at] for at in one.source.tolist()], pa.string()),
                "stream": _whole(one.stream),
                "number": _whole(one.number),
                "message": _whole(one.message),
                "route": pa.array(
                    [found.routes[int(found.route[at])] if at >= 0 else None
                     for at in one.copy.tolist()], pa.string(),
                ),
                "said": pa.array([one.told(at) for at in range(len(one))], pa.string()),
            }
        )
        for one in verdicts
    ]  # fmt: skip
    return pa.concat_tables(parts)


def write(folder: str, tables: dict[str, pa.Table]) -> None:
    """All tables into a new folder, or none."""
    try:
        for name, table in tables.items():
            place = os.path.join(folder, name)
            os.makedirs(place)
            pq.write_table(table, os.path.join(place, "part-0.parquet"), compression="zstd")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def points(traffic: Sequence[dict[str, Any]]) -> pa.Table:
    """Traffic as a table."""
    return pa.Table.from_pylist(list(traffic), schema=schema(TRAFFIC))


def _whole(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == NONE)


def time(values: Ints) -> pa.Array:
    """Microseconds as times."""
    return _whole(values).cast(pa.timestamp("us", tz="UTC"))


def _text(texts: Sequence[str], codes: Column) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(texts) or [""], pa.string()))
