"""The columns of the source: their names and types, and which of them a reader is asked for.

Who asks for none gets the usual ones, and those are fixed: a query that writes into a table, and a
checkpoint with memory, would break by a column more. What was added later is given to those who
name it. What they are made of is in ``rows.py``. This module imports nothing large, because Spark's
driver imports it to learn the schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from onceq.spark.options import wrong

USUAL: Final = {
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
"""Columns and their SQL types, in the order of ``SELECT *``."""

COLUMNS: Final = {
    **USUAL,
    "transactional": "boolean",
    "timeToReachQueue": "bigint",
    "timeToBeReceived": "bigint",
    "acknowledge": "int",
    "journal": "int",
    "encrypted": "boolean",
    "packetBytes": "bigint",
    "bodyCrc": "bigint",
}
"""Every column that there is."""
SUM: Final = "bodyCrc"
"""Is made of another column, so nobody gets it who does not name it."""
_BY_LETTERS: Final = {name.lower(): name for name in COLUMNS}

OPTION: Final = "columns"
EVERY: Final = "all"


def ddl(names: Any) -> str:
    """The schema of some columns, as Spark understands it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in names)


def asked(given: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the columns that the option ``columns`` asks for; without it the usual ones.

    Args:
        given: Options as Spark has them; names in any case.

    Raises:
        ConfigurationError: There is no such column, or it stands there twice.
    """
    text = next((value for name, value in given.items() if name.lower() == OPTION), None)
    if text is None:
        return tuple(USUAL)
    if text.strip().lower() == EVERY:
        return tuple(name for name in COLUMNS if name != SUM)
    names = [known(name.strip()) for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise wrong(f"{OPTION} is {EVERY}, or names of columns, each once, not {text!r}")
    return tuple(names)


def wanted(schema: Any, given: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the columns that a reader is asked for, by its schema: that of the option
    ``columns``, or one that the user has set. Capitals are as they stand there, because Spark wants
    its columns back as it has named them.

    Raises:
        ConfigurationError: There is no such column, it has another type, or schema and option
            contradict each other.
    """
    names = []
    for item in schema.fields:
        kind = COLUMNS[known(item.name)]
        if item.dataType.simpleString() != kind:
            there = item.dataType.simpleString()
            raise wrong(f"column {item.name} is {kind}, not {there}; cast it after reading")
        names.append(item.name)
    option = any(name.lower() == OPTION for name in given)
    if option and list(asked(given)) != [known(name) for name in names]:
        raise wrong(
            f".schema(...) and the option {OPTION} name different columns; give one of them"
        )
    return tuple(names)


def known(name: str) -> str:
    """A column's own name, whatever the capitals; raises ConfigurationError if there is none."""
    found = _BY_LETTERS.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name, COLUMNS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COLUMNS)}"
        raise wrong(f"there is no column {name!r}; {hint}")
    return found
