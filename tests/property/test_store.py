"""The store against a model of three lines: a list, how much of it is safe, and a checkpoint.

Hypothesis does anything that an engine, an operator and a power company may do, in any order.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onceq.model.log import FRAME_HEADER, frame_size
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.testing.disk import SimFiles
from tests.crash.life import head_for

PATH = "/store"
SEGMENT = 4096


class StoreMachine(RuleBasedStateMachine):
    """Keeps positions and payloads of what was appended; ``safe`` of them must never go."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimFiles()
        self.store = LogStore.create(PATH, self.disk, store_id=b"S" * 16, segment_bytes=SEGMENT)
        self.log: list[tuple[int, bytes]] = []
        self.safe = 0
        self.state: bytes | None = None
        self.covered = 0
        self.crashed = False
        """Whether it was opened behind an end that was not in order, and nothing was written since:
        closing it leaves that told."""

    @initialize(ready=st.integers(0, 2))
    def make_ready(self, ready: int) -> None:
        for _ in range(ready):
            self.store.prepare()

    @rule(part=st.binary(max_size=180), times=st.integers(1, 80))
    def append(self, part: bytes, times: int) -> None:
        data = part * times
        position = self.store.append(data, head_for(data))
        self.crashed = False
        assert position == (self._end() if self.log else self.covered)
        self.log.append((position, data))

    def _end(self) -> int:
        position, payload = self.log[-1]
        return position + frame_size(len(payload), head_for(payload))

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule()
    def sync(self) -> None:
        self.store.sync()
        self.safe = len(self.log)

    @rule()
    def prepare(self) -> None:
        self.store.prepare()

    @precondition(lambda self: self.safe)
    @rule(data=st.data(), state=st.binary(max_size=300))
    def checkpoint(self, data: st.DataObject, state: bytes) -> None:
        """It may cover any part of what is safe, so long as it covers more than the last one."""
        count = data.draw(st.integers(0, self.safe))
        if count:
            position, payload = self.log[count - 1]
            self.covered = max(self.covered, position + frame_size(len(payload), head_for(payload)))
        self.store.checkpoint([state], self.covered)
        self.state = state

    @rule(live=st.integers(0, 7))
    def reclaim(self, live: int) -> None:
        """Segments whose number has certain bits are needed; what lies in others may go."""
        self.store.reclaim(lambda base, end: bool(base // SEGMENT & live))
        kept = {use.base: use.end for use in self.store.segments()}
        last = max(kept, default=0)
        here = [
            (position, payload)
            for position, payload in self.log
            if position >= last or any(b <= position < e for b, e in kept.items())
        ]
        assert all(entry in here for entry in self.log if entry[0] >= self.covered)
        self.safe -= len(self.log) - len(here)
        self.log = here

    @rule(power=st.booleans(), choice=st.integers(0, 60), closed=st.booleans())
    def restart(self, power: bool, choice: int, closed: bool) -> None:
        """Close, or be killed; with or without a power cut."""
        orderly = closed and not (self.crashed and self.store.position > 0)
        if closed:
            self.store.close()
            self.safe = len(self.log)
        plans = self.disk.plans(61)
        self.disk = self.disk.image(plans[choice % len(plans)]) if power else self.disk.kill()
        report = check(PATH, self.disk)
        assert report.problem == ""
        self.store = LogStore.open(PATH, self.disk, segment_bytes=SEGMENT)
        found = self.store.recovered
        assert (found.checkpoint, found.checkpoint_position) == (self.state, self.covered)
        records = [(position, bytes(data)) for position, data in self.store.records()]
        old = [entry for entry in self.log if entry[0] < self.covered]
        expected = self.log[len(old) :]
        assert records == expected[: len(records)]
        assert len(old) + len(records) >= self.safe
        assert not closed or found.clean == orderly
        self.crashed = not found.clean
        self.log = old + records
        self.safe = len(self.log)

    @invariant()
    def everything_can_be_read(self) -> None:
        for position, payload in self.log[-3:] + self.log[:2]:
            found = self.store.read(position + FRAME_HEADER, len(payload))
            assert bytes(found) == payload

    def teardown(self) -> None:
        self.store.abandon()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
