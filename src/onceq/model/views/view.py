"""What all views have in common.

A view is a frozen record that the core builds, that crosses a connection as a map of field names to
values, and that the client library hands to the application as the same class. Every field has a
default, which stands for what an older queue manager does not say.

Upholds: what is shown is plain: numbers, texts, truth values, and tuples and maps of these.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum

from onceq.model.record import Record, repr_without


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
