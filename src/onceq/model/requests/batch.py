"""What an application sends in one call: a batch, with its properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceq.errors import IllegalPropertyId, IllegalPropertyValue
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.record import MutableRecord, field, names
from onceq.model.requests.request import is_text, quoted
from onceq.model.run import Run

AGE_S_MAX: Final = 30 * 24 * 3600
"""How long ago a message of a commit can have been sent; lifetimes count from there."""
_NAMES: Final = frozenset(names(Properties))
_TEXTS: Final = ("label", "admin_queue", "response_queue", "dead_letter_queue")
_BYTES: Final = ("correlation_id", "extension")
_CHOICES: Final = (("delivery", Delivery), ("acknowledge", Acknowledge), ("journal", Journal))


class SendItem(MutableRecord):
    """Messages of one batch: the same destination and properties, different bodies.

    Attributes:
        destination: Format name with one or more elements, as the application gave it.
        properties: Those of ``values``, once they are checked.
        age_s: Seconds since the application called send (lifetimes count from there).
        own: Headers of the messages' own (``packet/own.py``), one for each body; None: label and
            the like are those of ``properties`` for all of them.
        values: Properties by their names, as the application gave them.
    """

    destination: str
    properties: Properties
    bodies: Run
    age_s: int = 0
    own: Run | None = None
    values: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse properties that cannot be; see ``Request.check``."""
        if self.values:
            self.properties = properties_of(self.values)
        if self.age_s:
            self.age_s = min(max(self.age_s, 0), AGE_S_MAX)


def properties_of(values: Mapping[str, Any]) -> Properties:
    """Message properties from their names and values.

    Raises:
        IllegalPropertyId: There is no such property.
        IllegalPropertyValue: Its value is of a wrong type or out of range.
    """
    if not values:
        return PLAIN
    unknown = values.keys() - _NAMES
    if unknown:
        raise IllegalPropertyId(f"there is no message property {quoted(min(unknown))}")
    for name, value in values.items():
        if name in _TEXTS:
            good = isinstance(value, str) and is_text(value)
        elif name in _BYTES:
            good = isinstance(value, bytes)
        else:
            good = isinstance(value, int) or (name == "priority" and value is None)
        if not good:
            raise IllegalPropertyValue(f"property {name} cannot be {quoted(value)}")
    found = dict(values)
    acknowledge, journal = found.get("acknowledge", 0), found.get("journal", 0)
    if acknowledge & ~15 or journal & ~3:
        raise IllegalPropertyValue(
            f"acknowledge is a sum of 1, 2, 4 and 8 and journal of 1 and 2, not {acknowledge} and "
            f"{journal}"
        )
    try:
        # To make one of a choice costs more than all the rest: only where something is said.
        for name, kind in _CHOICES:
            if name in found:
                found[name] = kind(found[name])
        return Properties(**found)
    except ValueError as error:
        raise IllegalPropertyValue(str(error)) from None
