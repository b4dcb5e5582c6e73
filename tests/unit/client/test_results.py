"""Batches and identifiers, made from tables only when somebody looks."""

from __future__ import annotations

from array import array

import pytest

from onceq.client.results import MessageIds
from onceq.model.identity import NO_GUID, MessageId
from onceq.model.message import Properties
from onceq.model.run import Run
from onceq.packet.address import Address
from onceq.packet.arrived import Batch
from onceq.packet.encode import encode_run, template

SOURCE = bytes(range(16))


def received(*bodies: bytes, label: str = "x") -> Batch:
    made = template(
        source=SOURCE, destination=Address(7, direct="OS:A\\private$\\q"),
        destination_manager=NO_GUID, properties=Properties(label=label), sent_time=1_000,
        transactional=True,
    )  # fmt: skip
    run = encode_run(made, Run.of(list(bodies)), first_message=5)
    count = len(bodies)
    return Batch(
        Run(bytes(run.data), run.lengths),
        array("Q", range(100, 100 + count)),
        array("I", [2_000] * count),
        array("I", range(count)),
    )


def test_messages_are_decoded_with_what_is_known_beside_them() -> None:
    batch = received(b"one", b"two", b"three")
    message = batch[1]
    assert (message.body, message.label, message.id) == (b"two", "x", MessageId(SOURCE, 6))
    assert (message.lookup_id, message.arrived_time, message.abort_count) == (101, 2_000, 1)
    assert [m.body for m in batch] == [b"one", b"two", b"three"]
    assert batch[-1].body == b"three"
    assert [m.body for m in batch[1:]] == [b"two", b"three"]
    assert list(batch.arrived_times) == [2_000] * 3
    assert repr(batch) == "<Batch of 3 messages>"
    for index in (3, -4):
        with pytest.raises(IndexError):
            batch[index]


def test_bodies_need_no_messages() -> None:
    bodies = [b"", b"x" * 5, b"y" * 5, b"z" * 700]
    assert received(*bodies).bodies() == bodies


def test_a_part_is_a_batch() -> None:
    part = received(b"one", b"two", b"three").part(1, 2)
    assert part.bodies() == [b"two", b"three"]
    assert list(part.lookup_ids) == [101, 102]
    assert [m.abort_count for m in part] == [1, 2]


def test_identifiers_of_one_batch() -> None:
    ids = MessageIds(SOURCE, 7, 3)
    assert list(ids) == [MessageId(SOURCE, n) for n in (7, 8, 9)]
    assert ids[-1].number == 9
    assert [id.number for id in ids[::2]] == [7, 9]
    for index in (3, -4):
        with pytest.raises(IndexError):
            ids[index]
    assert repr(ids) == "<3 message identifiers from 7>"


def test_identifiers_of_a_batch_that_went_in_parts() -> None:
    ids = MessageIds(SOURCE)
    assert len(ids) == 0
    assert repr(ids) == "<0 message identifiers>"
    ids.add(7, 2)
    ids.add(20, 2)
    assert [id.number for id in ids] == [7, 8, 20, 21]
    assert ids[2].number == 20
