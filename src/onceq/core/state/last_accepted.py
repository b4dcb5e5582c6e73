"""Which messages were accepted last in each incoming stream: a repetition is the same message.

A number at or below the last one accepted is a repetition only if the message has the identifier of
the one that was accepted under it. If it has another, two managers give numbers as one: a copy, or
a backup that went on with the numbers of another life. To acknowledge it would be to lose it.

Running tables, but for the last message of each stream (``Progress.message``, durable).

Upholds: I7, I9 (what was not accepted is not acknowledged), I24 (bounded), I25.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass

from onceq.core.state.queues import Progress
from onceq.model.limits import ACCEPTED_NUMBERS_MAX, ACCEPTED_STREAMS_MAX


@dataclass(slots=True)
class _Recent:
    """Message numbers of consecutive sequence numbers from ``first`` on; 0: none was accepted."""

    stream: int
    first: int
    messages: array[int]


class Accepted:
    """See the module."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[bytes, str], _Recent] = OrderedDict()

    def note(self, source: bytes, key: str, stream: int, number: int, messages: array[int]) -> None:
        """These messages were accepted under consecutive numbers from ``number`` on."""
        recent = self._recent.get((source, key))
        gap = number - recent.first - len(recent.messages) if recent is not None else 0
        if recent is None or recent.stream != stream or not 0 <= gap <= ACCEPTED_NUMBERS_MAX:
            recent = _Recent(stream, number, array("I"))
            self._recent[source, key] = recent
        # Numbers that were passed over: no message had them.
        elif gap:
            recent.messages.frombytes(bytes(gap * recent.messages.itemsize))
        recent.messages += messages
        over = len(recent.messages) - ACCEPTED_NUMBERS_MAX
        # At twice the number, not at one more: else each message would move all the others.
        if over >= ACCEPTED_NUMBERS_MAX:
            del recent.messages[:over]
            recent.first += over
        self._recent.move_to_end((source, key))
        if len(self._recent) > ACCEPTED_STREAMS_MAX:
            self._recent.popitem(last=False)

    def contradict(self, progress: Progress, number: int, messages: array[int]) -> bool:
        """Whether other messages than these were accepted under the numbers from ``number`` on;
        not if nobody remembers."""
        at = progress.last - number
        if progress.message and 0 <= at < len(messages) and messages[at] != progress.message:
            return True
        recent = self._recent.get((progress.source, progress.key))
        if recent is None or recent.stream != progress.stream:
            return False
        start = max(number, recent.first)
        end = min(number + len(messages), recent.first + len(recent.messages))
        known = recent.messages[start - recent.first : max(end - recent.first, 0)]
        come = messages[start - number : max(end - number, 0)]
        return known != come and any(a and a != b for a, b in zip(known, come, strict=True))
