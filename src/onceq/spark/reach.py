"""How far a batch goes: up to the limit that was asked for, or to the first locked message.

A message that a transaction holds may come back to its place, so nothing behind it is read before
that is settled. Where nobody has gone from a queue, places are messages, and there is nothing to
ask. Else its queue manager counts (``access.Access.count``); it does so without reading.

Everything here is arithmetic. Upholds: I4 at the connector (a batch ends where its order does).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from onceq.model.views.queues import RangeView
from onceq.spark.ranges import Range, Sight, advance


class Count(Protocol):
    """Counts what stands in a range; ends it behind so many messages or bytes, if not 0."""

    def __call__(self, part: Range, *, messages: int, bytes: int) -> RangeView: ...


def reach(
    begins: Mapping[str, int], ends: Mapping[str, int], sights: Mapping[str, Sight], count: Count,
    *, messages: int, bytes: int,
) -> dict[str, RangeView]:  # fmt: skip
    """What a batch has of each queue.

    Args:
        begins: Place of each queue before the batch.
        ends: The last place that it may have.
        messages: Most messages of all queues together.
        bytes: Most bytes of their packets, which the queues with messages share; 0: no limit. Each
            of these gives one message at least.

    Returns:
        Of each queue how far that is, and how many messages that are. Where there are none,
        ``locked`` says whether it waits for a transaction.
    """

    def upto(key: str, to: int, most: int) -> RangeView:
        after = begins[key]
        if to <= after:
            return RangeView(to=after)
        if sights[key].full_behind(after):
            size = min(to - after, most)
            return RangeView(to=after + size, messages=size)
        return count(Range(key, after, to), messages=most, bytes=0)

    found = {key: upto(key, to, messages) for key, to in ends.items()}
    there = {key: view.messages for key, view in found.items()}
    shares = advance(dict.fromkeys(there, 0), there, messages)
    for key, share in shares.items():
        if 0 < share < there[key]:
            found[key] = upto(key, found[key].to, share)
        elif not share and there[key]:
            found[key] = RangeView(to=begins[key])
    giving = [key for key in sorted(found) if found[key].messages] if bytes else []
    each = max(bytes // max(len(giving), 1), 1)
    for key in giving:
        part = Range(key, begins[key], found[key].to)
        found[key] = count(part, messages=found[key].messages, bytes=each)
    return found
