"""A message that stands anywhere in any stream is treated as the tables say."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from onceq.core import inputs
from onceq.core.decision import Decision, Notice
from onceq.core.transfer.ordered_arrival import ANSWERS, VERDICTS, Standing, StreamState, Verdict
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.packet.acks import parse_order_ack
from onceq.packet.address import Address
from onceq.packet.arrived import cut
from onceq.packet.encode import encode_run, template
from tests.unit.core.alone import WALL_S, Core

PEER = b"B" * 16
OLD, PRESENT, NEW = (1 << 40) + 1, (1 << 40) + 2, (1 << 40) + 3
STREAMS = {StreamState.NEW: NEW, StreamState.PRESENT: PRESENT, StreamState.LEFT: OLD}
NUMBERS = {
    Standing.FIRST: (1, 0, 9),
    Standing.NEXT: (4, 2, 9),
    Standing.AHEAD: (4, 3, 9),
    Standing.REPEATED: (2, 1, 2),
    Standing.ANOTHER: (2, 1, 9),
}
"""Number, number before and message of what comes when 1 and 2 were accepted."""


class Receiver(Core):
    """A manager that has left one stream of a peer, and has accepted two messages of the next."""

    def __post_init__(self) -> None:
        self.noticed = 0
        super().__post_init__()
        queue = QueueProperties("q", transactional=True)
        self.ask(requests.CreateQueue(properties=queue, instance=b"I" * 16))
        self.step(inputs.SessionOpened(1, PEER, "10.0.0.2", 0, extended=True))
        for stream, number in ((OLD, 1), (PRESENT, 1), (PRESENT, 2)):
            self.arrive(stream, number, number - 1, number)

    def kept(self, decision: Decision) -> None:
        super().kept(decision)
        self.noticed += sum(isinstance(action, Notice) for action in decision.actions)

    def arrive(self, stream: int, number: int, previous: int, message: int) -> None:
        """One message of the peer comes."""
        made = template(
            source=PEER, destination=Address(7, direct="OS:A\\private$\\q"), properties=PLAIN,
            sent_time=WALL_S, transactional=True,
        )  # fmt: skip
        (packet,) = encode_run(
            made, Run.of([b"x"]), first_message=message, stream=stream, first_number=number,
            transaction=1, first=True, last=True,
        )  # fmt: skip
        (run,) = cut(bytes(packet), array("I", [len(packet)]))
        self.step(inputs.Arrived(1, replace(run, first_previous=previous)))


@pytest.mark.parametrize(
    ("state", "standing"),
    [(state, standing) for state, row in VERDICTS.items() for standing in row],
)
def test_what_follows_is_what_the_tables_say(state: StreamState, standing: Standing) -> None:
    core = Receiver()
    (progress,) = core.manager.state.progress.values()
    before = (progress.stream, progress.last, progress.since_ack, core.noticed)
    counted = (progress.duplicates, progress.gaps, progress.stale)
    peer = core.manager._step.sessions.peers[1]
    core.arrive(STREAMS[state], *NUMBERS[standing])
    verdict = VERDICTS[state][standing]
    answer = ANSWERS[verdict]
    assert len(core.manager.state.queues["private$\\q"]) == 3 + answer.accepted
    if answer.accepted:
        assert (progress.stream, progress.last) == (STREAMS[state], NUMBERS[standing][0])
    else:
        assert (progress.stream, progress.last) == before[:2]
    if verdict is Verdict.GAP:
        # Kept, and what is missing is named at once; it counts as nothing until it is judged again.
        if state is StreamState.PRESENT:
            assert progress.since_ack == 0
            assert peer.acks
        else:
            ack = parse_order_ack(peer.notes[0])
            assert (ack.stream, ack.number) == (NEW, 0)
            assert (ack.first_missing, ack.last_missing) == (1, NUMBERS[standing][1])
        (kept,) = core.manager._step.sessions.early.streams.values()
        assert [run.first_number for run in kept.runs] == [NUMBERS[standing][0]]
        assert counted == (progress.duplicates, progress.gaps, progress.stale)
        return
    assert progress.since_ack == before[2] + answer.acknowledged
    assert bool(peer.turned) == answer.turned_away
    assert core.noticed == before[3] + answer.clash
    now = (progress.duplicates, progress.gaps, progress.stale)
    kinds = (Verdict.DUPLICATE, Verdict.GAP, Verdict.STALE_STREAM)
    assert [b - a for a, b in zip(counted, now, strict=True)] == [verdict is k for k in kinds]


def test_every_verdict_has_an_answer_and_is_given() -> None:
    assert {verdict for row in VERDICTS.values() for verdict in row.values()} == set(Verdict)
    assert set(ANSWERS) == set(Verdict)
    assert set(VERDICTS) == set(StreamState)
