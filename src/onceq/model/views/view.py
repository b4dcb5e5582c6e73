"""What all views have in common, and what a field says of itself.

A view is a frozen record that the core builds, that crosses a connection as a map of field names to
values, and that the client library hands to the application as the same class. Every field has a
default, which stands for what an older queue manager does not say.

Everything about a field stands in its class. The line under ``Attributes`` gives its meaning; a
``Column`` in its annotation makes it a column of the tables that list such views. The command line,
the console and the reference take columns from here (``columns``), and the core takes the values of
fields from objects that have them under the same name (``copy_by_name``). So a new column is a new
field of its view, and nothing else.

Upholds: what is shown is plain: numbers, texts, truth values, and tuples and maps of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeVar, get_type_hints

from onceq.model.record import Record, repr_without

T_co = TypeVar("T_co", covariant=True)
LISTS_AT_ONCE: Final = 10
"""Distribution lists on one page: each has up to DIRECTORY_MEMBERS_MAX names."""

Unit = Literal[
    "", "bytes", "moment", "since", "age", "name", "place", "hex", "count", "words", "setting"
]  # fmt: skip
"""What the value of a field is: a number of bytes; a moment, or the time since a moment, both in
seconds since 1970; a number of seconds; a name of a queue; a lookup identifier; a number that is
written in hexadecimal digits; a collection of which only the size is shown (of a map of numbers
their sum); words with commas between them, as a command takes them; the value of a setting.
"": it is shown unchanged."""


class Column(Record, frozen=True):
    """How the tables that list views show a field.

    Attributes:
        title: Head of the column.
        unit: What the values are.
        leaves: On a narrow terminal columns leave in the order of these numbers; 0: this one stays.
            If no column of a table has a number, they leave from the last one to the second.
        shortens: When its short form is taken, in the same order; 0: it has none.
        cut: Whether its texts may be cut short.
        rare: Whether a table has it only if a row has something in it.
        empty: What is shown where there is nothing.
    """

    title: str
    unit: Unit = ""
    leaves: int = 0
    shortens: int = 0
    cut: bool = False
    rare: bool = False
    empty: str = "-"


class View(Record, frozen=True):
    """The base class of what a queue manager tells of itself.

    A field is an attribute, ``view.messages``; it can be read by its name too,
    ``view["messages"]``, and ``as_dict`` gives all of them.
    """

    __repr__ = repr_without()

    def __getitem__(self, name: str) -> object:
        """The value of a field; raises KeyError, which names the fields, if there is no such."""
        if name not in self.__struct_fields__:
            fields = ", ".join(self.__struct_fields__)
            raise KeyError(f"a {type(self).__name__} has no field {name!r}; it has {fields}")
        value: object = getattr(self, name)
        return value

    def __contains__(self, name: object) -> bool:
        """Whether there is a field of this name."""
        return name in self.__struct_fields__

    # Python would go through items 0, 1, 2 ... of what can be read by name.
    __iter__ = None

    def as_dict(self) -> dict[str, object]:
        """All fields by name, views in them as maps too and tuples as lists: fit for JSON."""
        return {name: plain(getattr(self, name)) for name in self.__struct_fields__}


class Page(View, Generic[T_co], frozen=True):
    """Some of a list that may be long.

    What is on a page is bounded (``VIEWS_AT_ONCE``). In an order by number or by name, going from
    page to page meets each that was there all the time once, and what comes or goes meanwhile once
    or not at all. What another order has moved meanwhile may be met twice, or not.

    Attributes:
        views: What is on this page, in its order.
        next: What to ask for the next page with; "": this is the last one.
        of: How many there are on all pages; None where nobody has counted them.
    """

    views: tuple[T_co, ...] = ()
    next: str = ""
    of: int | None = None


V = TypeVar("V", bound=View)
_MEANING: Final = re.compile(r"^        (\w[\w, ]*): ((?:.|\n {12})*)", re.MULTILINE)
"""A line under ``Attributes``, and how it goes on."""


def columns(kind: type[View]) -> Mapping[str, Column]:
    """The columns of a view by the names of fields and properties, in their order."""
    hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
    found = {name: hints[name] for name in kind.__struct_fields__}
    for name, one in vars(kind).items():
        if isinstance(one, property):
            found[name] = get_type_hints(one.fget, include_extras=True)["return"]
    return {
        name: extra
        for name, hint in found.items()
        for extra in getattr(hint, "__metadata__", ())
        if isinstance(extra, Column)
    }


def meanings(kind: type[View]) -> Mapping[str, str]:
    """What each field means: its line under ``Attributes``, in the class or one that it extends."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        _, _, lines = (one.__dict__.get("__doc__") or "").partition("Attributes:")
        for names, text in re.findall(
            r"^        (\w[\w, ]*): ((?:.|\n {12})*)", lines, re.MULTILINE
        ):
            found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


_TAKEN: Final[dict[tuple[type, type], Mapping[str, str]]] = {}


def _taken(kind: type[View], source: type) -> Mapping[str, str]:
    """Fields of a view that objects of a class have, with the names of the attributes."""
    if (known := _TAKEN.get((kind, source))) is not None:
        return known
    said = {name for one in source.__mro__ for name in getattr(one, "__annotations__", ())}
    found = {
        name: attribute
        for name in kind.__struct_fields__
        for attribute in (f"{name}_s", name)
        if attribute in said or not callable(getattr(source, attribute, print))
    }
    return _TAKEN.setdefault((kind, source), found)


def copy_by_name(kind: type[V], *sources: Any, **more: Any) -> V:
    """A view whose fields are those of ``more``, and else attributes of the same names, or with
    ``_s`` for seconds behind, of the first of ``sources`` that has them.

    Raises:
        TypeError: A field would have its default, which is for what older managers do not say.
    """
    for source in sources:
        for name, attribute in _taken(kind, type(source)).items():
            if name not in more:
                more[name] = getattr(source, attribute)
    if len(more) < len(kind.__struct_fields__):
        left = ", ".join(name for name in kind.__struct_fields__ if name not in more)
        raise TypeError(f"nobody says what a {kind.__name__} has for {left}")
    return kind(**more)


def plain(value: object) -> object:
    """A value as it crosses a connection: views and dataclasses as maps, tuples as lists, bytes
    as hexadecimal digits."""
    if isinstance(value, View):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.value
    return value
