"""Classes of messages: their names, and which of them are refusals."""

from __future__ import annotations

from onceq.model.resultcodes import MessageClass, class_name


def test_classes_say_whether_a_message_made_it() -> None:
    for item in MessageClass:
        assert item.negative == item.name.startswith("NACK_")
    assert class_name(0x8009) == "nack-not-transactional-queue"
    assert class_name(0x1234) == "class-0x1234"
