"""Choose the kind of long work that a pump does: one portion at most, and each kind in its turn.

It also lets threads yield to the one that serves applications, and bounds the log lines that others
can cause, those about ends of messages too.

Long work is done in portions: the ends of very many messages and other long work of the core,
acknowledgments that are owed, housekeeping. No request is served while a portion lasts, and the
host reads its sockets between two pumps only. So a pump does one portion, however much waits: a
request waits for one of them, and not for one of each kind.

Upholds: I24 (no pump is longer the more kinds of long work there are).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from onceq.core.step.units import OTHER
from onceq.model.letters import ENDS
from onceq.model.limits import LOG_LINES_AT_ONCE, LOG_RATE_S
from onceq.model.resultcodes import class_name
from onceq.service.clock import Clock
from onceq.service.logs import event

# ---- portions ------------------------------------------------------------------------------------


class WorkKind(IntEnum):
    """Kinds of long work, in the order of their turns."""

    NONE = 0
    CORE = 1
    ACKS = 2
    HOUSE = 3


_TURNS: Final = {
    last: tuple(WorkKind((last + after) % 3 + 1) for after in range(3)) for last in range(4)
}
"""The kinds to try after the last one, in order; after none, from the first."""


class Portions:
    """The turns of the kinds of long work.

    Attributes:
        core: Whether the core is to go on with work in several steps.
    """

    __slots__ = ("_last", "core")

    def __init__(self) -> None:
        self.core = False
        self._last = WorkKind.NONE

    def next(self, *, owing: bool, house: bool) -> WorkKind:
        """Return the kind whose turn it is, of those that want one.

        Args:
            owing: Whether acknowledgments may be owed.
            house: Whether housekeeping is due.
        """
        wanted = (False, self.core, owing, house)
        return next((kind for kind in _TURNS[self._last] if wanted[kind]), WorkKind.NONE)

    def done(self, kind: WorkKind) -> None:
        """Note that a portion of this kind was done: it comes last now."""
        self._last = kind


# ---- turns ---------------------------------------------------------------------------------------
#
# Let long work in another thread yield the interpreter to the thread that serves applications.


TURN_S: Final = 0.0001
"""Seconds for which the interpreter is yielded at least."""


def leave_turn() -> None:
    """Let other threads run, which would wait for milliseconds otherwise."""
    threading.Event().wait(TURN_S)


# ---- rates ---------------------------------------------------------------------------------------
#
# Log lines that others can cause: the first ones in full, then their number.


SECOND = 1_000_000


class _Kind:
    """What was written and counted of one kind since ``begun_us``."""

    __slots__ = ("begun_us", "left_out", "level", "values", "written")

    def __init__(self, begun_us: int) -> None:
        self.begun_us = begun_us
        self.written = 0
        self.left_out = 0
        self.level = logging.INFO
        self.values: dict[str, object] = {}


class Rates:
    """Limits the log lines of one manager. One thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self.later: Callable[[float], None] | None = None
        """Schedules ``tell`` after the given seconds: called when the first line is left out."""

    def event(
        self, what: str, *, level: int = logging.INFO, of: str = "", **values: object
    ) -> None:
        """Log one event, or count it.

        Args:
            what: The kind of event, in the same words every time.
            of: Counted apart from others of the same kind.
            values: What it was about.
        """
        self.note(what, values, level=level, of=of)

    def note(
        self, what: str, values: Mapping[str, object], *, level: int = logging.INFO, of: str = ""
    ) -> None:
        """Log one event, or count it; ``values`` is a map."""
        if self._begun(what, of, LOG_LINES_AT_ONCE):
            event(what, level=level, **values)
        else:
            self._left_out(what, values, 1, level, of)

    def count(
        self, what: str, values: Mapping[str, object], count: int, *, level: int = logging.INFO,
        of: str = "",
    ) -> None:  # fmt: skip
        """Log an event of some messages: one line an interval, and then their number.

        Args:
            count: How many.
        """
        if self._begun(what, of, 1):
            event(what, level=level, **values, count=count)
        else:
            self._left_out(what, values, count, level, of)

    def _begun(self, what: str, of: str, at_once: int) -> bool:
        """Return True if one more line of a kind may be written; it is counted then."""
        now_us = self._clock.read().mono_us
        kind = self._kinds.get((what, of))
        if kind is None or now_us - kind.begun_us >= LOG_RATE_S * SECOND:
            if kind is not None:
                _tell(what, kind, now_us)
            kind = self._kinds[what, of] = _Kind(now_us)
        kind.written += 1
        return kind.written <= at_once

    def _left_out(
        self, what: str, values: Mapping[str, object], count: int, level: int, of: str
    ) -> None:
        kind = self._kinds[what, of]
        if not kind.left_out and self.later is not None:
            self.later(float(LOG_RATE_S))
        kind.left_out += count
        kind.level = max(kind.level, level)
        kind.values = dict(values)

    def tell(self, *, all_of_it: bool = False) -> None:
        """Write the numbers of intervals that are over.

        Args:
            all_of_it: Also of those that are not.
        """
        now_us = self._clock.read().mono_us
        for (what, of), kind in list(self._kinds.items()):
            if all_of_it or now_us - kind.begun_us >= LOG_RATE_S * SECOND:
                del self._kinds[what, of]
                _tell(what, kind, now_us)
            elif kind.left_out and self.later is not None:
                self.later(LOG_RATE_S - (now_us - kind.begun_us) / SECOND)


def _tell(what: str, kind: _Kind, now_us: int) -> None:
    if kind.left_out:
        event(
            f"{what}, more of these", level=kind.level, count=kind.left_out,
            seconds=(now_us - kind.begun_us) // SECOND,
            **{f"last_{name}": value for name, value in kind.values.items()},
        )  # fmt: skip


# ---- endings -------------------------------------------------------------------------------------
#
# Log how messages end: at most two lines a minute for each way to end.


def tell(rates: Rates, noted: Mapping[tuple[str, int], tuple[int, str]]) -> None:
    """Log the counts.

    Args:
        noted: By event and class: the number of messages, and the queue of the last ones ("" if
            unknown).
    """
    for (what, reason), (count, queue) in noted.items():
        values = {"class": class_name(reason) if reason else OTHER}
        if reason in ENDS:
            values["why"] = ENDS[reason][1]
        if queue:
            values["queue"] = queue
        rates.count(what, values, count, level=logging.WARNING, of=values["class"])
