"""Housekeeping: checkpoints when they are due, in the background, never in the way of the rest."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from onceq.core.decision import Decision
from onceq.core.inputs import Input, Relocate, SpaceChanged, Tick
from onceq.core.manager import Manager
from onceq.core.state import log_space
from onceq.core.state.log_space import LiveMessages
from onceq.errors import NoSpace, OnceqError, StorageReserve, SyncFailed
from onceq.model import requests
from onceq.model.identity import Identity
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Buffer, Extent, Run
from onceq.model.settings import Settings
from onceq.packet.arrived import Batch
from onceq.service import upkeep
from onceq.service.engine import Engine
from onceq.service.upkeep import GIVEN_BACK_AT_ONCE, Emptying
from onceq.store.contract import SegmentUse
from onceq.store.log import LogStore
from onceq.store.memory import MemoryStore
from onceq.store.pool import READY_MIN
from onceq.testing.disk import SimFiles
from tests.unit.service.fakes import SMALL, Calls, Clock, Diary, House, write


class Elsewhere:
    """A background that works when it is told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Future[Any]]] = []

    def __call__(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((work, future))
        return future

    def go(self) -> None:
        work, future = self.work.pop(0)
        try:
            future.set_result(work())
        except NoSpace as error:
            future.set_exception(error)
        except SyncFailed as error:
            future.set_exception(error)


class Disk(Diary):
    """A diary of a store whose checkpoints come in halves."""

    def prepare(self) -> bool:
        self._note("prepare")
        return False

    plenty = False

    def trim(self, *, half: bool = False) -> None:
        self._note("trim")

    def note(self) -> None:
        pass

    segment_bytes = 0

    def room_bytes(self) -> int:
        return self.free

    def checkpoint_begin(self, state: Sequence[Buffer], position: int) -> Disk:
        self._note("begin", position)
        self.pending = (state, position)
        return self

    def write(self) -> str:
        self._note("write")
        return ""

    def checkpoint_install(self, pending: Disk) -> None:
        self._note("install", pending.pending[1])
        MemoryStore.checkpoint(self, *pending.pending)


def on_disk(background: Elsewhere | None = None, settings: Settings = SMALL) -> House:
    house = House(settings=settings)
    house.store = Disk(house.notes)
    house.engine = Engine(
        manager=house.core,  # type: ignore[arg-type]
        store=house.store,
        clock=house.clock,
        network=Calls(house.notes),
        settings=settings,
        wake=lambda: None,
        fatal=house.failures.append,
        background=background,
    )
    house.core.image = b""
    return house.start()


def look_on(house: House) -> None:
    """The look that finds that nothing happens any more."""
    house.pass_s(1)
    house.pump(Tick())


def test_a_checkpoint_is_made_when_enough_log_was_written() -> None:
    house = House(settings=SMALL).start()
    house.core.image = b""
    write(house, 500)
    assert "reclaim" not in house.notes
    write(house, 600)
    position = house.store.position
    assert house.notes[-3:] == ["sync", f"checkpoint {position}", "reclaim"]
    house.notes.clear()
    write(house, 100)
    assert "reclaim" not in house.notes


def test_a_small_state_is_written_more_often_than_the_setting_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "SMALL_STATE_LOG_BYTES", 300)
    house = House(settings=SMALL).start()
    house.core.image = b"s" * 10
    write(house, 290)
    assert "reclaim" in house.notes, "64 bytes for the log, and eight times the state"
    house.notes.clear()
    write(house, 290)
    assert "reclaim" not in house.notes


def test_a_large_state_is_not_written_for_a_little_log() -> None:
    house = House(settings=SMALL).start()
    house.core.image = b"s" * 2_000
    write(house, 1_100)
    assert "reclaim" in house.notes
    house.notes.clear()
    write(house, 1_100)
    assert "reclaim" not in house.notes, "four times the state's size is not written yet"


def test_looks_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(settings=SMALL).start()
    house.core.image = b""
    write(house, 10)
    looked: list[int] = []

    def free_bytes() -> int:
        looked.append(1)
        return 1 << 40

    monkeypatch.setattr(house.store, "free_bytes", free_bytes)
    for _ in range(50):
        house.pump(Tick())
    assert not looked, "less than a second and little log"


def test_an_idle_manager_makes_a_checkpoint_of_what_it_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "IDLE_LOG_BYTES", 200)
    settings = Settings(disk_reserve_bytes=100, checkpoint_log_bytes=1 << 30)
    house = House(settings=settings).start()
    write(house, 100)
    look_on(house)
    assert house.engine.next_timer() is None, "too little to bother"
    write(house, 100)
    due = house.engine.next_timer()
    assert due == house.clock.now_us + 1_000_000
    house.clock.now_us = due or 0
    house.pump(Tick())
    assert "reclaim" in house.notes
    assert house.engine.next_timer() is None


