"""What simulated applications ask most often."""

from __future__ import annotations

from collections.abc import Callable

from onceq.core.inputs.inputs import Receive, Send, SendItem


def peek(name: str, after: int) -> Callable[[int, int], Receive]:
    """Look at some messages behind a place."""
    return lambda owner, request: Receive(owner, request, name, count_max=5, peek=True, after=after)


def send(number: int, items: tuple[SendItem, ...]) -> Callable[[int, int], Send]:
    """Send, in a transaction or (0) in none."""
    return lambda owner, request: Send(owner, request, number, items)
