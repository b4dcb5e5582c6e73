"""Whole transactions of senders: what is handed out as complete is one, and is complete.

The senders are those of the protocol, not only ours: numbers of transactions have 20 bits, wrap,
begin anew when a sender does, with a new stream (SND-11, EOD-12), and are not there over HTTP. Any
message may be missing, come in any order, and be moved while somebody looks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from onceq.model.run import Run
from onceq.packet import address
from onceq.packet.arrived import Batch
from onceq.packet.survey import HEAD, Members, Survey


class Way(Enum):
    """How messages come into the queue."""

    STREAM = 1
    HTTP = 2
    HERE = 3
    """Sent on this computer."""
    HERE_BEFORE = 4
    """Sent on this computer, by an onceq that wrote no numbers."""


@dataclass(frozen=True)
class Sent:
    """A message as its sender has sent it.

    Attributes:
        real: Which transaction it really belongs to.
        last: Index of the last message of that.
        provable: Whether its message numbers say the same as its numbers.
    """

    real: int
    way: Way
    index: int
    last: int
    source: int
    stream: int
    number: int
    previous: int
    transaction: int
    message: int
    provable: bool
    apart: bool = False
    """It is a part of something, and has no mark: a job has torn a transaction."""

    def head(self) -> bytes:
        flags = self.transaction << address.TX_NUMBER_SHIFT
        if self.apart:
            return HEAD.pack(
                bytes([self.source]) * 16, self.message, flags, self.stream, self.number,
                self.previous, 100,
            )  # fmt: skip
        flags |= address.TX_FIRST * (self.index == 0) | address.TX_LAST * (self.index == self.last)
        source = bytes([self.source]) * 16
        return HEAD.pack(
            source, self.message, flags, self.stream, self.number, self.previous, 100
        )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[Sent]:
    """What senders send to one queue, in order; few transaction numbers, so that they repeat."""
    sent: list[Sent] = []
    ways = {1: Way.STREAM, 2: Way.HTTP, 3: Way.HERE, 4: Way.HERE_BEFORE}
    streams, messages = {source: [1, 0] for source in ways}, dict.fromkeys(ways, 0)
    for real in range(draw(st.integers(1, 8))):
        source = draw(st.sampled_from(sorted(ways)))
        way, here = ways[source], source > 2
        if draw(st.booleans()):
            streams[source] = [streams[source][0] + 1, 0]  # It was restarted, or had nothing left.
        last = draw(st.integers(0, 3))
        apart = not last and draw(st.booleans())
        transaction = 0 if way is Way.HTTP else draw(st.integers(1, 2))
        # A number comes round after 2^20 transactions: other messages were sent meanwhile.
        messages[source] += draw(st.integers(2, 3))
        to_others = draw(st.booleans())
        opening = messages[source]
        for index in range(last + 1):
            streams[source][1] += 1
            stream, number = streams[source]
            place = (stream, number, number - 1)
            if here:
                place = (0, messages[source] - index - 1, opening)
                if way is Way.HERE_BEFORE:
                    place = (0, 0, 0)
            made = Sent(
                real, way, index, last, source, *place, transaction, messages[source],
                not to_others or not last, apart,
            )  # fmt: skip
            messages[source] += 1 + to_others
            sent.append(made)
    return sent


def seen(survey: Survey, page: Sequence[Sent], first: int) -> list[Members]:
    """The whole transactions that a page of heads completes; places begin at ``first``."""
    lookups = array("Q", range(first, first + len(page)))
    zeros = array("I", [0] * len(page))
    batch = Batch(Run.of([one.head() for one in page]), lookups, zeros, zeros)
    batch.scanned = lookups[-1]
    return list(survey.add(batch))


@given(sent=histories(), data=st.data())
def test_what_is_complete_is_one_transaction_and_all_of_it(
    sent: list[Sent], data: st.DataObject
) -> None:
    arrived = [one for one in sent if data.draw(st.integers(0, 3))]
    order = data.draw(st.permutations(arrived)) if data.draw(st.booleans()) else arrived
    # Some are seen once more behind the others: they were moved, and came back (``;retry``).
    at = data.draw(st.integers(0, len(order)))
    survey, found = Survey(), []
    places = order[:at] + [one for one in order[:at] if data.draw(st.integers(0, 3)) == 3]
    places += order[at:]
    left = 0
    while places[left:]:
        size = data.draw(st.integers(1, 4))
        page = places[left : left + size]
        found += [
            [places[lookup - 1] for lookup in members.lookups]
            for members in seen(survey, page, left + 1)
        ]
        left += len(page)
    for members in found:
        assert len({one.real for one in members}) == 1, "halves of two"
        assert [one.index for one in members] == list(range(members[0].last + 1))
    missing = {one.real for one in sent if one.apart or one not in arrived}
    wholes = {one.real for one in sent} - missing
    provable = {one.real for one in sent if one.way is not Way.HERE_BEFORE or one.provable}
    assert {members[0].real for members in found} == wholes & provable, "every one that can be"


@given(sent=histories(), data=st.data())
def test_what_is_there_in_part_is_never_two_transactions(
    sent: list[Sent], data: st.DataObject
) -> None:
    """Where numbers of transactions do not come round, as they do after 2^20 of them."""
    numbers = {one.real: one.real + 1 for one in sent}
    here = [one for one in sent if data.draw(st.booleans()) and one.way is not Way.HTTP]
    renumbered = [
        Sent(**{**one.__dict__, "transaction": numbers[one.real]})
        for one in data.draw(st.permutations(here))
    ]
    survey = Survey()
    whole = seen(survey, renumbered, 1) if renumbered else []
    parts = [[renumbered[lookup - 1] for lookup in m.lookups] for m in survey.incomplete()]
    for part in parts:
        assert len({one.real for one in part}) == 1
        assert [one.index for one in part] == sorted(one.index for one in part)
    assert sum(map(len, parts)) + sum(len(m.lookups) for m in whole) == len(renumbered)


def test_a_transaction_of_which_a_part_came_in_another_stream_is_found_by_message_numbers() -> None:
    """A restored sender sends in a new stream what had not arrived."""
    first = Sent(0, Way.STREAM, 0, 2, 1, 7, 41, 40, 5, 100, True)
    second = Sent(0, Way.STREAM, 1, 2, 1, 9, 1, 0, 5, 101, True)
    third = Sent(0, Way.STREAM, 2, 2, 1, 9, 2, 1, 5, 102, True)
    (whole,) = seen(Survey(), [first, second, third], 1)
    assert whole.lookups == [1, 2, 3]
    apart = Sent(0, Way.STREAM, 2, 2, 1, 9, 2, 1, 5, 103, True)
    assert seen(Survey(), [first, second, apart], 1) == [], "103 may be of another queue, or not"


def test_a_part_behind_the_last_message_is_none_of_it() -> None:
    """A job has torn some other transaction, and sent a part of it next in the stream."""
    whole = [Sent(0, Way.STREAM, at, 2, 1, 7, at + 1, at, 5, 90 + 2 * at, True) for at in range(3)]
    part = Sent(1, Way.STREAM, 0, 0, 1, 7, 4, 3, 6, 99, True, True)
    for order in permutations([*whole, part]):
        (found,) = seen(Survey(), order, 1)
        assert [order[lookup - 1] for lookup in found.lookups] == whole
