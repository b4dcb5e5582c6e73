"""Crash points times disk images of the store (testing P5): every operation, every legal image.

A scenario is a short life of a store. It is stopped before each of its disk operations; for each
disk that may be found then, the store is opened, held against what it had promised, opened again
and used on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from onceq.errors import OnceqError
from onceq.store.check import check
from onceq.store.log import LogStore
from onceq.testing.disk import PowerCut, SimFiles

PATH = "/store"
SEGMENT = 4096


@dataclass(slots=True)
class Life:
    """What a store was told and what it promised."""

    files: SimFiles
    store: LogStore | None = None
    appended: list[tuple[int, bytes]] = field(default_factory=list)
    promised: int = 0
    existed: bool = False
    states: dict[int, bytes] = field(default_factory=dict)
    covered: int = 0
    live: Callable[[int, int], bool] = lambda base, end: False

    def create(self) -> None:
        self.store = LogStore.create(
            PATH, self.files, store_id=b"S" * 16, identity=b"me", segment_bytes=SEGMENT
        )
        self.existed = True

    def append(self, data: bytes) -> None:
        assert self.store is not None
        position = self.store.position
        self.appended.append((position, data))
        self.store.append([data[: len(data) // 2], data[len(data) // 2 :]])

    def sync(self) -> None:
        assert self.store is not None
        self.store.sync()
        self.promised = len(self.appended)

    def flush(self) -> None:
        assert self.store is not None
        self.store.flush()

    def checkpoint(self) -> None:
        assert self.store is not None
        self.sync()
        position = self.store.position
        state = b"state up to %d" % position * 50
        self.states[position] = state
        self.store.checkpoint([state], position)
        self.covered = position

    def reclaim(self) -> None:
        assert self.store is not None
        self.store.reclaim(self.live)

    def prepare(self) -> None:
        assert self.store is not None
        self.store.prepare()

    def close(self) -> None:
        assert self.store is not None
        self.store.close()
        self.promised = len(self.appended)

    def reopen(self) -> None:
        self.store = LogStore.open(PATH, self.files, segment_bytes=SEGMENT)
        for _ in self.store.records():
            pass


def _single(life: Life) -> None:
    life.create()
    life.append(b"one" * 100)
    life.sync()


def _batch(life: Life) -> None:
    life.create()
    for n in range(3):
        for m in range(3):
            life.append(b"%d.%d" % (n, m) * 60)
        life.sync()


def _roll(life: Life) -> None:
    life.create()
    for n in range(6):
        life.append(b"%d" % n * 1500)
        life.sync()


def _roll_unsynced(life: Life) -> None:
    life.create()
    life.append(b"first" * 50)
    life.sync()
    for n in range(4):
        life.append(b"%d" % n * 1900)
    life.sync()


def _large(life: Life) -> None:
    life.create()
    life.append(b"small")
    life.append(b"large" * 2000)
    life.sync()
    life.append(b"after")
    life.sync()


def _checkpoint(life: Life) -> None:
    life.create()
    life.append(b"before" * 20)
    life.checkpoint()
    life.append(b"behind" * 20)
    life.sync()
    life.checkpoint()


def _reclaim(life: Life) -> None:
    life.create()
    for n in range(5):
        life.append(b"%d" % n * 1800)
        life.sync()
    life.checkpoint()
    life.reclaim()
    for n in range(4):
        life.append(b"again %d" % n * 250)
        life.sync()


def _ready(life: Life) -> None:
    life.create()
    life.prepare()
    life.prepare()
    for n in range(4):
        life.append(b"%d" % n * 2000)
        life.sync()


def _lazy(life: Life) -> None:
    life.create()
    life.append(b"lazy one" * 20)
    life.flush()
    life.append(b"lazy two" * 20)
    life.flush()
    life.append(b"forced" * 20)
    life.sync()
    life.append(b"lazy three" * 20)
    life.flush()


def _reopen(life: Life) -> None:
    life.create()
    life.append(b"first life" * 20)
    life.sync()
    life.append(b"never synced" * 20)
    life.flush()
    life.files = life.files.kill()
    life.reopen()
    life.append(b"second life" * 20)
    life.sync()


def _close(life: Life) -> None:
    life.create()
    life.append(b"one" * 30)
    life.close()
    life.reopen()
    life.append(b"two" * 30)
    life.checkpoint()
    life.close()


def _live_segment(life: Life) -> None:
    life.create()
    life.live = lambda base, end: base == 0
    for n in range(5):
        life.append(b"%d" % n * 1800)
        life.sync()
    life.checkpoint()
    life.reclaim()
    life.append(b"more" * 100)
    life.sync()
    life.checkpoint()
    life.reclaim()


SCENARIOS: dict[str, Callable[[Life], None]] = {
    name[1:]: work
    for name, work in list(globals().items())
    if name.startswith("_") and callable(work) and not name.startswith("__")
}


@dataclass(slots=True)
class Tally:
    """What a run of the programme has seen."""

    points: int = 0
    images: int = 0
    torn: int = 0
    marks: set[str] = field(default_factory=set)


def run(name: str, images_max: int, tally: Tally) -> None:
    """One scenario: every crash point, every image up to ``images_max`` a point."""
    stop = 1
    while True:
        life = Life(SimFiles())
        life.files.stop_at = stop
        try:
            SCENARIOS[name](life)
        except PowerCut:
            pass
        else:
            if not life.files.operations < stop:
                raise AssertionError("a scenario went on behind its end")
            judge_all(f"{name} at its end", life, images_max, tally)
            return
        tally.points += 1
        judge_all(f"{name} before operation {stop}", life, images_max, tally)
        stop += 1


def judge_all(where: str, life: Life, images_max: int, tally: Tally) -> None:
    """Hold every disk that may be found now against the promises."""
    for number, disk in enumerate(_limited(life.files.images(), images_max)):
        tally.images += 1
        try:
            judge(life, disk, tally)
        except (AssertionError, OnceqError) as error:
            raise AssertionError(f"{where}, image {number}: {error!r}") from error


def _limited(images: Iterator[SimFiles], count: int) -> Iterator[SimFiles]:
    for number, image in enumerate(images):
        if number >= count:
            return
        yield image


def judge(life: Life, disk: SimFiles, tally: Tally) -> None:
    """Open, compare, open again, go on."""
    if not life.existed and not disk.exists(PATH + "/STORE"):
        return
    first = _contents(life, disk, tally)
    again = _contents(life, disk, tally)
    assert first == again, "two recoveries differ (I22)"
    report = check(PATH, disk)
    assert report.problem == "", f"check says {report.problem}"
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    kept = [bytes(payload) for _, payload in store.records()]
    position = store.append([b"life goes on"])
    store.sync()
    assert bytes(store.read(position + 32, 12)) == b"life goes on"
    store.close()
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    later = [bytes(payload) for _, payload in store.records()]
    assert later == [*kept, b"life goes on"], "what was added after the crash is not there"
    store.close()


def _contents(life: Life, disk: SimFiles, tally: Tally) -> tuple[object, ...]:
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    found = store.recovered
    if found.torn_bytes:
        tally.torn += 1
    records = [(position, bytes(payload)) for position, payload in store.records()]
    covered = found.checkpoint_position
    if found.checkpoint is not None:
        assert found.checkpoint == life.states.get(covered), "a checkpoint of nobody"
    assert covered >= life.covered, "a durable checkpoint is gone"
    expected = [(position, data) for position, data in life.appended if position >= covered]
    assert records == expected[: len(records)], "what is there is not a prefix (promise 2)"
    promised = [p for p in life.appended[: life.promised] if p[0] >= covered]
    assert len(records) >= len(promised), (
        f"{len(promised)} records were promised, {len(records)} are there (I1)"
    )
    end = store.position
    store.close()
    return (found.checkpoint, covered, records, end)
