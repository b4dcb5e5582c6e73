"""Random moves, claims, rejections, cursors and aborts: nothing is lost, doubled, or forgotten.

The core alone, without an engine: its records are kept, and a second core is recovered from them.
"""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from onceq.core.decision import Handed
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.marks import NEVER_S
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.results import Opened
from onceq.model.run import Run
from onceq.model.settings import Settings
from tests.unit.core.alone import IDENTITY, Core

Q = r"private$\q"
NAMES = (Q, Q + ";retry", Q + ";poison", Q + ";x")


class Applications:
    """What they do at random, and what is to come out of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.core = Core()
        self.sent = self.ended = 0
        self.open: dict[int, int] = {}
        self.handles: list[int] = []
        self.cursors: list[tuple[str, int]] = []
        made = QueueProperties(
            "q", transactional=True, poison_attempts=self.rng.choice([0, 0, 2, 3]),
            poison_retry_after=self.rng.choice([0, 30]),
            poison_then=self.rng.choice(["move:poison", "reject", "dead-letter"]),
        )  # fmt: skip
        self.policy = made.poison_attempts > 0
        self.core.ask(requests.CreateQueue(properties=made, instance=b"Q" * 16))

    def step(self) -> None:
        works: list[Callable[[], object]] = [
            self.send, self.send, self.begin, self.receive, self.receive, self.move, self.move,
            self.commit, self.abort, self.reject, self.claim, self.handle, self.cursor, self.purge,
            lambda: self.core.pass_time(self.rng.choice([1, 40, 400])),
        ]  # fmt: skip
        self.rng.choice(works)()

    def tx(self) -> int:
        return self.rng.choice([0, *self.open])

    def lookup(self, name: str, *, peek: bool = True) -> int:
        answer = self.core.ask(requests.Receive(name, count_max=20, peek=True))
        if isinstance(answer, Handed):
            return int(self.rng.choice(answer.lookups))
        return self.rng.randrange(1, 1 << 20)

    def send(self) -> None:
        count = self.rng.randrange(1, 4)
        lifetime = self.rng.choice([NEVER_S, NEVER_S, 60])
        item = requests.SendItem(
            r"DIRECT=OS:.\private$\q", Properties(time_to_be_received=lifetime),
            Run.of([b"%d" % n for n in range(count)]),
        )  # fmt: skip
        self.core.ask(requests.Commit(0, (item,)))
        self.sent += count

    def begin(self) -> None:
        number = max(self.open, default=0) + 1
        self.core.ask(requests.Begin(number))
        self.open[number] = 0

    def receive(self) -> None:
        tx, name, count = self.tx(), self.rng.choice(NAMES), self.rng.randrange(1, 5)
        seek = self.rng.choice([requests.Seek.CURRENT, *requests.Seek])
        lookup = self.lookup(name) if seek or self.rng.random() < 0.5 else 0
        show = bool(tx and lookup and self.rng.random() < 0.3)
        self.core.ask(requests.Receive(name, tx, count, lookup=lookup, seek=seek, allow_peek=show))

    def move(self) -> None:
        tx, name, to = self.tx(), self.rng.choice(NAMES), self.rng.choice(NAMES)
        lookup = self.lookup(name)
        self.core.ask(requests.MoveMessage(name, to, lookup, tx))

    def reject(self) -> None:
        tx = self.tx()
        held = self.core.ask(requests.Receive(Q, tx, 2)) if tx else None
        if isinstance(held, Handed):
            chosen = tuple(held.lookups[:1])
            keep = self.rng.random() < 0.5
            self.core.ask(requests.Reject(Q, tx, chosen, keep))

    def claim(self) -> None:
        tx = self.tx()
        first = self.lookup(Q)
        claimed = self.core.ask(requests.Claim(Q, tx, ((first, first + 1),)))
        if not isinstance(claimed, OnceqError) and tx:
            got = self.core.ask(requests.Fetch(Q, tx, first, first + 1))
            assert isinstance(got, Handed)
            assert list(got.lookups) == [first, first + 1]

    def handle(self) -> None:
        if self.handles and self.rng.random() < 0.5:
            number = self.handles.pop(self.rng.randrange(len(self.handles)))
            assert self.core.ask(requests.CloseQueue(number)) is None
            return
        name, access = self.rng.choice(NAMES), self.rng.choice([1, 4, 32])
        opened = self.core.ask(requests.OpenQueue(name, requests.Access(access)))
        assert isinstance(opened, Opened)
        self.handles.append(opened.handle)
        made = self.core.ask(requests.OpenCursor(opened.handle))
        if isinstance(made, int):
            self.cursors.append((name, made))

    def cursor(self) -> None:
        if self.cursors:
            name, number = self.rng.choice(self.cursors)
            seek, peek = self.rng.choice(list(requests.Seek)), self.rng.random() < 0.7
            self.core.ask(requests.Receive(name, peek=peek, seek=seek, cursor=number))

    def purge(self) -> None:
        if self.rng.random() < 0.1:
            self.core.ask(requests.PurgeQueue(self.rng.choice(NAMES)))

    def commit(self) -> None:
        if self.open:
            number = self.rng.choice(list(self.open))
            del self.open[number]
            answer = self.core.ask(requests.Commit(number))
            assert not isinstance(answer, OnceqError)

    def abort(self) -> None:
        if self.open:
            number = self.rng.choice(list(self.open))
            del self.open[number]
            assert self.core.ask(requests.Abort(number)) is None


def parts(manager: Manager) -> tuple[dict[str, Any], bytes]:
    """A snapshot: its head without what each start takes anew (its stamp, its life and the numbers
    and places that it passes over), and its tables."""
    raw = b"".join(bytes(part) for part in manager.snapshot().encode())
    size = struct.unpack_from("<II", raw)[1]
    head = json.loads(raw[8 : 8 + size])
    head["next"][1] = 0
    for anew in ("stamp", "life", "ceiling", "places"):
        del head[anew]
    for lane in head["lanes"]:
        del lane["next"]
    return head, raw[8 + size :]


@pytest.mark.parametrize("seed", range(60))
def test_recovery_is_as_it_was(seed: int) -> None:
    apps = Applications(seed)
    for _ in range(150):
        apps.step()
        state = apps.core.manager.state
        assert {h.number: len(h) for h in state.all_queues.values()} == state.recount()
        used = {handle.queue for handle in apps.core.manager._step.readers.handles.values()}
        moving: set[int] = set()
        for tx in apps.core.manager._step.units.transactions.values():
            moving |= tx.targets
        for number, sub in state.subqueues.items():
            assert len(sub) or number in used | moving, f"{sub.title} is empty and unused"
    for number in list(apps.open):
        apps.core.ask(requests.Abort(number))
    for number in apps.handles:
        apps.core.ask(requests.CloseQueue(number))
    apps.core.pass_time(1)
    assert not any("held" in title for title in apps.core.present())
    other = apps.core.again()
    assert parts(other) == parts(apps.core.manager)
    third = Manager(IDENTITY, Settings())
    checkpoint = b"".join(bytes(part) for part in other.snapshot().encode())
    third.recover(
        apps.core.now(), checkpoint, [], apps.core.manager.position, entropy=bytes(ENTROPY_BYTES)
    )
    assert parts(third) == parts(other)


def test_random_work_reaches_what_it_is_for() -> None:
    """Otherwise the test above would say little."""
    seen: Counter[str] = Counter()
    for seed in range(10):
        apps = Applications(seed)
        for _ in range(150):
            apps.step()
            seen.update(apps.core.present().keys())
            seen.update({"shown": any(q.shown for q in apps.core.manager.state.queues.values())})
            units = apps.core.manager._step.units
            moving = any(m.to for tx in units.transactions.values() for m in tx.receives)
            seen.update({"moving": moving})
    for what in ("q", "q held", "q;retry", "q;poison", "q;x", "q;retry held", "shown", "moving"):
        assert seen[what] > 5, f"{what}: {seen}"
