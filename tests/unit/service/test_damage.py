"""A damaged message is named and set aside; the others go on (I23)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core.manager import Manager
from onceq.errors import DamagedRecord, OnceqError, ReceiveTimeout
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.identity import Identity
from onceq.model.log import BLOCK_BYTES
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.model.views.view import Page
from onceq.packet.arrived import Batch
from onceq.service.engine import Engine
from onceq.store.log import LogStore
from onceq.store.scan import SEGMENT_HEADER
from onceq.testing.disk import SimFiles
from tests.unit.service.fakes import Calls, Clock

QUEUE = r".\private$\q"
ROW = 1_000
COUNT = 24


class House:
    """A queue manager on a simulated disk; nothing of an earlier life is in its memory."""

    def __init__(self) -> None:
        self.files, self.clock = SimFiles(), Clock()
        self.identity = Identity(b"M" * 16, "ALPHA", 1)
        self.results: dict[int, object] = {}
        self.numbers = iter(range(1, 1 << 20))
        LogStore.create(
            "/s", self.files, store_id=b"S" * 16, identity=self.identity.pack()
        ).close()  # fmt: skip
        self.start()
        queue = QueueProperties("q", transactional=True, journal=True)
        self.ask(requests.CreateQueue(properties=queue, instance=b"Q" * 16))

    def start(self) -> None:
        settings = Settings(disk_reserve_bytes=0)
        self.store = LogStore.open("/s", self.files)
        self.engine = Engine(
            manager=Manager(self.identity, settings), store=self.store, clock=self.clock,
            network=Calls([]), settings=settings, wake=lambda: None,
            fatal=pytest.fail,  # type: ignore[arg-type]
        )  # fmt: skip
        self.engine.start()
        self.owner = self.engine.owner(self.results.__setitem__)

    def restart(self) -> None:
        self.engine.stop()
        self.start()

    def ask(self, request: requests.Request) -> Any:
        number = next(self.numbers)
        self.engine.submit(replace(request, owner=self.owner, request=number))
        self.pump()
        result = self.results.pop(number)
        if isinstance(result, OnceqError):
            raise result
        return result

    def pump(self, seconds: float = 0.001) -> None:
        self.clock.now_us += int(seconds * 1_000_000)
        while self.engine.pump():
            pass

    def send(self, *bodies: bytes, to: str = QUEUE, **properties: Any) -> None:
        item = requests.SendItem(to, Properties(**properties), Run.of(list(bodies)))
        self.ask(requests.Commit(0, (item,)))

    def begin(self) -> int:
        number = next(self.numbers)
        self.ask(requests.Begin(number))
        return number

    def take(self, count: int = COUNT, tx: int = 0, **more: Any) -> list[bytes]:
        got = self.ask(requests.Receive(QUEUE, tx, count, 1 << 24, **more))
        assert isinstance(got, Batch)
        return [bytes(packet)[-ROW:] for packet in got.run]

    def look(self, what: str) -> Any:
        found = self.ask(requests.Look(what))
        return list(found.views) if isinstance(found, Page) else found

    def scrub(self) -> None:
        """Look through the whole log."""
        self.ask(requests.SteerOutgoing("", requests.Steer.SCRUB))
        for _ in range(50):
            due = self.engine.next_timer()
            if due is None:
                break
            self.clock.now_us = max(self.clock.now_us, due)
            self.engine.tick()
            self.pump()

    def flip(self, body: bytes, at: int = 500) -> None:
        """Alter a stored byte of a body."""
        for name in self.files.names("/s"):
            data = self.files.contents(f"/s/{name}")
            place = data.find(body)
            if name.startswith("log-") and place >= 0:
                self.files.flip(f"/s/{name}", place + at)
                return
        pytest.fail("no such body is stored")


def _bodies(count: int = COUNT) -> list[bytes]:
    return [b"%04d" % n * (ROW // 4) for n in range(count)]


def _house(damaged: int = 5) -> tuple[House, list[bytes], set[bytes]]:
    """Some messages in one record, a restart, and a damaged one; which ones share its block."""
    house, bodies = House(), _bodies()
    house.send(*bodies)
    house.restart()
    house.flip(bodies[damaged])
    data = house.files.contents(f"/s/log-{0:016x}.seg")
    place = data.find(bodies[damaged + 1]) - ROW + 500
    # The frame of the one record that is larger than a block begins where its header says.
    start = data.find(bodies[0]) // 8 * 8
    assert start > SEGMENT_HEADER
    near = {body for body in bodies if abs(data.find(body) - place) < BLOCK_BYTES + ROW} | {
        bodies[damaged]
    }
    return house, bodies, near


@pytest.mark.parametrize("transaction", [False, True])
def test_a_damaged_message_is_set_aside_and_the_others_are_received(transaction: bool) -> None:
    house, bodies, near = _house()
    tx = house.begin() if transaction else 0
    got = []
    for _ in range(COUNT):
        try:
            got += house.take(7, tx)
        except ReceiveTimeout:
            break
    assert set(got) <= set(bodies), "something was handed out that was never sent"
    assert bodies[5] not in got
    missing = [body for body in bodies if body not in got]
    assert set(missing) <= near, "more was set aside than the block"
    assert got == [body for body in bodies if body not in missing], "in order"
    views = house.look("damages")
    assert sum(view.count for view in views) == len(missing)
    assert {view.queue for view in views} == {"private$\\q"}
    if transaction:
        house.ask(requests.Commit(tx, ()))
    house.engine.stop()
    house.start()
    assert house.look("damages") == views, "durable"
    assert house.look("status").damaged_messages == len(missing)
    with pytest.raises(ReceiveTimeout):
        house.take()


def test_what_was_whole_by_what_is_remembered_is_looked_at_again() -> None:
    """A read that was verified is kept for the next one, and is whole although the disk is not
    any more; when others have taken its place it is read anew."""
    house, bodies = House(), _bodies()
    for at in range(0, COUNT, 8):
        house.send(*bodies[at : at + 8])
    house.restart()
    assert house.take(1, peek=True) == bodies[:1]
    for damaged in (0, 12, 20):
        house.flip(bodies[damaged])
    tx = house.begin()
    got = house.take(COUNT, tx)
    house.ask(requests.Commit(tx, ()))
    assert not {bodies[0], bodies[12], bodies[20]} & set(got)
    assert set(got) <= set(bodies)
    assert len(got) + sum(view.count for view in house.look("damages")) == COUNT, "none is lost"


def test_a_transaction_whose_messages_could_not_be_handed_out_ends_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has not seen what he took must not commit it away."""
    house, bodies = House(), _bodies()
    house.send(*bodies)
    house.restart()
    tx = house.begin()

    def fetch(pieces: object) -> object:
        raise DamagedRecord("it was whole a moment ago")

    with monkeypatch.context() as patch:
        patch.setattr(house.engine, "fetch", fetch)
        with pytest.raises(DamagedRecord):
            house.take(COUNT, tx)
    with pytest.raises(DamagedRecord, match="nothing of this transaction happened"):
        house.ask(requests.Commit(tx, ()))
    assert house.take(COUNT) == bodies


