"""The core alone, without an engine: its records are kept, and its answers are at hand."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from onceq.core import inputs
from onceq.core.decision import Answer, Decision, Measured
from onceq.core.inputs import JobBatch, JobFailed, NextJob, PutBack
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, LOCKED
from onceq.core.state.positions import Link
from onceq.model.identity import Identity
from onceq.model.log import FRAME_HEADER
from onceq.model.marks import Now
from onceq.model.requests import Request
from onceq.model.settings import Settings

WAITS = object()
"""Not answered yet."""

WALL_S = 1_700_000_000
IDENTITY = Identity(b"A" * 16, "A", WALL_S)

Asked = Request | PutBack | JobBatch | JobFailed | NextJob


@dataclass
class Core:
    """One manager, its records and a clock."""

    records: list[tuple[int, memoryview]] = field(default_factory=list)
    now_us: int = 1_000_000
    asked: int = 0
    answers: dict[int, object] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self.manager = Manager(IDENTITY, self.settings)
        self.kept(self.manager.recover(self.now(), None, [], 0, entropy=bytes(ENTROPY_BYTES)))

    def now(self) -> Now:
        return Now(WALL_S * 1_000_000 + self.now_us, self.now_us)

    def kept(self, decision: Decision) -> None:
        for record in decision.records:
            self.records.append((record.position, memoryview(record.payload)))

    def ask(self, request: Asked, *, owner: int = 1) -> object:
        """The answer to a request, or its error; WAITS if there is none yet."""
        self.asked += 1
        self.step(replace(request, owner=owner, request=self.asked))
        return self.answers.get(self.asked, WAITS)

    def step(self, item: inputs.Input) -> None:
        """Something happens."""
        decision = self.manager.step(self.now(), item)
        self.kept(decision)
        for action in decision.actions:
            if isinstance(action, Answer):
                self.answers[action.request] = action.result
            elif isinstance(action, Measured):
                self.answers[action.request] = action.view

    def bytes_of(self, extents: Iterable[Any]) -> bytes:
        """What lies at places of the log."""
        data = b""
        for extent in extents:
            place = bisect_left(self.records, extent.address, key=lambda record: record[0])
            position, payload = self.records[place - 1]
            at = extent.address - position - FRAME_HEADER
            data += bytes(payload[at : at + extent.size])
        return data

    def pass_time(self, seconds: int) -> None:
        self.now_us += seconds * 1_000_000
        due = self.manager.next_timer()
        while due is not None and due <= self.now_us:
            self.step(inputs.Tick())
            due = self.manager.next_timer()

    def again(self) -> Manager:
        """A manager recovered from the records alone, before it undoes what was open."""
        other = Manager(IDENTITY, Settings())
        other.recover(
            self.now(), None, self.records, self.manager.position, entropy=bytes(ENTROPY_BYTES)
        )
        return other

    def present(self) -> Counter[str]:
        """How many messages are where."""
        found: Counter[str] = Counter()
        for queue in self.manager.state.all_queues.values():
            for lane in queue.lanes.values():
                for state in (AVAILABLE, LOCKED):
                    for _, count in lane.ranges(state, 0):
                        title = getattr(queue, "title", "?")
                        found[f"{title} {'held' if state == LOCKED else ''}".strip()] += count
        return found


def turned_away(core: Core, outgoing: OutgoingQueue, peer: bytes, *, seconds: int) -> list[int]:
    """The destination takes every session and closes it at once; when it was called, in seconds."""
    called = []
    for second in range(seconds):
        if outgoing.link is Link.CONNECTING:
            called.append(second)
            session = 1_000 + second
            core.step(inputs.SessionOpened(session, peer, "x", outgoing.number, extended=True))
            core.step(inputs.SessionClosed(session, "the peer has closed"))
        core.pass_time(1)
    return called
