"""A message as an application sees it, and the properties that it may set.

The bytes of a message are its packet; these objects appear only when an application
or an operator looks.

Also here:

* Bodies that are JSON: from values to bytes, and from bytes to values of a type.
* The two times of a transaction: those of its first message hold for all of them (SND-12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, IntFlag
from typing import Any, Final, TypeVar, overload

from msgspec import MsgspecError
from msgspec.json import decode, encode

from onceq.errors import BodyNotJson, IllegalPropertyValue, InvalidParameter
from onceq.model.identity import MessageId
from onceq.model.marks import NEVER_S
from onceq.model.record import Record, repr_without

# ---- json body -----------------------------------------------------------------------------------


BODY_TYPE: Final = int.from_bytes(b"JSON", "little")
"""PROPID_M_BODY_TYPE of a body that is JSON in UTF-8; its four bytes in a packet read ``JSON``."""


def encoded(value: object) -> bytes:
    """A value as JSON in UTF-8.

    A body that was given as a value says so in its body type, so that a reader of the message, an
    operator or another program, knows its kind without guessing. The type number is no VARIANT
    type: a program that knows only those hands the bytes out unchanged. Reading does not depend on
    it; a body that another system has sent is JSON if it can be read as JSON.

    Args:
        value: What msgspec encodes: maps, lists, text, numbers, dates, dataclasses, its Structs.
            What JSON has no word for (infinity, not a number) becomes null.

    Raises:
        InvalidParameter: It cannot be said in JSON.
    """
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameter(
            f"a {type(value).__name__} cannot be sent as JSON: {error or type(error).__name__}"
        ) from error


def encoded_each(values: Iterable[object]) -> list[bytes]:
    """Each value of a batch; raises InvalidParameter, which says which one is wrong."""
    if isinstance(values, (str, bytes, bytearray, memoryview, dict)):
        raise InvalidParameter("several values are wanted here, in a list; send takes a single one")
    bodies = []
    for index, value in enumerate(values):
        try:
            bodies.append(encoded(value))
        except InvalidParameter as error:
            raise InvalidParameter(f"message {index} of the batch: {error.text}") from error
    return bodies


def decoded(body: bytes, type: Any, name: str) -> Any:
    """The value that a body is.

    Args:
        type: The type of the result: a class or type that msgspec knows; ``Any`` for any value.
        name: Of the message, for the error.

    Raises:
        BodyNotJson: It is no JSON, or of another type. The text has no content of the body but
            what msgspec says of a value that does not fit.
    """
    try:
        return decode(body, type=type)
    except (MsgspecError, ValueError, RecursionError) as error:
        wanted = "JSON" if type is Any else f"the JSON of a {getattr(type, '__name__', type)}"
        raise BodyNotJson(
            f"the body of {name}, {len(body)} bytes, is not {wanted}: {error}"
        ) from error


# ---- message -------------------------------------------------------------------------------------


T = TypeVar("T")

PRIORITY_DEFAULT = 3
CORRELATION_BYTES = 20
NO_CORRELATION = bytes(CORRELATION_BYTES)


class Delivery(IntEnum):
    """What a message survives: EXPRESS nothing, RECOVERABLE a restart (PROPID_M_DELIVERY)."""

    EXPRESS = 0
    RECOVERABLE = 1


class Acknowledge(IntFlag):
    """Which acknowledgment messages are asked for (PROPID_M_ACKNOWLEDGE, ACK-15)."""

    NONE = 0
    POSITIVE_ARRIVAL = 1
    POSITIVE_RECEIVE = 2
    NEGATIVE_ARRIVAL = 4
    NEGATIVE_RECEIVE = 8


class Journal(IntFlag):
    """Source journaling (PROPID_M_JOURNAL, CNF-20)."""

    NONE = 0
    DEADLETTER = 1
    JOURNAL = 2


class Properties(Record, frozen=True):
    """What the sender sets for one message or for a whole batch of them.

    Times are whole seconds; ``NEVER_S`` means "not set". ``admin_queue`` and ``response_queue``
    are format names, or "" for none. ``priority`` None means the default (3; transactional
    messages are always 0, Q-23). ``dead_letter_queue`` is a transactional queue of the sending
    manager that takes dead letters of these messages instead of the system's (CNF-14); it
    stays there, and is not part of the message. From ``deliver_at`` (seconds since 1970 UTC) on,
    or a ``delay`` (seconds) after the call of send, it can be received; 0: at once.
    """

    label: str = ""
    priority: int | None = None
    delivery: Delivery = Delivery.RECOVERABLE
    acknowledge: Acknowledge = Acknowledge.NONE
    journal: Journal = Journal.NONE
    app_specific: int = 0
    body_type: int = 0
    correlation_id: bytes = NO_CORRELATION
    time_to_reach_queue: int = NEVER_S
    time_to_be_received: int = NEVER_S
    admin_queue: str = ""
    response_queue: str = ""
    extension: bytes = b""
    trace: bool = False
    dead_letter_queue: str = ""
    deliver_at: int = 0
    delay: int = 0


PLAIN = Properties()
"""No property set."""

VT_LPWSTR = 31
"""Body type of text in UTF-16, little-endian."""
OWN = ("label", "correlation_id", "app_specific", "body_type", "extension")
"""Properties that may differ inside a batch: only the receiver looks at them."""


class Message(Record, frozen=True):
    """One message, decoded from its packet.

    Attributes:
        body: The bytes that the sender gave.
        id: Source queue manager and number; shared by all copies of one send.
        destination: Format name of the queue that this copy was sent to.
        sent_time: Seconds since 1970 UTC, by the sender's clock.
        arrived_time: Seconds since 1970 UTC, by this queue manager's clock; 0 if not arrived.
        lookup_id: Place in the queue: never reused, rising with position (RCV-8); 0 if none.
        stream, number, previous: Exactly-once order information (EOD-2); 0 if not transactional
            or sent to a queue on the same manager.
        transaction: Number of the sending transaction (20 bits, wraps: SND-11).
        first_in_transaction, last_in_transaction: Among the messages of that transaction to
            this queue (SND-10).
        abort_count: How often a transaction that received it was aborted (SND-21).
        move_count: How often it was moved to or from a subqueue (SND-22).
        last_move_time: Seconds since 1970 UTC of the last time; 0: never.
        trace: Whether managers that it passes report it.
        returned: How often it came back from a dead-letter queue (``onceq dead return``).
        deliver_at: Seconds since 1970 UTC from which it could be received, by the clock of the
            destination's queue manager; 0: from its arrival.
        sent_to: The name of several destinations as the application gave it, and
        copies_to: the queues that it stood for, all of them (FN-16): what MSMQ 3.0 and MSMQ 2.0
            show as the destination. "" where there was one.
        note: Of a dead letter in doubt the class of what ended the wait for it (its time, an
            operator, the directory), or ``FORGOTTEN_THERE`` or ``TOLD_ALREADY`` where it had been
            acknowledged and a restore is why nobody tells its end; ``SECOND_LETTER`` where its
            sender has another dead letter, which is the one to return; else 0.
        traceparent: Trace and span that it was made in, as W3C Trace Context writes them; "" if
            its sender named none, or a queue manager on its way knows of no traces.
        attempts: How often its receipt was undone, in all places that it had here: unlike
            ``abort_count``, it goes on where a policy has moved it.
        failure: The reason that the last receiver gave (``tx.abort(why)``, ``tx.reject(m, why)``,
            the error of a handler); "": none.
    """

    body: bytes
    id: MessageId
    destination: str = ""
    label: str = ""
    priority: int = 0
    delivery: Delivery = Delivery.RECOVERABLE
    acknowledge: Acknowledge = Acknowledge.NONE
    journal: Journal = Journal.NONE
    message_class: int = 0
    app_specific: int = 0
    body_type: int = 0
    correlation_id: bytes = NO_CORRELATION
    time_to_reach_queue: int = NEVER_S
    time_to_be_received: int = NEVER_S
    admin_queue: str = ""
    response_queue: str = ""
    extension: bytes = b""
    sent_time: int = 0
    arrived_time: int = 0
    lookup_id: int = 0
    transactional: bool = False
    stream: int = 0
    number: int = 0
    previous: int = 0
    transaction: int = 0
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    final_ack_wanted: bool = False
    hops: int = 0
    abort_count: int = 0
    move_count: int = 0
    last_move_time: int = 0
    trace: bool = False
    returned: int = 0
    deliver_at: int = 0
    sent_to: str = ""
    copies_to: str = ""
    source_address: bytes = b""
    note: int = 0
    traceparent: str = ""
    attempts: int = 0
    failure: str = ""

    __repr__ = repr_without("extension", "source_address")

    @property
    def text(self) -> str:
        """The body as text: UTF-8, or as its type says (VT_LPWSTR, as COM's formatter sends text);
        raises UnicodeDecodeError."""
        if self.body_type == VT_LPWSTR:
            return self.body.decode("utf-16-le").removesuffix("\0")
        return self.body.decode()

    @property
    def is_json(self) -> bool:
        """Whether its sender says that its body is JSON (``send(..., json=value)``)."""
        return self.body_type == BODY_TYPE

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, type: type[T]) -> T: ...
    @overload
    def json(self, type: Any) -> Any: ...
    def json(self, type: Any = Any) -> Any:
        """The body as a value, from any sender.

        Args:
            type: What it shall be, checked while it is read: a dataclass, a ``msgspec.Struct``,
                a ``TypedDict``, ``list[int]``; without it maps, lists, text and numbers.

        Raises:
            BodyNotJson: The body is no JSON, or of another type. The message is as it was: the
                error changes nothing of the transaction that holds it.
        """
        where = f" to {self.destination}" if self.destination else ""
        place = f" (lookup identifier {self.lookup_id})" if self.lookup_id else ""
        return decoded(self.body, type, f"message {self.id}{where}{place}")

    @property
    def transaction_id(self) -> bytes:
        """The 20 bytes of PROPID_M_XACTID: source and transaction number (SND-11)."""
        return self.id.source + self.transaction.to_bytes(4, "little")


class MessageHeaders(Record, frozen=True):
    """A message, and nothing of what it says.

    Attributes:
        message: Everything but its body, which is empty here.
        body_bytes: How many bytes its body has.
    """

    message: Message
    body_bytes: int


# ---- lifetimes -----------------------------------------------------------------------------------


TIMES: Final = ("time_to_reach_queue", "time_to_be_received")


def check_lifetimes(first: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuse times that differ from those of a transaction.

    A message whose sender has said otherwise would live for another time than that, so it is
    refused. The client says so at the call; the queue manager by the same rule to every program.

    Args:
        first: What was said of its first message; what was not said is as by default.
        values: What is said of this one; what is not said is as in the first.

    Raises:
        IllegalPropertyValue: One of the times is another one.
    """
    for name in TIMES:
        if name in values:
            holds = first.get(name, getattr(PLAIN, name))
            if values[name] != holds:
                said = f"{holds} s" if name in first else "the default of messages that say none"
                raise IllegalPropertyValue(
                    f"{name} of this message is {values[name]} s, and in its transaction {said} "
                    "holds for all, from the first message on (SND-12); say the same, leave it "
                    "out, or send it in another transaction"
                )