def test_an_abort_gives_back_what_is_whole() -> None:
    house, bodies, _ = _house()
    tx = house.begin()
    got = house.take(COUNT, tx)
    house.ask(requests.Abort(tx))
    assert house.take(COUNT) == got
    assert len(got) + sum(view.count for view in house.look("damages")) == len(bodies)


def test_what_this_pump_stores_itself_is_not_taken_for_lost() -> None:
    """A receive takes old messages and one that was sent in the same pump, and so is not in the
    store yet: it was set aside as damaged, and its sender was told that it was purged."""
    house = House()
    old, new = _bodies(3), b"n" * ROW
    house.send(*old)
    house.restart()
    send = requests.SendItem(QUEUE, Properties(), Run.of([new]))
    sent, took = next(house.numbers), next(house.numbers)
    house.engine.submit(requests.Commit(0, (send,), owner=house.owner, request=sent))
    house.engine.submit(requests.Receive(QUEUE, 0, COUNT, 1 << 24, owner=house.owner, request=took))
    house.pump()
    got = house.results[took]
    assert isinstance(got, Batch)
    assert [bytes(packet)[-ROW:] for packet in got.run] == [*old, new]
    assert not house.look("damages")


def test_a_peek_finds_damage_too() -> None:
    house, bodies, near = _house()
    got = house.take(peek=True)
    assert set(got) <= set(bodies), "something was shown that was never sent"
    assert bodies[5] not in got
    assert set(bodies) - set(got) <= near
    assert sum(view.count for view in house.look("damages")) == len(bodies) - len(got)
    assert house.take() == got


