"""Addresses of other managers: one attempt to connect for all outgoing queues that wait for one.

Running tables, written by the room ``transfer``. However many queues lead to an address, it is
connected to once; the result is applied to all of them (``core/transfer/connecting.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

Way = tuple[str, str, bytes, str, str, tuple[str, ...] | None]
"""Protocol, host, GUID and URL of ``Connect``, the name whose manager is pinned, if it is, and the
addresses of ``Connect``: what may go anywhere shares no connection with answers that may not."""


@dataclass(slots=True)
class ConnectAttempt:
    """An address that was, is, or is to be connected to.

    Attributes:
        caller: The outgoing queue for which a session was asked for; 0: none is under way.
        session: The one that was made last, while it is there; 0 else.
        retry_us: Nobody tries it before that time (monotonic); 0: whoever wants may.
        reason: Why the last attempt has failed.
        waiting: Numbers of the outgoing queues that wait for the attempt under way, or the next.
            It may hold some that do not any more.
    """

    way: Way
    caller: int = 0
    session: int = 0
    retry_us: int = 0
    reason: str = ""
    waiting: dict[int, None] = field(default_factory=dict)

    def taken(self) -> list[int]:
        """Those that wait; whoever comes from now on waits for what is next."""
        numbers, self.waiting = list(self.waiting), {}
        return numbers


class ConnectAttempts:
    """All of them; those that nobody needs are forgotten."""

    def __init__(self) -> None:
        self._by_way: dict[Way, ConnectAttempt] = {}
        self._by_caller: dict[int, ConnectAttempt] = {}
        self._by_session: dict[int, ConnectAttempt] = {}

    def __len__(self) -> int:
        return len(self._by_way)

    def get(self, way: Way) -> ConnectAttempt | None:
        """What is known of an address."""
        return self._by_way.get(way)

    def of(self, way: Way) -> ConnectAttempt:
        """The same; from now on something is."""
        return self._by_way.get(way) or self._by_way.setdefault(way, ConnectAttempt(way))

    def calls(self, number: int) -> bool:
        """Whether a session was asked for on behalf of an outgoing queue."""
        return number in self._by_caller

    def call(self, contact: ConnectAttempt, number: int) -> None:
        """A session is asked for on behalf of an outgoing queue."""
        contact.caller, contact.retry_us = number, 0
        self._by_caller[number] = contact

    def answered(self, number: int, session: int = 0, reason: str = "") -> ConnectAttempt | None:
        """There is a session, or none came about; None: nobody has asked for it."""
        contact = self._by_caller.pop(number, None)
        if contact is not None:
            contact.caller, contact.reason = 0, reason
            if session:
                self._by_session.pop(contact.session, None)
                contact.session = session
                self._by_session[session] = contact
        return contact

    def closed(self, session: int) -> ConnectAttempt | None:
        """A session is over; of which contact, if of any."""
        contact = self._by_session.pop(session, None)
        if contact is not None:
            contact.session = 0
        return contact

    def release(self, contact: ConnectAttempt | None) -> None:
        """Forget a contact that nobody needs."""
        if contact is None or contact.caller or contact.session or contact.waiting:
            return
        if self._by_way.get(contact.way) is contact:
            del self._by_way[contact.way]

    def disconnected(self) -> None:
        """An operator lets nobody connect: only attempts under way go on."""
        for contact in list(self._by_way.values()):
            contact.retry_us = 0
            if not contact.caller:
                contact.waiting.clear()
                self.release(contact)
