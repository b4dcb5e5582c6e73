"""Memory for the messages that applications are handed, over all connections together.

A receive or a peek may be answered with 32 MiB, and the application may never read that. So room is
reserved before the answer is built. Reservations of this pump, and answers that were built and are
not read yet, stay below one limit; a request that finds no room waits for its turn. One application
holds at most an eighth of what the others leave, so that applications that do not read leave room
for those that do. One pump builds only a limited amount of large answers, so that nobody waits long
behind them.

A request that waits for a message holds nothing. When a message comes, a peek has to find room
again (it can be put off: nothing was taken). What a receive takes out is handed out in any case,
each message once, and counted.

Upholds: I24.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from onceq.model.limits import (
    ANSWERS_BYTES_MAX,
    ANSWERS_TURN_BYTES,
    CLIENT_ANSWERS_BYTES_MAX,
    CLIENT_STALLED_S_MAX,
    PACKET_BYTES_MAX,
)

SHARE: Final = 8
"""An application gets at most this part of what is left."""
LOOK_S: Final = 0.05
"""Interval in seconds of the checks whether others have read, while an application waits for
room."""
SECOND: Final = 1_000_000


class Asker(Protocol):
    """A connection of an application."""

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes sent to it that it has not read yet."""

    def go_on(self) -> None:
        """Continue: there may be room."""

    def cut(self, reason: str) -> None:
        """Cut it, because it has not read for so long that others must not wait for it."""


class _Account:
    """What one asker holds.

    Attributes:
        reserved: By request, for answers that this pump may build.
        built: Bytes of answers that were built, and are not known to have been read.
        idle_us: Since when nothing of that was read.
        moved: Whether something was read after that.
    """

    __slots__ = ("built", "idle_us", "moved", "reserved")

    def __init__(self) -> None:
        self.reserved: dict[int, int] = {}
        self.built = 0
        self.idle_us = 0
        self.moved = False

    @property
    def held(self) -> int:
        return self.built + sum(self.reserved.values())


