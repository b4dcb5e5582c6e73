"""Runs out of one read: what is together, what parts them, what is recognised."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

import pytest

from onceq.errors import MalformedPacket
from onceq.model.identity import NO_GUID
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.packet.acks import final_ack, order_ack
from onceq.packet.address import DIRECT, NOWHERE, Address, Element, MultiNames
from onceq.packet.arrived import FINAL_ACK, ORDER_ACK, USER, ArrivedRun, LastShape, cut
from onceq.packet.decode import decode, headers, properties_offset, set_previous, tx_offset
from onceq.packet.encode import encode_run, template

SOURCE = bytes(range(16))
LIMIT = 0x00400000
STOCK = Address(DIRECT, direct="OS:BETA\\private$\\stock")
BOTH = MultiNames((Element(3, direct="OS:BETA\\private$\\stock"), Element(3, direct="OS:GAMMA\\q")))
OTHERS = MultiNames(
    (Element(3, direct="OS:BETA\\private$\\stock"), Element(3, direct="OS:DELTA\\q"))
)


def packets(
    count: int = 3,
    *,
    properties: Properties = PLAIN,
    transactional: bool = True,
    destination: Address = STOCK,
    sent_time: int = 100,
    stream: int = 7,
    number: int = 1,
    message: int = 50,
    sizes: Sequence[int] = (10,),
    admin: Address = NOWHERE,
    multi: MultiNames | None = None,
) -> list[bytes]:
    made = template(
        admin=admin, multi=multi,
        source=SOURCE, destination=destination, properties=properties, sent_time=sent_time,
        transactional=transactional,
    )  # fmt: skip
    bodies = [bytes([65 + i % 26]) * sizes[i % len(sizes)] for i in range(count)]
    run = encode_run(
        made, Run.of(bodies), first_message=message, stream=stream if transactional else 0,
        first_number=number if transactional else 0,
    )  # fmt: skip
    return [bytes(packet) for packet in run]


def runs(*items: bytes) -> list[ArrivedRun]:
    return cut(b"".join(items), array("I", map(len, items)))


def counts(*items: bytes) -> list[int]:
    return [len(run.packets) for run in runs(*items)]


# ---- together ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(10,), (0,), (1024,), (0, 1, 2, 3, 4, 1000)])
@pytest.mark.parametrize("transactional", [True, False])
def test_one_batch_is_one_run(sizes: tuple[int, ...], transactional: bool) -> None:
    items = packets(100, sizes=sizes, transactional=transactional)
    (run,) = runs(*items)
    assert [bytes(packet) for packet in run.packets] == items
    assert list(run.message_numbers) == list(range(50, 150))
    assert run.first_message == 50
    assert (run.source, run.destination, run.destination_manager) == (SOURCE, STOCK, NO_GUID)
    assert (run.transactional, run.recoverable) == (transactional, True)
    place = (run.stream, run.first_number, run.first_previous)
    assert place == ((7, 1, 0) if transactional else (0, 0, 0))
    assert (run.priority, run.kind, run.wants) == (0 if transactional else 3, USER, 0)
    assert (run.time_to_reach_queue, run.time_to_be_received) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert run.sent_time == 100


def test_nothing_is_no_run() -> None:
    assert cut(b"", array("I")) == []


def test_two_commits_in_one_stream_are_one_run() -> None:
    assert counts(*packets(3), *packets(2, number=4, message=99)) == [5]


def test_what_came_last_is_known_when_the_next_comes() -> None:
    last = LastShape()
    (one,), (two,) = packets(1), packets(1, number=2, sent_time=101, message=51, sizes=(20,))
    cut(one, array("I", (len(one),)), last)
    shape = last.shape
    assert shape is not None
    (run,) = cut(two, array("I", (len(two),)), last)
    assert last.shape is shape, "not taken apart"
    assert (run.sent_time, run.first_number, run.first_message) == (101, 2, 51)
    ack = order_ack(
        own=SOURCE, own_message=1, sent_time=1, address="10.0.0.5",
        destination_manager=bytes(16), stream=9, number=1,
    )  # fmt: skip
    cut(ack, array("I", (len(ack),)), last)
    assert last.shape is shape, "the body counts as well"


def test_other_sent_times_are_other_runs() -> None:
    assert counts(*packets(3), *packets(2, number=4, message=99, sent_time=101)) == [3, 2]


def test_bodies_are_not_copied() -> None:
    data = b"".join(packets())
    (run,) = cut(data, array("I", map(len, packets())))
    assert isinstance(run.packets.data, memoryview)
    assert run.packets.data.obj is data


def test_extensions_of_several_sizes_stay_together() -> None:
    items = packets(1, properties=Properties(extension=b"abc"))
    items += packets(1, number=2, message=51)
    items += packets(1, number=3, message=52, properties=Properties(extension=b"0123456789"))
    (run,) = runs(*items)
    assert [decode(p).extension for p in run.packets] == [b"abc", b"", b"0123456789"]


@pytest.mark.parametrize("sizes", [(10,), (0, 1, 2, 3, 4, 1000)])
@pytest.mark.parametrize("transactional", [True, False])
def test_a_batch_to_several_destinations_is_one_run(
    sizes: tuple[int, ...], transactional: bool
) -> None:
    items = packets(100, sizes=sizes, transactional=transactional, multi=BOTH)
    last = LastShape()
    (run,) = cut(b"".join(items), array("I", map(len, items)), last)
    assert [bytes(packet) for packet in run.packets] == items
    shape = last.shape
    more = packets(2, number=101, message=150, sizes=sizes, transactional=transactional, multi=BOTH)
    (run,) = cut(b"".join(more), array("I", map(len, more)), last)
    assert shape is not None
    assert last.shape is shape, "not taken apart"
    assert list(run.message_numbers) == [150, 151]


# ---- parted --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        packets(2, number=5, message=90),
        packets(2, number=3, message=90),
        packets(2, number=4, stream=8, message=90),
        packets(2, number=4, sent_time=101),
        packets(2, number=4, destination=Address(DIRECT, direct="OS:BETA\\private$\\stick")),
        packets(2, number=4, destination=Address(3, number=9)),
        packets(2, number=4, properties=Properties(label="other")),
        packets(2, number=4, properties=Properties(time_to_reach_queue=5)),
        packets(2, number=4, properties=Properties(time_to_be_received=5)),
        packets(2, number=4, properties=Properties(acknowledge=Acknowledge.POSITIVE_ARRIVAL)),
        packets(2, number=4, properties=Properties(journal=Journal.JOURNAL)),
        packets(2, number=4, properties=Properties(correlation_id=b"c" * 20)),
        packets(2, transactional=False),
        packets(2, number=4, multi=BOTH),
    ],
    ids=[
        "gap", "repetition", "stream", "sent time", "name", "kind of name", "label", "TTRQ", "TTBR",
        "acknowledgments", "journal", "correlation", "kind", "several destinations",
    ],
)  # fmt: skip
def test_what_parts_runs(other: list[bytes]) -> None:
    assert counts(*packets(3), *other) == [3, 2]
    assert counts(*other, *packets(3)) == [2, 3]


def test_names_of_other_destinations_part_runs() -> None:
    one, other = packets(3, multi=BOTH), packets(2, number=4, multi=OTHERS)
    assert counts(*one, *other) == [3, 2]
    assert counts(*other, *one) == [2, 3]


def test_lies_in_the_names_behind_a_good_packet_are_found() -> None:
    good, bad = packets(2, multi=BOTH)
    start = len(bad) - len(BOTH.pack())
    for offset in range(0, len(BOTH.pack()), 4):
        lie = changed(bad, start + offset, b"\xff\xff\xff\x7f")
        try:
            alone = runs(lie)
        except MalformedPacket:
            with pytest.raises(MalformedPacket):
                runs(good, lie)
        else:
            assert [len(run.packets) for run in runs(good, lie)] == [1, 1]
            assert len(alone) == 1
    for size in range(start, len(bad)):
        short = bad[:8] + struct.pack("<I", size) + bad[12:size]
        with pytest.raises(MalformedPacket):
            runs(good, short)


def test_priority_and_delivery_part_runs() -> None:
    kinds = [
        Properties(priority=priority, delivery=delivery)
        for priority in range(8)
        for delivery in Delivery
    ]
    items = [packets(2, transactional=False, properties=kind) for kind in kinds]
    found = runs(*(packet for part in items for packet in part))
    assert [len(run.packets) for run in found] == [2] * 16
    assert [(run.priority, run.recoverable) for run in found] == [
        (kind.priority, kind.delivery is Delivery.RECOVERABLE) for kind in kinds
    ]


@pytest.mark.parametrize("previous", [0, 1, 3, 0xFFFFFFFF])
def test_another_previous_number_begins_a_run(previous: int) -> None:
    """A relinked or resent packet: only previous == number - 1 goes on."""
    items = [bytearray(packet) for packet in packets(5)]
    set_previous(items[2], 0, len(items[2]), previous)
    found = runs(*map(bytes, items))
    assert [len(run.packets) for run in found] == [2, 3]
    assert (found[1].first_number, found[1].first_previous) == (3, previous)


def test_a_packet_relinked_over_a_gap_begins_a_run() -> None:
    """Number 3 of 1, 2, 3 with previous 1: the one between them has expired at the sender."""
    one, _, three = packets(3)
    relinked = bytearray(three)
    set_previous(relinked, 0, len(relinked), 1)
    first, second = runs(one, bytes(relinked))
    assert (first.first_number, second.first_number, second.first_previous) == (1, 3, 1)


def test_reserved_bytes_part_runs_and_nothing_more() -> None:
    items = [bytearray(packet) for packet in packets(2)]
    items[1][1] = 0xC0
    found = runs(*map(bytes, items))
    assert [len(run.packets) for run in found] == [1, 1]


def test_bytes_after_the_headers_part_runs() -> None:
    one, two, three = packets(3)
    two += b"more"
    two = two[:8] + struct.pack("<I", len(two)) + two[12:]
    assert counts(one, two, three) == [1, 1, 1]


# ---- what the sender asks ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "transactional", "wants", "acknowledge"),
    [
        (Properties(), True, 0, 0),
        (Properties(journal=Journal.DEADLETTER), True, 1, 0),
        (Properties(journal=Journal.JOURNAL), True, 1, 0),
        (Properties(journal=Journal.JOURNAL), False, 1, 0),
        (Properties(acknowledge=Acknowledge(9)), True, 0, 9),
        (Properties(acknowledge=Acknowledge(6), journal=Journal.DEADLETTER), False, 1, 6),
    ],
)
def test_wants(properties: Properties, transactional: bool, wants: int, acknowledge: int) -> None:
    admin = Address(7, direct=r"OS:A\private$\adm")
    (run,) = runs(*packets(3, properties=properties, transactional=transactional, admin=admin))
    assert (run.wants, run.acknowledge) == (wants, acknowledge)
    assert run.dead_letter == bool(properties.journal & Journal.DEADLETTER)
    (run,) = runs(*packets(3, properties=properties, transactional=transactional))
    assert run.acknowledge == 0, "nobody could be told (ACK-1)"


def test_final_acknowledgment_flag_alone() -> None:
    (data,) = packets(1)
    asks = bytearray(data)
    asks[tx_offset(data)] |= 2
    (run,) = runs(bytes(asks))
    assert run.wants == 1
    assert [r.wants for r in runs(bytes(asks), *packets(1, number=2))] == [1, 0]


# ---- acknowledgments between managers ------------------------------------------------------------

ORDER = order_ack(
    own=SOURCE, own_message=4, sent_time=1, address="10.0.0.5", destination_manager=NO_GUID,
    stream=9, number=3,
)  # fmt: skip
FINAL = final_ack(
    own=SOURCE, own_message=5, sent_time=1, destination_manager=b"d" * 16, message_class=0xC001,
    stream=9, number=3, previous=2, source=b"s" * 16, message=77,
)  # fmt: skip


def test_acknowledgments_are_recognised() -> None:
    found = runs(ORDER, FINAL, *packets(2))
    assert [run.kind for run in found] == [ORDER_ACK, FINAL_ACK, USER]
    assert [run.recoverable for run in found] == [False, True, True]


def test_acknowledgments_of_one_manager_are_one_run() -> None:
    assert [(run.kind, len(run.packets)) for run in runs(FINAL, FINAL, FINAL)] == [(FINAL_ACK, 3)]


def changed(data: bytes, offset: int, value: bytes) -> bytes:
    copy = bytearray(data)
    copy[offset : offset + len(value)] = value
    return bytes(copy)


def test_label_and_flags_of_acknowledgments_are_not_asked() -> None:
    label = properties_offset(ORDER) + 56
    assert runs(changed(ORDER, label, b"X"))[0].kind == ORDER_ACK
    assert runs(changed(ORDER, 2, b"\x03"))[0].kind == ORDER_ACK


@pytest.mark.parametrize("value", [0x0000, 0x0002, 0x00FE, 0x3FFF])
def test_class_of_acknowledgments_is_asked(value: int) -> None:
    data = changed(ORDER, properties_offset(ORDER) + 2, struct.pack("<H", value))
    assert runs(data)[0].kind == USER


def test_queue_of_acknowledgments_is_asked() -> None:
    name = headers(ORDER).user.destination.direct
    offset = 66 + 2 * name.index("order")
    assert runs(changed(ORDER, offset, b"O"))[0].kind == ORDER_ACK
    assert runs(changed(ORDER, offset, b"x"))[0].kind == USER
    assert runs(changed(FINAL, 64, struct.pack("<I", 5)))[0].kind == USER


def test_size_of_acknowledgments_is_asked() -> None:
    """Also within a run of other messages to that queue."""
    queue = Address(3, number=4)
    made = template(
        source=SOURCE, destination=queue, properties=Properties(), sent_time=1,
        transactional=False, message_class=0x00FF,
    )  # fmt: skip
    run = encode_run(made, Run.of([bytes(35), bytes(36), bytes(36), bytes(37)]), first_message=1)
    found = runs(*map(bytes, run))
    assert [(r.kind, len(r.packets)) for r in found] == [(USER, 1), (ORDER_ACK, 2), (USER, 1)]


def test_transactional_messages_are_never_acknowledgments() -> None:
    found = runs(*packets(1, destination=Address(3, number=4), sizes=(36,)))
    assert found[0].kind == USER


# ---- refused -------------------------------------------------------------------------------------


def test_lengths_that_do_not_fit_the_bytes() -> None:
    data = packets(1)[0]
    for lengths in ([len(data) - 1], [len(data) + 1], [], [len(data), 1], [0xFFFFFFFF]):
        with pytest.raises(MalformedPacket):
            cut(data, array("I", lengths))


def test_number_zero_is_refused() -> None:
    data = packets(2)
    place = tx_offset(data[0]) + 12
    with pytest.raises(MalformedPacket, match="TxSequenceNumber 0"):
        runs(changed(data[0], place, bytes(4)))
    with pytest.raises(MalformedPacket, match="TxSequenceNumber 0"):
        runs(data[0], changed(data[1], place, bytes(4)))


@pytest.mark.parametrize("lie", [LIMIT, LIMIT + 1, 1 << 31, 0xFFFFFFFF])
@pytest.mark.parametrize("field", ["PacketSize", "MessageSize", "both sizes", "ExtensionSize"])
def test_lies_behind_a_good_packet_are_found(field: str, lie: int) -> None:
    """The second packet of a run is checked as thoroughly as the first."""
    good, bad = packets(2, properties=Properties(label="label"))
    props = properties_offset(bad)
    offset = {"PacketSize": 8, "ExtensionSize": props + 52}.get(field, props + 32)
    value = struct.pack("<I", lie) * (2 if field == "both sizes" else 1)
    with pytest.raises(MalformedPacket):
        runs(good, changed(bad, offset, value))


def test_other_flags_and_labels_behind_a_good_packet_are_checked() -> None:
    good, bad = packets(2, properties=Properties(label="label"))
    with pytest.raises(MalformedPacket):
        runs(good, changed(bad, properties_offset(bad) + 1, b"\xff"))
    (flags,) = struct.unpack_from("<I", bad, 60)
    with pytest.raises(MalformedPacket):
        runs(good, changed(bad, 60, struct.pack("<I", flags | 0x00080000)))
    with pytest.raises(MalformedPacket):
        runs(good, changed(bad, 60, struct.pack("<I", flags & ~0x00200000)))


def test_an_allocation_smaller_than_the_body_behind_a_good_packet() -> None:
    good, bad = packets(2)
    with pytest.raises(MalformedPacket):
        runs(good, changed(bad, properties_offset(bad) + 36, b"\1"))


def test_truncated_behind_a_good_packet() -> None:
    good, bad = packets(2)
    for size in range(len(bad)):
        with pytest.raises(MalformedPacket):
            runs(good, bad[:size])
        short = bad[:size]
        if size >= 12:
            short = short[:8] + struct.pack("<I", size) + short[12:]
            with pytest.raises(MalformedPacket):
                runs(good, short)


def test_allocation_beside_the_size_begins_a_run() -> None:
    first, second = packets(2)
    odd = changed(first, properties_offset(first) + 36, struct.pack("<I", 4096))
    assert counts(odd, second) == [1, 1]
    assert counts(first, changed(second, properties_offset(second) + 36, b"\0\1")) == [1, 1]
