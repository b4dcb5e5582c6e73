"""Stores as this version writes them, kept as bytes: later versions must read them.

``python -m tests.unit.core.state.old_stores`` prints one. A file that is kept is never written
again: when a format changes, the next one stands beside it (``stores/``).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from onceq.core.decision import Handed
from onceq.core.inputs import JobBatch, JobDeed
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.identity import Identity
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.settings import Settings
from tests.unit.core.alone import IDENTITY, Core

FOLDER = Path(__file__).parent / "stores"
Q, OTHER = r"private$\q", r"private$\other"
PREPARED, LATER = Xid(1, b"prepared", b"b"), Xid(1, b"later", b"b")


@dataclass
class Store:
    """A checkpoint, and the records behind it.

    Attributes:
        position: How far the checkpoint covers the log.
        end: Behind the last record.
        before: The records that the checkpoint covers, where they are kept, too.
        after: The checkpoint that its version made of the checkpoint and the records behind it.
    """

    checkpoint: bytes
    position: int
    records: list[tuple[int, memoryview]]
    end: int
    before: list[tuple[int, memoryview]] = field(default_factory=list)
    after: bytes = b""
    identity: Identity = IDENTITY

    @classmethod
    def kept(cls, name: str) -> Self:
        """From a file."""
        found = cls(b"", 0, [], 0)
        raw_file = (FOLDER / name).read_bytes()
        text = (gzip.decompress(raw_file) if name.endswith(".gz") else raw_file).decode()
        for line in text.splitlines():
            what, at, *raw = line.split()
            if what == "record":
                into = found.records if int(at) >= found.position else found.before
                into.append((int(at), memoryview(bytes.fromhex(raw[0]))))
            elif what == "identity":
                found.identity = Identity.unpack(bytes.fromhex(raw[0]))
            elif what == "after":
                found.after = bytes.fromhex(raw[0])
            elif what == "checkpoint":
                found.checkpoint, found.position = bytes.fromhex(raw[0]), int(at)
            else:
                found.end = int(at)
        return found

    def lines(self) -> Iterator[str]:
        """As they are kept."""
        yield f"checkpoint {self.position} {self.checkpoint.hex()}"
        for at, payload in self.records:
            yield f"record {at} {payload.hex()}"
        yield f"end {self.end}"

    def recovered(self, core: Core, *, whole: bool = True) -> Core:
        """A core that goes on with it.

        Args:
            whole: With the records behind the checkpoint.
        """
        core.manager = Manager(self.identity, Settings())
        records = self.records if whole else []
        end = self.end if whole else self.position
        core.records = list(records)
        entropy = bytes(ENTROPY_BYTES)
        checkpoint = self.checkpoint or None
        core.kept(core.manager.recover(core.now(), checkpoint, records, end, entropy=entropy))
        return core


def item(*bodies: bytes, to: str = Q, **properties: Any) -> requests.SendItem:
    """Some messages."""
    return requests.SendItem(to, Properties(**properties), Run.of(bodies))


def work(core: Core) -> Iterator[None]:
    """What a store of this version may have that older ones have not; a checkpoint in the middle.

    Delayed messages (of transactions, and of a prepared branch), a batch of a job, and, after a
    restart, places of a life of its own.
    """
    for name in ("q", "other"):
        made = QueueProperties(name, transactional=True)
        core.ask(requests.CreateQueue(properties=made, instance=name.encode().ljust(16, b"Q")))
    core.ask(requests.Commit(0, (item(b"1", b"2"), item(b"3", delay=60))))
    records, position = core.records, core.manager.position
    core = Store(b"", 0, records, position).recovered(core)
    core.ask(requests.Commit(0, (item(b"4", to=OTHER),)))
    branch(core, PREPARED, b"5")
    yield
    core.ask(requests.Commit(0, (item(b"6", delay=90),)))
    branch(core, LATER, b"7")
    job = requests.StartJob("move", [Q], to=OTHER)
    job.check()
    core.ask(job)
    found = core.ask(requests.Receive(Q, count_max=1, peek=True))
    assert isinstance(found, Handed)
    (at,) = found.lookups
    deed = JobDeed(at, "m/1", item(b"1", to=OTHER), True)
    core.ask(JobBatch(1, 0, 0, 0, at, 1, (deed,), (("held", 1),)))
    yield


def branch(core: Core, xid: Xid, body: bytes) -> None:
    """One that is prepared, and sends something delayed."""
    core.ask(requests.StartBranch(7, xid))
    core.ask(requests.PrepareBranch(xid, 7, (item(body, delay=120),)))


def made() -> Store:
    """One of now."""
    core = Core()
    steps = work(core)
    next(steps)
    position = core.manager.position
    checkpoint = b"".join(map(bytes, core.manager.snapshot().encode()))
    known = len(core.records)
    next(steps)
    return Store(checkpoint, position, core.records[known:], core.manager.position)


if __name__ == "__main__":
    print("\n".join(made().lines()))
