"""What simulated applications ask most often."""

from __future__ import annotations

from collections.abc import Callable

from onceq.model.requests import MoveMessage, Receive, Reject, Send, SendItem


def peek(name: str, after: int) -> Callable[[int, int], Receive]:
    """Look at some messages behind a place."""
    return lambda owner, request: Receive(
        name, count_max=5, peek=True, after=after, owner=owner, request=request
    )


def send(number: int, items: tuple[SendItem, ...]) -> Callable[[int, int], Send]:
    """Send, in a transaction or (0) in none."""
    return lambda owner, request: Send(number, items, owner=owner, request=request)


def reject(name: str, number: int, lookup: int) -> Callable[[int, int], Reject]:
    """Mark a message that a transaction has received."""
    return lambda owner, request: Reject(name, number, (lookup,), owner=owner, request=request)


def move(name: str, to: str, lookup: int, number: int) -> Callable[[int, int], MoveMessage]:
    """Move a message with the commit of a transaction."""
    return lambda owner, request: MoveMessage(
        name, to, lookup, number, owner=owner, request=request
    )
