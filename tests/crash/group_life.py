"""A short life of a queue manager that commits groups of branches, and the judge of its disks.

Three tasks prepare a branch each, and one of them runs twice, as a speculative one does; then the
group is committed; again and again, with a checkpoint between. The power goes before some
operation of the disk. Whatever disk is found then: a version is there entirely and in order or not
at all; what was answered is there; what is remembered is what is there; and asking again sends
what is missing, once (I1, I2, I4, I20, I21, I22).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from onceq.core.manager import Manager
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.branches import Xid, group_prefix, group_xid
from onceq.model.identity import Identity
from onceq.model.marks import Now
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.model.views.looks import GroupResult
from onceq.packet.arrived import Batch
from onceq.service.engine import Engine
from onceq.store.log import LogStore
from onceq.testing.disk import PowerCut, SimFiles

PATH = "/store"
APP = "pipeline"
QUEUE = r"private$\out"
TASKS = 3
SMALL = 4096
"""A segment that is less than one group."""
IDENTITY = Identity(b"M" * 16, "M", 1_700_000_000)


class NoNetwork:
    """Nobody to connect to."""

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        raise AssertionError("nothing here is sent elsewhere")


class GroupLife:
    """One manager on one disk.

    Attributes:
        asked: The last version whose group was asked to be committed.
        told: The last one of which it was answered that it is.
    """

    def __init__(self, files: SimFiles, *, segment_bytes: int) -> None:
        self.files, self.segment_bytes = files, segment_bytes
        self.now_us = 1_000_000
        self.numbers = itertools.count(1)
        self.answers: dict[int, object] = {}
        self.asked = self.told = -1
        self.attempts = itertools.count(1)
        self.existed = False

    def read(self) -> Now:
        """The clock; each look takes a millisecond."""
        self.now_us += 1_000
        return Now(IDENTITY.installed_s * 1_000_000 + self.now_us, self.now_us)

    def open(self) -> None:
        """Start on what is there."""
        if not self.existed:
            LogStore.create(
                PATH, self.files, store_id=b"S" * 16, identity=IDENTITY.pack(),
                segment_bytes=self.segment_bytes,
            ).close()  # fmt: skip
        self.store = LogStore.open(PATH, self.files, segment_bytes=self.segment_bytes)
        settings = Settings()
        self.engine = Engine(
            manager=Manager(IDENTITY, settings), store=self.store, clock=self,
            network=NoNetwork(),
            settings=settings, wake=lambda: None, fatal=self._fatal, entropy=bytes,
        )  # fmt: skip
        self.engine.start()
        self.owner = self.engine.owner(self.answers.__setitem__)
        if not self.existed:
            made = QueueProperties("out", transactional=True)
            self.ask(requests.CreateQueue(properties=made, instance=b"Q" * 16))
            self.existed = True

    def _fatal(self, error: BaseException) -> None:
        raise error

    def ask(self, request: requests.Request) -> Any:
        number = next(self.numbers)
        self.engine.submit(replace(request, owner=self.owner, request=number))
        while self.engine.pump():
            pass
        result = self.answers.pop(number)
        if isinstance(result, OnceqError):
            raise result
        return result

    # ---- a batch ----------------------------------------------------------------------------

    def prepare(self, version: int) -> list[Xid]:
        """All tasks of a batch have prepared; the first of them twice."""
        gtrid = self._attempt(version)
        xids = [self._task(version, task, gtrid) for task in range(TASKS)]
        self._task(version, 0, self._attempt(version))
        return xids

    def _attempt(self, version: int) -> bytes:
        drawn = next(self.attempts).to_bytes(6, "big")
        return bytes(self.ask(requests.BeginAttempt(_prefix(version), drawn=drawn)))

    def _task(self, version: int, task: int, gtrid: bytes) -> Xid:
        xid = group_xid(gtrid, str(task))
        number = next(self.numbers)
        self.ask(requests.StartBranch(number, xid))
        item = requests.SendItem(QUEUE, Properties(), Run.of(bodies_of(version, task)))
        self.ask(requests.PrepareBranch(xid, number, (item,)))
        return xid

    def commit(self, version: int, xids: list[Xid]) -> GroupResult:
        self.asked = max(self.asked, version)
        result = self.ask(
            requests.CommitGroup(APP, "query", version, _prefix(version), tuple(xids))
        )
        assert isinstance(result, GroupResult)
        self.told = max(self.told, version)
        return result

    def batch(self, version: int) -> None:
        self.commit(version, self.prepare(version))

    def checkpoint(self) -> None:
        self.store.sync()
        self.store.checkpoint(self.engine.manager.snapshot().encode(), self.store.position)

    # ---- what is there ----------------------------------------------------------------------

    def bodies(self) -> list[bytes]:
        found = self.ask(
            requests.Receive(QUEUE, 0, 10_000, 1 << 25, wait_until_us=0, peek=True)
            if self._holds()
            else requests.Look("queues")
        )
        if not isinstance(found, Batch):
            return []
        return found.bodies()

    def _holds(self) -> bool:
        return bool(self.ask(requests.Look("queue", QUEUE)).messages)

    def remembered(self) -> int:
        found = self.engine.manager.state.groups.get(APP)
        return found.version if found is not None else -1

    def on(self, disk: SimFiles) -> GroupLife:
        """The same life, going on with another disk."""
        other = GroupLife(disk, segment_bytes=self.segment_bytes)
        other.now_us, other.attempts = self.now_us, self.attempts
        other.asked, other.told, other.existed = self.asked, self.told, self.existed
        return other

    def judge(self, disk: SimFiles) -> None:
        """Start on a disk that may be found, twice; then the driver asks again."""
        if not self.existed:
            return
        for _ in range(2):
            life = self.on(disk)
            life.open()
            assert self.told <= life.remembered() <= self.asked
            assert life.bodies() == all_of(life.remembered()), "not entirely, or not in order"
            life.store.abandon()
        life = self.on(disk)
        life.open()
        before = life.remembered()
        for version in range(self.asked + 2):
            assert life.commit(version, life.prepare(version)).already == (version <= before)
        assert life.bodies() == all_of(self.asked + 1), "not exactly once"
        left = life.ask(requests.Look("branches"))
        assert not left, "branches that nobody will ever ask for"
        life.engine.stop()


def bodies_of(version: int, task: int) -> list[bytes]:
    return [b"%d.%d.%d" % (version, task, n) * 20 for n in range(2)]


def all_of(version: int) -> list[bytes]:
    """What is in the queue when everything up to a version was committed."""
    return [b for v in range(version + 1) for task in range(TASKS) for b in bodies_of(v, task)]


def _prefix(version: int) -> bytes:
    return group_prefix(IDENTITY.guid, version.to_bytes(6, "big"))


def lived(stop: int, *, segment_bytes: int) -> tuple[GroupLife, bool]:
    """The whole life up to before a disk operation, and whether it was stopped there."""
    life = GroupLife(SimFiles(), segment_bytes=segment_bytes)
    life.files.stop_at = stop
    try:
        life.open()
        life.batch(0)
        life.checkpoint()
        life.batch(1)
        life.batch(2)
    except PowerCut:
        return life, True
    return life, False


def images(most: int) -> int:
    """Judge up to ``most`` disks at every operation; returns how many were judged."""
    stop, stopped, count = 1, True, 0
    while stopped:
        life, stopped = lived(stop, segment_bytes=SMALL)
        for disk in life.files.images(most, seed=stop):
            life.judge(disk)
            count += life.existed
        stop += 1
    return count
