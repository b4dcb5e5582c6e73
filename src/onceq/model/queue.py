"""What a queue is: its properties, and which of them may change (PRP-7).

Properties arrive from configuration, from clients and from the store, so every value is checked
for its type as well as its range: what is a ``QueueProperties`` can be stored and printed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from onceq import errors
from onceq.model.identity import GUID_BYTES, NO_GUID
from onceq.model.limits import QUEUE_LABEL_CHARS_MAX, QUEUE_NAME_CHARS_MAX, SUBQUEUE_NAME_CHARS_MAX
from onceq.model.record import Record
from onceq.model.wording import TextSource

QUOTA_UNLIMITED_KB = 0xFFFF_FFFF
TRACKING_QUEUE = "onceq.tracking"
"""The private queue for what becomes of tracked messages (``client/plans/send.py``)."""
UI4_MAX = 0xFFFF_FFFF
PRIVACY_BODY = 2
PRIVACY_OPTIONAL = 1
BASE_PRIORITY_MIN, BASE_PRIORITY_MAX = -32_768, 32_767
CHANGEABLE = frozenset(
    (
        "label", "journal", "quota_kb", "journal_quota_kb", "authenticate", "priv_level",
        "base_priority", "type",
        "poison_attempts", "poison_retry_after", "poison_retries", "poison_then",
    )
)  # fmt: skip
"""What may be changed of a queue that exists; ``transactional`` never (Q-1)."""

_EXCLUDED = re.compile(r"""[^\x21-\x7e]|[\\;+,"/]""")
"""What no queue name contains (MS-MQMQ 2.1.1). "/" is excluded by us, because it may be written
for a backslash; so is 0x7F, a control character that the published grammar lets through."""
_SYSTEM = "system$;"
_FLAGS = ("private", "transactional", "journal", "authenticate")
_RANGES = {
    "number": (0, UI4_MAX),
    "quota_kb": (0, QUOTA_UNLIMITED_KB),
    "journal_quota_kb": (0, QUOTA_UNLIMITED_KB),
    "priv_level": (0, PRIVACY_BODY),
    "base_priority": (BASE_PRIORITY_MIN, BASE_PRIORITY_MAX),
    "created": (0, UI4_MAX),
    "modified": (0, UI4_MAX),
    "paused_since": (0, UI4_MAX),
    "poison_attempts": (0, UI4_MAX),
    "poison_retry_after": (0, UI4_MAX),
    "poison_retries": (0, UI4_MAX),
}
POISON_MOVE, POISON_DEAD_LETTER, POISON_REJECT = "move:", "dead-letter", "reject"


class QueueProperties(Record, frozen=True):
    """Properties of one queue, validated.

    Attributes:
        name: Without computer and ``private$\\``; ``system$;...`` for the queues that every
            manager has of its own.
        private: Known to its queue manager only; public queues need a directory.
        number: Unique per manager; part of ``PRIVATE=`` format names (Q-3).
        transactional: Chosen at creation, and never changed (Q-1).
        label: For people; at most QUEUE_LABEL_CHARS_MAX characters.
        journal: Whether received messages are copied to the queue's journal.
        quota_kb, journal_quota_kb: In KiB; QUOTA_UNLIMITED_KB is none (Q-19).
        authenticate: Whether messages must be authenticated (Q-42).
        priv_level: 0 only clear bodies, 1 both, 2 only encrypted ones (Q-42).
        base_priority: For routing to public queues (Q-24); 0 for private ones. It never moves a
            message inside the queue.
        type: GUID that the application gives to queues of one kind; zeros for none.
        created, modified: Seconds since 1970 UTC.
        poison_attempts: How often a message may be received in transactions that abort before it
            is moved aside; 0: as often as it likes, as in MSMQ (Q-36).
        poison_retry_after: Seconds that it then waits in the subqueue ``retry`` before it comes
            back to be tried again; 0: it does not.
        poison_retries: How often it comes back, before ``poison_then``.
        poison_then: In the end: ``move:SUBQUEUE``, ``dead-letter`` (refused, and kept in the
            dead-letter queue of this computer) or ``reject`` (refused; its sender is told).
        paused_since: When an operator has paused it, in seconds since 1970 UTC: nobody receives the
            next message from then on; 0: it is not paused.
        instance: GUID of the queue.

    Raises:
        IllegalPathName: The name cannot be the name of a queue.
        IllegalPropertyValue: Another value has the wrong type or lies outside its range.
    """

    name: str
    private: bool = True
    number: int = 0
    transactional: bool = False
    label: str = ""
    journal: bool = False
    quota_kb: int = QUOTA_UNLIMITED_KB
    journal_quota_kb: int = QUOTA_UNLIMITED_KB
    authenticate: bool = False
    priv_level: int = PRIVACY_OPTIONAL
    base_priority: int = 0
    created: int = 0
    modified: int = 0
    instance: bytes = NO_GUID
    type: bytes = NO_GUID
    poison_attempts: int = 0
    poison_retry_after: int = 0
    poison_retries: int = 1
    poison_then: str = "move:poison"
    paused_since: int = 0

    def __post_init__(self) -> None:
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise errors.IllegalPropertyValue(f"{name} is true or false")
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise errors.IllegalPropertyValue(f"{name} is a whole number, {least} to {most}")
        if not isinstance(self.label, str) or len(self.label) > QUEUE_LABEL_CHARS_MAX:
            raise errors.IllegalPropertyValue(
                f"a queue label is a text of at most {QUEUE_LABEL_CHARS_MAX} characters"
            )
        for name in ("instance", "type"):
            value = getattr(self, name)
            if not isinstance(value, bytes) or len(value) != GUID_BYTES:
                raise errors.IllegalPropertyValue(f"{name} is a GUID of {GUID_BYTES} bytes")
        if self.private and self.base_priority:
            raise errors.IllegalPropertyValue("only public queues have a base priority (Q-24)")
        then = self.poison_then
        if isinstance(then, str) and then.startswith(POISON_MOVE):
            name = then.removeprefix(POISON_MOVE)
            fault = name_fault(name, what="subqueue", chars_max=SUBQUEUE_NAME_CHARS_MAX)
            if fault is not None:
                raise errors.IllegalPropertyValue(f"poison_then {then!r}: {fault[1]}")
        elif then not in (POISON_DEAD_LETTER, POISON_REJECT):
            raise errors.IllegalPropertyValue(
                f"poison_then is {POISON_DEAD_LETTER}, {POISON_REJECT} or {POISON_MOVE}SUBQUEUE"
            )
        if self.poison_attempts and not self.transactional:
            raise errors.IllegalPropertyValue(
                "only in a transactional queue can a receive be undone, and counted"
            )
        self._check_name()

    def _check_name(self) -> None:
        if not isinstance(self.name, str):
            raise errors.IllegalPathName("the name of a queue is a text")
        system = not self.private and self.name.startswith(_SYSTEM)
        check_queue_name(self.name.removeprefix(_SYSTEM) if system else self.name)

    @property
    def quota_bytes(self) -> int:
        """The quota in bytes; effectively unlimited by default."""
        return 1 << 62 if self.quota_kb == QUOTA_UNLIMITED_KB else self.quota_kb << 10


