"""Names of computers that lead to another one than they say, or to oneself (finding K13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.client.why import why
from onceq.model.limits import WRONG_NAMES_MAX
from onceq.model.message import Acknowledge
from onceq.model.resultcodes import MessageClass
from proof.sim.faults import lies
from tests.conformance.clocks import START_S
from tests.conformance.copies import dead
from tests.conformance.foreign import Foreign
from tests.conformance.world import FAST, Node, World

pytestmark = [
    pytest.mark.unturned(
        "identity",
        reason="another queue manager comes under a name, which a certificate forbids (S4)",
    ),
    pytest.mark.unturned(
        "public", "private", "letters", reason="it is about how names are written"
    ),
]
LOCAL = r"private$\q"
ACCOUNTS = r"DIRECT=OS:Accounts\private$\q"
ACKS = r"DIRECT=OS:localhost\private$\acks"
ASKED: dict[str, Any] = {
    "admin_queue": ACKS,
    "acknowledge": Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE,
}


def again(node: Node) -> None:
    node.kill()
    node.start()


def told(node: Node) -> list[str]:
    return list(node.look("status").wrong_names)


@pytest.fixture
def world() -> World:
    """ACCOUNTS is looked for, and B answers."""
    world = World("A", "B")
    world["B"].create("q")
    world.lead("ACCOUNTS", "B")
    return world


def test_messages_for_another_computer_are_taken_and_told_of(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(ACCOUNTS, b"1", b"2")
    world.run(5)
    assert b.bodies(LOCAL) == [b"1", b"2"], "as MSMQ does it, a name is not compared"
    (heard,) = b.look("status").wrong_names.items()
    assert heard[0].startswith("messages come for Accounts, and this computer is B; they are taken")
    assert "addresses in onceq.toml" in heard[0]
    assert heard[1] == 2


@pytest.mark.parametrize("name", ["ACCOUNTS", "accounts.example"])
def test_one_more_name_of_the_computer_is_no_fault(world: World, name: str) -> None:
    a, b = world["A"], world["B"]
    b.also = frozenset(["accounts"])
    again(b)
    world.lead(name.upper(), "B")
    a.once(rf"DIRECT=OS:{name}\private$\q", b"1")
    world.run(5)
    assert b.bodies(LOCAL) == [b"1"]
    assert told(b) == []


def test_an_address_is_no_name(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(rf"DIRECT=TCP:{b.address}\private$\q", b"1")
    world.run(5)
    assert b.bodies(LOCAL) == [b"1"]
    assert told(b) == []


def test_what_is_put_right_is_not_told_any_more(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(ACCOUNTS, b"1")
    world.run(5)
    b.also = frozenset(["accounts"])
    again(b)
    a.once(ACCOUNTS, b"2")
    world.run(10)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    assert told(b) == []


def test_a_setting_refuses_what_is_for_another_computer(world: World) -> None:
    a, b = world["A"], world["B"]
    b.settings = replace(FAST, own_names_only=True)
    again(b)
    a.once(ACCOUNTS, b"1", journal=1)
    a.once(r"DIRECT=OS:B\private$\q", b"3")
    world.run(5)
    assert b.bodies(LOCAL) == [b"3"]
    assert dead(a) == {b"1": MessageClass.NACK_BAD_DESTINATION_QUEUE}
    assert "they are refused (own_names_only)" in told(b)[0]


def test_a_peer_that_does_not_say_what_it_is_called_is_known_by_the_directory() -> None:
    world = World("A", "B", "ACCOUNTS", directory=True, settings=replace(FAST, settle_doubts=False))
    world["B"].create("q")
    world.run(2)
    world.lead("ACCOUNTS", "B")
    a = world["A"]
    a.once(ACCOUNTS, b"1")
    world.run(5)
    (said,) = told(a)
    assert said.startswith("B answers where Accounts is looked for")
    a.once(ACCOUNTS, b"2")
    a.steer(ACCOUNTS, "pause")
    assert said in why(a.look("outgoing-queue", ACCOUNTS))


def test_a_public_queue_is_at_the_queue_manager_that_the_directory_names() -> None:
    """Its name says whose it is: another one gets nothing of it, and would say "no such queue"."""
    world = World("A", "B", "ACCOUNTS", directory=True)
    world["ACCOUNTS"].create("orders", private=False)
    world.run(2)
    a, name = world["A"], world["ACCOUNTS"].look("queue", "orders").format_name
    world.lead("ACCOUNTS", "B")
    a.once(name, b"1", journal=1)
    world.run(5)
    assert dead(a) == {}
    assert "looked for another queue manager" in a.look("outgoing-queue", name).trouble
    del world.leads["ACCOUNTS"]
    world.run(5)
    assert world["ACCOUNTS"].bodies("orders") == [b"1"]


# ---- names that lead to oneself ----------------------------------------------------------------


def test_answers_find_the_way_back_when_a_queue_of_localhost_is_named() -> None:
    world = World("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    a.create("acks", transactional=False)
    a.once(r"DIRECT=OS:B\private$\q", b"1", response_queue=ACKS, **ASKED)
    world.run(5)
    (message,) = b.messages(LOCAL)
    assert message.response_queue == r"DIRECT=OS:A\private$\acks"
    b.receive(LOCAL)
    world.run(5)
    assert len(a.messages(r"private$\acks")) == 2


@pytest.mark.unturned("directory", reason="it has one more address in worlds with a directory")
def test_an_old_manager_that_is_called_localhost_starts_and_is_told() -> None:
    """Its answers find the way back under one more name, which it is told to have."""
    world = World("LOCALHOST", "B")
    old, b = world["LOCALHOST"], world["B"]
    b.create("q")
    old.create("acks", transactional=False)
    (said,) = told(old)
    assert said.startswith("this queue manager is called LOCALHOST")
    assert "addresses in onceq.toml" in said
    old.also = frozenset(["127.0.0.1", "oldhost"])
    again(old)
    assert told(old) == []
    world.lead("OLDHOST", "LOCALHOST")
    old.once(r"DIRECT=OS:B\private$\q", b"1", **ASKED)
    world.run(5)
    b.receive(LOCAL)
    world.run(5)
    assert len(old.messages(r"private$\acks")) == 2
    assert told(b) == []


# ---- a name that becomes one of this computer ----------------------------------------------------

NEWNAME = r"DIRECT=OS:newname\private$\q"


def renamed(*bodies: bytes, **asked: Any) -> World:
    """Messages wait for NEWNAME, which is one of A's names from the next start on."""
    world = World("A")
    a = world["A"]
    a.create("q")
    a.once(NEWNAME, *bodies, **asked)
    world.run(5)
    a.also = frozenset(["NewName"])
    return world


