"""What bodies have: a schema as a user writes it, and how it may change from run to run.

A schema is kept as Spark's own JSON of a ``StructType``, so that rules about it need no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onceq.spark.land.plan import DATE, Plan
from onceq.spark.targets import wrong

Field = Mapping[str, Any]
"""``name``, ``type`` (a name, or JSON of a nested type), ``nullable``."""


def fields_of(text: str, ddl: Callable[[str], Mapping[str, Any]]) -> list[Field]:
    """The columns that a schema file names.

    Args:
        text: SQL's words, ``id BIGINT NOT NULL, price DOUBLE``, or the JSON of a ``StructType``.
        ddl: Makes that JSON of SQL's words.

    Raises:
        ConfigurationError: It is neither, or names a column twice.
    """
    found: Any
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise wrong(f"the schema is not JSON: {error}") from None
        if found.get("type") != "struct" or not isinstance(found.get("fields"), list):
            raise wrong(
                'the schema is JSON, but not of a StructType ({"type": "struct", "fields": ...}, '
                "as schema.json() of a DataFrame gives it); SQL's words do as well: "
                "id BIGINT NOT NULL, price DOUBLE"
            )
    else:
        found = ddl(text)
    fields: list[Field] = [
        {"name": field["name"], "type": field["type"], "nullable": field.get("nullable", True)}
        for field in found["fields"]
    ]  # fmt: skip
    if not fields:
        raise wrong("the schema names no column")
    for field in fields:
        if _strict_inside(field["type"]):
            raise wrong(
                f"column {field['name']!r} says NOT NULL of something inside it, and that is not "
                "looked at; say it of whole columns only"
            )
    twice = repeated([field["name"] for field in fields])
    if twice:
        raise wrong(f"the schema has a column {twice!r} twice; case makes no difference")
    return fields


def repeated(names: Sequence[str]) -> str:
    """The first name that stood there before, in any case; empty if none did."""
    seen = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return ""


def check_names(plan: Plan, fields: Sequence[Field]) -> None:
    """Columns of the message and of the body in one table; raises ConfigurationError."""
    ours = [plan.prefix + name for name in plan.kept]
    twice = repeated([*ours, *(field["name"] for field in fields)])
    if twice:
        raise wrong(
            f"the schema has a column {twice!r}, and so has the message; --prefix msg_ puts a "
            "word before the names of the message's columns"
        )
    if plan.by_date and repeated([DATE, *ours, *(field["name"] for field in fields)]):
        raise wrong(f"there is a column {DATE!r} already, so there cannot be folders by date")


def check_change(before: Sequence[Field], after: Sequence[Field], *, allowed: bool) -> None:
    """A schema may only get columns that may be null.

    Rows that were landed have none of them, and a column that is left out or has another type
    would give one table two meanings.

    Args:
        allowed: Whether the user has said that columns may be added.

    Raises:
        ConfigurationError: The table cannot go on with this schema.
    """
    now = {field["name"]: field for field in after}
    for field in before:
        name = field["name"]
        if name not in now:
            raise wrong(
                f"the schema has no column {name!r} any more, and the table has it; put it back "
                "into the schema (it is null where bodies lack it), or land in another folder"
            )
        if now[name]["type"] != field["type"]:
            raise wrong(
                f"column {name!r} is {_said(field)} in the table and {_said(now[name])} in the "
                "schema; take the type that it had, or land in another folder"
            )
        if field["nullable"] and not now[name]["nullable"]:
            raise wrong(
                f"column {name!r} may be null in the table and is NOT NULL in the schema; rows "
                "without it may be there already"
            )
    known = {field["name"] for field in before}
    fresh = [field for field in after if field["name"] not in known]
    for field in fresh:
        if not field["nullable"]:
            raise wrong(
                f"the new column {field['name']!r} is NOT NULL, and the rows that were landed "
                "have none; leave NOT NULL out"
            )
    if fresh and not allowed:
        names = ", ".join(field["name"] for field in fresh)
        raise wrong(f"the schema has columns that the table lacks: {names}; --evolve adds them")


def _strict_inside(kind: Any) -> bool:
    if isinstance(kind, list):
        return any(map(_strict_inside, kind))
    if not isinstance(kind, dict):
        return False
    strict = (kind.get(name) is False for name in ("nullable", "containsNull", "valueContainsNull"))
    return any(strict) or any(map(_strict_inside, kind.values()))


def _said(field: Field) -> str:
    kind = field["type"]
    return kind if isinstance(kind, str) else json.dumps(kind)
