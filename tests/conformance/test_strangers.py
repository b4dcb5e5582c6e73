"""What strangers can make a queue manager keep: a share, and never what others need."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from onceq.core import names as resolve
from onceq.core.peers import strangers
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.transfer import arrival
from onceq.model import limits, requests
from onceq.model.identity import guid_text
from onceq.model.limits import ANSWERS_EACH_BYTES
from onceq.model.message import Acknowledge, Journal
from proof.sim.faults import lies
from tests.conformance.clocks import START_S
from tests.conformance.foreign import Foreign
from tests.conformance.world import World, Worlds, fast

pytestmark = [
    pytest.mark.inside("a stranger's packets are made in the test"),
    pytest.mark.unturned(
        "public", "private", reason="strangers in it use direct names, and are in no directory"
    ),
    pytest.mark.unturned("lines", reason="it says thousands of things, and waits after each"),
]
TO_Q, TO_PLAIN, TO_NONE = (rf"OS:B\private$\{name}" for name in ("q", "plain", "none"))
KB = 1 << 10


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B", settings=fast(computer_quota_bytes=400 * KB))
    made["B"].create("q")
    made["B"].create("plain", transactional=False)
    return made


def now_s(world: World) -> int:
    return START_S + world.now_us // 1_000_000


def guid_of(number: int) -> bytes:
    return b"stranger%08d" % number


def manager(world: World, name: str = "B") -> Any:
    engine = world[name].engine
    assert engine is not None
    return engine.manager


def comes(world: World, number: int, to: str, *bodies: bytes, at: int = 1, **more: Any) -> Foreign:
    """A stranger sends messages of a stream, or others, and stays."""
    guid = guid_of(number)
    peer = Foreign(world, guid, takes=more.pop("takes", False)).call(world["B"])
    more.setdefault("stream", START_S << 32 | number)
    said = lies.messages(guid, to, bodies, number=at, sent_s=now_s(world), **more)
    peer.say(said, count=len(bodies), recoverable=len(bodies))
    return peer


@pytest.mark.unturned("second", reason="it counts what a manager holds")
def test_transactional_messages_to_a_plain_queue_fill_a_share_only(world: World) -> None:
    peer = comes(world, 1, TO_PLAIN, b"x" * 30_000)
    for number in range(2, 30):
        said = lies.messages(
            peer.guid, TO_PLAIN, [b"x" * 30_000], stream=START_S << 32 | 1, number=number,
            sent_s=now_s(world),
        )  # fmt: skip
        peer.say(said, recoverable=1)
    graves = manager(world).state.all_queues[1]
    assert 60_000 < graves.bytes <= 100 * KB
    (stream,) = manager(world).state.progress.values()
    assert stream.last == len(graves), "what has no room is not refused for good"
    world["B"].once(r"DIRECT=OS:A\private$\q", b"y" * 150_000)
    world["B"].create("own")
    world["B"].once(r"private$\own", b"y" * 60_000)


def test_dead_letters_of_plain_messages_fill_a_share_only(world: World) -> None:
    for number in range(1, 20):
        comes(world, number, TO_NONE, b"x" * 30_000, stream=0, dead_letter=True)
    assert 60_000 < manager(world).state.all_queues[2].bytes <= 100 * KB


def test_strangers_fill_half_of_the_quota(world: World) -> None:
    for number in range(1, 20):
        comes(world, number, TO_Q, b"x" * 30_000)
    total = manager(world).state.space.total
    assert 160 * KB < total <= 200 * KB
    world["B"].once(r"DIRECT=OS:A\private$\none", b"known from now on")
    world.run(2)
    world["A"].once(r"DIRECT=OS:B\private$\q", b"y" * 100_000)
    world.run(2)
    assert manager(world).state.space.total > 270_000


def test_answers_to_strangers_are_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STRANGER_QUEUES_MAX", 10)
    monkeypatch.setattr(resolve, "STRANGER_QUEUES_MAX", 10)
    for number in range(1, 30):
        comes(world, number, TO_NONE, b"x")
    state = manager(world).state
    assert len(state.answering) == len(state.outgoing) == 10
    assert len(state.progress) == 10
    # Who has sent something to a queue that there is needs no answer, and is not held up.
    comes(world, 99, TO_Q, b"welcome")
    assert world["B"].bodies(r"private$\q") == [b"welcome"]
    again = type(manager(world))(world["B"].identity, world["B"].settings)
    image = b"".join(map(bytes, manager(world).snapshot().encode()))
    again.recover(
        world["B"].clock.read(), image, [], manager(world).position, entropy=b"e" * ENTROPY_BYTES
    )
    assert list(again.state.answering) == list(state.answering)
    assert again.state.first_heard == state.first_heard


def test_answers_that_were_taken_make_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STRANGER_QUEUES_MAX", 4)
    monkeypatch.setattr(resolve, "STRANGER_QUEUES_MAX", 4)
    monkeypatch.setattr(arrival, "SWEPT_FROM", 3)
    for number in range(1, 12):
        peer = comes(world, number, TO_NONE, b"x", takes=True)
        world.run(2)
        assert [run.kind for run in peer.runs if run.recoverable] == [2]
        peer.gone()
    assert len(manager(world).state.outgoing) <= 4


@pytest.mark.tier("rest")
def test_answers_wait_no_longer_than_messages(world: World) -> None:
    comes(world, 1, TO_NONE, b"x").gone()
    assert sum(map(len, manager(world).state.outgoing.values())) == 1
    world.run(world["B"].settings.time_to_reach_queue_s + 2)
    assert sum(map(len, manager(world).state.outgoing.values())) == 0


def test_administration_queues_of_a_strangers_choice(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "STRANGER_QUEUES_MAX", 20)
    monkeypatch.setattr(resolve, "STRANGER_QUEUES_MAX", 20)
    tried: list[str] = []
    node = world["B"]
    original = node.connect

    def connect(
        outgoing: int, protocol: str, host: str, peer: bytes, homes: tuple[str, ...] | None = None
    ) -> None:
        tried.append(host)
        original(outgoing, protocol, host, peer, homes)

    node.connect = connect  # type: ignore[method-assign]
    peer = Foreign(world, guid_of(1)).call(node)
    for number in range(1, 200):
        said = lies.messages(
            peer.guid, TO_Q, [b"x"], stream=START_S << 32 | 1, number=number, sent_s=now_s(world),
            admin=rf"TCP:10.1.{number // 100}.{number % 100}\private$\acks",
        )  # fmt: skip
        peer.say(said, recoverable=1)
    state = manager(world).state
    assert len(state.answering) == 20
    world.run(600)
    times = [tried.count(host) for host in sorted(set(tried))]
    assert len(times) <= 20
    assert max(times) <= 14, "ever more slowly; each second else"
    assert len(node.messages(r"private$\q")) == 199
    # A send of our own to one of them is an ordinary one.
    name = next(iter(state.outgoing.values())).name
    node.once(str(name), b"ours")
    assert len(state.answering) == 19
    # The acknowledgments wait for them; only an operator who says so gives them up, and is told.
    assert node.ask(requests.SteerOutgoing("", requests.Steer.TIDY)) == 0
    waiting = sum(len(state.all_queues[number]) for number in state.answering)
    assert waiting >= 19
    forget = requests.Steer.FORGET_UNANSWERED
    assert node.ask(requests.SteerOutgoing("", forget)) == waiting
    assert list(state.outgoing.values()) == [state.outgoing[name.key()]]
    told = [said for said in caplog.records if "given up by an operator" in said.message]
    assert len(told) == 19, "each place is named in the log"


@pytest.mark.unturned("directory", reason="who is in the directory is no stranger")
def test_an_honest_manager_that_is_away_has_its_acknowledgments_after_a_tidy(world: World) -> None:
    """A has never been reached under its name, so that it is a stranger there as yet."""
    a, b = world["A"], world["B"]
    a.create("acks", transactional=False)
    connect = b.connect
    b.connect = lambda outgoing, *_: b.engine.sessions.connect_failed(outgoing, "A: no answer")  # type: ignore
    admin = r"DIRECT=OS:A\private$\acks"
    a.once(f"DIRECT={TO_Q}", b"m", acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue=admin)
    world.run(5)
    before = b.look("outgoing-queue", admin)
    assert (before.messages, before.unanswered) == (1, True)
    b.steer("", "tidy")
    assert b.look("outgoing-queue", admin).messages == 1
    b.connect = connect  # type: ignore[method-assign]
    world.run(600)
    assert len(a.messages(r"private$\acks")) == 1


def test_what_strangers_that_answer_are_told_is_not_given_up(world: World) -> None:
    """A has answered under its name, and is away now."""
    a, b = world["A"], world["B"]
    a.create("acks", transactional=False)
    asked: dict[str, Any] = {
        "acknowledge": Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE,
        "admin_queue": r"DIRECT=OS:A\private$\acks",
    }
    a.once(f"DIRECT={TO_Q}", b"m", **asked)
    world.run(5)
    assert len(a.messages(r"private$\acks")) == 1
    world.cut("A", "B")
    world.run(60)
    assert b.receive(r"private$\q").bodies() == [b"m"]
    world.run(60)
    assert b.ask(requests.SteerOutgoing("", requests.Steer.FORGET_UNANSWERED)) == 0
    world.mend("A", "B")
    world.run(600)
    assert len(a.messages(r"private$\acks")) == 2


def test_what_tells_a_sender_of_an_end_is_not_tidied_away(world: World) -> None:
    """A only sends to B, so it is a stranger there; it is away when its message is received."""
    a, b = world["A"], world["B"]
    number = b.look("queue", r"private$\q").number
    name = f"PRIVATE={guid_text(b.identity.guid)}\\{number:08x}"
    a.once(name, b"m", journal=Journal.JOURNAL | Journal.DEADLETTER)
    world.run(5)
    assert a.look("outgoing-queue", name).awaiting_final == 1
    world.cut("A", "B")
    assert b.receive(r"private$\q").bodies() == [b"m"]
    world.run(120)
    b.steer("", "tidy")
    world.mend("A", "B")
    world.run(120)
    assert a.look("outgoing-queue", name).messages == 0
    assert a.bodies("system$;journal") == [b"m"]


def test_few_connections_are_tried_for_strangers(world: World) -> None:
    node = world["B"]
    under_way = itertools.count()
    node.connect = lambda *_: next(under_way)  # type: ignore[method-assign, assignment]
    peer = Foreign(world, guid_of(1)).call(node)
    for number in range(1, 30):
        said = lies.messages(
            peer.guid, TO_Q, [b"x"], stream=START_S << 32 | 1, number=number, sent_s=now_s(world),
            admin=rf"TCP:10.1.1.{number}\private$\acks",
        )  # fmt: skip
        peer.say(said, recoverable=1)
    assert next(under_way) == 8


@pytest.mark.unturned("directory", reason="who is in the directory is no stranger")
def test_a_manager_that_is_sent_to_is_no_stranger(world: World) -> None:
    step = manager(world)._step
    a = world["A"].identity.guid
    assert not strangers.known(step, a)
    world["B"].once(r"DIRECT=OS:A\private$\none", b"x", journal=Journal.DEADLETTER)
    world.run(1)
    assert strangers.known(step, a)
    comes(world, 1, TO_Q, b"x")
    assert not strangers.known(step, guid_of(1))
    world.run(86_500)
    world["B"].look("status")
    assert strangers.known(step, guid_of(1)), "it has been here for a day"
    assert not strangers.known(step, guid_of(2))
    world["B"].once(f"PRIVATE={guid_text(guid_of(2))}\\00000010", b"x")
    assert strangers.known(step, guid_of(2))


def test_a_stranger_has_so_many_bytes_of_answers(world: World) -> None:
    world["B"].kill()
    world["B"].settings = fast()
    world["B"].start()
    peer = comes(world, 1, TO_NONE, b"x")
    size = sum(o.bytes for o in manager(world).state.outgoing.values())
    for at in range(2, 40):
        bodies = [b""] * 100
        first = (at - 2) * 100 + 2
        said = lies.messages(
            peer.guid, TO_NONE, bodies, stream=START_S << 32 | 1, number=first,
            sent_s=now_s(world),
        )  # fmt: skip
        peer.say(said, count=100, recoverable=100)
        peer.lines.clear()
        peer.call(world["B"])
    (outgoing,) = manager(world).state.outgoing.values()
    assert ANSWERS_EACH_BYTES <= outgoing.bytes <= ANSWERS_EACH_BYTES + 100 * size
