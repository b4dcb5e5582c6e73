"""Whole transactions of senders: what is handed out as complete is one, and is complete.

The senders are those of the protocol, not only ours: numbers of transactions have 20 bits, wrap,
and begin anew when a sender does, with a new stream (SND-11, EOD-12). Any message may be missing.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from onceq.client.plans.sender_transaction import _Survey
from onceq.model.run import Run
from onceq.packet import layout
from onceq.packet.batch import Batch
from onceq.packet.heads import HEAD


@dataclass(frozen=True)
class Sent:
    """A message as its sender has sent it.

    Attributes:
        real: Which transaction it really belongs to.
        last: Index of the last message of that.
    """

    real: int
    index: int
    last: int
    source: int
    stream: int
    number: int
    transaction: int

    def head(self) -> bytes:
        flags = self.transaction << layout.TX_NUMBER_SHIFT
        flags |= layout.TX_FIRST * (self.index == 0) | layout.TX_LAST * (self.index == self.last)
        source = bytes([self.source]) * 16
        return HEAD.pack(source, 1, flags, self.stream, self.number, 100)


@st.composite
def histories(draw: st.DrawFn) -> list[Sent]:
    """What senders send to one queue, in order; few transaction numbers, so that they repeat."""
    sent: list[Sent] = []
    streams = {source: [1, 0] for source in (1, 2)}
    for real in range(draw(st.integers(1, 8))):
        source = draw(st.sampled_from((1, 2)))
        if draw(st.booleans()):
            streams[source] = [streams[source][0] + 1, 0]  # It was restarted, or had nothing left.
        last = draw(st.integers(0, 3))
        transaction = draw(st.integers(1, 2))
        for index in range(last + 1):
            streams[source][1] += 1
            stream, number = streams[source]
            sent.append(Sent(real, index, last, source, stream, number, transaction))
    return sent


@given(sent=histories(), data=st.data())
def test_what_is_complete_is_one_transaction_and_all_of_it(
    sent: list[Sent], data: st.DataObject
) -> None:
    arrived = [one for one in sent if data.draw(st.integers(0, 3))]
    survey, found = _Survey(), []
    while arrived[survey.after :]:
        size = data.draw(st.integers(1, 4))
        page = arrived[survey.after : survey.after + size]
        lookups = array("Q", range(survey.after + 1, survey.after + 1 + len(page)))
        zeros = array("I", [0] * len(page))
        batch = Batch(Run.of([one.head() for one in page]), lookups, zeros, zeros)
        batch.scanned = lookups[-1]
        found += [[arrived[at - 1] for at in members.lookups] for members in survey.add(batch)]
    for members in found:
        assert len({one.real for one in members}) == 1, "halves of two"
        assert [one.index for one in members] == list(range(members[0].last + 1))
    wholes = {one.real for one in sent} - {one.real for one in sent if one not in arrived}
    assert {members[0].real for members in found} == wholes, "and every whole one is found"
