"""Packets: whatever was put in comes out, by every way of reading (P2)."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.errors import IllegalPropertySize, IllegalPropertyValue, LabelTooLong, MalformedPacket
from onceq.model.message import OWN, PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.acks import (
    FinalAck,
    OrderAck,
    final_ack,
    order_ack,
    parse_final_ack,
    parse_order_ack,
)
from onceq.packet.address import Address, Element, MultiNames
from onceq.packet.arrived import ArrivedRun, cut
from onceq.packet.decode import bodies as bodies_of
from onceq.packet.decode import (
    decode,
    encode_headers,
    glance,
    headers,
    parse_multi,
    properties_offset,
    tx_offset,
)
from onceq.packet.encode import Template, encode_run, template
from onceq.packet.own import check_own, own_headers
from onceq.wire.mqqb.internal import Cutter, UserPackets
from onceq.wire.mqqb.session import Acked, Arrived, Closed, Session

EXAMPLES = settings(max_examples=200, deadline=None, derandomize=True)

u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFFFFFF)
u64 = st.integers(0, 0xFFFFFFFFFFFFFFFF)
guid = st.binary(min_size=16, max_size=16)
direct = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
label = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


def address(*kinds: int) -> st.SearchStrategy[Address]:
    made = {
        0: st.just(Address(0)),
        1: st.just(Address(1)),
        5: st.builds(lambda g: Address(5, g), guid),
        6: st.builds(lambda g, n: Address(6, g, n), guid, u32),
        7: st.builds(lambda text: Address(7, direct=text), direct),
    }
    for kind in (2, 3, 4):
        made[kind] = st.builds(lambda n, kind=kind: Address(kind, number=n), u32)
    return st.one_of([made[kind] for kind in kinds])


element = st.one_of(
    st.builds(lambda g: Element(1, g), guid),
    st.builds(lambda g, n: Element(2, g, n), guid, u32),
    st.builds(lambda text: Element(3, direct=text), direct),
    st.builds(lambda g: Element(6, g), guid),
)
elements = st.lists(element, max_size=5).map(tuple)
names = st.builds(MultiNames, elements, elements, elements)

properties = st.builds(
    Properties, label=label, priority=st.none() | st.integers(0, 7),
    delivery=st.sampled_from(Delivery), acknowledge=st.integers(0, 15).map(Acknowledge),
    journal=st.integers(0, 3).map(Journal), app_specific=u32, body_type=u32,
    correlation_id=st.binary(min_size=20, max_size=20), time_to_reach_queue=u32,
    time_to_be_received=u32, extension=st.binary(max_size=40),
)  # fmt: skip


def templates(transactional: bool) -> st.SearchStrategy[Template]:
    return st.builds(
        template, source=guid, destination=address(0, 3, 5, 7), destination_manager=guid,
        admin=address(0, 2, 3, 5, 6, 7), response=address(*range(8)), properties=properties,
        sent_time=u32, transactional=st.just(transactional), message_class=u16,
        multi=st.none() | names,
    )  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> tuple[Run, list[bytes]]:
    """A batch of packets, and the bodies that went in."""
    transactional = draw(st.booleans())
    made = draw(templates(transactional))
    bodies = draw(
        st.lists(st.binary(max_size=40), min_size=1, max_size=12)
        | st.builds(lambda body, n: [body] * n, st.binary(max_size=70), st.integers(1, 12))
    )
    stream = draw(u64) if transactional else 0
    run = encode_run(
        made, Run.of(bodies), first_message=draw(u32), stream=stream,
        first_number=draw(st.integers(1, 0xFFFFFFFF - 20)) if stream else 0,
        transaction=draw(st.integers(0, (1 << 20) - 1)), first=draw(st.booleans()),
        last=draw(st.booleans()),
    )  # fmt: skip
    return run, bodies


own_values = st.lists(
    st.tuples(
        label, st.binary(min_size=20, max_size=20), u32, u32, st.binary(max_size=40),
        st.binary(max_size=40),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


@EXAMPLES
@given(own_values, properties, st.booleans(), st.none() | names, u64, u32)
def test_headers_of_their_own_make_the_packets_that_batches_of_one_would(
    each: list[tuple[str, bytes, int, int, bytes, bytes]], shared: Properties,
    transactional: bool, multi: MultiNames | None, stream: int, message: int,
) -> None:  # fmt: skip
    """Byte for byte, so that nothing behind the encoder can tell them apart."""
    columns = list(zip(*each, strict=True))
    values = dict(zip(OWN, columns[:5], strict=True))
    own = own_headers(len(each), values)
    check_own(own)
    stream = stream if transactional else 0

    def made(given: Properties) -> Template:
        return template(
            source=bytes(16), destination=Address(7, direct="OS:B\\q"), properties=given,
            sent_time=5, transactional=transactional, multi=multi,
        )  # fmt: skip

    bare = replace(shared, **{name: getattr(PLAIN, name) for name in OWN})
    found = encode_run(
        made(bare), Run.of(columns[5]), first_message=message, stream=stream,
        first_number=7 if stream else 0, transaction=3, first=True, last=True, own=own,
    )  # fmt: skip
    singles = []
    for index, one in enumerate(each):
        own_values: dict[str, Any] = dict(zip(OWN, one[:5], strict=True))
        given_one = replace(shared, **own_values)
        number = message + index
        singles.append(encode_run(
            made(given_one), Run.of([one[5]]),
            first_message=number if number < 1 << 32 else (number - 1) % ((1 << 32) - 1) + 1,
            stream=stream, first_number=7 + index if stream else 0, transaction=3,
            first=index == 0, last=index == len(each) - 1,
        ))  # fmt: skip
    assert bytes(found.data) == b"".join(bytes(run.data) for run in singles)
    assert list(found.lengths) == [run.lengths[0] for run in singles]


@EXAMPLES
@given(own_values, st.data())
def test_headers_from_outside_are_those_that_we_make_or_are_refused(
    each: list[tuple[str, bytes, int, int, bytes, bytes]], data: st.DataObject
) -> None:
    """Whatever is changed in them: what is not refused means just its own properties."""
    values = dict(zip(OWN, list(zip(*each, strict=True))[:5], strict=True))
    own = own_headers(len(each), values)
    raw = bytearray(own.data)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    changed = Run(raw, own.lengths)
    try:
        check_own(changed)
    except (IllegalPropertyValue, IllegalPropertySize, LabelTooLong):
        return
    made = template(
        source=bytes(16), destination=Address(7, direct="OS:B\\q"), properties=PLAIN, sent_time=5,
        transactional=False,
    )  # fmt: skip
    packets = encode_run(made, Run.of([b"x"] * len(each)), first_message=1, own=changed)
    for packet in packets:
        found = decode(packet)
        again = own_headers(1, {name: [getattr(found, name)] for name in OWN})
        at = properties_offset(packet)
        header = bytearray(packet[at : at + len(again.data)])
        header[32:40] = bytes(8)
        assert bytes(header) == again.data
        assert (found.message_class, found.acknowledge) == (0, 0)


@EXAMPLES
@given(batches())
def test_packets_come_back(batch: tuple[Run, list[bytes]]) -> None:
    run, bodies = batch
    assert sum(run.lengths) == len(run.data)
    for packet, body in zip(run, bodies, strict=True):
        parts = headers(packet)
        assert encode_headers(parts) == packet
        assert parts.properties.body == body
        assert parts.trailing == b""
        assert (tx_offset(packet), properties_offset(packet)) == parts.offsets
        seen, message = glance(packet), decode(packet)
        assert seen.size == len(packet)
        assert (seen.stream, seen.number, seen.previous) == (
            message.stream, message.number, message.previous
        )  # fmt: skip
        assert (seen.source, seen.message) == (message.id.source, message.id.number)
        assert (seen.priority, seen.transactional) == (message.priority, message.transactional)
    assert bodies_of(run) == bodies


@EXAMPLES
@given(names)
def test_lists_of_names_come_back(multi: MultiNames) -> None:
    assert len(multi.pack()) % 4 == 0
    assert parse_multi(multi.pack()) == multi


def plain_cut(run: Run) -> list[list[tuple[object, ...]]]:
    """What ``cut`` must find, by taking every packet apart: slow and without any shortcut."""
    found: list[list[tuple[object, ...]]] = []
    before: tuple[object, ...] = ()
    number = 0
    for packet in run:
        parts = headers(packet)
        user, props, tx = parts.user, parts.properties, parts.transaction
        asks = tx.flags & 3 if tx else 0
        same = (
            parts.base, user.source, user.destination_manager, user.time_to_be_received,
            user.sent_time, user.flags, user.destination, user.admin, user.response, props.flags,
            props.label, props.message_class, props.correlation, asks, tx.stream if tx else 0,
            parts.multi,
        )  # fmt: skip
        follows = tx is None or (tx.previous == number and tx.number == number + 1)
        if not found or same != before or not follows:
            found.append([])
        before, number = same, tx.number if tx else 0
        found[-1].append((user.message, bytes(packet)))
    return found


def listed(runs: list[ArrivedRun]) -> list[list[tuple[object, ...]]]:
    return [
        [(n, bytes(p)) for n, p in zip(run.message_numbers, run.packets, strict=True)]
        for run in runs
    ]


@EXAMPLES
@given(st.lists(batches(), min_size=1, max_size=3))
def test_runs_are_those_of_taking_every_packet_apart(batch: list[tuple[Run, list[bytes]]]) -> None:
    packets = [packet for run, _ in batch for packet in run]
    together = Run.of(packets)
    if any(g.transactional and not g.number for g in map(glance, packets)):
        try:
            cut(together.data, together.lengths)
        except MalformedPacket:
            return
        raise AssertionError("number 0 was accepted")
    assert listed(cut(together.data, together.lengths)) == plain_cut(together)


@EXAMPLES
@given(guid, u32, u32, st.sampled_from(["", "10.0.0.5", "fe80::1"]), guid, u64,
       st.integers(1, 0xFFFFFFFF))  # fmt: skip
def test_order_acknowledgments_come_back(
    own: bytes, message: int, sent: int, peer: str, manager: bytes, stream: int, number: int
) -> None:
    data = order_ack(own=own, own_message=message, sent_time=sent, address=peer,
                     destination_manager=manager, stream=stream, number=number)  # fmt: skip
    assert parse_order_ack(data) == OrderAck(own, stream, number)
    assert [run.kind for run in cut(data, array("I", (len(data),)))] == [1]


@EXAMPLES
@given(guid, guid, guid, st.integers(0x4000, 0xFFFF), u64, u32, u32, u32)
def test_final_acknowledgments_come_back(
    own: bytes, manager: bytes, source: bytes, message_class: int, stream: int, number: int,
    previous: int, message: int,
) -> None:  # fmt: skip
    data = final_ack(own=own, own_message=1, sent_time=2, destination_manager=manager,
                     message_class=message_class, stream=stream, number=number, previous=previous,
                     source=source, message=message)  # fmt: skip
    assert parse_final_ack(data) == FinalAck(
        own, message_class, stream, number, previous, source, message
    )
    assert [run.kind for run in cut(data, array("I", (len(data),)))] == [2]


@EXAMPLES
@given(st.lists(batches(), min_size=1, max_size=3), st.lists(st.integers(1, 400), max_size=30))
def test_pieces_of_a_stream_are_put_together(
    batch: list[tuple[Run, list[bytes]]], steps: list[int]
) -> None:
    data = b"".join(bytes(run.data) for run, _ in batch)
    lengths = [length for run, _ in batch for length in run.lengths]
    cutter, got, sizes, at = Cutter(), b"", [], 0
    for step in [*steps, len(data)]:
        for piece in cutter.feed(data[at : at + step]):
            assert isinstance(piece, UserPackets)
            got += bytes(piece.data)
            sizes += list(piece.lengths)
        at += step
    assert (got, sizes, cutter.waiting) == (data, lengths, 0)


# ---- two sessions --------------------------------------------------------------------------------


def plain_users(count: int, recoverable: bool) -> Run:
    made = template(
        source=b"A" * 16, destination=Address(7, direct="OS:B\\q"), sent_time=1,
        transactional=False, properties=Properties(delivery=Delivery(int(recoverable))),
    )  # fmt: skip
    return encode_run(made, Run.of([b"x"] * count), first_message=1)


step = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.integers(1, 40)),
    st.tuples(st.just("persist"), st.integers(0, 1), st.integers(1, 40)),
    st.tuples(st.just("carry"), st.integers(0, 1), st.integers(1, 4000)),
    st.tuples(st.just("tick"), st.integers(0, 1), st.integers(1, 700)),
    st.tuples(st.just("slow"), st.integers(0, 1), st.integers(0, 1)),
)


class World:
    """Two open sessions; bytes under way in both directions; what each side knows."""

    def __init__(self, windows: tuple[int, int]) -> None:
        self.now = 0
        self.sides = [
            Session(
                initiator=index == 0, own_id=b"AB"[index : index + 1] * 16, now_us=0,
                settings=Settings(session_window_messages=windows[index], session_idle_s=1e6),
            )
            for index in range(2)
        ]  # fmt: skip
        self.wire = [b"", b""]
        self.sent = [[0, 0], [0, 0]]
        self.came = [[0, 0], [0, 0]]
        self.kept = [0, 0]
        self.acked = [(0, 0), (0, 0)]
        self.sides[0].start()
        for _ in range(3):
            for index in range(2):
                self.carry(index, 1 << 20)

    def output(self, index: int) -> None:
        self.wire[index] += b"".join(map(bytes, self.sides[index].take_output()))

    def carry(self, index: int, size: int) -> None:
        """Bring bytes that side ``index`` sent to the other one."""
        self.output(index)
        data, self.wire[index] = self.wire[index][:size], self.wire[index][size:]
        other = 1 - index
        for event in self.sides[other].receive(data, self.now):
            assert not isinstance(event, Closed), event.reason
            if isinstance(event, Arrived):
                self.came[other][0] += event.messages
                self.came[other][1] += event.recoverable
            elif isinstance(event, Acked):
                before = self.acked[other]
                assert event.messages >= before[0]
                assert event.recoverable >= before[1]
                self.acked[other] = (event.messages, event.recoverable)
        messages, recoverable = self.acked[other]
        assert messages <= self.came[index][0]
        assert recoverable <= self.kept[index], "I9: acknowledged before it was durable"

    def play(self, what: str, index: int, value: int) -> None:
        side = self.sides[index]
        if what == "send":
            count = min(value, side.room)
            recoverable = value % 3 > 0
            if count:
                run = plain_users(count, recoverable)
                side.send(run, count=count, recoverable=count * recoverable, now_us=self.now)
                self.sent[index][0] += count
                self.sent[index][1] += count * recoverable
        elif what == "persist":
            count = min(value, self.came[index][1] - self.kept[index])
            self.kept[index] += count
            side.persisted(count, self.now)
        elif what == "carry":
            self.carry(index, value)
        elif what == "slow":
            side.slow(self.now, slow=bool(value))
        else:
            self.now += value * 1000
            for one in self.sides:
                assert one.tick(self.now) == []
        self.output(0)
        self.output(1)

    def settle(self) -> None:
        """Carry everything, persist everything, and let timers ring."""
        for _ in range(6):
            for index in range(2):
                self.carry(index, 1 << 30)
            for index in range(2):
                self.play("persist", index, 1 << 30)
                self.sides[index].slow(self.now, slow=False)
            self.play("tick", 0, 11_000)


@EXAMPLES
@given(st.tuples(st.integers(1, 100), st.integers(1, 100)), st.lists(step, min_size=1, max_size=50))
def test_two_sessions_agree(windows: tuple[int, int], steps: list[tuple[str, int, int]]) -> None:
    world = World(windows)
    for what, index, value in steps:
        world.play(what, index, value)
    world.settle()
    for index in range(2):
        assert world.came[1 - index] == world.sent[index]
        assert world.acked[index] == tuple(world.sent[index])
        assert world.sides[index].room == min(windows)
