"""The judge's rule for whole transactions: what is given as one is one, and all of it; and what is
all there is given.

Which messages belong together the books know from the application that has sent them; what the
product goes by (numbers, marks, places) is not looked at. Messages of one transaction that went to
a queue by different names may have gone apart, and count apart. What a job has sent on belongs to
the transactions of the job, and nothing is demanded of it here.

Watches: I2 at the receiver (a transaction is called complete only if it is), I26 (one that is all
there is given).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.judge.books import Books, Message, Place, Unit


class WholeSets:
    """See the module."""

    def __init__(self, kernel: Kernel, books: Books) -> None:
        self.kernel, self.books = kernel, books

    def given(self, place: Place, uids: Sequence[int]) -> None:
        """These messages of a queue were given as one whole transaction, in this order."""
        messages = [self.books.messages[uid] for uid in uids]
        if any(message.copies[place.key].worked for message in messages):
            return
        units = {id(message.unit) for message in messages}
        if len(units) != 1 or messages[0].unit is None:
            self.kernel.wrong(f"I2: {place} gives messages of {len(units)} transactions as one")
        assert messages[0].unit is not None
        if [message.index for message in messages] != sorted({m.index for m in messages}):
            self.kernel.wrong(f"I5: {place} gives a transaction in another order: {uids}")
        sent = _sent(messages[0].unit, place)
        if any(message.copies[place.key].worked for message in sent):
            return
        names = {message.names[place.key] for message in messages}
        here = messages[0].node == place.node
        missing = [
            message.uid for message in sent
            if message.uid not in uids and (here or message.names[place.key] in names)
        ]  # fmt: skip
        if missing:
            self.kernel.wrong(f"I2: {place} gives {uids} as a whole transaction, without {missing}")
        self.kernel.marks[marks.WHOLE] += len(messages) > 1
        self.kernel.marks[marks.WHOLE_DELAYED] += any(m.properties.delay for m in messages)

    def check(self, place: Place, uids: Mapping[int, int], whole: Iterable[Sequence[int]]) -> None:
        """Check a look at all of a queue.

        Args:
            uids: The messages that stood there the whole time, by their places.
            whole: Places of the transactions that were found to be there entirely.
        """
        found = {uids[lookup] for lookups in whole for lookup in lookups if lookup in uids}
        there = set(uids.values())
        units = {id(m.unit): m.unit for m in map(self.books.messages.__getitem__, there) if m.unit}
        for unit in units.values():
            sent = _sent(unit, place)
            if any(m.uid not in there or m.copies[place.key].worked for m in sent):
                continue
            left = [m.uid for m in sent if m.uid not in found]
            if left:
                self.kernel.wrong(f"I26: all of a transaction is in {place}, and not given: {left}")
            moved = any(m.copies[place.key].moved or place.poison for m in sent)
            self.kernel.marks[marks.WHOLE_MOVED] += moved


def _sent(unit: Unit, place: Place) -> list[Message]:
    return [message for message in unit.sends if place.key in message.copies]