def changed(properties: QueueProperties, values: dict[str, Any], *, now_s: int) -> QueueProperties:
    """The same queue with other values, as changed at a time (seconds since 1970 UTC).

    Raises:
        PropertyNotAllowed: It was settled when the queue was made (Q-1).
        IllegalPropertyId: There is no such property.
        IllegalPropertyValue: A value has the wrong type or lies outside its range.
        EncryptionNotSupported, AuthenticationNotSupported, MulticastNotSupported: It could not be
            kept.
    """
    for name in sorted(values.keys() - CHANGEABLE):
        if name == "multicast_address":
            raise errors.MulticastNotSupported(
                "a multicast address needs PGM, which onceq does not have; send to a distribution "
                "list, or to several queues in one send"
            )
        if name not in QueueProperties.__slots__:
            raise errors.IllegalPropertyId(f"there is no queue property {name!r}")
        raise errors.PropertyNotAllowed(
            f"{name} was settled when the queue was made and never changes; make another queue"
        )
    after = replace(properties, **values, modified=now_s)
    check_supported(after)
    return after


def check_supported(properties: QueueProperties) -> None:
    """Refuse what this manager could not keep, instead of keeping it silently unkept.

    Raises:
        EncryptionNotSupported, AuthenticationNotSupported.
    """
    if properties.priv_level == PRIVACY_BODY:
        raise errors.EncryptionNotSupported(
            "priv_level 2 lets only encrypted messages in, and onceq cannot read those; use 1 "
            "(optional) or 0 (none), and TLS between the computers"
        )
    if properties.authenticate:
        raise errors.AuthenticationNotSupported(
            "a queue for authenticated messages only would refuse every message: onceq checks no "
            "Windows signatures; leave authenticate off, and use TLS with client certificates"
        )


def name_fault(name: str, *, what: str, chars_max: int) -> tuple[int, str] | None:
    """What is wrong with the name of a queue or subqueue, and at which position; None if nothing.

    Args:
        name: Without the computer and without ``private$\\``.
        what: "queue" or "subqueue", for the sentence.
        chars_max: How long it may be.
    """
    if not name:
        return 0, f"the name of a {what} is missing"
    found = _EXCLUDED.search(name)
    if found is not None and found.start() < chars_max:
        return found.start(), f"{found.group()!a} is not allowed in the name of a {what}"
    if len(name) > chars_max:
        return chars_max, f"the name of a {what} has at most {chars_max} characters"
    return None


def check_queue_name(name: str) -> None:
    """Refuse what is not the name of a queue (without computer and ``private$\\``).

    Raises:
        IllegalPathName: With the position of the fault.
    """
    fault = name_fault(name, what="queue", chars_max=QUEUE_NAME_CHARS_MAX)
    if fault is not None:
        raise TextSource(name, errors.IllegalPathName).fault(*fault)
