"""The engine: records in order, one sync, then actions; and nothing at all when the disk fails."""

from __future__ import annotations

from array import array

import pytest

from onceq.core.decision import Answer, Connect, Decision, Handed, LogRecord
from onceq.core.inputs import Input, OwnerGone, Tick
from onceq.errors import NoSpace, StorageFailure, SyncFailed
from onceq.model.log import FRAME_HEADER
from onceq.model.requests import Abort, Look
from onceq.model.run import Extent
from onceq.packet.decode import decode
from onceq.store.memory import MemoryStore
from tests.unit.service.fakes import OWN, House
from tests.unit.wire.mqqb.pair import users


def ask(request: int) -> Input:
    return Look("status", owner=1, request=request)


def test_a_batch_is_appended_in_order_synced_once_and_then_acted_upon() -> None:
    house = House().start()

    def decide(item: Input) -> Decision:
        assert isinstance(item, Look)
        done = Answer(house.owner, item.request, None)
        return house.core.decision(done, records=f"a{item.request} b{item.request}")

    house.core.decide = decide
    assert house.pump(ask(1), ask(2), ask(3)) is False
    assert house.notes == [
        "append a1", "append b1", "append a2", "append b2", "append a3", "append b3",
        "sync", "answer 1", "answer 2", "answer 3",
    ]  # fmt: skip
    assert house.store.syncs == 1


def test_a_lazy_record_is_written_but_nobody_waits_for_it() -> None:
    house = House().start()
    done = Answer(house.owner, 7, None)
    house.core.decide = lambda item: house.core.decision(done, records="count", forced=False)
    house.pump(ask(7))
    assert house.notes == ["append count", "answer 7", "flush"]


def test_a_held_record_is_durable_before_the_next_thing_that_is_said() -> None:
    house = House().start()
    done = Answer(house.owner, 7, None)
    house.core.decide = lambda item: house.core.decision(records="row", forced=False, held=True)
    house.pump(ask(0))
    house.core.decide = lambda item: house.core.decision(records="count", forced=False)
    house.pump(ask(0))
    assert house.notes == ["append row", "flush", "append count", "flush"]
    house.core.decide = lambda item: Decision([], [done])
    house.pump(ask(7))
    house.pump(ask(7))
    assert house.notes[4:] == ["sync", "answer 7", "answer 7"]


def test_a_held_record_is_durable_before_its_own_actions() -> None:
    house = House().start()
    done = Answer(house.owner, 7, None)
    house.core.decide = lambda item: house.core.decision(
        done, records="row", forced=False, held=True
    )
    house.pump(ask(7))
    assert house.notes == ["append row", "sync", "answer 7"]


def test_a_held_record_does_not_wait_for_ever() -> None:
    house = House().start()
    house.core.decide = lambda item: house.core.decision(records="row", forced=False, held=True)
    house.pump(ask(0))
    due_us = house.engine.next_timer()
    assert due_us is not None
    assert due_us == house.clock.now_us + 100_000
    house.core.decide = lambda item: Decision([], [])
    house.clock.now_us = due_us
    house.engine.tick()
    house.pump()
    assert house.notes == ["append row", "flush", "sync"]


def test_one_forced_record_makes_all_wait_also_those_before_it() -> None:
    house = House().start()

    def decide(item: Input) -> Decision:
        assert isinstance(item, Look)
        done = Answer(house.owner, item.request, None)
        return house.core.decision(done, records=f"r{item.request}", forced=item.request == 2)

    house.core.decide = decide
    house.pump(ask(1), ask(2))
    assert house.notes == ["append r1", "append r2", "sync", "answer 1", "answer 2"]


def test_nothing_to_persist_costs_no_call_of_the_store() -> None:
    house = House().start()
    house.core.decide = lambda item: Decision([], [Answer(house.owner, 1, "view")])
    house.pump(ask(1))
    assert house.notes == ["answer 1"]


