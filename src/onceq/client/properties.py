"""Bodies and properties of messages as applications write them, checked before anything is asked.

What needs no queue manager to be found wrong is refused at once, at the line that is wrong, and
leaves a transaction as it was. Bodies become runs: joined once, their lengths in a table. For a
batch of n bodies this costs two calls into C, not n calls of Python.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from operator import add
from typing import Any, Final, Literal, TypedDict

from onceq import errors
from onceq.model.identity import MessageId
from onceq.model.limits import DELAY_S_MAX, EXTENSION_BYTES_MAX, LABEL_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.marks import NEVER_S, trace_trailer
from onceq.model.message import (
    BODY_TYPE,
    CORRELATION_BYTES,
    OWN,
    PLAIN,
    Acknowledge,
    Delivery,
    Journal,
    Message,
    Properties,
    encoded,
    encoded_each,
)
from onceq.model.record import names
from onceq.model.run import LENGTH_TYPE, Run, largest_of, total_of
from onceq.packet.own import own_headers

Body = bytes | bytearray | memoryview | str


class Nothing(Enum):
    """What a signature has where nothing was given, and None would be a value."""

    NOTHING = 0

    def __repr__(self) -> str:
        return self.name


NOTHING: Final = Nothing.NOTHING

PART_BYTES_MAX: Final = 16 << 20
"""Bodies of one frame; a frame may have 64 MiB (CLIENT_FRAME_BYTES_MAX)."""
PART_MESSAGES_MAX: Final = 250_000


Bodies = Iterable[Body | Nothing] | Nothing


def raw(body: Body | Nothing) -> bytes:
    """The bytes of a body; text becomes UTF-8. Raises InvalidParameter."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise errors.InvalidParameter(f"this text cannot be encoded: {error.reason}") from None
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if body is NOTHING:
        raise errors.InvalidParameter("there is no body: say one, or json=value")
    raise errors.InvalidParameter(f"a body is bytes or text, not {type(body).__name__}")


def json_body(body: Body | Nothing, value: object, properties: Any) -> bytes:
    """The body that a value becomes; its body type says what it is, if none was given.

    Args:
        properties: Of the message, as a map that belongs to the call.

    Raises:
        InvalidParameter: There is a body too, or the value cannot be said in JSON.
    """
    _alone(body, properties)
    return encoded(value)


def json_bodies(bodies: object, values: Iterable[object], properties: Any) -> list[bytes]:
    """The same for each value of a batch."""
    _alone(bodies, properties)
    return encoded_each(values)


def _alone(body: object, properties: Any) -> None:
    if body is not NOTHING:
        raise errors.InvalidParameter("say a body, or json=value, not both")
    if properties.get("body_type") is None:
        properties["body_type"] = BODY_TYPE


def run_of(bodies: Bodies) -> Run:
    """Bodies as one run; a run of bodies is taken unchanged, and belongs to the library then.

    Raises:
        InvalidParameter: Something among them is no body.
        BodyTooLarge: One is larger than a packet.
    """
    if isinstance(bodies, Run):
        if total_of(bodies.lengths) != len(bodies.data):
            raise errors.InvalidParameter("the lengths of a run do not add up to its bytes")
        return _fitting(bodies)
    if bodies is NOTHING:
        raise errors.InvalidParameter("there are no bodies: say them, or json=values")
    if isinstance(bodies, (str, bytes, bytearray, memoryview)):
        raise errors.InvalidParameter(
            "several bodies are wanted here, in a list; send takes a single one"
        )
    items: Sequence[Body | Nothing] = bodies if isinstance(bodies, (list, tuple)) else list(bodies)
    # 1.1 us instead of 2.2: most sends are of one.
    if len(items) == 1 and type(items[0]) is bytes and len(items[0]) <= PACKET_BYTES_MAX:
        return Run(items[0], array(LENGTH_TYPE, (len(items[0]),)))
    try:
        run = Run(b"".join(items), array(LENGTH_TYPE, map(len, items)))  # type: ignore[arg-type]
    except (TypeError, BufferError, OverflowError):
        run = Run.of([raw(body) for body in items])
    if total_of(run.lengths) != len(run.data):
        # Views of items wider than a byte: their length is not their size.
        run = Run.of([raw(body) for body in items])
    return _fitting(run)