def test_what_was_claimed_and_is_damaged_is_said_so() -> None:
    """Received by their identifiers; the bytes are fetched afterwards."""
    house, _, _ = _house()
    tx = house.begin()
    view = next(v for v in house.look("queues") if v.name == "q")
    first, last = view.first_lookup, view.last_lookup
    house.ask(requests.Claim(QUEUE, tx, ((first, last),)))
    with pytest.raises(DamagedRecord, match="set aside"):
        house.ask(requests.Fetch(QUEUE, tx, first + 5, first + 5))
    got = house.ask(requests.Fetch(QUEUE, tx, first, last))
    aside = sum(v.count for v in house.look("damages"))
    assert len(got.run) + aside == COUNT
    house.ask(requests.Commit(tx, ()))


def test_a_waiting_receive_goes_on_waiting_when_all_that_came_back_is_damaged() -> None:
    house = House()
    house.send(b"x" * ROW)
    house.restart()
    tx = house.begin()
    assert house.take(1, tx) == [b"x" * ROW]
    number = next(house.numbers)
    until = house.clock.now_us + 3_600_000_000
    house.engine.submit(
        requests.Receive(
            QUEUE, 0, 1, 1 << 20, wait_until_us=until, owner=house.owner, request=number
        )
    )
    house.pump()
    house.flip(b"x" * ROW)
    house.ask(requests.Abort(tx))
    assert number not in house.results
    queues = [view.queue for view in house.look("damages")]
    assert queues == [r"private$\q;journal", r"private$\q"], "the copy that it would have left, too"
    house.send(b"y" * ROW)
    assert number in house.results


@pytest.mark.parametrize("scrubbed", [False, True])
def test_a_prepared_branch_with_a_damaged_message_is_committed(scrubbed: bool) -> None:
    """Its packets lie in the record of the prepare; the outcome is not for us to change."""
    house, bodies, xid = House(), _bodies(), Xid(7, b"g", b"b")
    item = requests.SendItem(QUEUE, Properties(), Run.of(bodies))
    house.ask(requests.StartBranch(3, xid))
    house.ask(requests.Send(3, (item,)))
    house.ask(requests.PrepareBranch(xid, 3))
    house.restart()
    house.flip(bodies[5])
    if scrubbed:
        house.scrub()
        assert house.look("scrub").damaged == 1
    house.ask(requests.CommitBranch(xid))
    got = house.take()
    missing = [body for body in bodies if body not in got]
    assert bodies[5] in missing
    assert got == [body for body in bodies if body not in missing]
    assert sum(view.count for view in house.look("damages")) == len(missing) <= 6
    house.restart()
    with pytest.raises(ReceiveTimeout):
        house.take()


def test_a_scrub_finds_what_nobody_reads() -> None:
    house, bodies, near = _house()
    house.scrub()
    view = house.look("scrub")
    assert not view.running
    assert not view.stopped
    assert (view.damaged, view.bytes) == (1, view.total)
    aside = sum(v.count for v in house.look("damages"))
    assert 1 <= aside <= len(near)
    assert len(house.take()) == len(bodies) - aside


def test_an_operator_drops_what_was_set_aside() -> None:
    house, bodies, _ = _house()
    got = house.take()
    count = len(bodies) - len(got)
    steer = requests.Steer.DROP_DAMAGED
    with pytest.raises(OnceqError, match="has the number 77"):
        house.ask(requests.SteerOutgoing("77", steer))
    assert house.ask(requests.SteerOutgoing("", steer)) == count
    assert house.look("damages") == []
    house.restart()
    assert house.look("damages") == []


def test_an_outgoing_queue_does_not_stand_still() -> None:
    """What is damaged ends like any other end: not delivered, for it never left."""
    house = House()
    bodies = _bodies()
    house.send(*bodies, to=r"DIRECT=OS:BETA\private$\q")
    house.restart()
    house.flip(bodies[5])
    house.ask(requests.SteerOutgoing("", requests.Steer.SCRUB))
    for _ in range(20):
        house.pump(1)
    (view,) = house.look("outgoing")
    damaged = house.look("damages")
    assert view.messages + sum(v.count for v in damaged) == COUNT
    assert {v.queue for v in damaged} == {r"DIRECT=OS:BETA\private$\q"}
    assert {v.reason for v in damaged} == {0x8001}, "nothing of it ever left"


