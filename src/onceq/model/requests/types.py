"""Whether what an application says in a request is of the types that the request has.

Where an application is not checked by a type checker, a wrong argument comes as far as this. It
must not come further: a rule of the core has no answer for a number where a name is meant, and a
frame with one is malformed, which costs the whole connection.

Upholds: I24.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from onceq.errors import InvalidParameter
from onceq.model.requests.request import Request, is_text, quoted, said
from onceq.model.requests.transactions import SendItem

_WORDS: Final = {str: "valid text", int: "a whole number", bool: "True or False", bytes: "bytes"}
_Field = tuple[str, tuple[type, ...], tuple[type, ...]]
_FIELDS: Final[dict[type[Request], list[_Field]]] = {}
"""By class of request, made when it is first asked."""
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
"""Of a number that crosses to a daemon."""


def check_types(request: Request) -> None:
    """Refuse a value of a type that its field does not have.

    Raises:
        InvalidParameter: There is one; nothing was asked.
    """
    said = type(request)
    for name, kinds, element in _FIELDS.get(said) or _FIELDS.setdefault(said, _fields(said)):
        value = getattr(request, name)
        kind = type(value)
        # Nearly every value is of these, and this stands in the way of each message.
        if not (
            kind in kinds
            and (value.isascii() if kind is str else kind is not int or value.bit_length() < 64)
        ) and not _fits(value, kinds):
            wanted = " or ".join(_WORDS.get(kind, kind.__name__) for kind in kinds)
            raise InvalidParameter(
                f"{name.rstrip('_')} cannot be {quoted(value)}: it must be {wanted}"
            )
        if element and not all(_fits(one, element) for one in value):
            raise InvalidParameter(f"{name.rstrip('_')} cannot have {quoted(value)} in it")


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    if not isinstance(value, kinds):
        return False
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, bool):  # which is an int for Python, and none in a frame
        return bool in kinds
    return not isinstance(value, int) or _INT_MIN <= value <= _INT_MAX


def _fields(kind: type[Request]) -> list[_Field]:
    """Of each field that an application says: its name, its types, and those of its elements."""
    hints = get_type_hints(kind)
    return [(name, _kinds(hints[name]), _elements(hints[name])) for name in said(kind)]


def _kinds(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, UnionType):
        return tuple(kind for one in get_args(hint) for kind in _kinds(one))
    kind: type = get_origin(hint) or hint
    if kind is Sequence:
        return (list, tuple)
    if issubclass(kind, Enum):
        # One of a choice may be named by its value; ``Request.check`` takes it.
        return (kind, int if issubclass(kind, int) else str)
    return (kind,)


def _elements(hint: Any) -> tuple[type, ...]:
    """Nothing is said of batches: the client has made them itself."""
    if get_origin(hint) is not Sequence:
        return ()
    (element,) = get_args(hint)
    return () if element is SendItem else _kinds(element)
