"""The judge's books of what managers remember of readers: who has removed, and up to where.

What a manager says of them must be what the books say, after any crash: a removal that was answered
is remembered, one that has not happened is not, and of one whose answer was lost the messages and
the memory tell the same. The books stand with the queue (``Place.readings``), so a restore puts
them back with it.

Watches: I2 (removal and memory are one record), I22, I24 (their number).
"""

from __future__ import annotations

from collections.abc import Sequence

from onceq.model.views.queues import ReaderView
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.judge.books import Place, Reading


class Memories:
    """See the module."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    # ---- what happens ---------------------------------------------------------------------

    def removing(self, place: Place, name: str, new: Reading) -> None:
        """A removal is about to be asked for: it may be remembered from now on."""
        place.removing[name] = new
        place.removing_us[name] = self.kernel.now

    def removed(self, place: Place, name: str) -> None:
        """It is done, and with it what is remembered."""
        new = place.removing.pop(name, None)
        if new is not None:
            place.readings[name] = _joined(place.readings.get(name), new)
            place.read_us[name] = (place.removing_us[name], self.kernel.now)
            place.forgotten.discard(name)

    def kept(self, place: Place, name: str) -> None:
        """It has not happened, and nothing of it is remembered."""
        place.removing.pop(name, None)

    def forgetting(self, place: Place, name: str) -> None:
        """An operator lets a reader start again; later views show whether this counts."""
        place.forgotten.add(name)

    # ---- what a manager says ----------------------------------------------------------------

    def check(self, place: Place, views: Sequence[ReaderView]) -> None:
        """The readers of a queue, as its manager says."""
        if place.deleted_us >= 0:
            return  # The manager may say so already.
        most = self.kernel.scale.READERS_MAX
        if len(views) > most:
            self.kernel.wrong(f"I24: {place} remembers {len(views)} readers, and {most} are many")
        found = {view.reader: (view.query, view.to) for view in views}
        for name in sorted({*found, *place.readings, *place.removing}):
            old, new = place.readings.get(name), place.removing.get(name)
            told = found.get(name)
            if told is None:
                self._gone(place, name, old)
                continue
            may = {one for one in (old, new, new and _joined(old, new)) if one is not None}
            if told not in {(one.query, one.to) for one in may}:
                self.kernel.wrong(
                    f"I2: {place} was read by {name!r} as {told}, says its manager; it was {may}"
                )
            place.forgotten.discard(name)

    def _gone(self, place: Place, name: str, old: Reading | None) -> None:
        """Nothing is remembered of a reader: there must be a reason, if there was anything."""
        if old is None:
            return
        # Of a removal whose answer was lost it is known late that it has happened, not when.
        asked_us, _ = place.read_us[name]
        later = sum(heard_us >= asked_us for _, heard_us in place.read_us.values()) - 1
        later += sum(other != name for other in place.removing)
        if name in place.forgotten:
            place.forgotten.discard(name)
        elif later >= self.kernel.scale.READERS_MAX:
            self.kernel.marks[marks.READERS_FULL] += 1
        else:
            self.kernel.wrong(f"I2: {place} was read by {name!r}, and nothing is known of it")
        del place.readings[name]


def _joined(old: Reading | None, new: Reading) -> Reading:
    """What is remembered behind a removal: removing again what was removed is no step back."""
    if old is None or old.query != new.query:
        return new
    return Reading(new.query, max(old.to, new.to))