def test_what_waits_for_a_name_arrives_when_it_is_one_of_this_computer() -> None:
    world = renamed(b"1", b"2", journal=3)
    a = world["A"]
    again(a)
    a.once(NEWNAME, b"3")
    a.once(LOCAL, b"other name")
    world.run(5)
    assert sorted(a.bodies(LOCAL)) == [b"1", b"2", b"3", b"other name"]
    assert [one for one in a.bodies(LOCAL) if one.isdigit()] == [b"1", b"2", b"3"]
    assert told(a) == []
    while a.bodies(LOCAL):
        a.receive(LOCAL)
    world.run(60)
    assert [one.messages for one in a.look("outgoing")] == [0] * len(a.look("outgoing"))
    assert dead(a) == {}
    assert a.bodies(r"DIRECT=OS:.\SYSTEM$;JOURNAL") == [b"1", b"2"]
    a.once(NEWNAME, b"4")
    assert a.bodies(LOCAL) == [b"4"], "at once, where nothing waits"


def test_nothing_overtakes_what_waits_for_a_name_of_this_computer() -> None:
    world = renamed(b"1", b"2")
    a = world["A"]
    a.steer(NEWNAME, "pause")
    again(a)
    a.once(NEWNAME, b"3")
    assert a.bodies(LOCAL) == []
    (found,) = a.look("explain-name", NEWNAME)
    assert (found.leads_to, found.outgoing) == ("here", NEWNAME)
    a.steer(NEWNAME, "resume")
    a.once(NEWNAME, b"4")
    world.run(5)
    assert a.bodies(LOCAL) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("first", ["kill", "power_cut"])
def test_nothing_is_lost_or_given_twice_on_the_way(first: str) -> None:
    bodies = [b"%d" % index for index in range(40)]
    world = renamed(*bodies)
    a = world["A"]
    a.kill()
    for _ in range(6):
        a.start()
        world.run(0.01)
        getattr(a, first)()
    a.start()
    world.run(60)
    assert a.bodies(LOCAL) == bodies


def test_what_cannot_enter_is_a_dead_letter() -> None:
    world = renamed(b"1", journal=1)
    a = world["A"]
    a.once(r"DIRECT=OS:newname\private$\none", b"2", journal=1)
    again(a)
    world.run(20)
    assert a.bodies(LOCAL) == [b"1"]
    assert dead(a) == {b"2": MessageClass.NACK_BAD_DESTINATION_QUEUE}


def test_long_names_of_this_computer_are_remembered_by_their_host(world: World) -> None:
    """A stranger may name queues without end, and each name may be long."""
    b = world["B"]
    peer = Foreign(world, b"S" * 16).call(b)
    for at in range(20):
        to = rf"OS:B.{'x' * 900}\private$\{at:0>100}"
        stream = START_S << 32 | at + 1
        peer.say(lies.messages(b"S" * 16, to, [b"m"], stream=stream, sent_s=START_S), recoverable=1)
        world.run(0.1)
    assert b.engine is not None
    heard = b.engine.manager._step.sessions.watch.heard
    assert len(heard) == 1
    assert all(len(one) < 300 for one in heard)


# ---- strangers ----------------------------------------------------------------------------------


def test_a_stranger_that_makes_up_names_fills_neither_log_nor_status(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    b, guid = world["B"], b"S" * 16
    peer = Foreign(world, guid).call(b)
    for at in range(WRONG_NAMES_MAX):
        to = rf"OS:X{at}\private$\q"
        stream = START_S << 32 | at + 1
        peer.say(lies.messages(guid, to, [b"m"], stream=stream, sent_s=START_S), recoverable=1)
        world.run(0.1)
    assert len(b.bodies(LOCAL)) == WRONG_NAMES_MAX
    assert len(told(b)) == WRONG_NAMES_MAX // 2
    assert caplog.text.count("messages come for another computer") == 1