def test_a_look_that_begins_a_checkpoint_leaves_the_old_segments_to_the_next_pump(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = on_disk(Elsewhere())

    def begin(*_: object) -> bool:
        house.notes.append("emptying")
        return False

    monkeypatch.setattr(Emptying, "begin", begin)
    write(house, 1_100)
    assert house.notes[-1].startswith("begin")
    assert "emptying" not in house.notes
    house.pump()
    assert house.notes[-1] == "emptying"
    house.pump()
    assert house.notes.count("emptying") == 1


def test_the_slow_half_is_done_elsewhere_and_commits_go_on_meanwhile() -> None:
    elsewhere = Elsewhere()
    house = on_disk(elsewhere)
    write(house, 1_100)
    covered = house.store.position
    assert house.notes[-1] == f"begin {covered}"
    assert isinstance(house.store, Disk)
    assert not house.store.pending[0], "the bytes are made elsewhere, too"
    write(house, 2_000)
    assert house.store.position > covered
    assert not any(note.startswith(("begin", "install")) for note in house.notes[-3:])
    elsewhere.go()
    assert house.notes[-1] == "write"
    house.pump()
    assert [n for n in house.notes if n.startswith(("install", "reclaim"))] == [
        f"install {covered}", "reclaim",
    ]  # fmt: skip
    assert house.store.recovered.checkpoint_position == covered


def test_a_stop_waits_for_the_checkpoint_under_way_and_makes_the_last() -> None:
    elsewhere = Elsewhere()
    house = on_disk(elsewhere)
    write(house, 1_100)
    covered = house.store.position
    house.core.decide = lambda item: house.core.decision(records="more")
    house.pump(Tick())
    elsewhere.go()
    waiting = elsewhere.work

    def at_once(work: Callable[[], Any]) -> Future[Any]:
        future = elsewhere(work)
        elsewhere.go()
        return future

    house.engine.background = at_once
    house.engine.stop()
    assert not waiting
    last = house.store.position
    installs = [note for note in house.notes if note.startswith("install")]
    assert installs == [f"install {covered}", f"install {last}"]
    assert house.notes[-1] == "close"


def test_a_full_disk_keeps_the_checkpoint_before_and_the_manager_running() -> None:
    house = on_disk()
    house.store.fail["write"] = NoSpace("full")
    write(house, 1_100)
    assert "write" in house.notes
    assert not any(note.startswith("install") for note in house.notes)
    assert not house.failures
    house.notes.clear()
    house.pass_s(5)
    house.pump(Tick())
    assert "write" not in house.notes, "not again for the same position"
    house.store.fail.clear()
    write(house, 10)
    assert f"install {house.store.position}" in house.notes


def test_a_disk_that_fails_in_a_checkpoint_is_fatal() -> None:
    elsewhere = Elsewhere()
    house = on_disk(elsewhere)
    house.store.fail["write"] = SyncFailed("EIO")
    write(house, 1_100)
    elsewhere.go()
    house.pump(Tick())
    assert len(house.failures) == 1
    assert house.engine.stopped
    assert not any(note.startswith("install") for note in house.notes)


def test_the_core_learns_of_a_disk_nearly_full_and_of_room_again() -> None:
    house = House(settings=Settings(disk_reserve_bytes=1_000)).start()
    house.store.free = 999
    write(house, 1)
    house.pump()
    assert SpaceChanged(low=True) in house.core.seen
    assert house.engine.next_timer() == house.clock.now_us + 1_000_000, "somebody must look again"
    house.core.seen.clear()
    house.store.free = 1_999
    write(house, 1)
    house.pump()
    assert not [item for item in house.core.seen if isinstance(item, SpaceChanged)]
    house.store.free = 2_000
    write(house, 1)
    house.pump()
    assert SpaceChanged(low=False) in house.core.seen
    look_on(house)
    assert house.engine.next_timer() is None


def test_a_disk_that_is_full_at_the_start_is_noticed_at_the_start() -> None:
    house = House(settings=Settings(disk_reserve_bytes=1_000))
    house.store.free = 10
    house.start()
    house.pump()
    assert house.core.seen == [SpaceChanged(low=True)]


def test_a_sparse_segment_is_emptied_once_and_its_messages_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "SLACK_BYTES", 100)
    house = House(settings=SMALL).start()
    house.core.image = b""
    address = house.store.position + FRAME_HEADER
    house.core.lives = {(0, frame_size(1_100)): 3}
    write(house, 1_100)
    position = house.store.position
    old = SegmentUse(0, position // 2, 600)
    other = SegmentUse(position // 2, position, 600)
    house.store.used = (old, other)
    house.core.lives = {(old.base, old.end): 100, (other.base, other.end): 150}
    house.core.parts = [LiveMessages(4, 8, (9,), (Extent(address, 3),), array("I", [3]))]

    def decide(item: Input) -> Decision | None:
        return house.core.decision(records="moved") if isinstance(item, Relocate) else None

    house.core.seen.clear()
    house.notes.clear()
    house.core.decide = decide
    house.pass_s(2)
    house.pump(Tick())
    (move,) = [item for item in house.core.seen if isinstance(item, Relocate)]
    assert (move.queue, move.lane, move.counters) == (4, 8, (9,))
    assert bytes(move.packets.data) == b"xxx"
    assert house.notes[:2] == ["append moved", "sync"]
    house.pump(Tick())
    assert house.engine.next_timer() == house.clock.now_us + 1_000_000, "there may be more"
    house.core.lives[old.base, old.end] = 590
    house.core.lives[other.base, other.end] = 590
    house.core.seen.clear()
    house.pass_s(2)
    house.pump(Tick())
    assert not [item for item in house.core.seen if isinstance(item, Relocate)]
    look_on(house)
    assert house.engine.next_timer() is None


class Real:
    """A real core on a real log, on a simulated disk with small segments."""

    def __init__(self, reserve: int = 0) -> None:
        self.files, self.clock = SimFiles(), Clock()
        self.reserve = reserve
        self.identity = Identity(b"M" * 16, "ALPHA", 1)
        self.numbers = iter(range(1, 1 << 20))
        self.results: dict[int, object] = {}
        LogStore.create(
            "/s", self.files, store_id=b"S" * 16, identity=self.identity.pack(),
            segment_bytes=1 << 17,
        ).close()  # fmt: skip
        self.start()

    def start(self) -> None:
        settings = Settings(disk_reserve_bytes=self.reserve, checkpoint_log_bytes=1 << 18)
        self.store = LogStore.open("/s", self.files, segment_bytes=1 << 17)
        self.engine = Engine(
            manager=Manager(self.identity, settings), store=self.store, clock=self.clock,
            network=Calls([]), settings=settings, wake=lambda: None,
            entropy=bytes, fatal=pytest.fail,  # type: ignore[arg-type]
        )  # fmt: skip
        self.engine.start()
        self.owner = self.engine.owner(self.results.__setitem__)

    def ask(self, request: requests.Request) -> object:
        number = next(self.numbers)
        self.engine.submit(replace(request, owner=self.owner, request=number))
        self.pump(0.001)
        return self.results.pop(number)

    def pump(self, seconds: float) -> None:
        self.clock.now_us += int(seconds * 1_000_000)
        while self.engine.pump():
            pass

    def create(self, name: str) -> None:
        queue = QueueProperties(name, transactional=True)
        self.ask(requests.CreateQueue(properties=queue, instance=b"Q" * 16))

    def send(self, name: str, body: bytes, count: int) -> None:
        item = requests.SendItem(rf".\private$\{name}", Properties(), Run.of([body] * count))
        done = self.ask(requests.Commit(0, (item,)))
        if isinstance(done, OnceqError):
            raise done

    def take(self, name: str, count: int) -> list[bytes]:
        queue = rf".\private$\{name}"
        got = self.ask(requests.Receive(queue, 0, count, 1 << 24))
        assert isinstance(got, Batch), got
        return [bytes(packet) for packet in got.run]


def test_the_real_store_shrinks_around_a_message_that_nobody_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One old message must not keep every segment that was written since."""
    monkeypatch.setattr(log_space, "REGION_BYTES", 1 << 13)
    monkeypatch.setattr(upkeep, "SLACK_BYTES", 1 << 18)
    monkeypatch.setattr(upkeep, "SMALL_STATE_LOG_BYTES", 1 << 17)
    monkeypatch.setattr(upkeep, "CHECK_BYTES", 1 << 16)
    real = Real()
    real.create("q")
    real.create("old")
    for _ in range(40):
        real.send("old", b"precious" * 20, 1)
        real.send("q", b"x" * 1_000, 100)
        real.take("q", 100)
    for _ in range(100):
        real.engine.tick()
        real.pump(2)
    assert real.store.position > 4 << 20
    used = sum(segment.disk_bytes for segment in real.store.segments())
    assert used < 1 << 20, f"{used} bytes for forty messages"
    real.engine.stop()
    real.start()
    kept = real.take("old", 100)
    assert len(kept) == 40
    assert all(b"precious" * 20 in packet for packet in kept)


def test_a_small_disk_takes_messages_again_when_all_was_received() -> None:
    """A disk of 100 MB in the small: the usual reserve is most of it, twice that more than all."""
    real = Real(reserve=(64 << 20) // 128)
    real.create("q")
    real.files.capacity = 100_000_000 // 128
    sent = received = 0
    for _ in range(3):
        for _ in range(40):
            try:
                real.send("q", b"x" * 1_000, 20)
            except StorageReserve:
                break
            sent += 20
            real.pump(2)
        else:
            pytest.fail("the reserve was never touched")
        while received < sent:
            received += len(real.take("q", 100))
            real.pump(2)
        for _ in range(5):
            real.pump(2)
            real.engine.tick()
        real.send("q", b"room again", 1)
        real.take("q", 1)
    assert sent > 3 * 200


@pytest.mark.parametrize("megabytes", [90, 60, 50, 40, 30])
def test_a_very_small_disk_refuses_sends_and_goes_on(megabytes: int) -> None:
    """Finding D8, in the small: what was free was less than the next segment of the log."""
    real = Real(reserve=(64 << 20) // 128)
    real.create("q")
    real.files.capacity = megabytes * 1_000_000 // 128
    real.pump(2)
    for _ in range(4):
        sent = 0
        for _ in range(60):
            try:
                real.send("q", b"x" * 1_000, 20)
            except StorageReserve:
                break
            sent += 20
            real.pump(2)
        else:
            pytest.fail("the reserve was never touched")
        taken = -1
        while taken:
            taken = len(real.take("q", 7)) if sent else 0
            sent -= taken
            real.pump(2)
        for _ in range(3):
            real.pump(2)
            real.engine.tick()
    assert not real.engine.stopped


def test_a_drained_store_shrinks_although_little_is_written_and_nothing_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Removals are short: the log hardly grows, but the segments behind them are all waste."""
    monkeypatch.setattr(upkeep, "WASTED_BYTES", 1 << 18)
    real = Real()
    real.create("q")
    for _ in range(40):
        real.send("q", b"x" * 1_000, 100)
    real.engine.stop()
    real.start()
    left = 4_000
    while left:
        left -= len(real.take("q", 1_000))
    assert real.store.disk_bytes() > 4 << 20
    given_back, segments = [], len(real.store.segments())
    for _ in range(30):
        due = real.engine.next_timer()
        if due is None:
            break
        real.clock.now_us = max(real.clock.now_us, due)
        real.engine.tick()
        real.pump(0)
        given_back.append(segments - len(real.store.segments()))
        segments -= given_back[-1]
    else:
        pytest.fail("it wakes up for ever")
    ready = READY_MIN * (1 << 17)
    assert real.store.disk_bytes() < ready + (1 << 18)
    assert sum(given_back) > 4 * GIVEN_BACK_AT_ONCE
    assert max(given_back) <= GIVEN_BACK_AT_ONCE, "somebody waited for the file system"


def test_what_is_kept_for_the_next_burst_is_given_back_by_halves() -> None:
    """Zeros need not be written for a burst that comes soon; a quiet manager holds no disk."""
    real = Real()
    real.create("q")
    for _ in range(40):
        real.send("q", b"x" * 1_000, 100)
    left = 4_000
    while left:
        left -= len(real.take("q", 1_000))
    real.engine.checkpoint()
    pool = real.store._pool
    kept = [len(pool)]
    assert kept[0] >= READY_MIN + 8
    times: list[int] = []
    while (due := real.engine.next_timer()) is not None:
        real.clock.now_us = max(real.clock.now_us, due)
        real.engine.tick()
        real.pump(0)
        if len(pool) != kept[-1]:
            kept.append(len(pool))
            times.append(real.clock.now_us)
        assert len(kept) < 12, "it wakes up for ever"
    assert kept[-1] == READY_MIN
    assert all((b - READY_MIN) == (a - READY_MIN) // 2 for a, b in pairwise(kept))
    assert all(b - a == upkeep.TRIM_US for a, b in pairwise(times))


def test_an_orderly_end_leaves_no_more_ready_than_the_next_start_needs() -> None:
    real = Real()
    real.create("q")
    for _ in range(40):
        real.send("q", b"x" * 1_000, 100)
    left = 4_000
    while left:
        left -= len(real.take("q", 1_000))
    real.engine.stop()
    real.start()
    ready = READY_MIN * (1 << 17)
    assert real.store.disk_bytes() < ready + (1 << 18)
