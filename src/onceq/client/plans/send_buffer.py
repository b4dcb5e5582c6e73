"""Messages of a transaction that wait on the application's side until they are shipped.

Neighbours of one kind are put together, so that one by one sent they travel as a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onceq.model.record import field
from onceq.model.requests import SendItem
from onceq.model.run import Run


class Gathered(SendItem):
    """A batch that grows by messages of the same destination, properties and second.

    The bytes of bodies, and of headers of their own, are pieces: they are joined when they are
    wanted.

    Attributes:
        second: In which they were sent.
    """

    second: int = 0
    _more: list[tuple[Run, Run | None]] = field(default_factory=list)
    """What came after the first; each by one step, which no signal handler and no other thread can
    come between."""

    def took(self, destination: str, values: dict[str, Any], second: int, run: Run,
             own: Run | None) -> bool:  # fmt: skip
        """Add more messages if they are of this kind; whether they are."""
        if (
            self.second != second
            or self.destination != destination
            or self.values != values
            or (own is None) != (self.own is None)
        ):
            return False
        self._more.append((run, own))
        return True


def _joined(first: Run, more: list[Run]) -> Run:
    """Runs of messages as one."""
    lengths = first.lengths[:]
    for run in more:
        lengths.extend(run.lengths)
    return Run(b"".join([first.data, *(run.data for run in more)]), lengths)


def offered(gathered: list[Gathered], clock: Callable[[], float]) -> list[Gathered]:
    """What was gathered, for a frame: whole, and as old as it is now."""
    now = int(clock()) if gathered else 0
    for item in gathered:
        item.age_s = now - item.second
        more, item._more = item._more, []
        if not more:
            continue
        item.bodies = _joined(item.bodies, [run for run, _ in more])
        if item.own is not None:
            item.own = _joined(item.own, [own for _, own in more if own is not None])
    return gathered


def named(items: Sequence[SendItem]) -> str:
    """Where gathered sends go, for an error of one of them: the queue manager names it better."""
    names = dict.fromkeys(item.destination for item in items)
    return next(iter(names)) if len(names) == 1 else "one of " + ", ".join(names)
