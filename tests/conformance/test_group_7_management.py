"""The management view (EOD-48), states (Q-40), actions (EOD-47); cases 64, 65, 126, 132, 135."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest

from onceq.client.why import why
from onceq.core.transfer.outgoing_queue import STATES
from onceq.errors import NoInterface, QueueNotFound, UninitializedObject
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.views.view import plain
from onceq.packet.acks import HOLE_MARK
from onceq.testing.links import faithful
from proof.sim.base.packets import body_of
from proof.sim.judge.traffic import ORDER_ACK_BYTES
from tests.conformance.policies import messages_twice, no_order_acks, up_to
from tests.conformance.world import Node, World, Worlds, fast

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"

SEND_ITEMS = {
    "eod_last_ack", "eod_last_ack_time", "eod_last_ack_count", "eod_first_non_ack",
    "eod_last_non_ack", "eod_next_seq", "eod_no_ack_count", "eod_no_read_count",
    "eod_resend_time", "eod_resend_interval", "eod_resend_count",
}  # fmt: skip


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    return world


def view(node: Node, name: str = Q) -> Any:
    return node.look("outgoing-queue", name)


def said(node: Node, name: str = Q) -> str:
    return why(view(node, name))


def test_case_064_send_information_item_by_item(world: World) -> None:
    a = world["A"]
    world.link("A", "B").policy = up_to(7)
    a.once(Q, *[b"%d" % n for n in range(10)])
    world.run(2)
    info = a.look("eod-send", Q)
    assert {field.name for field in dataclasses.fields(info)} == SEND_ITEMS
    stream = info.eod_last_ack.seq_id
    assert stream
    assert plain(info.eod_last_ack) == {"seq_id": stream, "seq_no": 7, "prev_no": 6}
    assert plain(info.eod_first_non_ack) == {"seq_id": stream, "seq_no": 8, "prev_no": 0}
    assert plain(info.eod_last_non_ack) == {"seq_id": stream, "seq_no": 10, "prev_no": 9}
    assert plain(info.eod_next_seq) == {"seq_id": stream, "seq_no": 11, "prev_no": 10}
    assert (info.eod_no_ack_count, info.eod_no_read_count) == (3, 0)
    assert (info.eod_last_ack_count, info.eod_resend_interval, info.eod_resend_count) == (1, 30, 0)
    now = world["A"].clock.read().wall_s
    assert now - 2 <= info.eod_last_ack_time <= now < info.eod_resend_time <= now + 30
    world.run(31)
    assert a.look("eod-send", Q).eod_resend_count == 1


def test_send_information_of_a_queue_with_nothing_in_it(world: World) -> None:
    a = world["A"]
    a.once(Q, b"1")
    before = a.look("eod-send", Q).eod_next_seq
    assert (before.seq_no, before.prev_no) == (2, 1)
    world.run(2)
    info = a.look("eod-send", Q)
    assert info.eod_first_non_ack == info.eod_last_non_ack
    assert info.eod_first_non_ack.seq_id == 0
    # EOD-12: the next message begins a newer stream.
    assert info.eod_next_seq.seq_id > info.eod_last_ack.seq_id
    assert (info.eod_next_seq.seq_no, info.eod_next_seq.prev_no) == (1, 0)
    a.once(Q, b"2")
    assert view(a).stream == info.eod_next_seq.seq_id


def test_case_065_receive_information_by_sender() -> None:
    world = World("A", "B", "C")
    b = world["B"]
    b.create("q")
    b.create("other")
    world.link("A", "B").policy = messages_twice
    world["A"].once(Q, b"1", b"2")
    world["C"].once(Q, b"3")
    world["C"].once("DIRECT=OS:B\\private$\\other", b"4")
    world.run(0.3)
    found = {info.sender_id: info for info in b.look("eod-receive", LOCAL)}
    from_a = found.pop(guid_text(world["A"].identity.guid))
    from_c = found.pop(guid_text(world["C"].identity.guid))
    assert not found
    assert (from_a.seq_no, from_c.seq_no) == (2, 1)
    assert from_a.queue_format_name.casefold() == Q.casefold()
    assert from_a.reject_count > 0
    assert from_a.last_access_time
    world.link("A", "B").policy = faithful
    world["A"].once(Q, b"5")
    world.run(2)
    (from_a,) = (i for i in b.look("eod-receive", LOCAL) if i.sender_id == from_a.sender_id)
    assert from_a.reject_count == 0


@pytest.mark.unturned("public", "private", "letters", reason="it shows the name that was used")
def test_a_sender_is_shown_by_its_name_where_it_is_known(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1")
    world.run(2)
    assert [info.sender_name for info in b.look("eod-receive", LOCAL)] == [""]
    a.create("back")
    b.once("DIRECT=OS:A\\private$\\back", b"2")
    world.run(2)
    assert [info.sender_name for info in b.look("eod-receive", LOCAL)] == ["A"]
    assert [stream.sender for stream in b.look("streams")] == ["A"]


def test_the_wrong_side_of_a_queue_and_no_queue_at_all(world: World) -> None:
    # EOD-44
    a, b = world["A"], world["B"]
    a.once(Q, b"1")
    with pytest.raises(NoInterface) as caught:
        b.look("eod-send", LOCAL)
    assert caught.value.hresult == 0x80004002
    with pytest.raises(NoInterface):
        a.look("eod-receive", Q)
    for what in ("eod-send", "eod-receive"):
        with pytest.raises(UninitializedObject) as none:
            a.look(what)
        assert none.value.hresult == 0xC00E0094
        with pytest.raises(QueueNotFound):
            a.look(what, "private$\\nothing")


def test_case_126_unsent_is_what_is_there_less_what_waits_to_be_processed(worlds: Worlds) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    a.once(Q, *[b"%d" % n for n in range(6)], journal=1)
    world.run(2)
    world.cut("A", "B")
    a.once(Q, b"6", b"7", journal=1)
    for _ in range(2):
        seen = view(a)
        assert (seen.messages, seen.unprocessed, seen.unsent) == (8, 6, 2)
        assert seen.unsent == seen.messages - seen.unprocessed
        assert a.look("eod-send", Q).eod_no_read_count == 6
        a.kill()
        a.start()
    world.mend("A", "B")
    world.run(10)
    seen = view(a)
    assert (seen.messages, seen.unprocessed, seen.unsent) == (8, 8, 0), "all there, none received"
    b.receive(LOCAL, count=4)
    world.run(5)
    seen = view(a)
    assert (seen.messages, seen.unprocessed, seen.unsent) == (4, 4, 0)


def stored_bytes(node: Any) -> bytes:
    """Everything that a queue manager has on its disk."""
    if node.world.processes:
        return b"".join(path.read_bytes() for path in node.path.rglob("*") if path.is_file())
    names = node.files.names("/store")
    return b"".join(node.files.read(node.files.open(f"/store/{n}"), 0, 1 << 30) for n in names)


@pytest.mark.parametrize("ack", ["lost", "not yet sent"])
def test_case_132_an_order_acknowledgment_is_nowhere_stored(worlds: Worlds, ack: str) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    link = world.link("A", "B")
    link.policy = no_order_acks
    a.once(Q, b"1", label="to be found in the store")
    world.run(2 if ack == "lost" else 0.2)
    # Nothing of it is in the store: B holds the message, and no outgoing queue.
    (sent,) = link.data()
    body = struct.pack("<QII4s16x", sent.stream, 1, 0, HOLE_MARK)
    if ack == "lost":
        (lost,) = link.order_acks()
        assert body_of(lost.packet)[1] == body
    else:
        assert link.order_acks() == []
    assert len(body) == ORDER_ACK_BYTES
    assert "to be found in the store".encode("utf-16-le") in stored_bytes(b)
    assert body not in stored_bytes(b)
    assert "QM Ordering Ack".encode("utf-16-le") not in stored_bytes(b)
    if not world.processes:
        held = {h.number: len(h) for h in b.running.manager.state.all_queues.values() if len(h)}
        assert list(held.values()) == [1]
    assert b.look("outgoing") == []
    b.crash()
    b.start()
    assert b.bodies(LOCAL) == [b"1"]
    assert b.look("outgoing") == []
    link.policy = faithful
    link.seen.clear()
    world.run(70)
    # The repetition was turned away, and acknowledged from what B remembers.
    assert [p.number for p in link.data()] == [1]
    (again,) = link.order_acks()
    assert body_of(again.packet)[1] == body
    assert b.bodies(LOCAL) == [b"1"]
    assert view(a).messages == 0
    for node in (a, b):
        assert body not in stored_bytes(node), "nor where it went"


@pytest.mark.unturned("directory", reason="names of one queue are joined there")
@pytest.mark.unturned("public", "private", reason="it is about direct names")
def test_case_135_hardened_locks_what_is_not_http(worlds: Worlds) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    names = [Q, f"DIRECT=TCP:{b.address}\\private$\\q", b.look("queue", LOCAL).format_name]
    a.kill()
    a.settings = fast(hardened=True)
    a.start()
    for name in names:
        a.once(name, b"1")
        a.once(name, b"2")
    a.steer(Q, "resend")
    world.run(60)
    for name in names:
        assert view(a, name).state == "LOCKED"
        assert "hardened" in said(a, name)
        assert view(a, name).history == ()
    assert world.link("A", "B").seen == []
    assert world.link("A", "B").connections == 0
    # Nobody gets in over TCP 1801 either.
    a.create("in")
    b.once("DIRECT=OS:A\\private$\\in", b"in")
    world.run(20)
    assert a.bodies("private$\\in") == []
    a.kill()
    a.settings = fast()
    a.start()
    assert view(a).state == "WAITING"
    world.run(60)
    assert sorted(b.bodies(LOCAL)) == [b"1"] * 3 + [b"2"] * 3
    streams: dict[int, list[bytes]] = {}
    for message in b.messages(LOCAL):
        streams.setdefault(message.stream, []).append(message.body)
    assert all(bodies == [b"1", b"2"] for bodies in streams.values()), "each name in its order"
    assert a.bodies("private$\\in") == [b"in"]


def test_the_states_of_an_outgoing_queue_one_after_another(world: World) -> None:
    a = world["A"]
    seen: dict[str, str] = {}

    def note() -> None:
        seen[view(a).state] = said(a)

    a.ask(requests.OpenQueue(Q, requests.Access.SEND))
    note()
    world.cut("A", "B")
    items = a.once(Q, b"1")
    assert items.messages == 1
    note()
    world.run(0.5)
    note()
    a.steer(Q, "pause")
    note()
    a.steer(Q, "resume")
    world.mend("A", "B")
    world.run(3)
    note()
    assert set(seen) == {"INACTIVE", "WAITING", "DISCONNECTED", "ONHOLD", "CONNECTED"}
    assert set(seen) <= set(STATES)
    assert len(set(seen.values())) == 5


@pytest.mark.unturned("public", "private", "letters", reason="it shows the name that was used")
def test_connection_history_is_bounded_and_says_how_each_attempt_went(world: World) -> None:
    #
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"1")
    world.run(100)
    history = view(a).history
    assert len(history) == 16
    assert {attempt.status for attempt in history} == {0x80000000}
    assert history[0].time < history[-1].time
    assert history[0].address == "OS:B"
    assert history[0].hresult == 0xC00E0069
    assert "no answer" in history[0].reason
    world.mend("A", "B")
    world.run(5)
    last = view(a).history[-1]
    assert (last.status, last.hresult, last.address) == (2, 0, world["B"].address)
    world.cut("A", "B")
    world.run(1)
    assert view(a).history[-1].reason == "cable pulled"


def test_disconnect_and_connect_the_whole_manager(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1")
    world.run(2)
    a.steer("", "disconnect")
    assert view(a).state in ("DISCONNECTING", "DISCONNECTED")
    world.run(1)
    world.link("A", "B").seen.clear()
    a.once(Q, b"2")
    a.create("in")
    b.once("DIRECT=OS:A\\private$\\in", b"x")
    world.run(100)
    assert view(a).state == "DISCONNECTED"
    assert "qm connect" in said(a)
    a.power_cut()
    a.start()
    world.run(100)
    assert world.link("A", "B").data() == []
    assert a.look("management")["connected"] == "DISCONNECTED"
    a.steer("", "connect")
    world.run(10)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    assert a.bodies("private$\\in") == [b"x"]
    assert a.look("management")["connected"] == "CONNECTED"


def test_disconnect_while_a_connection_is_being_made_and_while_a_resend_is_due(
    world: World,
) -> None:
    a, b = world["A"], world["B"]
    world.link("A", "B").policy = no_order_acks
    a.once(Q, b"1")
    a.steer("", "disconnect")
    world.run(5)
    a.steer("", "connect")
    world.run(2)
    # Delivered, and no acknowledgment heard: the resend is due, on a session that idled away.
    assert b.bodies(LOCAL) == [b"1"]
    a.steer("", "disconnect")
    world.run(100)
    a.steer("", "connect")
    world.link("A", "B").policy = faithful
    world.run(40)
    assert view(a).messages == 0
    assert b.bodies(LOCAL) == [b"1"]


def test_tidy_forgets_what_is_empty_and_unused_and_nothing_else(world: World) -> None:
    a, b = world["A"], world["B"]
    far = [f"DIRECT=OS:NOWHERE\\private$\\q{n}" for n in range(4)]
    tx = a.begin()
    a.send(tx, far[0], b"later")
    a.ask(requests.OpenQueue(far[1], requests.Access.SEND))
    a.ask(requests.OpenQueue(far[2], requests.Access.SEND))
    a.ask(requests.CloseQueue(2))
    a.once(far[3], b"waits")
    a.once(Q, b"1")
    world.run(2)
    assert a.ask(requests.SteerOutgoing("", requests.Steer.TIDY)) == 1
    with pytest.raises(QueueNotFound):
        view(a, far[2])
    for kept in (far[0], far[1], far[3], Q):
        view(a, kept)
    a.commit(tx)
    world.cut("A", "B")
    world.run(2)
    assert a.ask(requests.SteerOutgoing("", requests.Steer.TIDY)) == 1
    a.power_cut()
    a.start()
    with pytest.raises(QueueNotFound):
        view(a)
    world.mend("A", "B")
    a.once(Q, b"2", b"3")
    world.run(5)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3"]


@pytest.mark.unturned("public", reason="what a queue is stands among them")
def test_management_properties_by_their_names(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"2")
    world.run(2)
    out = a.look("management", Q)
    assert (out["state"], out["xact"], out["foreign"], out["location"], out["type"]) == (
        "CONNECTED", "UNKNOWN", "NO", "REMOTE", "PRIVATE",
    )  # fmt: skip
    assert set(out) >= SEND_ITEMS | {"nexthops", "connection_history", "message_count"}
    here = b.look("management", LOCAL)
    assert (here["state"], here["xact"], here["message_count"], here["location"]) == (
        "LOCAL CONNECTION", "YES", 2, "LOCAL",
    )  # fmt: skip
    tx = b.begin()
    b.receive(LOCAL, tx=tx)
    assert b.look("management", LOCAL)["message_count"] == 2, "locked ones count (PRP-6)"
    machine = b.look("management")
    assert machine["privateq"] == ["q"]
    assert machine["bytes_in_all_queues"] > 0