@pytest.mark.parametrize("where", ["append", "sync"])
@pytest.mark.parametrize("error", [SyncFailed("EIO"), NoSpace("full")])
def test_when_the_disk_fails_nothing_is_performed_ever(where: str, error: StorageFailure) -> None:
    house = House().start()
    done = Answer(house.owner, 1, None)
    house.core.decide = lambda item: house.core.decision(
        Connect(3, "OS", "BETA", b""), done, records="commit"
    )
    house.store.fail[where] = error
    assert house.pump(ask(1), ask(2)) is False
    assert house.failures == [error]
    house.store.fail.clear()
    house.notes.clear()
    assert house.pump(ask(3)) is False
    house.engine.tick()
    assert house.pump() is False
    house.engine.stop()
    assert house.answers == []
    assert house.notes == []
    assert house.failures == [error], "told once"


def test_a_failed_flush_of_lazy_records_is_fatal_too() -> None:
    house = House().start()
    house.core.decide = lambda item: house.core.decision(
        Answer(house.owner, 1, None), records="count", forced=False
    )
    house.store.fail["flush"] = StorageFailure("EIO")
    house.pump(ask(1))
    assert len(house.failures) == 1
    assert house.engine.stopped
    house.pump(ask(2))
    assert len(house.answers) == 1, "what rests on nothing was answered, and nothing after it"


def test_a_record_at_another_position_than_the_core_believes_stops_everything() -> None:
    house = House().start()
    record = LogRecord(b"wrong", 12345)
    house.core.decide = lambda item: Decision([record], [Answer(house.owner, 1, None)])
    with pytest.raises(AssertionError, match="12345"):
        house.pump(ask(1))
    assert house.answers == []
    assert house.engine.stopped
    assert "sync" not in house.notes


@pytest.mark.parametrize("error", [ValueError("a mistake"), KeyboardInterrupt()])
def test_an_exception_in_the_middle_of_a_step_leaves_and_stops_everything(
    error: BaseException,
) -> None:
    house = House().start()

    def decide(item: Input) -> Decision:
        raise error

    house.core.decide = decide
    with pytest.raises(type(error)):
        house.pump(ask(1))
    assert house.engine.stopped
    assert not house.failures, "the disk has not failed"
    house.core.decide = lambda item: Decision([], [Answer(house.owner, 1, None)])
    assert house.pump(ask(2)) is False
    assert house.answers == []


def test_what_recovery_decides_is_durable_before_it_is_performed() -> None:
    house = House()
    house.store.append(b"kept")
    house.notes.clear()
    call = Connect(1, "OS", "BETA", b"")
    house.core.on_recover = lambda: house.core.decision(call, records="released")
    house.engine.start()
    assert house.core.recovered == [b"kept"]
    assert house.notes[:3] == ["append released", "sync", "connect 1 OS BETA"]


def test_a_disk_that_fails_during_recovery_ends_the_start() -> None:
    house = House()
    house.core.on_recover = lambda: house.core.decision(
        Connect(1, "OS", "BETA", b""), records="released"
    )
    house.store.fail["sync"] = SyncFailed("EIO")
    with pytest.raises(SyncFailed):
        house.engine.start()
    assert not [note for note in house.notes if note.startswith("connect")]


def test_the_host_is_woken_when_the_first_item_comes_and_not_while_it_pumps() -> None:
    house = House().start()
    house.engine.submit(ask(1))
    house.engine.submit(ask(2))
    assert house.notes == ["wake"]

    def decide(item: Input) -> Decision:
        if item == ask(2):
            house.engine.submit(ask(3))
        return Decision()

    house.core.decide = decide
    assert house.engine.pump() is True, "there is more by now"
    assert house.notes == ["wake"]
    assert house.engine.pump() is False
    assert house.core.seen == [ask(1), ask(2), ask(3)]


def test_answers_go_to_their_owners_and_to_nobody_who_has_left() -> None:
    house = House().start()
    other: list[int] = []
    second = house.engine.owner(lambda request, result: other.append(request))
    house.core.decide = lambda item: Decision(
        [], [Answer(house.owner, 1, None), Answer(second, 2, None), Answer(999, 3, None)]
    )
    house.pump(ask(1))
    assert [request for request, _ in house.answers] == [1]
    assert other == [2]
    house.engine.owner_gone(second)
    house.engine.owner_gone(second)
    house.pump()
    assert house.core.seen[1:] == [OwnerGone(second)], "the core is told, once"
    assert other == [2]


