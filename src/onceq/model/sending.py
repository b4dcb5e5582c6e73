"""What may be sent to, and in which order: rules about names alone (FN-2, FN-13).

The queue manager and the Spark operators both decide by these.

Upholds: I2 (a send is refused as a whole).
"""

from __future__ import annotations

from collections.abc import Iterable

from onceq.errors import (
    IllegalFormatName,
    TransactionUsage,
    UnsupportedFormatName,
    UnsupportedOperation,
)
from onceq.model.limits import FORMAT_NAME_ELEMENTS_MAX
from onceq.model.names import FormatName, Kind, parse_any


def elements_of(text: str) -> tuple[FormatName, ...]:
    """The names that a destination consists of.

    Raises:
        IllegalFormatName, IllegalPathName: It is no name, or has too many elements.
    """
    elements = parse_any(text)
    if len(elements) > FORMAT_NAME_ELEMENTS_MAX:
        raise IllegalFormatName(f"{len(elements)} elements; at most {FORMAT_NAME_ELEMENTS_MAX}")
    return elements


def in_order(names: Iterable[FormatName]) -> list[FormatName]:
    """The order in which destinations of one send are served, by their names only (FN-13)."""
    return sorted(names, key=lambda name: name.key())


def check_send(name: FormatName, *, transactional: bool) -> None:
    """Refuse names that nothing can be sent to.

    Raises:
        TransactionUsage: Multicast, in a transaction.
        UnsupportedOperation, UnsupportedFormatName: Not at all.
    """
    if name.kind is Kind.MULTICAST:
        if transactional:
            raise TransactionUsage(f"{name}: multicast is never part of a transaction (FN-17)")
        raise UnsupportedOperation(f"{name}: onceq does not do multicast")
    may_send(name)
    if name.kind is Kind.CONNECTOR:
        raise UnsupportedOperation(f"{name}: there are no connectors to foreign systems")


def may_send(name: FormatName) -> None:
    """Refuse what applications cannot send to: read-only queues, connectors, subqueues.

    Raises:
        UnsupportedFormatName: The name is legal, but not for this (FN-2).
    """
    if name.is_read_only or name.kind is Kind.MACHINE:
        raise UnsupportedFormatName(f"{name} is read-only: applications cannot send to it")
    if name.kind is Kind.CONNECTOR:
        raise UnsupportedFormatName(f"{name}: only queue managers send to a connector queue")
    if name.subqueue:
        raise UnsupportedFormatName(f"{name}: messages enter a subqueue only by a move")
