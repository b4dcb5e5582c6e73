"""Ranges of places in a queue: how one is asked for, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping

from onceq.errors import InvalidParameter
from onceq.model.numbers import read_number
from onceq.model.record import Record, field
from onceq.model.views.view import View


class RangeAsked(Record, frozen=True):
    """Which range a look is about; its text is the name that the request carries.

    Attributes:
        queue: Its name.
        after: Lookup identifier before the first place.
        to: The last place.
        messages: It ends behind so many messages; 0: it does not.
        bytes: It ends before more than so many bytes of packets, but behind one message at least;
            0: it does not.
    """

    queue: str
    after: int
    to: int
    messages: int = 0
    bytes: int = 0

    def text(self) -> str:
        """As a request carries it."""
        return f"{self.after} {self.to} {self.messages} {self.bytes} {self.queue}"

    @classmethod
    def of(cls, text: str) -> RangeAsked:
        """From the form of ``text``; raises InvalidParameter."""
        parts = text.split(" ", 4)
        numbers = [number for part in parts[:4] if (number := read_number(part)) is not None]
        if len(numbers) != 4 or len(parts) != 5:
            raise InvalidParameter(f"{text[:200]!r} is no range of a queue")
        return cls(parts[4], *numbers)


class RangeView(View, frozen=True):
    """What stands in a range of places.

    Attributes:
        to: The last place of it that this is about.
        messages: How many messages are there; what a transaction holds is not among them.
        bytes: Of their packets, if the range has a limit of bytes; else 0.
        locked: Lookup identifier of a message that a transaction holds: the range ends before it;
            0: there is none.
        more: Whether so much had to be looked at that the rest, behind ``to``, is another request.
        ended: How many messages of it are known to have ended since the queue manager was started,
            and were not received, by what became of them: expired, purged, rejected, moved,
            damaged.
    """

    to: int = 0
    messages: int = 0
    bytes: int = 0
    locked: int = 0
    more: bool = False
    ended: Mapping[str, int] = field(default_factory=dict)

    def and_then(self, more: RangeView) -> RangeView:
        """This and what stands behind it, as one."""
        ended = dict(self.ended)
        for how, count in more.ended.items():
            ended[how] = ended.get(how, 0) + count
        return RangeView(
            more.to, self.messages + more.messages, self.bytes + more.bytes, more.locked, more.more,
            ended,
        )  # fmt: skip