def test_messages_are_handed_out_with_their_bytes() -> None:
    house = House().start()
    packets = users(3)
    house.store.append(b"head")
    address = house.store.position + FRAME_HEADER
    MemoryStore.append(house.store, bytes(packets.data))
    handed = Handed(
        (
            Extent(address, packets.lengths[0]),
            Extent(address + packets.lengths[0], packets.lengths[1]),
            list(map(bytes, packets))[2],
        ),
        packets.lengths,
        array("Q", [1, 2, 3]),
        array("I", [9, 9, 9]),
        array("I", [0, 0, 1]),
        classes=((1, 0x8002),),
    )
    house.core.decide = lambda item: Decision([], [Answer(house.owner, 1, handed)])
    house.pump(ask(1))
    ((_, got),) = house.answers
    run = got.run  # type: ignore[attr-defined]
    assert [bytes(p) == bytes(q) for p, q in zip(run, packets, strict=True)] == [True, False, True]
    assert [decode(p).message_class for p in run] == [0, 0x8002, 0]
    assert list(got.lookup_ids) == [1, 2, 3]  # type: ignore[attr-defined]


def test_stop_works_off_the_inbox_makes_a_checkpoint_and_closes() -> None:
    house = House().start()
    house.core.decide = lambda item: house.core.decision(
        Answer(house.owner, 1, None), records="last"
    )
    house.engine.submit(ask(1))
    house.notes.clear()
    house.engine.stop()
    end = house.store.position
    assert house.notes == [
        "append last", "sync", "answer 1", "sync", f"checkpoint {end}", "reclaim", "close",
    ]  # fmt: skip
    house.notes.clear()
    house.engine.stop()
    assert house.notes == [], "twice is once"


def test_a_stop_finishes_what_takes_several_steps() -> None:
    house = House().start()
    house.core.at_work = True

    def decide(item: Input) -> Decision | None:
        if not isinstance(item, Tick) or len(house.core.seen) < 3:
            return None
        house.core.at_work = False
        return house.core.decision(Answer(house.owner, 1, None), records="last portion")

    house.core.decide = decide
    house.engine.submit(ask(1))
    house.engine.stop()
    assert len(house.core.seen) == 3
    assert house.notes.index("answer 1") < house.notes.index("close")


def test_a_stop_with_nothing_new_makes_no_checkpoint() -> None:
    house = House().start()
    house.engine.stop()
    assert house.notes == ["close"]


def test_what_is_said_is_written_before_housekeeping_begins() -> None:
    notes: list[str] = []
    house = House(said=lambda: notes.append("said"))
    house.notes = house.store.notes = house.core.notes = notes
    house.engine.start()
    notes.clear()
    house.core.decide = lambda item: house.core.decision(
        Answer(house.owner, 1, None), records="x" * 100
    )
    house.core.image = b""
    house.engine.settings = type(house.engine.settings)(checkpoint_log_bytes=10)
    house.pass_s(2)
    house.engine.submit(ask(1))
    house.engine.unsaid = True
    house.engine.pump()
    kinds = [note.split()[0] for note in notes]
    assert kinds.index("answer") < kinds.index("said") < kinds.index("checkpoint")


def test_the_next_timer_is_the_soonest_of_all() -> None:
    house = House().start()
    assert house.engine.next_timer() is None
    house.core.timer = house.clock.now_us + 5
    assert house.engine.next_timer() == house.clock.now_us + 5
    house.engine.tick()
    house.pump()
    assert house.core.seen == [Tick()]


def test_requests_keep_their_order() -> None:
    house = House().start()
    items = [ask(1), Abort(1, owner=1, request=2), ask(3), Abort(2, owner=1, request=4)]
    house.pump(*items)
    assert house.core.seen == items
    assert house.core.identity.guid == OWN
