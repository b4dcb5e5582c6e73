"""Templates and runs of packets: sizes, flags, numbers, limits."""

from __future__ import annotations

import struct
from array import array

import pytest

from onceq.errors import BodyTooLarge, IllegalPropertyValue, LabelTooLong, UnsupportedFormatName
from onceq.model.identity import MessageId
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.names import parse_format_name
from onceq.model.run import Run
from onceq.packet import layout as at
from onceq.packet.address import Address, Element, MultiNames
from onceq.packet.decode import decode, headers
from onceq.packet.encode import encode_run
from onceq.packet.multi import parse_multi
from onceq.packet.own import own_headers
from onceq.packet.templates import Template, template

SOURCE = bytes(range(16))
STOCK = Address(7, direct="OS:BETA\\private$\\stock")
GUID = "00112233-4455-6677-8899-aabbccddeeff"


def made(properties: Properties = PLAIN, *, transactional: bool = True, **more: object) -> Template:
    return template(
        source=SOURCE, destination=STOCK, properties=properties, sent_time=1_700_000_000,
        transactional=transactional, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_layout_of_a_transactional_message() -> None:
    """The defaults for a message to Windows, byte for byte."""
    run = encode_run(
        made(), Run.of([b"hello"]), first_message=17, stream=0x432B164300000006, first_number=1,
        transaction=5, first=True, last=True,
    )  # fmt: skip
    name = "OS:BETA\\private$\\stock\0".encode("utf-16-le")
    expected = (
        b"\x10\0\0\0LIOR" + struct.pack("<II", 16 + 48 + 48 + 20 + 56 + 8, 0xFFFFFFFF)
        + SOURCE + bytes(16) + struct.pack("<III", 0xFFFFFFFF, 1_700_000_000, 17)
        + struct.pack("<I", 0x00301C20)
        + struct.pack("<H", len(name)) + name
        + struct.pack("<I", 4 | 8 | 5 << 4) + bytes.fromhex("0600000043162b43")
        + struct.pack("<II", 1, 0)
        + struct.pack("<BBH20sII", 0, 0, 0, bytes(20), 0, 0)
        + struct.pack("<IIIIII", 5, 5, 0, 0x8004, 0x6801, 0) + b"hello\0\0\0"
    )  # fmt: skip
    assert bytes(run.data) == expected
    assert list(run.lengths) == [len(expected)]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 300])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1024])
def test_equal_bodies(count: int, size: int) -> None:
    bodies = [bytes([i % 251]) * size for i in range(count)]
    run = encode_run(
        made(), Run.of(bodies), first_message=100, stream=9, first_number=40, first=True, last=True
    )
    messages = [decode(packet) for packet in run]
    assert [m.body for m in messages] == bodies
    assert [m.id for m in messages] == [MessageId(SOURCE, 100 + i) for i in range(count)]
    assert [(m.number, m.previous) for m in messages] == [(40 + i, 39 + i) for i in range(count)]
    assert [m.first_in_transaction for m in messages] == [i == 0 for i in range(count)]
    assert [m.last_in_transaction for m in messages] == [i == count - 1 for i in range(count)]
    assert {m.stream for m in messages} == {9}


@pytest.mark.parametrize("count", [999, 1000, 1001, 2000, 2500])
@pytest.mark.parametrize("size", [0, 1, 202, 701])
def test_many_equal_bodies_are_as_batches_of_one(count: int, size: int) -> None:
    bodies = [i.to_bytes(4, "big").rjust(size, b".")[-size or 4 :][:size] for i in range(count)]
    first = (1 << 16) - 700
    together = encode_run(made(), Run.of(bodies), first_message=first, stream=2, first_number=first)
    apart = [
        encode_run(made(), Run.of([b]), first_message=first + i, stream=2, first_number=first + i)
        for i, b in enumerate(bodies)
    ]
    assert bytes(together.data) == b"".join(bytes(run.data) for run in apart)
    assert list(together.lengths) == [run.lengths[0] for run in apart]


@pytest.mark.parametrize("label", ["row {}", "row {:06}", ""])
@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("size", [0, 3, 5_000])
def test_many_headers_of_their_own_are_as_batches_of_one(size: int, more: int, label: str) -> None:
    count = 2_100 if size < 1_000 else 1_100
    labels = [label.format(i) for i in range(count)]
    bodies = [bytes([i % 251]) * (size + i % (more + 1)) for i in range(count)]
    own = own_headers(count, {"label": labels})
    together = encode_run(
        made(), Run.of(bodies), first_message=0xFFFFFFF0, stream=2, first_number=8, own=own
    )
    apart = [
        encode_run(
            made(), Run.of([body]), first_message=(0xFFFFFFF0 + i - 1) % 0xFFFFFFFF + 1, stream=2,
            first_number=8 + i, own=own.part(i, 1),
        )
        for i, body in enumerate(bodies)
    ]  # fmt: skip
    assert bytes(together.data) == b"".join(bytes(run.data) for run in apart)
    assert list(together.lengths) == [run.lengths[0] for run in apart]


