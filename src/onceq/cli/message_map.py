"""A message as a map, for JSON and for the facts that a command shows of it."""

from __future__ import annotations

import base64
from contextlib import suppress
from enum import Enum
from typing import Any

from onceq.errors import BodyNotJson
from onceq.model.classes import class_name
from onceq.model.identity import NO_GUID
from onceq.model.message import NO_CORRELATION, Message
from onceq.model.record import names


def as_map(message: Message) -> dict[str, Any]:
    """A message for JSON: its body as text, or in base64 if it is none; ``json`` is its value, if
    its sender says that it has one."""
    found: dict[str, Any] = {}
    for name in names(Message):
        value = getattr(message, name)
        if name == "body":
            try:
                found["body"] = value.decode()
            except UnicodeDecodeError:
                found["body_base64"] = base64.b64encode(value).decode()
        elif name == "id":
            found["id"] = str(value) if value.source != NO_GUID else ""
        elif name == "correlation_id":
            found[name] = value.hex() if value != NO_CORRELATION else ""
        elif isinstance(value, bytes):
            found[name] = value.hex()
        elif name == "delivery":
            found[name] = value.name.lower()
        elif isinstance(value, Enum):
            found[name] = int(value.value)
        else:
            found[name] = value
    found["class"] = class_name(message.message_class)
    if message.is_json:
        with suppress(BodyNotJson):
            found["json"] = message.json()
    return found