def _fitting(run: Run) -> Run:
    largest = largest_of(run.lengths)
    if largest > PACKET_BYTES_MAX:
        raise errors.BodyTooLarge(
            f"a body of {largest} bytes is larger than the {PACKET_BYTES_MAX} bytes of a packet "
            "with its headers; send it in parts"
        )
    return run


def parts(run: Run, own: Run | None = None) -> Iterator[tuple[Run, Run | None]]:
    """Bodies, and headers of their own, in pieces that fit into a frame each; or as they are."""
    size = len(run.data) + (0 if own is None else len(own.data))
    if size <= PART_BYTES_MAX and len(run) <= PART_MESSAGES_MAX:
        yield run, own
        return
    sizes = run.lengths if own is None else array(LENGTH_TYPE, map(add, run.lengths, own.lengths))
    first = held = 0
    for index, size in enumerate(sizes):
        full = held + size > PART_BYTES_MAX or index - first >= PART_MESSAGES_MAX
        if full and index > first:
            yield _part(run, own, first, index)
            first, held = index, 0
        held += size
    yield _part(run, own, first, len(sizes))


def _part(run: Run, own: Run | None, first: int, end: int) -> tuple[Run, Run | None]:
    return run.part(first, end - first), None if own is None else own.part(first, end - first)


class SharedProperties(TypedDict, total=False):
    """What all messages of a batch have in common; None: as by default."""

    priority: int | None
    delivery: Literal["express", "recoverable"] | Delivery | None
    acknowledge: Acknowledge | int | None
    journal: Journal | int | None
    time_to_reach_queue: int | None
    time_to_be_received: int | None
    admin_queue: str | None
    response_queue: str | None
    trace: bool | int | None
    dead_letter_queue: str | None
    delay: float | timedelta | None
    deliver_at: datetime | float | None


class SendProperties(SharedProperties, total=False):
    """The properties of a message, as keywords of ``send``; what they mean is in
    ``onceq.Properties``."""

    label: str | None
    correlation_id: bytes | bytearray | memoryview | MessageId | None
    app_specific: int | None
    body_type: int | None
    extension: bytes | bytearray | memoryview | None
    traceparent: str | None


class BatchProperties(SharedProperties, total=False):
    """The same as keywords of ``send_many``: what only the receiver looks at may be a list, with a
    value for each message."""

    label: str | Sequence[str | None] | None
    correlation_id: (
        bytes | bytearray | memoryview | MessageId | Sequence[bytes | MessageId | None] | None
    )
    app_specific: int | Sequence[int | None] | None
    body_type: int | Sequence[int | None] | None
    extension: bytes | bytearray | memoryview | Sequence[bytes | None] | None
    traceparent: str | Sequence[str | None] | None


