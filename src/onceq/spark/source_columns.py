"""The columns of the source: their names and types, and which of them a reader is asked for.

What they are made of is in ``rows.py``. This module imports nothing large, because Spark's driver
imports it to learn the schema.
"""

from __future__ import annotations

from typing import Any, Final

from onceq.spark.options import wrong

COLUMNS: Final = {
    "body": "binary",
    "label": "string",
    "queueManager": "string",
    "queue": "string",
    "lookupId": "bigint",
    "messageId": "binary",
    "correlationId": "binary",
    "sentTime": "timestamp",
    "arrivedTime": "timestamp",
    "class": "int",
    "className": "string",
    "priority": "int",
    "bodyType": "int",
    "appSpecific": "bigint",
    "extension": "binary",
    "streamId": "string",
    "seqNumber": "bigint",
    "prevNumber": "bigint",
    "xactId": "binary",
    "firstInXact": "boolean",
    "lastInXact": "boolean",
    "sourceMachine": "string",
    "destination": "string",
    "responseQueue": "string",
    "adminQueue": "string",
    "abortCount": "int",
    "moveCount": "int",
}
"""Every column and its SQL type, in the order of ``SELECT *``."""

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


def wanted(schema: Any) -> tuple[str, ...]:
    """The names of the columns that a reader is asked for; users prune with ``.schema(...)``.

    Raises:
        ConfigurationError: There is no such column, or it has another type.
    """
    names = []
    for item in schema.fields:
        kind = COLUMNS.get(item.name)
        if kind is None:
            raise wrong(f"there is no column {item.name!r}; there are {', '.join(COLUMNS)}")
        if item.dataType.simpleString() != kind:
            given = item.dataType.simpleString()
            raise wrong(f"column {item.name} is {kind}, not {given}; cast it after reading")
        names.append(item.name)
    return tuple(names)
