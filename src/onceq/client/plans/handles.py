"""Queues held open (MQOpenQueue), and what is done through their handles."""

from __future__ import annotations

import contextlib
from typing import Final

from onceq import errors
from onceq.client.link import Session, of_parent
from onceq.client.plans.plan import Plan, ask, do, tell
from onceq.client.plans.selection import chosen, some, which
from onceq.errors.base import not_transactional
from onceq.model import requests
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.model.names import Kind, check_send, elements_of
from onceq.model.record import MutableRecord
from onceq.model.requests import Access, Share
from onceq.model.results import Opened
from onceq.packet.arrived import Batch

ACCESS: Final = {
    "receive": Access.RECEIVE,
    "send": Access.SEND,
    "move": Access.MOVE,
    "peek": Access.PEEK,
}
SHARE: Final = {"none": Share.DENY_NONE, "deny-receive": Share.DENY_RECEIVE}


class Handle(MutableRecord):
    """A queue held open.

    Attributes:
        number: Of the handle; 0 once it was closed.
        local: Whether all its queues are of this manager.
        transactional: Whether those of this manager are; None: it has none here.
        places: Opened to send: which queues the name leads to.
        turn: How many have opened it so that others cannot receive.
        life: Of the session, when it was opened.
    """

    session: Session
    name: str
    number: int
    local: bool
    transactional: bool | None
    places: tuple[int, ...]
    turn: int
    life: object

    def check(self, *, alive: bool) -> None:
        """Raises HandleLost if its connection is gone, InvalidHandle if it was closed, WrongProcess
        in a child of the process that has opened it."""
        self.check_process()
        if not self.number:
            raise errors.InvalidHandle(f"queue {self.name} is not open: it was closed")
        if not alive:
            raise errors.HandleLost(
                f"queue {self.name} was open on a connection that is lost; open it again"
            )

    def check_process(self) -> None:
        """Raises WrongProcess in a child of the process that has opened it."""
        if self.life is not self.session.life:
            raise of_parent(f"this handle of queue {self.name}")


def open_queue(
    session: Session, name: str, *, access: str = "receive", share: str = "none", note: str = ""
) -> Plan[Handle]:
    """Hold a queue open (MQOpenQueue).

    Args:
        access: "receive", "peek", "send" or "move" (messages into it).
        share: "none", or "deny-receive" to keep others from receiving.
        note: Who holds it; those who are refused because of that are told.

    Raises:
        SharingViolation, UnsupportedAccessMode, QueueNotFound, UnsupportedFormatName.
    """
    if access not in ACCESS or share not in SHARE:
        raise errors.InvalidParameter(
            f"there is no access {access!r} with share {share!r}; access is one of "
            f"{', '.join(ACCESS)}, share one of {', '.join(SHARE)}"
        )
    request = requests.OpenQueue(name, ACCESS[access], SHARE[share], note)
    life = session.life
    made = yield from ask(request, Opened)
    return Handle(
        session, name, made.handle, made.local, made.transactional, made.places, made.turn, life
    )


def know_destination(session: Session, destination: str) -> Plan[bool | None]:
    """Find out at once, the first time, whether a name can be sent to.

    Every queue of another manager can be: of those only the first is asked about.

    Returns:
        Whether its queues at this manager are transactional; None: it has none here.

    Raises:
        WrongQueueKind: Some are, and others are not: no send reaches all of them.
    """
    if destination in session.destinations:
        return session.destinations[destination]
    kind: bool | None = None
    place = _place(destination)
    if place not in session.foreign:
        request = requests.OpenQueue(destination, Access.SEND)
        opened = yield from ask(request, Opened)
        yield from tell(requests.CloseQueue(opened.handle), lazy=True)
        kind = opened.transactional
        if place and not opened.local:
            session.note_foreign_manager(place)
    session.add_destination(destination, kind)
    return kind


def know_for_transaction(session: Session, destination: str) -> Plan[None]:
    """The same; raises WrongQueueKind if it is not to be sent to in a transaction (Q-4)."""
    if (yield from know_destination(session, destination)) is False:
        raise not_transactional(f"{destination} of {session.name}")


def _place(destination: str) -> str | bytes:
    """What of a destination says at which manager it is, if that says all: any queue that is named
    there is sent to. "" where the manager has to be asked, also for what is wrong with a name."""
    try:
        (name,) = elements_of(destination)
        check_send(name, transactional=False)
    except (errors.OnceqError, ValueError):
        return ""
    if name.kind is Kind.PRIVATE:
        return name.guid
    return f"{name.protocol}:{name.host}".casefold() if name.protocol in ("OS", "TCP") else ""


# ---- through a handle --------------------------------------------------------------------------


def receive(
    handle: Handle,
    *,
    timeout: float | None = None,
    lookup_id: int = 0,
    seek: str = "current",
    correlation_id: bytes | None = None,
    message_id: MessageId | str | None = None,
) -> Plan[Message]:
    """Take one message, at once and for good; chosen as in ``QueueManager.receive``."""
    wanted = which(
        lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
    )
    plan = chosen(handle.session, handle.name, wanted, timeout=timeout, handle=handle.number)
    return (yield from plan)[0]


def peek(
    handle: Handle,
    *,
    timeout: float | None = 0.0,
    lookup_id: int = 0,
    seek: str = "current",
    correlation_id: bytes | None = None,
    message_id: MessageId | str | None = None,
) -> Plan[Message]:
    """Look at one message; chosen as in ``QueueManager.receive``."""
    wanted = which(
        lookup_id=lookup_id, seek=seek, correlation_id=correlation_id, message_id=message_id
    )
    plan = chosen(
        handle.session, handle.name, wanted, timeout=timeout, handle=handle.number, peek=True
    )
    return (yield from plan)[0]


def receive_many(handle: Handle, max: int = 1000, *, timeout: float | None = None) -> Plan[Batch]:
    """Take at least one message and at most ``max``, at once and for good."""
    return some(handle.session, handle.name, count=max, timeout=timeout, handle=handle.number)


def peek_many(
    handle: Handle, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0
) -> Plan[Batch]:
    """Look at messages behind the lookup identifier ``after``."""
    return some(
        handle.session, handle.name, count=max, timeout=timeout, handle=handle.number, peek=True,
        after=after,
    )  # fmt: skip


def close(handle: Handle) -> Plan[None]:
    """Give the handle back; receives that wait through it end with OperationCancelled."""
    number, handle.number = handle.number, 0
    if number:
        with contextlib.suppress(errors.ServiceNotAvailable):
            yield from do(requests.CloseQueue(number))
