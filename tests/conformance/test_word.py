"""Whose word counts: acknowledgments, messages and streams of peers that say what is not so."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.client.why import stream_why, why
from onceq.core.management import peer_operations
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.errors import InsufficientResources, InvalidParameter, QueueNotFound
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.limits import REFUSED_AHEAD_MAX, STREAM_AHEAD_S_MAX
from onceq.model.message import Journal
from onceq.model.requests import AcceptClock, ForgetPeer, ResetStream
from onceq.model.resultcodes import MessageClass
from onceq.packet.arrived import SETTLING
from onceq.packet.decode import set_previous
from onceq.testing.links import faithful
from proof.sim.faults import lies
from tests.conformance.clocks import START_S
from tests.conformance.foreign import STRANGER, Foreign
from tests.conformance.policies import drop
from tests.conformance.world import World, Worlds, fast

pytestmark = [
    pytest.mark.unturned(
        "identity",
        reason="another queue manager comes under a name, which a certificate forbids (S4)",
    ),
    pytest.mark.inside("a stranger's packets are made in the test"),
    pytest.mark.unturned(
        "public",
        "private",
        reason="strangers in it use direct names, and it is about who answers under them",
    ),
]
Q = r"DIRECT=OS:B\private$\q"
TO_B = r"OS:B\private$\q"
LOCAL = r"private$\q"
DEAD = "SYSTEM$;DEADXACT"
TEN_YEARS_S = 3_652 * 86_400


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B")
    made["B"].create("q")
    return made


def now_s(world: World) -> int:
    return START_S + world.now_us // 1_000_000


def cut_off(world: World, *bodies: bytes, **more: Any) -> Any:
    """A has transmitted these to B, and then the line went; what it knows of them."""
    world.link("A", "B").policy = drop
    world["A"].once(Q, *bodies, **more)
    world.run(1)
    world.cut("A", "B")
    world.link("A", "B").policy = faithful
    world.run(1)
    (view,) = world["A"].look("outgoing")
    assert view.messages == len(bodies)
    return view


def waiting(world: World) -> int:
    return int(world["A"].look("outgoing-queue", Q).messages)


def disbelieved(world: World, name: str = "A") -> int:
    engine = world[name].engine
    assert engine is not None
    return sum(engine.manager._step.sessions.disbelieved.values())


# ---- acknowledgments ---------------------------------------------------------------------------


def test_a_strangers_order_acknowledgment_lets_nothing_go(world: World) -> None:
    view = cut_off(world, b"1", b"2")
    a, b = (world[name].identity.guid for name in "AB")
    stranger = Foreign(world).call(world["A"])
    stranger.say(lies.acknowledged(STRANGER, a, view.stream, 2, sent_s=now_s(world)))
    assert waiting(world) == 2
    assert disbelieved(world) == 1
    stranger.say(lies.acknowledged(b, a, view.stream, 2, sent_s=now_s(world)))
    assert waiting(world) == 2, "a claim in the packet is no better than one in the session"
    assert disbelieved(world) == 2
    world.mend("A", "B")
    world.run(40)
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]


def test_a_strangers_final_acknowledgment_ends_nothing(world: World) -> None:
    view = cut_off(world, b"1", b"2", journal=Journal.DEADLETTER)
    a = world["A"].identity.guid
    stranger = Foreign(world).call(world["A"])
    for reason in (MessageClass.ACK_RECEIVE, MessageClass.NACK_QUEUE_PURGED):
        stranger.say(
            lies.ended(STRANGER, a, view.stream, 1, sent_s=now_s(world), reason=reason),
            recoverable=1,
        )
    assert waiting(world) == 2
    assert world["A"].bodies(DEAD) == []
    assert disbelieved(world) == 2
    world.mend("A", "B")
    world.run(40)
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]


def test_who_serves_a_queue_is_known_after_a_restart(world: World) -> None:
    """An acknowledgment may come on another session, before this manager has connected again."""
    view = cut_off(world, b"1")
    world["A"].kill()
    world["A"].start()
    world.run(0.5)
    a, b = (world[name].identity.guid for name in "AB")
    assert world["A"].look("outgoing-queue", Q).peer == ""
    stranger = Foreign(world).call(world["A"])
    stranger.say(lies.acknowledged(STRANGER, a, view.stream, 1, sent_s=now_s(world)))
    assert waiting(world) == 1
    other = Foreign(world, b, address=world["B"].address).call(world["A"])
    other.say(lies.acknowledged(b, a, view.stream, 1, sent_s=now_s(world)))
    assert waiting(world) == 0


def test_who_serves_a_queue_is_known_after_a_checkpoint(world: World) -> None:
    view = cut_off(world, b"1")
    engine = world["A"].engine
    assert engine is not None
    again = type(engine.manager)(world["A"].identity, world["A"].settings)
    image = b"".join(map(bytes, engine.manager.snapshot().encode()))
    again.recover(
        world["A"].clock.read(), image, [], engine.manager.position, entropy=bytes(ENTROPY_BYTES)
    )
    assert again.state.bindings.guid_of("os:b") == world["B"].identity.guid
    assert view.stream in again.state.streams


def test_an_acknowledgment_of_what_was_never_transmitted(world: World) -> None:
    a, b = (world[name].identity.guid for name in "AB")
    world["A"].once(Q, b"0")
    world.run(2)
    world.cut("A", "B")
    world.run(1)
    world["A"].once(Q, b"1", b"2")
    view = world["A"].look("outgoing-queue", Q)
    liar = Foreign(world, b, address=world["B"].address).call(world["A"])
    for number in (1, 2, 3, 4_000_000_000):
        said = lies.ended(b, a, view.stream, number, sent_s=now_s(world))
        liar.say(said, recoverable=1)
        liar.say(lies.acknowledged(b, a, view.stream, number, sent_s=now_s(world)))
    assert waiting(world) == 2
    assert disbelieved(world) == 8


def test_a_stranger_settles_no_doubt(world: World) -> None:
    view = cut_off(world, b"1", journal=Journal.DEADLETTER, time_to_reach_queue=5)
    world.run(10)
    assert world["A"].look("outgoing-queue", Q).in_doubt == 1
    a = world["A"].identity.guid
    stranger = Foreign(world).call(world["A"])
    stranger.say(lies.settled(STRANGER, a, view.stream, 1, sent_s=now_s(world)))
    stranger.say(lies.ended(STRANGER, a, view.stream, 1, sent_s=now_s(world)), recoverable=1)
    assert world["A"].look("outgoing-queue", Q).in_doubt == 1
    assert disbelieved(world) == 2
    (dead,) = world["A"].messages(DEAD)
    assert dead.message_class == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
    world.mend("A", "B")
    world.run(60)
    assert world["A"].look("outgoing-queue", Q).in_doubt == 0


def test_what_a_manager_was_given_it_may_tell_of_after_another_has_its_name(
    world: World,
) -> None:
    """B moves to another computer with a new identity; the old one is still being emptied."""
    world["A"].once(Q, b"1", journal=Journal.JOURNAL)
    world.run(2)
    assert world["A"].look("outgoing-queue", Q).awaiting_final == 1
    old = world["B"].identity.guid
    view = world["A"].look("outgoing-queue", Q)
    world.cut("A", "B")
    new = Foreign(world, b"new B".ljust(16, b"\3"), address="10.0.0.77")
    world.foreigners["b"] = new
    world["A"].once(Q, b"2")
    world.run(5)
    assert len(new.bodies()) == 1
    now = world["A"].look("outgoing-queue", Q)
    a = world["A"].identity.guid
    # The new one knows nothing of the first message, the old one nothing of the second.
    new.say(lies.ended(new.guid, a, view.stream, 1, sent_s=now_s(world)), recoverable=1)
    assert world["A"].look("outgoing-queue", Q).awaiting_final == 1
    late = Foreign(world, old, address=world["B"].address).call(world["A"])
    late.say(lies.acknowledged(old, a, now.stream, now.next_number - 1, sent_s=now_s(world)))
    assert waiting(world) == 2
    late.say(lies.ended(old, a, view.stream, 1, sent_s=now_s(world)), recoverable=1)
    assert world["A"].look("outgoing-queue", Q).awaiting_final == 0
    new.say(lies.acknowledged(new.guid, a, now.stream, now.next_number - 1, sent_s=now_s(world)))
    assert waiting(world) == 0


# ---- messages under another identity ---------------------------------------------------------


def test_messages_of_another_manager_are_refused(world: World) -> None:
    a = world["A"].identity.guid
    world["A"].once(Q, b"1")
    world.run(2)
    (before,) = world["B"].look("streams")
    stranger = Foreign(world).call(world["B"])
    stream = before.stream + (1 << 32)
    stranger.say(
        lies.messages(a, TO_B, [b"forged"], stream=stream, sent_s=now_s(world)), recoverable=1
    )
    world.run(1)
    assert stranger.closed
    assert disbelieved(world, "B") == 1
    stranger.call(world["B"])
    stranger.say(lies.messages(a, TO_B, [b"forged"], sent_s=now_s(world)), recoverable=1)
    world.run(1)
    (after,) = world["B"].look("streams")
    assert (after.stream, after.number) == (before.stream, before.number)
    world["A"].once(Q, b"2")
    world.run(2)
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]


def test_a_router_is_met_before_it_is_believed(worlds: Worlds) -> None:
    """Who says that it is the router may be anybody; its name says where to ask."""
    world = worlds("A", "R", "B", settings=fast(forward_messages=True))
    a, b = world["A"].identity.guid, world["B"]
    b.create("q")
    b.kill()
    b.routes[a] = "R"
    b.start()
    stranger = Foreign(world).call(b)
    stranger.say(lies.messages(a, TO_B, [b"forged"], sent_s=now_s(world)), recoverable=1)
    world.run(3)
    assert stranger.closed
    stranger.call(b)
    stranger.say(
        lies.messages(a, TO_B, [b"forged"], stream=START_S << 32, sent_s=now_s(world)),
        recoverable=1,
    )
    world.run(1)
    assert b.look("streams") == []
    assert b.engine is not None
    assert b.engine.manager.state.bindings.guid_of("os:r") == world["R"].identity.guid


# ---- streams of the future ---------------------------------------------------------------------


def test_a_stream_from_the_future_is_never_recorded(world: World) -> None:
    a, b = (world[name].identity.guid for name in "AB")
    world["A"].once(Q, b"1")
    world.run(2)
    liar = Foreign(world, a, address=world["A"].address).call(world["B"])
    for stamp in ((1 << 31) - 1, now_s(world) + 3 * 86_400):
        liar.say(
            lies.messages(a, TO_B, [b"x"], stream=stamp << 32 | 1, sent_s=now_s(world)),
            recoverable=1,
        )
        liar.say(lies.asked(a, b, TO_B, stamp << 32 | 1, 7, sent_s=now_s(world)))
    assert disbelieved(world, "B") == 4
    world["A"].once(Q, b"2")
    world.run(40)
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]


def test_a_stream_of_tomorrow_is_taken(world: World) -> None:
    """The clock of another manager may be wrong by hours."""
    guid = b"far east".ljust(16, b"\5")
    peer = Foreign(world, guid).call(world["B"])
    stream = now_s(world) + 86_400 << 32 | 1
    peer.say(lies.messages(guid, TO_B, [b"x"], stream=stream, sent_s=now_s(world)), recoverable=1)
    world.run(1)
    assert world["B"].bodies(LOCAL) == [b"x"]


def test_who_lies_is_told_of_once_an_hour(world: World) -> None:
    view = cut_off(world, b"1")
    engine = world["A"].engine
    assert engine is not None
    told: list[Any] = []
    original = engine.manager._step.act

    def act(action: Any) -> None:
        told.append(action)
        original(action)

    engine.manager._step.act = act  # type: ignore[method-assign]
    a = world["A"].identity.guid
    stranger = Foreign(world).call(world["A"])
    for _ in range(50):
        said = lies.acknowledged(STRANGER, a, view.stream, 1, sent_s=now_s(world))
        stranger.say(said)
    notices = [one for one in told if type(one).__name__ == "Notice"]
    assert len(notices) == 1
    assert notices[0].values["peer"] == guid_text(STRANGER)
    assert notices[0].values["address"] == "10.9.9.9"
    assert disbelieved(world) == 50


# ---- streams that were moved -----------------------------------------------------------------


def moved_ahead(world: World) -> tuple[Foreign, int]:
    """Somebody who claims to be A has begun a stream of tomorrow at B; what A asks about that is
    lost, or it would go on in a newer one (``test_lives.py``)."""
    a = world["A"].identity.guid
    link = world.link("A", "B")
    link.policy = lambda p: [] if p.kind == SETTLING and p.sender == a else [(0, p)]
    world["A"].once(Q, b"1", b"2")
    world.run(2)
    liar = Foreign(world, a, address="10.9.9.9").call(world["B"])
    stream = now_s(world) + 86_400 << 32 | 1
    liar.say(lies.messages(a, TO_B, [b"lie"], stream=stream, sent_s=now_s(world)), recoverable=1)
    liar.gone()
    world.run(1)
    world["A"].once(Q, b"3")
    world.run(2)
    return liar, stream


def test_a_sender_is_told_that_its_messages_are_turned_away(world: World) -> None:
    _, stream = moved_ahead(world)
    view = world["A"].look("outgoing-queue", Q)
    assert "newer stream" in view.turned_away
    assert view.turned_away_for == stream
    assert view.messages == 1
    (there,) = world["B"].look("streams")
    assert there.stale_stream == view.stream
    said = why(view)
    assert "turns 1 message away" in said
    assert f"{stream:#018x}" in said
    assert "'onceq stream reset'" in stream_why(there)


def test_a_stream_that_was_moved_is_set_back(world: World) -> None:
    """What had arrived in the stream before is still known for a repetition."""
    moved_ahead(world)
    world.link("A", "B").policy = lambda p: [] if p.kind == 1 else [(0, p), (100, p)]
    world["B"].ask(ResetStream(LOCAL, guid_text(world["A"].identity.guid)[:8], "a lie"))
    world["A"].ask(requests.SteerOutgoing(Q, requests.Steer.RESEND))
    world.run(2)
    world.link("A", "B").policy = faithful
    world["A"].once(Q, b"4")
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"lie", b"3", b"4"]
    assert waiting(world) == 0
    view = world["A"].look("outgoing-queue", Q)
    assert view.turned_away == ""
    (there,) = world["B"].look("streams")
    assert (there.reset_reason, there.stale_stream) == ("a lie", 0)
    assert "set back by an operator" in stream_why(there)


def test_a_reset_goes_back_to_the_stream_before(world: World) -> None:
    world["A"].once(Q, b"1", b"2")
    world.run(2)
    (before,) = world["B"].look("streams")
    guid = world["A"].identity.guid
    copy = lies.messages(guid, TO_B, [b"1"], stream=before.stream, number=1, sent_s=now_s(world))
    _, stream = moved_ahead(world)
    for kill in (False, True):
        said = reset(world, guid, dry_run=not kill)
        assert (said.from_stream, said.from_number) == (stream, 1)
        assert said.stream > 0
        if kill:
            world["B"].crash()
            world["B"].start()
    (after,) = world["B"].look("streams")
    assert (after.stream, after.number, after.reset_from) == (said.stream, said.number, stream)
    world.run(60)
    again = Foreign(world, guid).call(world["B"])
    again.say(copy, recoverable=1)
    world.run(1)
    assert world["B"].bodies(LOCAL).count(b"1") == 2, "once of each of the two commits, no copy"
    assert b"3" in world["B"].bodies(LOCAL)


def reset(world: World, guid: bytes, **more: Any) -> Any:
    return world["B"].ask(ResetStream(TO_B, guid_text(guid), "a lie", **more))


def test_a_reset_survives_a_checkpoint(world: World) -> None:
    moved_ahead(world)
    reset(world, world["A"].identity.guid)
    engine = world["B"].engine
    assert engine is not None
    again = type(engine.manager)(world["B"].identity, world["B"].settings)
    image = b"".join(map(bytes, engine.manager.snapshot().encode()))
    again.recover(
        world["B"].clock.read(), image, [], engine.manager.position, entropy=bytes(ENTROPY_BYTES)
    )
    (here,), (there,) = (m.state.progress.values() for m in (engine.manager, again))
    assert here.reset == there.reset is not None
    assert (here.stream, here.last) == (there.stream, there.last)


def test_a_reset_that_forgets_promises_nothing_about_what_was(world: World) -> None:
    """Of numbers before the next one that is accepted it is not said that they never arrived."""
    guid = world["A"].identity.guid
    moved_ahead(world)
    world["A"].kill()
    said = reset(world, guid, whole=True)
    assert (said.stream, said.number) == (0, 0)
    peer = Foreign(world, guid).call(world["B"])
    stream = now_s(world) << 32 | 1
    fifth = lies.messages(guid, TO_B, [b"5"], stream=stream, number=5, sent_s=now_s(world))
    head = bytearray(fifth)
    set_previous(head, 0, len(head), 0)
    peer.say(bytes(head), recoverable=1)
    world.run(1)
    assert b"5" in world["B"].bodies(LOCAL)
    engine = world["B"].engine
    assert engine is not None
    memory = engine.manager.state.memory_of(guid, TO_B.casefold(), stream)
    assert memory is not None
    assert [memory.arrived(number) for number in (1, 4, 5)] == [None, None, True]


def test_what_cannot_be_set_back(world: World) -> None:
    guid = world["A"].identity.guid
    with pytest.raises(QueueNotFound):
        reset(world, guid)
    world["A"].once(Q, b"1")
    world.run(2)
    with pytest.raises(InvalidParameter):
        world["B"].ask(ResetStream(TO_B, guid_text(guid), "  "))
    with pytest.raises(QueueNotFound):
        world["B"].ask(ResetStream(TO_B, "", "everything"))


@pytest.mark.unturned("directory", reason="names of one queue are joined there")
def test_of_two_streams_to_a_queue_one_must_be_named(world: World) -> None:
    guid = world["A"].identity.guid
    world["A"].once(Q, b"1")
    world["A"].once(r"DIRECT=TCP:10.0.0.2\private$\q", b"2")
    world.run(2)
    with pytest.raises(InvalidParameter, match="name one of them"):
        world["B"].ask(ResetStream(LOCAL, guid_text(guid), "which?"))


# ---- clocks that were ahead ------------------------------------------------------------------


def accept(world: World, source: str = "", **more: Any) -> Any:
    more.setdefault("reason", "its battery was empty")
    who = source or guid_text(world["A"].identity.guid)
    return world["B"].ask(AcceptClock(who, **more))


def ahead(world: World) -> None:
    """A was started with a clock that was ten years ahead; now it is right."""
    a = world["A"]
    a.kill()
    a.clock.jump(TEN_YEARS_S)
    a.start()
    a.clock.jump(-TEN_YEARS_S)
    a.once(Q, b"1", b"2", journal=Journal.DEADLETTER)


def test_a_manager_whose_clock_was_ahead_is_taken_after_an_operators_word(world: World) -> None:
    ahead(world)
    world.run(30)
    assert world["B"].bodies(LOCAL) == []
    assert "onceq peer accept" in world["A"].look("outgoing-queue", Q).turned_away
    would = accept(world, dry_run=True)
    assert would.until - would.begun == STREAM_AHEAD_S_MAX
    assert abs(would.begun - START_S - TEN_YEARS_S) < 100
    world.run(30)
    assert world["B"].bodies(LOCAL) == []
    assert accept(world).until == would.until
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]
    # It stands in the store, and has room for later starts of A with a clock that is right again.
    world["B"].power_cut()
    world["B"].start()
    world["A"].power_cut()
    world["A"].start()
    world["A"].once(Q, b"3")
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]
    assert disbelieved(world, "B") == 0


def test_what_is_accepted_of_one_clock_holds_for_no_other(world: World) -> None:
    ahead(world)
    world.run(30)
    accept(world)
    world.run(60)
    for guid, late in ((STRANGER, TEN_YEARS_S), (world["A"].identity.guid, 2 * TEN_YEARS_S)):
        before = disbelieved(world, "B")
        far = (START_S + late) << 32 | 1
        said = lies.messages(guid, TO_B, [b"x"], stream=far, number=1, sent_s=now_s(world))
        Foreign(world, guid).call(world["B"]).say(said, recoverable=1)
        assert disbelieved(world, "B") == before + 1
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]


def test_which_clocks_can_be_accepted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QueueNotFound, match="no message stream from the future of"):
        accept(world)
    for number in range(300):
        guid = b"stranger%08d" % number
        far = (START_S + TEN_YEARS_S) << 32 | 1
        said = lies.messages(guid, TO_B, [b"x"], stream=far, number=1, sent_s=now_s(world))
        Foreign(world, guid).call(world["B"]).say(said, recoverable=1)
    engine = world["B"].engine
    assert engine is not None
    assert len(engine.manager._step.sessions.watch.refused_ahead) == REFUSED_AHEAD_MAX
    with pytest.raises(InvalidParameter, match="256 queue managers are meant"):
        accept(world, guid_text(b"stranger%08d" % 1)[:8])
    with pytest.raises(InvalidParameter, match="say why"):
        accept(world, guid_text(b"stranger%08d" % 299), reason=" ")
    monkeypatch.setattr(peer_operations, "CLOCKS_AHEAD_MAX", 1)
    accept(world, guid_text(b"stranger%08d" % 299))
    with pytest.raises(InsufficientResources):
        accept(world, guid_text(b"stranger%08d" % 298))


# ---- names that are taken over ---------------------------------------------------------------


@pytest.mark.parametrize("pinned", [False, True])
def test_a_name_that_is_taken_over(worlds: Worlds, pinned: bool) -> None:
    world = worlds("A", "B", settings=fast(pin_peers=pinned))
    world["B"].create("q")
    world["A"].once(Q, b"1")
    world.run(2)
    world.cut("A", "B")
    other = Foreign(world, address="10.6.6.6")
    world.foreigners["b"] = other
    world["A"].once(Q, b"2")
    world.run(5)
    assert len(other.bodies()) == (0 if pinned else 1)
    assert disbelieved(world) >= 1
    (peer,) = world["A"].look("peers")
    assert peer.id == guid_text(world["B"].identity.guid if pinned else STRANGER)
    if pinned:
        assert "onceq peer forget os:b" in world["A"].look("outgoing-queue", Q).trouble
        world["A"].ask(ForgetPeer("B"))
        world.run(5)
        assert len(other.bodies()) == 1


# ---- second lives ------------------------------------------------------------------------------


def test_a_stranger_does_not_tell_of_a_second_life(world: World) -> None:
    """Otherwise anybody could make a manager say, and think, that its directory runs twice."""
    view = cut_off(world, b"1")
    a = world["A"]
    stranger = Foreign(world).call(a)
    said = lies.doubled(STRANGER, a.identity.guid, b"x" * 16, START_S, sent_s=now_s(world))
    stranger.say(said)
    assert a.look("status").clashes == ()
    assert "identity" not in why(a.look("outgoing-queue", Q))
    assert disbelieved(world) == 1
    assert view.messages == 1
    # A manager that messages go to is believed: it has met both.
    there = Foreign(world, world["B"].identity.guid).call(a)
    there.say(lies.doubled(there.guid, a.identity.guid, b"x" * 16, START_S, sent_s=now_s(world)))
    (clash,) = a.look("status").clashes
    assert clash.name == "A"