def test_a_packet_too_large_is_named_in_a_later_block() -> None:
    count = 1_500
    bodies = Run.of([b"x"] * (count - 1) + [bytes(PACKET_BYTES_MAX)])
    own = own_headers(count, {"label": ["l"] * count})
    with pytest.raises(BodyTooLarge, match=f"message {count - 1} of the batch"):
        encode_run(made(), bodies, first_message=1, own=own)


def test_bodies_of_several_sizes_are_as_equal_ones() -> None:
    bodies = [b"x" * size for size in (0, 1, 1, 5, 4096, 3, 3, 3, 2, 1024, 7)]
    together = encode_run(made(), Run.of(bodies), first_message=3, stream=2, first_number=8)
    apart = [
        encode_run(made(), Run.of([body]), first_message=3 + i, stream=2, first_number=8 + i)
        for i, body in enumerate(bodies)
    ]
    assert bytes(together.data) == b"".join(bytes(run.data) for run in apart)
    assert list(together.lengths) == [run.lengths[0] for run in apart]


def test_bodies_may_be_any_buffer() -> None:
    lengths = array("I", (3, 3))
    plain = encode_run(made(), Run(b"abcdef", lengths), first_message=1)
    view = memoryview(bytearray(b"--abcdef--"))[2:8]
    assert bytes(encode_run(made(), Run(view, lengths), first_message=1).data) == bytes(plain.data)


def test_no_bodies() -> None:
    assert len(encode_run(made(), Run.of([]), first_message=1)) == 0


def test_template_tells_sizes() -> None:
    one = made(Properties(label="odd", extension=b"123"))
    for size in range(9):
        run = encode_run(one, Run.of([bytes(size)]), first_message=1)
        assert one.packet_bytes(size) == len(run.data)
        assert 0 <= one.packet_bytes(size) - size - one.overhead < 4


def test_message_to_a_local_queue_has_no_place_in_a_stream() -> None:
    run = encode_run(made(), Run.of([b"a", b"b"]), first_message=1)
    assert [(m.transactional, m.stream, m.number, m.previous) for m in map(decode, run)] == [
        (True, 0, 0, 0)
    ] * 2


def test_message_numbers_wrap_and_leave_out_zero() -> None:
    for count in (4, 12):
        run = encode_run(made(), Run.of([b"x"] * count), first_message=0xFFFFFFFE)
        expected = [0xFFFFFFFE, 0xFFFFFFFF, *range(1, count - 1)]
        assert [decode(packet).id.number for packet in run] == expected


def test_sequence_numbers_never_wrap() -> None:
    last = encode_run(made(), Run.of([b""]), first_message=1, stream=1, first_number=0xFFFFFFFF)
    assert decode(last.data).number == 0xFFFFFFFF
    with pytest.raises(AssertionError):
        encode_run(made(), Run.of([b""] * 2), first_message=1, stream=1, first_number=0xFFFFFFFF)


def test_too_large_a_body_is_named() -> None:
    one = made()
    largest = PACKET_BYTES_MAX - one.overhead
    run = encode_run(one, Run.of([bytes(largest)]), first_message=1)
    assert len(run.data) == PACKET_BYTES_MAX
    with pytest.raises(BodyTooLarge, match="message 1 of the batch"):
        encode_run(one, Run.of([b"", bytes(largest + 1)]), first_message=1)


def test_transactional_overrides_priority_and_delivery() -> None:
    one = made(Properties(priority=7, delivery=Delivery.EXPRESS))
    message = decode(encode_run(one, Run.of([b""]), first_message=1).data)
    assert (message.priority, message.delivery) == (0, Delivery.RECOVERABLE)
    assert not message.final_ack_wanted


@pytest.mark.parametrize("journal", [Journal.DEADLETTER, Journal.JOURNAL])
def test_journaling_asks_for_a_final_acknowledgment(journal: Journal) -> None:
    one = made(Properties(journal=journal))
    message = decode(encode_run(one, Run.of([b""]), first_message=1).data)
    assert (message.journal, message.final_ack_wanted) == (journal, True)
    other = made(Properties(journal=journal), transactional=False)
    assert headers(encode_run(other, Run.of([b""]), first_message=1).data).transaction is None


