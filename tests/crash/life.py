"""A short life of a store, together with what it was told and what it promised.

The judge of the crash programme: it knows nothing of segments and frames, only the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from onceq.model.log import FRAME_HEADER, frame_size
from onceq.store.checkpoints import PendingCheckpoint
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.testing.disk import Plan, SimFiles

PATH = "/store"
SEGMENT = 4096


def head_for(data: bytes) -> int:
    """How much of a record comes before its packets; some bring none."""
    return len(data) // 4 + 1 if len(data) % 3 else 0


def _nothing_lives(base: int, end: int) -> bool:
    return False


@dataclass(slots=True)
class Life:
    """What a store was told and what it promised.

    Attributes:
        appended: Position and payload of every record, in order.
        promised: How many of them a sync has covered.
        existed: Whether its making was reported done.
        states: Checkpoints by position; ``covered`` is the newest that was reported done.
        gone: Records before this position need not be readable any more.
    """

    files: SimFiles
    store: LogStore | None = None
    appended: list[tuple[int, bytes]] = field(default_factory=list)
    promised: int = 0
    existed: bool = False
    states: dict[int, bytes] = field(default_factory=dict)
    covered: int = 0
    gone: int = 0
    live: Callable[[int, int], bool] = _nothing_lives
    pending: PendingCheckpoint | None = None

    # ---- what scenarios are made of ---------------------------------------------------------

    @property
    def open_store(self) -> LogStore:
        assert self.store is not None
        return self.store

    def create(self) -> None:
        self.store = LogStore.create(
            PATH, self.files, store_id=b"S" * 16, identity=b"me", segment_bytes=SEGMENT
        )
        self.existed = True

    def append(self, data: bytes) -> None:
        self.appended.append((self.open_store.position, data))
        self.open_store.append(data, head_for(data))

    def sync(self) -> None:
        self.open_store.sync()
        self.promised = len(self.appended)

    def flush(self) -> None:
        self.open_store.flush()

    def state(self, position: int) -> bytes:
        self.states[position] = b"state up to %d" % position * 50
        return self.states[position]

    def checkpoint(self) -> None:
        self.begin()
        self.install()

    def begin(self) -> None:
        """Begin a checkpoint, which is written while the log goes on."""
        self.install()
        self.sync()
        position = self.open_store.position
        self.pending = self.open_store.checkpoint_begin([self.state(position)], position)

    def install(self) -> None:
        """Finish the checkpoint that was begun, if any."""
        if self.pending is not None:
            self.pending.write()
            self.open_store.checkpoint_install(self.pending)
            self.covered, self.pending = self.pending.head.position, None

    def reclaim(self) -> None:
        self.gone = self.covered
        self.open_store.reclaim(self.live)

    def prepare(self) -> None:
        self.open_store.prepare()

    def close(self) -> None:
        self.pending = None
        self.open_store.close()
        self.promised = len(self.appended)

    def reopen(self) -> None:
        """Open the store again; what is there now counts as promised from now on."""
        self.store = LogStore.open(PATH, self.files, segment_bytes=SEGMENT)
        self.compare(self.store)
        count = sum(position < self.store.position for position, _ in self.appended)
        del self.appended[count:]
        self.promised = count
        self.covered = max(self.covered, self.store.recovered.checkpoint_position)

    def killed(self) -> None:
        """The process ends; the machine does not."""
        self._on(self.files.kill())

    def power_cut(self, plan: Callable[[SimFiles], Plan]) -> None:
        """The machine ends, in one certain way."""
        self._on(self.files.image(plan(self.files)))

    def _on(self, disk: SimFiles) -> None:
        disk.operations, disk.stop_at = self.files.operations, self.files.stop_at
        disk.fail = self.files.fail
        self.files, self.store, self.pending = disk, None, None

    def on(self, disk: SimFiles) -> Life:
        """The same life, going on with another disk."""
        return replace(
            self,
            files=disk,
            store=None,
            pending=None,
            appended=list(self.appended),
            states=dict(self.states),
        )

    # ---- what must hold -----------------------------------------------------------------------

    def compare(self, store: LogStore) -> tuple[object, ...]:
        """Hold what ``open`` gave back against the promises; returns all of it."""
        found = store.recovered
        covered = found.checkpoint_position
        if found.checkpoint is None:
            assert covered == 0, "covered by no checkpoint"
        else:
            assert found.checkpoint == self.states.get(covered), "a checkpoint of nobody"
        assert covered >= self.covered, "a durable checkpoint is gone"
        records = [(position, bytes(payload)) for position, payload in store.records()]
        expected = [(position, data) for position, data in self.appended if position >= covered]
        assert records == expected[: len(records)], "what is there is no prefix (promise 2)"
        promised = [place for place in self.appended[: self.promised] if place[0] >= covered]
        assert len(records) >= len(promised), (
            f"{len(promised)} records were promised, {len(records)} are there (I1)"
        )
        end = covered
        if records:
            last = records[-1][1]
            end = records[-1][0] + frame_size(len(last), head_for(last))
        assert found.damaged == (), "a torn tail was taken for damage"
        assert store.position == store.synced == end, "appending would leave a hole (promise 3)"
        for position, data in self.appended:
            if position >= self.gone and position < end:
                address = position + FRAME_HEADER
                assert bytes(store.read(address, len(data))) == data, "other bytes (promise 5)"
        return (found.checkpoint, covered, records, end, found.torn_bytes)

    def judge(self, disk: SimFiles) -> int:
        """Check, open, open again, go on, open again; returns how many torn bytes there were."""
        if not self.existed and not disk.exists(PATH + "/STORE"):
            return 0
        before = disk.operations
        report = check(PATH, disk)
        assert disk.operations == before, "check has changed something"
        assert report.problem == "", f"check says {report.problem}"
        first = self._open_once(disk)
        assert (report.checkpoint_position, report.end_position) == (first[1], first[3])
        assert report.torn_bytes == first[4], "check and recovery see another tail"
        again = self._open_once(disk)
        assert first[:4] == again[:4], "two recoveries differ (I22)"
        onward = self.on(disk)
        onward.reopen()
        onward.append(b"life goes on")
        for n in range(3):
            onward.append(b"and on" * 500 + b"%d" % n)  # each needs another segment
        onward.sync()
        onward.close()
        report = check(PATH, disk)
        assert report.problem == "", f"later check says {report.problem}"
        assert report.closed, "closed in order, and check does not say so"
        onward.reopen()
        assert onward.promised == len(onward.appended)
        assert onward.open_store.recovered.clean, "closed in order, and not called clean"
        onward.open_store.close()
        return int(str(first[4]))

    def _open_once(self, disk: SimFiles) -> tuple[object, ...]:
        """Open and compare, and end without closing in order."""
        store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
        try:
            return self.compare(store)
        finally:
            store.abandon()