# ---- behind the checkpoint --------------------------------------------------------------------


class Killed(House):
    """Ends without a checkpoint: everything is in the log behind the first one."""

    def restart(self) -> None:
        self.engine.sessions.close_all("killed")
        self.store.note()  # as a second after it was written
        self.store.flush()
        self.store.abandon()
        self.files = self.files.kill()
        self.start()


SIZES = {"one message of a small record": 1, "some of a small record": 3, "a large record": COUNT}


@pytest.mark.parametrize("count", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("behind", [False, True], ids=["the last record", "not the last"])
def test_a_damaged_body_behind_the_checkpoint_costs_its_message_only(
    count: int, behind: bool
) -> None:
    house, bodies = Killed(), _bodies(count)
    house.send(b"a" * ROW)
    house.send(*bodies)
    others = [b"b" * ROW, b"c" * ROW] if behind else []
    for other in others:
        house.send(other)
    house.flip(bodies[0], 10)
    house.restart()
    damaged = house.look("damages")
    lost = sum(view.count for view in damaged)
    assert 1 <= lost <= min(count, 1 + BLOCK_BYTES // ROW)
    assert {view.queue for view in damaged} == {r"private$\q"}
    got = house.take()
    assert got == [b"a" * ROW, *bodies[lost:], *others], "everything else goes on, in order"
    house.send(b"d" * ROW)
    house.restart()
    assert house.look("damages") == damaged, "told once"
    assert house.take() == [b"d" * ROW]


def test_what_a_start_finds_is_named(caplog: pytest.LogCaptureFixture) -> None:
    house, bodies = Killed(), _bodies(3)
    house.send(*bodies)
    house.send(b"x" * ROW)
    house.flip(bodies[1])
    caplog.clear()
    with caplog.at_level(0):
        house.restart()
    said = caplog.text
    assert "stored bytes are damaged" in said
    assert "damaged messages were set aside" in said
    assert house.look("status").damaged_messages == 3, "they share a block"
    assert house.take() == [b"x" * ROW]


def test_damage_in_what_happened_is_refused_and_says_what_is_known() -> None:
    house, bodies = Killed(), _bodies(3)
    house.send(*bodies)
    house.send(b"x" * ROW)
    for name in house.files.names("/s"):
        data = house.files.contents(f"/s/{name}")
        place = data.find(bodies[0])
        if name.startswith("log-") and place >= 0:
            # Something of the record before its packets, which stand right before the body.
            start = data.rfind(b"\x01\x01\x00\x00", 0, place - 100)
            house.files.flip(f"/s/{name}", start + 20)
            break
    with pytest.raises(DamagedRecord) as error:
        house.restart()
    text = error.value.text
    assert f"/s/{name} is damaged at byte {start - 32}" in text
    assert "a change of messages" in text
    assert "bytes" in text
    assert "onceq qm restore" in text


def test_an_outgoing_queue_goes_on_behind_a_message_that_a_start_finds_damaged() -> None:
    house, bodies = Killed(), _bodies(3)
    house.send(*bodies, to=r"DIRECT=OS:BETA\private$\q")
    house.send(b"x" * ROW, to=r"DIRECT=OS:BETA\private$\q")
    house.flip(bodies[1])
    house.restart()
    (view,) = house.look("outgoing")
    (damaged,) = house.look("damages")
    assert (view.messages, damaged.count) == (1, 3)
    assert damaged.queue == r"DIRECT=OS:BETA\private$\q"


def test_a_prepared_branch_with_packets_that_a_start_finds_damaged_is_committed() -> None:
    house, bodies, xid = Killed(), _bodies(), Xid(7, b"g", b"b")
    items = [
        requests.SendItem(QUEUE, Properties(), Run.of(bodies[:12])),
        requests.SendItem(QUEUE, Properties(label="mor"), Run.of(bodies[12:])),
    ]
    house.ask(requests.StartBranch(3, xid))
    house.ask(requests.Send(3, (items[0],)))
    house.ask(requests.Send(3, (items[1],)))
    house.ask(requests.PrepareBranch(xid, 3))
    house.flip(bodies[1])
    house.restart()
    house.ask(requests.CommitBranch(xid))
    got = house.take()
    missing = [body for body in bodies if body not in got]
    assert bodies[1] in missing
    assert got == [body for body in bodies if body not in missing]
    assert sum(view.count for view in house.look("damages")) == len(missing) <= 6
