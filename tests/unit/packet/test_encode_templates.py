"""Headers that the messages of a batch share: sizes, flags, limits."""

from __future__ import annotations

import pytest

from onceq.errors import IllegalPropertyValue, LabelTooLong
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.packet.address import Address
from onceq.packet.decode import decode, headers
from onceq.packet.encode import encode_run, template
from tests.unit.packet.samples import SOURCE, made


def test_template_tells_sizes() -> None:
    one = made(Properties(label="odd", extension=b"123"))
    for size in range(9):
        run = encode_run(one, Run.of([bytes(size)]), first_message=1)
        assert one.packet_bytes(size) == len(run.data)
        assert 0 <= one.packet_bytes(size) - size - one.overhead < 4


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