NAMES: Final = (*names(Properties), "traceparent")
_TEXTS: Final = frozenset(("label", "admin_queue", "response_queue", "dead_letter_queue"))
_RANGES: Final = {
    "priority": 7,
    "acknowledge": int(~Acknowledge(0)),
    "journal": int(~Journal(0)),
    "app_specific": NEVER_S,
    "body_type": NEVER_S,
    "time_to_reach_queue": NEVER_S,
    "time_to_be_received": NEVER_S,
    "trace": 1,
    "delay": DELAY_S_MAX,
    "deliver_at": NEVER_S - 1,
}
"""Largest value of each number; the smallest is 0."""
BARE_BYTES: Final = 64
"""About what a batch without properties takes in a frame besides its bodies."""
_TIMES: Final = frozenset(("delay", "deliver_at"))
UNKEPT: Final = ("priv_level", "auth_level")
"""Properties that MSMQ has and onceq cannot keep: only their value "none" is taken."""


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Properties as they go into a frame: plain values, those that are None left out.

    Raises:
        IllegalPropertyId: There is no such property.
        EncryptionNotSupported, AuthenticationNotSupported: It could not be kept.
        LabelTooLong, IllegalPropertySize, IllegalPropertyValue: Its value cannot be.
    """
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if name in UNKEPT:
            if value in (None, 0):
                continue
            if name == "priv_level":
                raise errors.EncryptionNotSupported(
                    "priv_level asks for an encrypted body, which onceq does not do; use TLS "
                    "between the computers, or encrypt the body before it is sent"
                )
            raise errors.AuthenticationNotSupported(
                "auth_level asks for a signature, which onceq does not do; use TLS with client "
                "certificates, or sign the body"
            )
        if name not in NAMES:
            import difflib  # after a mistake only

            near = difflib.get_close_matches(name, NAMES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise errors.IllegalPropertyId(f"there is no message property {name!r}{hint}")
        if value is not None:
            plain[name] = _checked(name, value)
    return plain


def parted(values: Mapping[str, Any], count: int) -> tuple[dict[str, Any], Run | None]:
    """Properties of a batch, and headers of its messages where they have some of their own.

    Args:
        values: A property of ``OWN`` may be a list: of each message its own value, None for none.
        count: How many messages there are.

    Raises:
        InvalidParameter: A list has another length.
        OnceqError: As ``checked``.
    """
    if not values:
        return {}, None
    if "traceparent" in values:
        values = _traced(values, count)
    lists = {name: v for name, v in values.items() if isinstance(v, (list, tuple))}
    if not lists:
        return checked(values), None
    shared = checked({name: value for name, value in values.items() if name not in lists})
    columns: dict[str, Sequence[Any]] = {}
    for name, column in lists.items():
        if name not in NAMES:
            checked({name: column})  # It says what is near.
        if name not in OWN:
            raise errors.IllegalPropertyValue(
                f"{name} is the same for all messages of a batch; only {', '.join(OWN)} may be "
                "lists: send those that have it in common together"
            )
        if len(column) != count:
            raise errors.InvalidParameter(f"{name} has {len(column)} values for {count} messages")
        columns[name] = _column(name, column)
    for name in OWN:
        if name in shared:
            columns[name] = (shared.pop(name),) * count
    return shared, own_headers(count, columns)


def _traced(values: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Properties with each ``traceparent`` as the mark behind the extension of its message. It is
    left out where the extension is too long for it: a trace is no promise."""
    left = {name: value for name, value in values.items() if name != "traceparent"}
    given = values["traceparent"]
    if given in (None, "") or not count:
        return left
    if not isinstance(given, (list, tuple)):
        ends: Sequence[bytes] = (_checked("traceparent", given),) * count
    elif len(given) != count:
        raise errors.InvalidParameter(f"traceparent has {len(given)} values for {count} messages")
    else:
        ends = [_checked("traceparent", one) if one else b"" for one in given]
    extension = left.get("extension")
    if isinstance(extension, (list, tuple)) and len(extension) != count:
        return left  # What is wrong with it is said where all lists are looked at.
    plain = extension if isinstance(extension, (list, tuple)) else (extension,) * count
    behind = zip((b"" if one is None else _extension(one) for one in plain), ends, strict=True)
    left["extension"] = [a + b if len(a) + len(b) <= EXTENSION_BYTES_MAX else a for a, b in behind]
    return left


def _column(name: str, column: Sequence[Any]) -> list[Any]:
    default = getattr(PLAIN, name)
    values = [default if value is None else value for value in column]
    if not values or _plainly_good(name, values):
        return values
    for index, value in enumerate(values):
        try:
            values[index] = _checked(name, value)
        except errors.OnceqError as error:
            raise type(error)(f"message {index} of the batch: {error.text}") from None
    return values


