"""Dates of SRMP: ``YYYYMMDDThhmmss`` in UTC, from and to seconds since 1970."""

from __future__ import annotations

import re
from typing import Final

from onceq.errors import MalformedPacket

FOREVER_S: Final = 0x7FFF_FFFF
"""The end of signed 32-bit time, which means "never"."""
DAY_S: Final = 86_400

_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})T(\d{2}):?(\d{2}):?(\d{2})Z?")


def text_of(seconds: int) -> str:
    """Return a date; a later time than can be written becomes the last one."""
    days, rest = divmod(min(max(seconds, 0), FOREVER_S), DAY_S)
    # Days since 1 March of year 0 (proleptic Gregorian), in eras of 400 years.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    date = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year + era * 400 + (month <= 2)
    hour, rest = divmod(rest, 3_600)
    return f"{year:04}{month:02}{date:02}T{hour:02}{rest // 60:02}{rest % 60:02}"


def seconds_of(text: str) -> int:
    """Return the seconds of a date; raises MalformedPacket."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise MalformedPacket(f"not a date: {text[:40]!r}")
    year, month, date, hour, minute, second = map(int, match.groups())
    if not (1 <= month <= 12 and 1 <= date <= 31 and hour < 24 and minute < 60 and second < 61):
        raise MalformedPacket(f"not a date: {text!r}")
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + date - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return min(max(days * DAY_S + hour * 3_600 + minute * 60 + second, 0), FOREVER_S)
