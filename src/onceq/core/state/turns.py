"""Whose turn it is to be transmitted, among the outgoing queues that one session serves.

A session may serve thousands of outgoing queues, and asks for packets with each acknowledgment that
it gets. To look into each of the queues every time would cost the square of their number. So a
queue is noted here when something of it may leave, and only those that are noted are looked into:
in the order in which they were noted, each behind the others when it was served. So none is passed
over, however full another one is.

A queue of which nothing more may leave is not noted. It comes back by whatever changes that:
messages come in or are given back, it begins again from the head, or its window moves on. The last
one is not told by a rule of its own: which queues have a full window stands in
``core/step/sessions.py``, and each record that ends a message of one of them lets it come back.

Upholds: I24 (the work of a session does not grow with what it serves), I26 (none waits for ever).
"""

from __future__ import annotations


class Turns:
    """See the module. Numbers of outgoing queues, each once."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def note(self, number: int) -> None:
        """Something of a queue may leave: it comes behind the others, unless it is here."""
        self._numbers.setdefault(number)

    def next(self) -> int:
        """The queue whose turn it is; it is not noted any more."""
        number = next(iter(self._numbers))
        del self._numbers[number]
        return number

    def drop(self, number: int) -> None:
        """A queue is not served by this session any more."""
        self._numbers.pop(number, None)
