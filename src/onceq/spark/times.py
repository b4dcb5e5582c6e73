"""Options that say a time, and the place in a queue that a time means.

Messages of a queue in which everything comes in at its end have arrived in the order of their
places. So the first one of a time is found in some twenty looks, however long the queue is. A clock
that was set back leaves messages whose time is earlier than that of one before them; then one of
several places is found at which the time begins.

Everything here is arithmetic. Upholds: I18 at the connector (a place, and no message, is found).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from onceq.model.numbers import read_number
from onceq.spark.ranges import NOTHING, Sight
from onceq.spark.targets import wrong

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_SPAN: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|h)?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEVER: Final = -1


def span_s(text: str, name: str) -> float:
    """Seconds of ``500ms``, ``30s``, ``15m``, ``1h``, or a number of milliseconds."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise wrong(f"{name} is a time such as 15m, 30s or 500ms, not {text!r}")
    return int(found[1]) * _UNITS[found[2] or "ms"] / 1_000


def second_of(text: str, name: str) -> int:
    """The second since 1970 of milliseconds since then, or of an ISO 8601 text with its zone. Parts
    of a second are cut off, as queue managers do with the time of an arrival."""
    number = read_number(text.strip(), 10**15 - 1)
    if number is not None:
        return number // 1_000
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        when = None
    if when is None or when.tzinfo is None or when < _EPOCH:
        raise wrong(
            f"{name} is milliseconds since 1970, or a time with its zone such as "
            f"2026-11-24T05:00:00Z, not {text!r}"
        )
    return (when - _EPOCH) // timedelta(seconds=1)


def place_before(sight: Sight, second: int, next_behind: Callable[[int], tuple[int, int] | None]
                 ) -> int:  # fmt: skip
    """The place before the first message that arrived in a second or later; the end of the queue if
    there is none.

    Args:
        next_behind: Lookup identifier and arrival of the next message behind a place; None: there
            is none that can be seen.
    """
    if not sight.first:
        return NOTHING
    low, high = sight.first - 1, sight.last
    while low < high:
        middle = (low + high) // 2
        found = next_behind(middle)
        if found is None or found[1] >= second:
            high = middle
        else:
            low = max(found[0], low + 1)
    return low
