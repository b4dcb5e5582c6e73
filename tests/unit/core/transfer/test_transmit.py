"""What a session is given to carry, of several outgoing queues."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from onceq.core import inputs
from onceq.core.decision import Decision, Ready, Transmit
from onceq.core.inputs import Reconfigure
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING, CHUNK
from onceq.core.state.queues import TRANSACTIONAL_LANE, lookup_id
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.message import PLAIN, Properties
from onceq.model.resultcodes import MessageClass
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.settings import Settings
from onceq.packet.acks import final_acks, order_ack
from onceq.packet.address import Address
from onceq.packet.arrived import FINAL_ACK, ORDER_ACK, cut
from onceq.packet.encode import encode_run, template
from tests.unit.core.alone import IDENTITY, WALL_S, Core
from tests.unit.core.effort import stays_the_same
from tests.unit.core.somebody import RUNS, create

PEER = b"P" * 16
OPENED = inputs.SessionOpened(1, PEER, "10.0.0.9", 0, True, False, b"x" * 16, 100)


class Sender(Core):
    """A core with two outgoing queues to one manager."""

    def __post_init__(self) -> None:
        self.sent: list[int] = []
        self.asks = False
        super().__post_init__()

    def kept(self, decision: Decision) -> None:
        super().kept(decision)
        self.asks = any(isinstance(action, Ready) for action in decision.actions)
        for action in decision.actions:
            if isinstance(action, Transmit):
                self.sent += [number for number, _, _ in action.before]

    def window(self, messages: int) -> None:
        """So many messages of a stream may be under way from now on."""
        self.step(Reconfigure(replace(Settings(), unacknowledged_messages_max=messages), {}))

    def outgoing(self, at: int = 0) -> OutgoingQueue:
        return list(self.manager.state.outgoing.values())[at]

    def room(self) -> int:
        """Let the session take what it may; how many messages that is."""
        before = sum(one.ever_sent for one in self.manager.state.outgoing.values())
        self.step(inputs.Room(1, 1_000, 1 << 20))
        return sum(one.ever_sent for one in self.manager.state.outgoing.values()) - before

    def send(self, queue: int, count: int) -> None:
        name = f"PRIVATE={guid_text(PEER)}\\{queue:08x}"
        bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
        tx = self.asked + 1
        self.ask(requests.Begin(tx))
        self.ask(requests.Commit(tx, (requests.SendItem(name, PLAIN, bodies=bodies),)))


def test_a_queue_that_is_always_full_holds_up_no_other() -> None:
    core = Sender()
    core.step(OPENED)
    core.send(1, 100)
    core.send(2, 100)
    core.send(3, 100)
    for _ in range(6):
        core.step(inputs.Room(1, 4, 1 << 20))
    one, two, three = sorted(set(core.sent))
    assert core.sent == [one, two, three, one, two, three]


def one_of_many(count: int) -> Callable[[], None]:
    """A session serves many outgoing queues, and one of them has a message."""
    core = Sender()
    core.step(OPENED)
    for queue in range(count):
        core.send(queue, 1)
        core.room()
    core.send(1, 1)
    return partial(core.step, inputs.Room(1, 64, 1 << 20))


def test_a_session_looks_only_into_queues_that_have_something() -> None:
    stays_the_same(one_of_many, small=10, large=500)


def test_a_queue_with_a_full_window_is_not_looked_into() -> None:
    def make(count: int) -> Callable[[], None]:
        core = Sender()
        core.step(OPENED)
        core.window(1)
        for queue in range(count):
            core.send(queue, 2)
            core.room()
        core.send(count, 1)
        return partial(core.step, inputs.Room(1, 64, 1 << 20))

    stays_the_same(make, small=10, large=500)


def told_of_the_end(core: Sender, number: int) -> inputs.Arrived:
    """The final acknowledgment of a message, which its order acknowledgment has not come before."""
    run = final_acks(
        [1], own=PEER, own_message=1, sent_time=core.now().wall_s,
        destination_manager=IDENTITY.guid, message_class=MessageClass.ACK_RECEIVE,
        stream=core.outgoing().stream, number=number, source=IDENTITY.guid,
    )  # fmt: skip
    (arrived,) = cut(run.data, run.lengths)
    return inputs.Arrived(1, arrived)


def test_a_final_acknowledgment_that_comes_first_makes_room_in_a_full_window() -> None:
    core = Sender()
    core.step(OPENED)
    core.window(2)
    core.send(1, 4)
    assert (core.room(), core.room()) == (2, 0)
    core.step(told_of_the_end(core, 1))
    assert core.asks, "nobody says that the third message may leave"
    assert core.room() == 1


def test_a_message_that_is_taken_out_makes_room_in_a_full_window() -> None:
    core = Sender()
    core.step(OPENED)
    core.window(2)
    core.send(1, 4)
    core.room()
    lookup = lookup_id(TRANSACTIONAL_LANE, 1)
    assert core.ask(requests.Remove(str(core.outgoing().name), 0, lookup, lookup)) == 1
    assert core.asks
    assert core.room() == 1


def test_a_larger_window_lets_more_leave_at_once() -> None:
    core = Sender()
    core.step(OPENED)
    core.window(2)
    core.send(1, 4)
    core.room()
    core.window(3)
    assert core.asks
    assert core.room() == 1


def test_what_was_paused_leaves_when_it_goes_on() -> None:
    core = Sender()
    core.step(OPENED)
    core.send(1, 2)
    name = str(core.outgoing().name)
    core.ask(requests.SteerOutgoing(name, requests.Steer.PAUSE))
    assert core.room() == 0
    core.ask(requests.SteerOutgoing(name, requests.Steer.RESUME))
    assert core.asks
    assert core.room() == 2


def test_an_order_acknowledgment_passes_over_what_waits_for_its_end() -> None:
    def make(blocks: int) -> Callable[[], None]:
        core = Sender()
        core.step(OPENED)
        count = blocks * CHUNK
        core.send(1, count)
        while core.room():
            pass
        core.outgoing().ordered_lane.set_state(1, count - 2, AVAILABLE, AWAITING)
        core.outgoing().ordered_lane.first_available()
        run = order_ack(
            own=PEER, own_message=1, sent_time=core.now().wall_s, address="",
            destination_manager=IDENTITY.guid, stream=core.outgoing().stream, number=count,
        )  # fmt: skip
        (arrived,) = cut(run, array(LENGTH_TYPE, [len(run)]))
        return partial(core.step, inputs.Arrived(1, arrived))

    stays_the_same(make, small=1, large=8)


class Receiver(Core):
    """A core that is sent to over two sessions; what leaves on each, in order."""

    def __post_init__(self) -> None:
        self.left: list[tuple[int, int]] = []
        super().__post_init__()

    def kept(self, decision: Decision) -> None:
        super().kept(decision)
        for action in decision.actions:
            if isinstance(action, Transmit):
                pieces = (
                    bytes(piece) if isinstance(piece, bytes) else self.bytes_of([piece])
                    for piece in action.pieces
                )
                for piece in pieces:
                    runs = cut(piece, array("I", [len(piece)]))
                    self.left += [(action.session, run.kind) for run in runs]

    def arrives(self, session: int, queue: str = "nowhere") -> None:
        """A message for a queue; ``nowhere`` is not here."""
        made = template(
            source=PEER, destination=Address(7, direct=f"OS:A\\private$\\{queue}"),
            destination_manager=bytes(16), admin=Address(0), properties=Properties(),
            sent_time=WALL_S, transactional=True,
        )  # fmt: skip
        (packet,) = encode_run(
            made, Run.of([b"x"]), first_message=1, first=True, last=True, stream=1 << 40,
            first_number=1, transaction=1,
        )  # fmt: skip
        for run in cut(bytes(packet), array("I", [len(packet)])):
            self.step(inputs.Arrived(session, run))


def test_a_refusal_is_told_before_it_is_acknowledged_also_where_there_are_two_sessions() -> None:
    """The queue of final acknowledgments finds its session when the order acknowledgment has one
    already, and that is the other one (finding U1)."""
    core = Receiver()
    for session in (1, 2):
        core.step(replace(OPENED, session=session, outgoing=0))
    core.step(Reconfigure(replace(Settings(), order_ack_messages_max=1), {}))
    core.arrives(2)
    for session in (2, 1, 2):
        core.step(inputs.Room(session, 1_000, 1 << 20))
    assert core.left == [(1, FINAL_ACK), (1, ORDER_ACK)]


def test_a_refusal_that_has_lost_its_session_is_told_on_the_one_that_is_left() -> None:
    """A session was lost and another one is there: the queue of final acknowledgments was put off,
    and the order acknowledgment was not (finding U1)."""
    core = Receiver()
    for session in (1, 2):
        core.step(replace(OPENED, session=session, outgoing=0))
    core.arrives(1)
    core.step(inputs.Room(1, 1_000, 1 << 20))
    assert core.left == [(1, FINAL_ACK)]
    core.step(inputs.SessionClosed(1, "the peer has closed"))
    core.arrives(2)
    core.now_us += 500_000
    core.step(inputs.Tick())
    core.step(inputs.Room(2, 1_000, 1 << 20))
    assert core.left[1:] == [(2, FINAL_ACK), (2, ORDER_ACK)]


def test_what_is_not_overtaken_is_acknowledged_where_it_came_also_if_a_copy_is_connected() -> None:
    """The session of the final acknowledgments may belong to a copy of the sender. The sender would
    not hear what is acknowledged there, and transmit until the message expires."""
    core = Receiver()
    create(core, RUNS, "q", transactional=True)
    for session in (1, 2):
        core.step(replace(OPENED, session=session, outgoing=0))
    core.step(Reconfigure(replace(Settings(), order_ack_messages_max=1), {}))
    core.arrives(1)
    core.step(inputs.Room(1, 1_000, 1 << 20))
    assert core.left == [(1, FINAL_ACK), (1, ORDER_ACK)]
    core.step(inputs.SessionAcked(1, 2, 1))
    core.arrives(2, "q")
    for session in (1, 2):
        core.step(inputs.Room(session, 1_000, 1 << 20))
    assert core.left[2:] == [(2, ORDER_ACK)]
