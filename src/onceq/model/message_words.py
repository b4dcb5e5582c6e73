"""Numbers of a message's properties in words: for people, where programs get the numbers."""

from __future__ import annotations

from onceq.model.classes import MessageClass, class_name
from onceq.model.json_body import BODY_TYPE
from onceq.model.letters import CAUSES
from onceq.model.message import Acknowledge, Journal


def in_words(name: str, value: int) -> str | None:
    """What a property says; None: its number says it, or its time.

    Args:
        name: Of the property, as ``Message`` has it.
    """
    if name == "message_class":
        return f"{class_name(value)} ({value:#06x})"
    if name == "note":
        return CAUSES.get(value) or (class_name(value) if value in _CLASSES else None)
    if name == "acknowledge":
        return _flags(Acknowledge(value))
    if name == "journal":
        return _flags(Journal(value))
    if name == "body_type":
        return "JSON" if value == BODY_TYPE else f"{value:#06x}"
    if name == "stream":
        return f"{value:#018x}"
    return None


_CLASSES = frozenset(map(int, MessageClass))


def _flags(value: Acknowledge | Journal) -> str:
    """The names of what is in it."""
    names = [one.name.lower().replace("_", "-") for one in type(value) if one in value and one.name]
    return ", ".join(names) or "none"