def _plainly_good(name: str, values: list[Any]) -> bool:
    """Whether all values are what they should be, seen without looking at them one by one."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return name in _RANGES and min(values) >= 0 and max(values) <= _RANGES[name]
    if kinds == {str}:
        return name == "label" and max(map(len, values)) <= LABEL_CHARS_MAX and (
            "".join(values).isascii()
        )  # fmt: skip
    if kinds == {bytes}:
        largest = max(map(len, values))
        if name == "correlation_id":
            return largest == min(map(len, values)) == CORRELATION_BYTES
        return name == "extension" and largest <= EXTENSION_BYTES_MAX
    return False


def _checked(name: str, value: Any) -> Any:
    if name in _TEXTS:
        return _text(name, value)
    if name == "delivery":
        names = {kind.name.lower(): kind for kind in Delivery}
        if isinstance(value, str) and value in names:
            return int(names[value])
        if isinstance(value, int) and value in names.values():
            return int(value)
        raise errors.IllegalPropertyValue(f"delivery is 'express' or 'recoverable', not {value!r}")
    if name == "correlation_id":
        return _correlation(value)
    if name == "extension":
        return _extension(value)
    if name == "traceparent":
        return trace_trailer(value)
    if name in _TIMES:
        value = _seconds(name, value)
    most = _RANGES[name]
    if not isinstance(value, int) or not 0 <= value <= most:
        of = " of seconds" if name.startswith("time_to_") else ""
        raise errors.IllegalPropertyValue(
            f"{name} is a whole number{of} from 0 to {most}, not {value!r}"
        )
    return int(value)


def _seconds(name: str, value: Any) -> Any:
    """A moment or a time as whole seconds; a part of one is rounded up: nothing is early."""
    if name == "delay" and isinstance(value, timedelta):
        value = value.total_seconds()
    elif name == "deliver_at" and callable(getattr(value, "timestamp", None)):
        if isinstance(value, datetime) and value.tzinfo is None:
            raise errors.IllegalPropertyValue(
                "deliver_at has no time zone, so it is no moment; say datetime.now(UTC), or "
                "datetime(..., tzinfo=UTC)"
            )
        value = value.timestamp()
    if isinstance(value, float) and math.isfinite(value):
        return math.ceil(value)
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise errors.IllegalPropertyValue(f"{name} is text, not {value!r}")
    if name == "label":
        size = len(value)
        if not value.isascii():
            size += sum(char > "\uffff" for char in value)
        if size > LABEL_CHARS_MAX:
            raise errors.LabelTooLong(
                f"the label has {size} characters; at most {LABEL_CHARS_MAX} fit"
            )
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.IllegalPropertyValue(f"{name} contains half a surrogate pair") from None
    return value


def _correlation(value: Any) -> bytes:
    """Twenty bytes, or the message that is meant."""
    if isinstance(value, MessageId):
        return value.pack()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise errors.IllegalPropertyValue(f"a correlation identifier is bytes, not {value!r}")
    raw = bytes(value)
    if len(raw) != CORRELATION_BYTES:
        raise errors.IllegalPropertySize(
            f"a correlation identifier has {CORRELATION_BYTES} bytes, not {len(raw)}"
        )
    return raw


def _extension(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise errors.IllegalPropertyValue(f"an extension is bytes, not {value!r}")
    raw = bytes(value)
    if len(raw) > EXTENSION_BYTES_MAX:
        raise errors.IllegalPropertySize(
            f"an extension has at most {EXTENSION_BYTES_MAX} bytes, not {len(raw)}"
        )
    return raw


def answering(message: Message, values: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a reply: it has the identifier of its request as its correlation
    identifier.

    Raises:
        InvalidParameter: It is no message, wants no reply, or the reply has another identifier.
    """
    if not isinstance(message, Message):
        raise errors.InvalidParameter(f"a reply answers a message, not {message!r}")
    if not message.response_queue:
        raise errors.InvalidParameter(
            f"message {message.id} names no queue for a reply (response_queue); it was not sent "
            "as a request"
        )
    if values.get("correlation_id"):
        raise errors.InvalidParameter("a reply takes its correlation identifier from its request")
    return {**values, "correlation_id": message.id}


def weight(values: dict[str, Any], own: Run | None = None) -> int:
    """About how many bytes properties, and headers of messages' own, take in a frame."""
    size = sum(len(value) for value in values.values() if isinstance(value, (str, bytes)))
    return size if own is None else size + len(own.data)