class Answers:
    """The memory of all answers of one engine. Only the user of the engine may call it."""

    def __init__(self) -> None:
        self._accounts: dict[Asker, _Account] = {}
        self._held = 0
        self._turn_bytes = 0
        self._fresh: list[tuple[Asker, int]] = []
        self._current: list[tuple[Asker, int]] = []
        self._starving: OrderedDict[Asker, None] = OrderedDict()
        """Askers that wait for room, the first first."""
        self._full: dict[Asker, None] = {}
        """Askers that have to read what they have before they get more."""
        self._served: Asker | None = None
        self._looking = False
        self.at_work = False
        """True if a turn has anything to do: nothing while no asker wants memory, and none
        waits."""
        self.later: Callable[[float], None] | None = None
        """Schedules ``look`` after the given seconds: called when an asker has to wait."""

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes that are counted now."""
        return self._held

    @property
    def starving(self) -> bool:
        """Return True if an asker waits for room."""
        return bool(self._starving)

    # ---- asking -----------------------------------------------------------------------------

    def ask(self, asker: Asker, request: int, wanted: int) -> int:
        """Reserve bytes for the answer to a request; return 0 if there are none, ``go_on`` follows
        later.

        At least one message is always handed out, so the largest there may be has to fit.
        """
        self.at_work = True
        account = self._accounts.get(asker)
        if account is not None and account.built:
            self._take_back(asker, account)
            account = self._accounts.get(asker)
        own = account.held if account is not None else 0
        left = ANSWERS_BYTES_MAX - self._held
        share = min(max((left + own) // SHARE, PACKET_BYTES_MAX), CLIENT_ANSWERS_BYTES_MAX)
        large = self._turn_bytes < ANSWERS_TURN_BYTES
        grant = min(wanted, share - own if large else PACKET_BYTES_MAX)
        room = max(grant, PACKET_BYTES_MAX)
        # It has its share: in the queue of those who wait it would keep others from theirs.
        if own + room > share:
            self._full[asker] = None
            self._look_later()
            return 0
        if self._waits_behind(asker) or left < room:
            self.stand(asker)
            return 0
        self._starving.pop(asker, None)
        if account is None:
            account = self._accounts[asker] = _Account()
        account.reserved[request] = room
        self._held += room
        self._turn_bytes += grant if grant > PACKET_BYTES_MAX else 0
        self._fresh.append((asker, request))
        return max(grant, 1)

    def stand(self, asker: Asker) -> None:
        """Let it wait for its turn: ``go_on`` will be called."""
        self.at_work = True
        self._starving[asker] = None
        self._look_later()

    def _look_later(self) -> None:
        if not self._looking and self.later is not None:
            self._looking = True
            self.later(LOOK_S)

    def _waits_behind(self, asker: Asker) -> bool:
        """Return True if others came before."""
        if not self._starving or asker is self._served:
            return False
        return asker is not next(iter(self._starving))

    def takes(self, asker: Asker, request: int, size: int) -> bool:
        """Return True if there is room for the answer to a request that has waited for a
        message."""
        account = self._accounts.get(asker)
        if account is not None and request in account.reserved:
            return True
        own = account.held if account is not None else 0
        if self._starving or own + size > CLIENT_ANSWERS_BYTES_MAX:
            return False
        return self._held + size <= ANSWERS_BYTES_MAX

    def built(self, asker: Asker, request: int, size: int, now_us: int) -> None:
        """Count an answer that was made (0 bytes if there is none)."""
        account = self._accounts.get(asker)
        if account is None:
            if not size:
                return
            account = self._accounts[asker] = _Account()
        self._held += size - account.reserved.pop(request, 0)
        if size and not account.built:
            account.idle_us = now_us
        account.built += size
        self._tidy(asker, account)

    def gone(self, asker: Asker) -> None:
        """Remove a lost application, and release what it had not read."""
        self._starving.pop(asker, None)
        self._full.pop(asker, None)
        account = self._accounts.pop(asker, None)
        if account is not None:
            self._held -= account.held
            self.wake()

    # ---- turns ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a pump with the reservations so far."""
        self._current, self._fresh = self._fresh, []
        self._turn_bytes = 0

    def end(self) -> None:
        """End a pump: an unanswered reservation waits for a message, and holds nothing."""
        # Reservations made during this pump (`_fresh`) are decided in the next one, and keep their
        # room.
        for asker, request in self._current:
            account = self._accounts.get(asker)
            if account is not None:
                self._held -= account.reserved.pop(request, 0)
                self._tidy(asker, account)
        self._current = []
        self.wake()
        self.at_work = bool(self._fresh or self._starving or self._full)

    # ---- what was read ----------------------------------------------------------------------

    def read(self, asker: Asker, now_us: int) -> None:
        """Check how much an application has read."""
        account = self._accounts.get(asker)
        if account is None:
            return
        self._take_back(asker, account)
        if account.moved:
            account.moved = False
            account.idle_us = now_us

    def _take_back(self, asker: Asker, account: _Account) -> None:
        """Stop counting what was read."""
        unread = min(account.built, asker.unread_bytes)
        account.moved |= unread < account.built
        self._held -= account.built - unread
        account.built = unread
        self._tidy(asker, account)

    def look(self, now_us: int) -> None:
        """Check all reading, and let those that wait continue; cut those that never read."""
        self._looking = False
        for asker in list(self._accounts):
            self.read(asker, now_us)
        self.wake()
        if not self._starving:
            if self._full:
                self._look_later()
            return
        idle = [
            (account.idle_us, asker) for asker, account in self._accounts.items() if account.built
        ]
        if idle and ANSWERS_BYTES_MAX - self._held < PACKET_BYTES_MAX:
            since_us, slowest = min(idle, key=lambda one: one[0])
            if now_us - since_us >= CLIENT_STALLED_S_MAX * SECOND:
                slowest.cut(
                    f"it did not read its answers for {CLIENT_STALLED_S_MAX} s while others "
                    "waited for the memory that they take"
                )
        self._look_later()

    def wake(self) -> None:
        """Let those that wait continue, the first first, until one finds no room."""
        # Removed first: an asker that finds no room again adds itself again.
        full, self._full = self._full, {}
        for asker in full:
            asker.go_on()
        for _ in range(len(self._starving)):
            first, _ = self._starving.popitem(last=False)
            self._served = first
            try:
                first.go_on()
            finally:
                self._served = None
            if first in self._starving:
                # It was the first, and stays so: asking again has put it behind all others.
                self._starving.move_to_end(first, last=False)
                return

    def _tidy(self, asker: Asker, account: _Account) -> None:
        if not account.built and not account.reserved:
            self._accounts.pop(asker, None)
