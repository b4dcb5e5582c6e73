"""Bodies that are JSON: from values to bytes, and from bytes to values of a type.

A body that was given as a value says so in its body type, so that whoever looks at the message,
an operator or another program, knows what it is without guessing. The type number is no VARIANT
type: whoever knows only those hands the bytes out as they are. Reading does not depend on it; a
body that another system has sent is JSON if it can be read as that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import MsgspecError
from msgspec.json import decode, encode

from onceq.errors import BodyNotJson, InvalidParameter

BODY_TYPE: Final = int.from_bytes(b"JSON", "little")
"""PROPID_M_BODY_TYPE of a body that is JSON in UTF-8; its four bytes in a packet read ``JSON``."""


def encoded(value: object) -> bytes:
    """A value as JSON in UTF-8.

    Args:
        value: What msgspec encodes: maps, lists, text, numbers, dates, dataclasses, its Structs.
            What JSON has no word for (infinity, not a number) becomes null.

    Raises:
        InvalidParameter: It cannot be said in JSON.
    """
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameter(
            f"a {type(value).__name__} cannot be sent as JSON: {error or type(error).__name__}"
        ) from error


def encoded_each(values: Iterable[object]) -> list[bytes]:
    """Each value of a batch; raises InvalidParameter, which says which one is wrong."""
    if isinstance(values, (str, bytes, bytearray, memoryview, dict)):
        raise InvalidParameter("several values are wanted here, in a list; send takes a single one")
    bodies = []
    for index, value in enumerate(values):
        try:
            bodies.append(encoded(value))
        except InvalidParameter as error:
            raise InvalidParameter(f"message {index} of the batch: {error.text}") from error
    return bodies


def decoded(body: bytes, type: Any, name: str) -> Any:
    """The value that a body is.

    Args:
        type: What it shall be: a class or type that msgspec knows; ``Any`` for whatever it is.
        name: Of the message, for the error.

    Raises:
        BodyNotJson: It is no JSON, or of another type. The text has no content of the body but
            what msgspec says of a value that does not fit.
    """
    try:
        return decode(body, type=type)
    except (MsgspecError, ValueError, RecursionError) as error:
        wanted = "JSON" if type is Any else f"the JSON of a {getattr(type, '__name__', type)}"
        raise BodyNotJson(
            f"the body of {name}, {len(body)} bytes, is not {wanted}: {error}"
        ) from error
