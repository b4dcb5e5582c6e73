"""Records: small objects with typed fields, made in great numbers, or of many classes.

They are structs of msgspec and no dataclasses (docs/decisions/0030-structs.md). An interpreter
makes the class of a frozen dataclass in 1.5 ms, the class of a struct in 0.05 ms, and a command
that asks one thing shall not wait for a hundred classes; it makes an object of eight fields in 4 us
and in 0.25 us. The functions of ``dataclasses`` (``fields``, ``asdict``, ``replace``) work with
records, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import Field
from inspect import get_annotations
from typing import Any, ClassVar, cast

from msgspec import Struct as Struct
from msgspec import convert as convert
from msgspec import field as field
from msgspec.structs import force_setattr

REPR_MAX = 200
"""Of a value in a ``repr`` no more characters or bytes are shown; of all three times as many."""
REPR_ITEMS_MAX = 4
"""A collection with more is shown as their number."""


class _Fields:
    """The fields of a class as ``dataclasses`` has them, made when somebody asks for them."""

    def __init__(self) -> None:
        self._made: dict[type[Struct], dict[str, Field[object]]] = {}

    def __get__(self, record: Struct | None, kind: type[Struct]) -> dict[str, Field[object]]:
        return self._made.get(kind) or self._made.setdefault(kind, _fields(kind))


def _fields(kind: type[Struct]) -> dict[str, Field[object]]:
    # Types stand as they are written: some cannot be looked up while a program runs.
    types = {
        name: hint for one in reversed(kind.__mro__) for name, hint in get_annotations(one).items()
    }
    by_position, given = kind.__match_args__, defaults(kind)
    columns: list[tuple[str, Any, Any]] = []
    for name in names(kind):
        how: dict[str, Any] = {"kw_only": name not in by_position}
        if name in given:
            factory = getattr(given[name], "factory", None)  # as msgspec holds one
            how |= {"default": given[name]} if factory is None else {"default_factory": factory}
        columns.append((name, types[name], dataclasses.field(**how)))
    like = dataclasses.make_dataclass(kind.__name__, columns)
    return {one.name: one for one in dataclasses.fields(like)}


def names(kind: type[Struct]) -> tuple[str, ...]:
    """The names of the fields of a record."""
    return kind.__struct_fields__


def defaults(kind: type[Struct]) -> dict[str, Any]:
    """What fields are if nobody says them; a factory as msgspec holds it."""
    values = kind.__struct_defaults__
    return dict(zip(names(kind)[-len(values) :], values, strict=True)) if values else {}


settle = force_setattr
"""For the ``__post_init__`` of a record: sets a field that follows from the others."""


def repr_cut(value: object) -> str:
    """The ``repr`` of a value; of a long one only the beginning, of text or bytes with how much
    there is."""
    if isinstance(value, (bytes, str)) and len(value) > REPR_MAX:
        return f"{value[:REPR_MAX]!r}... ({len(value)})"
    if isinstance(value, (list, tuple, dict)) and len(value) > REPR_ITEMS_MAX:
        return f"<{len(value)} items>"
    return repr(value)


def repr_without(*hidden: str) -> Callable[[Struct], str]:
    """Return a ``__repr__`` that leaves fields out: secrets, bytes that tell a reader nothing, and
    fields with their default. A long value is cut: a body may have megabytes, and a log has lines
    (finding K12)."""

    def write_record(record: Struct) -> str:
        given = defaults(type(record))
        said, left = list[str](), REPR_MAX * 3
        for name in record.__struct_fields__:
            value = getattr(record, name)
            empty = isinstance(value, (tuple, list, dict)) and not value
            if name in hidden or empty or (name in given and value == given[name]):
                continue
            said.append(f"{name}={repr_cut(value)}")
            left -= len(said[-1])
            if left < 0:
                said.append("...")
                break
        return f"{type(record).__name__}({', '.join(said)})"

    return write_record


class _LikeDataclass:
    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[object]]] = cast(Any, _Fields())


class Record(_LikeDataclass, Struct, frozen=True):
    """The base of records that nobody changes."""


class MutableRecord(_LikeDataclass, Struct):
    """The base of records whose fields are set, too."""
