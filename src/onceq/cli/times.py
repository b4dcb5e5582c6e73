"""Times as people write them on a command line: ``10m``, ``2026-12-01T08:00``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from onceq.errors import IllegalPropertyValue
from onceq.model.numbers import read_number

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_NUMBER_MAX: Final = 999_999_999


def length(option: str, text: str) -> timedelta:
    """A length of time: seconds, or a number with s, m, h or d.

    Raises:
        IllegalPropertyValue: It is none; the text names the option.
    """
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    number = read_number(digits, _NUMBER_MAX)
    if number is None:
        raise IllegalPropertyValue(
            f"{option} {text!r}: write a number of seconds, or one with s, m, h or d, such as 10m"
        )
    return timedelta(seconds=number * unit)


def moment(option: str, text: str) -> datetime:
    """A point in time, as ISO 8601 has it; without a time zone it is the local one.

    Raises:
        IllegalPropertyValue: It is none, or the local clock shows it twice or never; the text
            names the option.
    """
    try:
        said = datetime.fromisoformat(text)
        found = said.astimezone()
        other = said.replace(fold=1).astimezone()
    except (ValueError, OverflowError):
        raise IllegalPropertyValue(
            f"{option} {text!r}: write a date and a time, such as 2026-12-01T08:00, which is local "
            "time, or 2026-12-01T08:00Z"
        ) from None
    if said.tzinfo is None and found.utcoffset() != other.utcoffset():
        # The clock changes there: it leaves this time out, or shows it twice (finding K16).
        left_out = found.replace(tzinfo=None) != said
        raise IllegalPropertyValue(
            f"{option} {text!r}: the local clock shows that {'never' if left_out else 'twice'}; "
            f"say {min(found, other).isoformat()} or {max(found, other).isoformat()}"
        )
    return found
