"""Structs as JSON: the values of a setup record, and the rows of a checkpoint.

A row is the list of a struct's fields, in their order. A version may add fields with defaults at
the end: it reads the shorter rows of older versions.

Upholds: I23 (a row that does not fit its struct is refused).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from inspect import get_annotations
from typing import Any, Final, TypeVar

from onceq.model.queue import QueueProperties
from onceq.model.record import Struct, convert, names

T = TypeVar("T", bound=Struct)


def as_json(value: object) -> object:
    """What ``json`` writes for a value that it does not know."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct):
        return row_of(value)
    raise TypeError(f"{value!r} has no form in JSON")


encode_rows: Final = json.JSONEncoder(separators=(",", ":"), default=as_json).encode
"""Rows, or a member of a checkpoint, as JSON."""


def row_of(record: Struct) -> list[Any]:
    """The fields of a struct, as a row of a checkpoint has them."""
    return [getattr(record, name) for name in names(type(record))]


def read_row(kind: type[T], row: Iterable[Any]) -> T:
    """Make a struct from its row; raises ValueError."""
    return read_fields(kind, dict(zip(names(kind), row, strict=False)))


def read_fields(kind: type[T], values: Mapping[str, Any]) -> T:
    """Make a struct from its fields as JSON has them; raises ValueError."""
    given = dict(values)
    for name in _bytes_fields(kind):
        if name in given:
            given[name] = bytes.fromhex(given[name])
    return convert(given, kind)


@cache
def _bytes_fields(kind: type[Struct]) -> tuple[str, ...]:
    """The names of the fields that are bytes, which JSON has as hexadecimal digits."""
    hints = {name: hint for one in kind.__mro__ for name, hint in get_annotations(one).items()}
    return tuple(name for name in names(kind) if hints[name] in ("bytes", bytes))


def restore_properties(values: dict[str, Any]) -> QueueProperties:
    """Queue properties from their JSON form."""
    guids = {name: bytes.fromhex(values[name]) for name in ("instance", "type")}
    return QueueProperties(**{**values, **guids})


def dump_properties(properties: QueueProperties) -> dict[str, Any]:
    """Queue properties in JSON form."""
    guids = {"instance": properties.instance.hex(), "type": properties.type.hex()}
    return {f.name: getattr(properties, f.name) for f in fields(properties)} | guids
