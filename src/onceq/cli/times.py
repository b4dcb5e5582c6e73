"""Times as people write them on a command line: ``10m``, ``2026-12-01T08:00``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from onceq.errors import IllegalPropertyValue

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DIGITS_MAX: Final = 9


def length(option: str, text: str) -> timedelta:
    """A length of time: seconds, or a number with s, m, h or d.

    Raises:
        IllegalPropertyValue: It is none; the text names the option.
    """
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not (number.isascii() and number.isdecimal()) or len(number) > _DIGITS_MAX:
        raise IllegalPropertyValue(
            f"{option} {text!r}: write a number of seconds, or one with s, m, h or d, such as 10m"
        )
    return timedelta(seconds=int(number) * unit)


def moment(option: str, text: str) -> datetime:
    """A point in time, as ISO 8601 has it; without a time zone it is the local one.

    Raises:
        IllegalPropertyValue: It is none; the text names the option.
    """
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise IllegalPropertyValue(
            f"{option} {text!r}: write a date and a time, such as 2026-12-01T08:00, which is local "
            "time, or 2026-12-01T08:00Z"
        ) from None
