"""Dead letters and journal copies as values: why each is one, which are meant, and how each is sent
again.

Nothing is asked or changed here. The client's previews (``client/letters.py``) and the queue
manager's jobs (``service/jobs.py``) judge letters by the same words.

Also here:

* Numbers of a message's properties in words: for people, where programs get the numbers.
* Jobs: what a queue manager does to many messages, batch by batch, until it is over.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from onceq.errors import InvalidParameter
from onceq.model.identity import NO_GUID, MessageId, guid_bytes, guid_text
from onceq.model.limits import IDENTIFIERS_MAX, RETURNS_MAX
from onceq.model.marks import NEVER_S, marked, trace_trailer
from onceq.model.message import BODY_TYPE, NO_CORRELATION, Acknowledge, Journal, Message
from onceq.model.record import Record, defaults, names
from onceq.model.resultcodes import (
    FORGOTTEN_THERE,
    SECOND_LETTER,
    TOLD_ALREADY,
    MessageClass,
    class_name,
)
from onceq.model.wording import plural

DEAD_XACT: Final = "SYSTEM$;DEADXACT"
DEAD: Final = "SYSTEM$;DEADLETTER"
JOURNAL: Final = "SYSTEM$;JOURNAL"

ENDS: Final[dict[int, tuple[str, str]]] = {
    MessageClass.ACK_REACH_QUEUE: ("arrived", "it is in its queue, and was not received yet"),
    MessageClass.ACK_RECEIVE: ("received", "an application has received it"),
    MessageClass.NACK_BAD_DESTINATION_QUEUE: ("refused", "there is no such queue"),
    MessageClass.NACK_DELETED: ("removed", "an operator removed it, and it never arrived"),
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: ("expired", "its time was over before it arrived"),
    MessageClass.NACK_QUEUE_EXCEED_QUOTA: ("refused", "the queue is at its quota"),
    MessageClass.NACK_ACCESS_DENIED: ("refused", "its sender may not send there"),
    MessageClass.NACK_HOP_COUNT_EXCEEDED: ("refused", "too many managers passed it on"),
    MessageClass.NACK_BAD_SIGNATURE: ("refused", "its signature is not valid there"),
    MessageClass.NACK_BAD_ENCRYPTION: ("refused", "its body is encrypted"),
    MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE: (
        "refused", "it is transactional, and the queue is not"),
    MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE: (
        "refused", "it is not transactional, and the queue is"),
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER: (
        "refused", "its signature needs what the receiver does not have"),
    MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED: (
        "set aside", "this queue manager was put back as another one, and the original sends it"),
    MessageClass.NACK_MESSAGE_TOO_LARGE: ("refused", "it is too large there"),
    MessageClass.NACK_DELAY_NOT_SUPPORTED: (
        "refused", "it was delayed, and its receiver does not know of delays"),
    MessageClass.NACK_QUEUE_DELETED: ("deleted", "its queue was deleted with it"),
    MessageClass.NACK_QUEUE_PURGED: ("purged", "its queue was purged"),
    MessageClass.NACK_RECEIVE_TIMEOUT: ("expired", "nobody received it in time"),
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: (
        "in doubt", "it was transmitted, the wait for it is over, and nothing was heard of it: it "
        "may have been received"),
    MessageClass.NACK_RECEIVE_REJECTED: ("rejected", "the receiving application refused it"),
}  # fmt: skip
"""Message classes, and what they say of a message."""


class Letter(Record, frozen=True):
    """A message in a dead-letter queue or a journal.

    Attributes:
        here: GUID of the manager that it was found at.
    """

    queue: str
    message: Message
    here: bytes = NO_GUID

    @property
    def poison(self) -> bool:
        """Whether the policy of its queue has moved it aside (``QUEUE;poison``)."""
        return ";" in self.queue and not self.queue.casefold().startswith("system$")

    @property
    def reason(self) -> str:
        """In a word: expired, refused, in doubt, poison, ..."""
        if self.poison:
            return POISON
        return ENDS.get(self.message.message_class, ("", ""))[0]

    @property
    def why(self) -> str:
        """In a sentence."""
        known = ENDS.get(self.message.message_class)
        text = known[1] if known else f"class {self.message.message_class:#06x}"
        if self.poison:
            text = "its queue has moved it aside"
        if self.message.attempts or self.message.failure:
            text += f"; received {plural(self.message.attempts, 'time')} in vain"
        if self.message.failure:
            text += f", the last time: {self.message.failure}"
        return f"{text} ({self.cause})" if self.cause else text

    @property
    def in_doubt(self) -> bool:
        """Whether it may have been received, for all that is known here."""
        return self.message.message_class == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER

    @property
    def cause(self) -> str:
        """Of one in doubt: what ended the wait for it, in words; "" if that is not known."""
        return CAUSES.get(self.message.note, "")

    @property
    def second(self) -> str:
        """Where its sender has another dead letter, which is the one to return; "" if nowhere.

        What is kept where a transactional message died is beside the sender's own, if that was
        asked for: the sender's application knows what to do with it.
        """
        message = self.message
        if message.note == SECOND_LETTER:
            return "in the dead-letter queue that its sender has named"
        elsewhere = message.id.source not in (self.here, NO_GUID)
        asked = bool(message.journal & Journal.DEADLETTER)
        if elsewhere and asked and message.transactional and self.queue == DEAD_XACT:
            return f"at {guid_text(message.id.source)}"
        return ""


class Filter(Record, frozen=True):
    """Which of them. Everything that is given must fit.

    Attributes:
        reason: A word (``Letter.reason``) or a class such as 0x8003.
        destination, label: A part of it, in any case of letters.
        origin: Name or GUID of the sending manager.
        older_s, younger_s: Seconds since they came here.
        id: Message identifiers as text, with / or \\ in each and spaces between them.
    """

    reason: str = ""
    destination: str = ""
    label: str = ""
    origin: str = ""
    older_s: int = 0
    younger_s: int = 0
    id: str = ""

    def fits(self, letter: Letter, now_s: int) -> bool:
        """Whether it is one of them."""
        message = letter.message
        age = max(now_s - message.arrived_time, 0)
        if self.reason.startswith("0x"):
            reason_fits = message.message_class == int(self.reason, 0)
        else:
            reason_fits = not self.reason or letter.reason == self.reason.casefold()
        return (
            reason_fits
            and self.destination.replace("/", "\\").casefold() in message.destination.casefold()
            and self.label.casefold() in message.label.casefold()
            and (not self.origin or message.id.source == guid_bytes(self.origin))
            and age >= self.older_s
            and (not self.younger_s or age <= self.younger_s)
            and (not self.id or str(message.id) in _identifiers(self.id))
        )


CAUSES: Final[dict[int, str]] = {
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "its time was over",
    MessageClass.NACK_DELETED: "an operator removed it from the outgoing queue",
    MessageClass.NACK_BAD_DESTINATION_QUEUE: "its queue left the directory",
    FORGOTTEN_THERE: "its receiver had acknowledged it and does not know any more how it ended: it "
    "was put back to an earlier moment",
    TOLD_ALREADY: "its receiver has told how it ended, and this queue manager was put back to an "
    "earlier moment",
}
"""What ended the wait for a message in doubt, in words."""
POISON: Final = "poison"
"""The reason of what a policy has moved aside; and the subqueue that it uses if none is named."""
REASONS: Final = tuple(
    sorted({POISON, *(word for word, _ in ENDS.values())} - {"arrived", "received"})
)


_CLASSES: Final = tuple(int(one) for one in MessageClass if one.negative)


def _class_of(text: str) -> int | None:
    """A class as people write it: its name, its hexadecimal digits with and without 0x, or a
    decimal number; None: it is none. With 0x it may be one that another queue manager has made up.
    """
    said = text.strip().casefold().removeprefix("class-")
    for known in _CLASSES:
        if said in (class_name(known), f"{known:#06x}", f"{known:04x}", str(known)):
            return known
    try:
        value = int(said, 16) if said.startswith("0x") else 0
    except ValueError:
        return None
    return value if 0x8000 <= value <= 0xFFFF else None


def filter_of(**given: Any) -> Filter:
    """A filter, checked.

    Raises:
        InvalidParameter: There is no such reason or class, the origin is no GUID, or there are more
            than IDENTIFIERS_MAX identifiers, or one is none.
    """
    made = Filter(**{name: value for name, value in given.items() if value})
    if made.reason.casefold().replace("-", " ") in REASONS:
        made = replace(made, reason=made.reason.casefold().replace("-", " "))
    elif made.reason:
        value = _class_of(made.reason)
        if value is None:
            raise InvalidParameter(
                f"there is no reason {made.reason!r}; say one of {', '.join(REASONS)}, or a class: "
                f"{', '.join(f'{one:#06x} {class_name(one)}' for one in _CLASSES)}"
            )
        made = replace(made, reason=f"{value:#06x}")
    if made.origin:
        try:
            guid_bytes(made.origin.strip("{}"))
        except ValueError as error:
            raise InvalidParameter(f"an origin is the GUID of a queue manager: {error}") from None
    if made.id:
        said = made.id.split()
        if len(said) > IDENTIFIERS_MAX:
            raise InvalidParameter(f"name at most {IDENTIFIERS_MAX:,} messages")
        made = replace(made, id=" ".join(map(_identifier, said)))
    return made


def _identifier(text: str) -> str:
    """An identifier of a message as the queue manager writes it; raises InvalidParameter."""
    try:
        return str(MessageId.parse(text))
    except ValueError:
        raise InvalidParameter(
            f"{text!r} is no identifier of a message, such as {{GUID}}/4711; lists show them"
        ) from None


@lru_cache(maxsize=16)
def _identifiers(text: str) -> frozenset[str]:
    return frozenset(text.replace("/", "\\").split())


ALL: Final = Filter()


def home(letter: Letter, to: str = "") -> tuple[str, dict[str, Any]]:
    """Where a dead letter goes, and with which properties: its own, and the count one higher. What
    a policy has moved aside goes back to its queue."""
    values = _kept(letter, returned=letter.message.returned + 1)
    back = letter.queue.rpartition(";")[0] if letter.poison else letter.message.destination
    return to or back, values


def as_new(letter: Letter, to: str = "") -> tuple[str, dict[str, Any]]:
    """The same for a message that is sent beside the letter, which stays: it was never returned."""
    return to or letter.message.destination, _kept(letter, returned=0)


def moved(letter: Letter, to: str) -> tuple[str, dict[str, Any]]:
    """The same for a message of any queue that goes to another one. The application that asked how
    it ends was told already that it was received here."""
    values = _kept(letter, returned=letter.message.returned)
    for name in ("acknowledge", "admin_queue", "dead_letter_queue"):
        values.pop(name, None)
    return to, values


def _kept(letter: Letter, *, returned: int) -> dict[str, Any]:
    """The properties of a message that is sent again."""
    message = letter.message
    values: dict[str, Any] = {
        "label": message.label,
        "priority": None if message.transactional else message.priority,
        "acknowledge": message.acknowledge,
        "admin_queue": message.admin_queue,
        "response_queue": message.response_queue,
        "journal": message.journal | Journal.DEADLETTER,
        "app_specific": message.app_specific,
        "body_type": message.body_type,
        "extension": _marked(message, returned),
        "trace": int(message.trace),
        "deliver_at": message.deliver_at,
    }
    if message.correlation_id != NO_CORRELATION:
        values["correlation_id"] = message.correlation_id
    for name in ("time_to_reach_queue", "time_to_be_received"):
        if getattr(message, name) < NEVER_S - 1:
            values[name] = getattr(message, name)
    if letter.queue not in (DEAD, DEAD_XACT) and not letter.poison:
        values["dead_letter_queue"] = letter.queue
    empty = ("", None, b"", Acknowledge.NONE, 0)
    kept = {name: value for name, value in values.items() if value not in empty}
    kept["delivery"] = message.delivery
    return kept


def _marked(message: Message, returned: int) -> bytes:
    """Return the extension of a message that is sent again: it has the number of returns and the
    trace. The trace is the message's own: the returning operator's trace does not concern it."""
    extension = marked(message.extension, returned)
    return extension + trace_trailer(message.traceparent) if message.traceparent else extension


def stays(letter: Letter, *, in_doubt: bool, second: bool, returns_max: int) -> str:
    """Why a dead letter is not returned, wherever it would go; "" if it may be."""
    message = letter.message
    if letter.in_doubt and not in_doubt:
        cause = f" ({letter.cause})" if letter.cause else ""
        return (
            f"in doubt{cause}: it may have been received, and would be twice (--in-doubt sends it)"
        )
    if letter.second and not second:
        return (
            f"its sender has a dead letter of it too, {letter.second}: return that one; both, and "
            "it would be received twice (--second sends this one)"
        )
    if message.returned >= returns_max:
        return f"it was returned {message.returned} times already (--max-returns)"
    return ""


def is_foreign(letter: Letter) -> bool:
    """Whether another manager has sent it, so that it goes back only to a queue that is here:
    where it died as the target nobody else has it any more. What a policy has moved aside goes to
    the queue that it is beside."""
    return not letter.poison and letter.message.id.source not in (letter.here, NO_GUID)


def cannot_go_back(message: Message, transactional: bool | None) -> str:
    """Why a message that another manager sent does not go to its queue again; "" if it may.

    Args:
        transactional: Of its queue; None: that is not here.
    """
    if transactional is None:
        sender = guid_text(message.id.source)
        return f"it was sent by {sender}, and its queue is not here (--to sends it on)"
    if message.transactional and not transactional:
        return "it is transactional, and its queue is not (--to sends it to another)"
    return ""


# ---- message words -------------------------------------------------------------------------------


def in_words(name: str, value: int) -> str | None:
    """What a property says; None: its number says it, or its time.

    Args:
        name: Of the property, as ``Message`` has it.
    """
    if name == "message_class":
        return f"{class_name(value)} ({value:#06x})"
    if name == "note":
        return CAUSES.get(value) or (class_name(value) if value in _ALL_CLASSES else None)
    if name == "acknowledge":
        return _flags(Acknowledge(value))
    if name == "journal":
        return _flags(Journal(value))
    if name == "body_type":
        return "JSON" if value == BODY_TYPE else f"{value:#06x}"
    if name == "stream":
        return f"{value:#018x}"
    return None


_ALL_CLASSES = frozenset(map(int, MessageClass))


def _flags(value: Acknowledge | Journal) -> str:
    """The names of what is in it."""
    names = [one.name.lower().replace("_", "-") for one in type(value) if one in value and one.name]
    return ", ".join(names) or "none"


# ---- jobs ----------------------------------------------------------------------------------------


class JobAction(Enum):
    """What is done to each message; the values are the words of commands and views.

    What a job is to do is said once, when it starts (``Order``), and is kept as it was said. Which
    messages are meant is told by the words of dead letters (``Filter``); which are there, the core
    notes at the start: what comes later is not of the job.
    """

    RETURN = "return"
    PURGE = "purge"
    MOVE = "move"
    SEND_AS_NEW = "send-as-new"


MEANING: Final = {
    JobAction.RETURN: "send it to its destination again, and remove it here",
    JobAction.PURGE: "remove it for good",
    JobAction.MOVE: "send it to another queue, and remove it here",
    JobAction.SEND_AS_NEW: "send it to its destination as a new message, and keep it here",
}
"""What each does, as the documentation says it."""


class JobState(Enum):
    """How far a job is; a job in any state but running is over."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Order(Record, frozen=True):
    """What a job is to do.

    Attributes:
        which: The messages that it selects; ages count from the start of the job.
        to: Destination of all; "": each goes to its own.
        limit: The job ends after this many messages; 0: when it has looked at all.
        returns_max: Messages that were returned this often stay.
        in_doubt, second: As in ``model/letters.stays``: letters that stay else.
    """

    action: JobAction
    which: Filter = ALL
    to: str = ""
    limit: int = 0
    returns_max: int = RETURNS_MAX
    in_doubt: bool = False
    second: bool = False

    def check(self) -> None:
        """Raises InvalidParameter if it makes no sense."""
        if self.action is JobAction.MOVE and not self.to:
            raise InvalidParameter("messages are moved to a queue: say which one")
        if self.action is JobAction.PURGE and self.to:
            raise InvalidParameter(
                "what is removed for good goes nowhere; to move it is another job"
            )
        if self.limit < 0 or self.returns_max < 1:
            raise InvalidParameter("a limit is a number from 1")
        if min(self.which.older_s, self.which.younger_s) < 0:
            raise InvalidParameter("an age is a number of seconds from 0")

    def dump(self) -> dict[str, Any]:
        """As JSON has it: what is as by default is left out."""
        values = {name: getattr(self, name) for name in _OF_ORDER}
        values |= {name: getattr(self.which, name) for name in _OF_FILTER}
        said = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        return {**said, "action": self.action.value}

    @classmethod
    def load(cls, values: dict[str, Any]) -> Order:
        """Read it back; raises KeyError, TypeError or ValueError."""
        said = {name: values[name] for name in values if name in _OF_FILTER}
        rest = {name: values[name] for name in values if name in _OF_ORDER}
        return cls(**{**rest, "action": JobAction(values["action"]), "which": Filter(**said)})


_OF_FILTER: Final = names(Filter)
_OF_ORDER: Final = tuple(name for name in names(Order) if name not in ("which", "action"))
_DEFAULTS: Final = defaults(Filter) | defaults(Order)
