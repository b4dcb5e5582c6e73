"""What a manager recovers to, held against its whole log from the beginning.

A simulated computer keeps every record that its manager ever wrote, also what the manager's own log
has given back since. At a start three states must be the same, field by field: the one that the
checkpoint and the log behind it give; the one that all records give without any checkpoint; and
the one that a checkpoint made now would give. In the end the state of the running manager must be
the state of its records, too.

Watches: I22, and that nothing durable changes but by a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.snapshot import replay, restore, snapshot
from onceq.core.state.state import State
from onceq.model.identity import Identity
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from proof.sim.base import marks
from proof.sim.base.clock import SimClock
from proof.sim.base.comparing import differences
from proof.sim.base.kernel import Kernel

SHOWN = 6
"""Differences in a violation."""
BY_THE_WAY = ("next_message", "number_ceiling", "last_access_s")
"""What a running manager uses up without a record: a later start passes over what may have been
used (I7); and when a sender was heard of last."""


class Archive:
    """Every record of one manager, by its position."""

    def __init__(self) -> None:
        self._records: dict[int, bytes] = {}
        self._before: bytes | None = None
        """What a checkpoint says of all that was before them; None: nothing was."""

    def begin(self, checkpoint: bytes | None) -> None:
        """Another store has taken the place of the one that these records were of."""
        self._records.clear()
        self._before = checkpoint

    def add(self, position: int, record: bytes) -> None:
        """This record stands there, or is about to."""
        self._records[position] = record

    def cut(self, end: int) -> None:
        """What the log has from there on is gone."""
        self._records = {at: raw for at, raw in self._records.items() if at < end}

    def replayed(self, identity: Identity, end: int | None = None) -> State:
        """The state that all records give, or those before a position."""
        positions = sorted(at for at in self._records if end is None or at < end)
        records = ((at, memoryview(self._records[at])) for at in positions)
        return replayed(identity, self._before, records)


class ArchivedStore(LogStore):
    """The store, with an archive of what is appended to it. Set ``archive`` after opening it."""

    archive: Archive

    def append(self, payload: bytes, head: int = 0) -> int:
        """See Store."""
        self.archive.add(self.position, payload)
        return super().append(payload, head)


def replayed(
    identity: Identity, checkpoint: bytes | None, records: Iterable[tuple[int, memoryview]]
) -> State:
    """The state that a checkpoint (None: there is none) and the records behind it give."""
    state = State(identity)
    replay(state, checkpoint, records)
    # Branches of a group whose commits have followed are gone; a manager strikes them off.
    there = {branch.number for branch in state.branches}
    state.groups.pending = [number for number in state.groups.pending if number in there]
    return state


def _through_a_checkpoint(state: State) -> State:
    again = State(state.identity)
    restore(again, b"".join(snapshot(state)))
    return again


class Computer(Protocol):
    """The computer that the checks are of."""

    name: str
    index: int
    path: str
    clock: SimClock


class Recovery:
    """The checks of one simulated computer; see the module."""

    def __init__(self, kernel: Kernel, node: Computer) -> None:
        self.kernel, self.node = kernel, node
        self.rng = kernel.stream(f"recovery {node.index}")
        self.archive = Archive()
        self.replaced = False
        """The store was put back since the last start."""

    # ---- at a start -----------------------------------------------------------------------

    def opened(self, store: LogStore) -> None:
        """The store is open, and nothing was recovered from it yet."""
        assert isinstance(store, ArchivedStore)
        store.archive = self.archive
        if self.replaced:
            self.replaced = False
            self.archive.begin(store.recovered.checkpoint)
            for position, record in store.records():
                self.archive.add(position, bytes(record))
        self.archive.cut(store.position)
        if self.rng.random() > 0.5:
            return
        identity = Identity.unpack(store.identity)
        checkpoint = store.recovered.checkpoint
        found = replayed(identity, checkpoint, store.records())
        if checkpoint is not None:
            self.kernel.marks[marks.REPLAYED] += 1
            self._same("the checkpoint and its log", found, "all records",
                       self.archive.replayed(identity), ("last_access_s",))  # fmt: skip
        if not found.groups.pending:
            self._same("the log", found, "a checkpoint of it", _through_a_checkpoint(found))

    def twice(self, copy: SimFiles) -> None:
        """Recovering twice gives the same state as once, tried on a copy of the disk."""
        first, copy = self._recovered(copy)
        second, _ = self._recovered(copy)
        if first != second:
            self.kernel.wrong(f"I22: {self.node.name} recovers to another state the second time")

    def _recovered(self, disk: SimFiles) -> tuple[bytes, SimFiles]:
        node = self.node
        options = self.kernel.options
        store = LogStore.open(node.path, disk, segment_bytes=options.segment_bytes)
        manager = Manager(Identity.unpack(store.identity), options.settings)
        manager.recover(
            node.clock.read(), store.recovered.checkpoint, store.records(), store.position,
            entropy=bytes(ENTROPY_BYTES),
        )  # fmt: skip
        return b"".join(manager.snapshot().encode()), disk.kill()

    # ---- a backup -------------------------------------------------------------------------

    def put_back(self, store: LogStore) -> None:
        """A store that was put back has what the manager had at the cut."""
        identity = Identity.unpack(store.identity)
        found = replayed(identity, store.recovered.checkpoint, store.records())
        self._same("the backup", found, "all records up to its cut",
                   self.archive.replayed(identity, store.position), ("last_access_s",))  # fmt: skip

    # ---- in the end -----------------------------------------------------------------------

    def in_the_end(self, manager: Manager) -> None:
        """The running manager is what its records say."""
        state = manager.state
        self._same("the running manager", state, "all records",
                   self.archive.replayed(state.identity), BY_THE_WAY)  # fmt: skip

    def _same(
        self, what: str, one: State, other_what: str, other: State, apart: Iterable[str] = ()
    ) -> None:
        node = self.node
        wall_s = node.clock.latest_s()
        for state in (one, other):
            # Sessions of clients are forgotten by the clock, not by records; it may have been set
            # back since.
            state.outcomes.forget(wall_s, self.kernel.options.settings.outcome_age_s)
        found = differences(one, other, apart=apart)
        if found:
            self.kernel.wrong(
                f"I22: {node.name}: {what} / {other_what} differ in {len(found)} places",
                "\n".join(found[:SHOWN]),
            )
