"""The judge's books of rights: who was granted what at which manager, as far as that is certain.

A grant that is under way, or whose answer was lost, is uncertain until somebody has looked. What is
asked meanwhile may be allowed or refused; the same holds for grants in the directory until a
manager has followed. Nothing may be done when it is certain that its right is gone, and nothing
refused for which the right was there from when it was asked to when it was answered.

Watches: I28 (nothing happens without a right, and what is granted is not refused).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from proof.sim.base.directory import SimDirectory
from proof.sim.base.kernel import Kernel
from proof.sim.judge.books import Message, Place

Given = tuple[int, str, str, str]
"""Manager, actor, right, pattern."""


@dataclass(slots=True)
class _Known:
    """What is known of one grant; ``value`` None: nothing."""

    value: bool | None = False
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Sight:
    """What the books say of one demand at one moment.

    Attributes:
        changes: Rises with each change of what it follows from.
        steady: Whether the manager has followed what the directory says of it.
        shared: Whether it follows from the directory alone.
    """

    allowed: bool | None
    changes: tuple[int, int]
    steady: bool = True
    shared: bool = False


@dataclass(slots=True)
class _Shut:
    """A time in which other managers may not send to a queue.

    Attributes:
        from_us, sure_us: When that was asked for, and when it was certain; -1: it never was.
        opens_us, to_us: When the right was asked for again, and given; -1: not yet.
    """

    from_us: int
    sure_us: int = -1
    opens_us: int = -1
    to_us: int = -1


@dataclass(slots=True)
class Permissions:
    """See the module."""

    kernel: Kernel
    active: bool = False
    directory: SimDirectory | None = None
    """Where rights stand for all managers; None: nowhere."""
    others: tuple[str, ...] = ("peer:*",)
    """Who other managers are, where they are given rights."""
    guests: tuple[str, ...] = ()
    """Who may send everywhere beside them."""
    _shut: dict[tuple[int, str], list[_Shut]] = field(default_factory=dict)
    _known: dict[Given, _Known] = field(default_factory=dict)

    # ---- changes ------------------------------------------------------------------------

    def asked(self, given: Given) -> None:
        """A change is under way."""
        known = self._known.setdefault(given, _Known())
        known.value, known.changes = None, known.changes + 1

    def settled(self, given: Given, *, value: bool) -> None:
        """It is certain what holds."""
        known = self._known.setdefault(given, _Known())
        known.value, known.changes = value, known.changes + 1

    def uncertain(self, node: int) -> list[Given]:
        """Grants of a manager of which nobody knows what became of the last change."""
        return [g for g, known in self._known.items() if g[0] == node and known.value is None]

    def of(self, node: int, who: str) -> list[Given]:
        """All that was ever granted at a manager by exactly that name."""
        return [given for given in self._known if given[:2] == (node, who)]

    # ---- what is asked with them ----------------------------------------------------------

    def sight(self, node: int, who: str, rights: Collection[str], queue: str) -> Sight:
        """Whether somebody may do what needs one of these rights."""
        found = [
            known
            for right in rights
            for pattern in (queue, "*")
            if (known := self._known.get((node, who, right, pattern))) is not None
        ]
        names = self.directory
        if names is not None and not names.ever_gave(who, rights, queue):
            names = None
        changes = sum(known.changes for known in found), names.changes if names else 0
        steady = names is None or names.steady
        if any(known.value for known in found):
            return Sight(True, changes, steady)
        if not steady or any(known.value is None for known in found):
            return Sight(None, changes, steady)
        given = names is not None and names.gives(who, rights, queue)
        return Sight(given, changes, steady, given)

    def judge(self, before: list[Sight], after: list[Sight], what: str, *, denied: bool) -> None:
        """Something was answered.

        Args:
            before, after: What the books said of each of its demands when it was asked, and say
                now.
            denied: Whether it was refused for want of a right.
        """
        sure = [one for one, other in zip(before, after, strict=True) if one == other]
        # Answers come in the order of decisions: a change that was answered before this was decided
        # before it.
        # Of the directory's changes that holds for who has asked for them alone: the others follow.
        if not denied and any(
            one.allowed is False and other.steady and one.changes[1] == other.changes[1]
            for one, other in zip(after, before, strict=True)
        ):
            self.kernel.wrong(f"I28: {what} without a right")
        if denied and len(sure) == len(before) and all(one.allowed for one in sure):
            self.kernel.wrong(f"I28: {what} was refused, and every right for it is granted")

    # ---- other managers -------------------------------------------------------------------

    def closes(self, place: Place) -> None:
        """Other managers may soon not send there any more."""
        self._doors(place).append(_Shut(self.kernel.now))

    def closed(self, place: Place) -> None:
        """From now on it is certain. If somebody has opened it meanwhile, some may send there and
        others may not, until it is opened again."""
        shut = self._shut[place.key][-1]
        if shut.opens_us < 0:
            shut.sure_us = self.kernel.now
        else:
            shut.opens_us = shut.to_us = -1

    def opens(self, place: Place) -> None:
        """They may soon again."""
        for shut in self._doors(place):
            if shut.opens_us < 0:
                shut.opens_us = self.kernel.now

    def opened(self, place: Place) -> None:
        """From now on it is certain."""
        for shut in self._shut.get(place.key, ()):
            if shut.to_us < 0 <= shut.opens_us:
                shut.to_us = self.kernel.now

    def may_be_refused(self, place: Place, sent_us: int) -> bool:
        """Whether a message of another manager may have met a closed door there."""
        shuts = self._doors(place) if self.active else ()
        return any(shut.to_us < 0 or shut.to_us >= sent_us for shut in shuts)

    def _doors(self, place: Place) -> list[_Shut]:
        """Until the right is given for the first time nobody has it, also where there is no queue
        of that name: an application without a right does not hear which queues there are."""
        return self._shut.setdefault(place.key, [_Shut(0)])

    def check_arrival(self, place: Place, message: Message) -> None:
        """A message of another manager is there: it may not have been sent, and have come, while
        the door was certainly shut."""
        for shut in self._shut.get(place.key, ()):
            if 0 <= shut.sure_us <= message.sent_us and shut.opens_us < 0:
                self.kernel.wrong(f"I28: {place} has taken message {message.uid} without a right")
