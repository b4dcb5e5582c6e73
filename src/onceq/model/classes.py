"""Message classes: what kind of message it is, or why a message ended (ACK-16)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class MessageClass(IntEnum):
    """Values of PROPID_M_CLASS. Bit 15: negative. Bit 14: concerns reception (after arrival)."""

    NORMAL = 0x0000
    REPORT = 0x0001
    ACK_REACH_QUEUE = 0x0002
    ORDER_ACK = 0x00FF
    ACK_RECEIVE = 0x4000
    NACK_BAD_DESTINATION_QUEUE = 0x8000
    NACK_DELETED = 0x8001
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    NACK_QUEUE_EXCEED_QUOTA = 0x8003
    NACK_ACCESS_DENIED = 0x8004
    NACK_HOP_COUNT_EXCEEDED = 0x8005
    NACK_BAD_SIGNATURE = 0x8006
    NACK_BAD_ENCRYPTION = 0x8007
    NACK_NOT_TRANSACTIONAL_QUEUE = 0x8009
    NACK_NOT_TRANSACTIONAL_MESSAGE = 0x800A
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C
    NACK_MESSAGE_TOO_LARGE = 0x800D
    NACK_DELAY_NOT_SUPPORTED = 0x80D0
    NACK_QUEUE_DELETED = 0xC000
    NACK_QUEUE_PURGED = 0xC001
    NACK_RECEIVE_TIMEOUT = 0xC002
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003
    NACK_RECEIVE_REJECTED = 0xC004

    @property
    def on_receive(self) -> bool:
        """Whether it concerns what happened after the arrival."""
        return bool(self & 0x4000)

    @property
    def negative(self) -> bool:
        """Whether the message did not make it."""
        return bool(self & 0x8000)


REFUSALS: Final = frozenset((
    MessageClass.NACK_BAD_DESTINATION_QUEUE,
    MessageClass.NACK_QUEUE_EXCEED_QUOTA,
    MessageClass.NACK_ACCESS_DENIED,
    MessageClass.NACK_HOP_COUNT_EXCEEDED,
    MessageClass.NACK_BAD_SIGNATURE,
    MessageClass.NACK_BAD_ENCRYPTION,
    MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
    MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE,
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED,
    MessageClass.NACK_MESSAGE_TOO_LARGE,
))  # fmt: skip
"""Classes of messages that a destination does not take. What was too late is not among them: that
its sender has asked for. Neither is what ended in its queue (purged, deleted, rejected)."""


def is_refused_there(message_class: int) -> bool:
    """Whether a destination did not take the messages that ended so. What a copy of a queue manager
    has set aside, as another one, no destination has refused."""
    aside = MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED
    return message_class in REFUSALS and message_class != aside


SECOND_LETTER = 1
"""Note of a dead letter: its sender has another one, which is the one to return. A note from
``0x8000`` on is the class of what ended the wait for a message in doubt."""
FORGOTTEN_THERE, TOLD_ALREADY = 2, 3
"""Notes of acknowledged messages in doubt of which nobody will tell the end: their receiver knows
them no more; or it has told that, to a life of this manager that a restore has undone."""


def class_name(value: int) -> str:
    """Name of a class for people; applications may define values of their own."""
    try:
        return MessageClass(value).name.lower().replace("_", "-")
    except ValueError:
        return f"class-{value:#06x}"