def test_every_property() -> None:
    properties = Properties(
        label="Öl 😀", priority=5, delivery=Delivery.EXPRESS, acknowledge=Acknowledge(13),
        journal=Journal.DEADLETTER | Journal.JOURNAL, app_specific=7, body_type=65,
        correlation_id=bytes(range(20)), time_to_reach_queue=60, time_to_be_received=120,
        extension=b"ext",
    )  # fmt: skip
    one = template(
        source=SOURCE, destination=Address(3, number=12), destination_manager=b"d" * 16,
        admin=Address(2, number=5), response=Address(6, b"r" * 16, 9), properties=properties,
        sent_time=4, transactional=False, message_class=0x8003,
    )  # fmt: skip
    message = decode(encode_run(one, Run.of([b"body"]), first_message=2).data)
    for name in (
        "label", "priority", "delivery", "acknowledge", "journal", "app_specific", "body_type",
        "correlation_id", "time_to_reach_queue", "time_to_be_received", "extension",
    ):  # fmt: skip
        assert getattr(message, name) == getattr(properties, name), name
    assert message.message_class == 0x8003
    assert message.destination == "PRIVATE=64646464-6464-6464-6464-646464646464\\0000000c"
    assert message.admin_queue == "PRIVATE=03020100-0504-0706-0809-0a0b0c0d0e0f\\00000005"
    assert message.response_queue == "PRIVATE=72727272-7272-7272-7272-727272727272\\00000009"
    assert (message.sent_time, message.body) == (4, b"body")


def test_time_to_reach_queue_may_be_given_apart() -> None:
    one = made(Properties(time_to_reach_queue=60), time_to_reach_queue=9)
    assert decode(encode_run(one, Run.of([b""]), first_message=1).data).time_to_reach_queue == 9


@pytest.mark.parametrize("label", ["x" * 249, "😀" * 124, "\ud800"])
def test_longest_labels(label: str) -> None:
    run = encode_run(made(Properties(label=label)), Run.of([b"b"]), first_message=1)
    assert headers(run.data).properties.label == label


def test_half_a_surrogate_is_shown_as_a_replacement() -> None:
    run = encode_run(made(Properties(label="a\ud800b")), Run.of([b"b"]), first_message=1)
    assert decode(run.data).label == "a\ufffdb"


@pytest.mark.parametrize("label", ["x" * 250, "😀" * 125])
def test_labels_that_do_not_fit(label: str) -> None:
    with pytest.raises(LabelTooLong):
        made(Properties(label=label))


def test_a_label_without_nul() -> None:
    with pytest.raises(IllegalPropertyValue):
        made(Properties(label="a\0b"))


# ---- several destinations ------------------------------------------------------------------------


def elements(text: str) -> tuple[Element, ...]:
    return tuple(map(Element.of, parse_format_name(text)))


NAMES = MultiNames(
    elements(f"DIRECT=OS:A\\q,PRIVATE={GUID}\\7,DL={GUID},DIRECT=TCP:10.0.0.1\\private$\\qq"),
    elements("DIRECT=OS:ADMIN\\a"),
)


@pytest.mark.parametrize("size", range(5))
def test_names_of_all_destinations_are_carried(size: int) -> None:
    one = made(multi=NAMES)
    run = encode_run(one, Run.of([bytes(size)] * 9), first_message=1)
    for packet in run:
        assert len(packet) == one.packet_bytes(size)
        parts = headers(packet)
        assert parts.user.flags & at.USER_MULTIQUEUE
        assert parts.trailing == b""
        assert parse_multi(parts.multi) == NAMES
        assert parts.properties.body == bytes(size)


def test_names_are_printed_as_format_names() -> None:
    assert [str(element) for element in NAMES.destination] == [
        "DIRECT=OS:A\\q",
        f"PRIVATE={GUID}\\00000007",
        f"DL={GUID}",
        "DIRECT=TCP:10.0.0.1\\private$\\qq",
    ]


def test_lists_begin_and_end_at_multiples_of_four() -> None:
    raw = NAMES.pack()
    start, identifiers = 0, []
    for _ in range(3):
        size, identifier, reserved, _ = struct.unpack_from("<IHHI", raw, start)
        identifiers.append(identifier)
        assert reserved == 0
        start += size + 3 & ~3
    assert identifiers == [0x64, 0xC8, 0x12C]
    assert raw[start:] == struct.pack("<HHI", 0x15E, 0, 0)


def test_public_queues_do_not_stand_in_lists() -> None:
    """Their alignment is not published (U16)."""
    with pytest.raises(UnsupportedFormatName):
        elements(f"PUBLIC={GUID}")
