"""What a queue is: its properties, and which of them may change (section 7.2)."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.errors import IllegalPathName, IllegalPropertyValue
from onceq.model.identity import GUID_BYTES, NO_GUID
from onceq.model.limits import QUEUE_LABEL_CHARS_MAX, QUEUE_NAME_CHARS_MAX

QUOTA_UNLIMITED_KB = 0xFFFF_FFFF
NAME_EXCLUDED = frozenset('\\;+,"/')
"""Characters that no queue name contains (MS-MQMQ 2.1.1; "/" because "\\" may be written so)."""


@dataclass(frozen=True, slots=True)
class QueueProperties:
    """Properties of one queue, validated.

    Attributes:
        name: Without computer and ``private$\\``.
        private: Known to its queue manager only; public queues need a directory.
        number: Unique per manager; stands in ``PRIVATE=`` format names (Q-3).
        transactional: Chosen at creation for ever (Q-1).
        quota_kb, journal_quota_kb: In KiB; QUOTA_UNLIMITED_KB is none (section 1.5).
        created, modified: Seconds since 1970 UTC.
        instance: GUID of the queue.
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
    privacy: int = 1
    base_priority: int = 0
    created: int = 0
    modified: int = 0
    instance: bytes = NO_GUID

    def __post_init__(self) -> None:
        if not self.name.startswith("system$;"):
            check_queue_name(self.name)
        if len(self.label) > QUEUE_LABEL_CHARS_MAX:
            raise IllegalPropertyValue(
                f"a queue label has at most {QUEUE_LABEL_CHARS_MAX} characters"
            )
        for value in (self.quota_kb, self.journal_quota_kb):
            if not 0 <= value <= QUOTA_UNLIMITED_KB:
                raise IllegalPropertyValue(f"a quota is 0 to {QUOTA_UNLIMITED_KB} KB, not {value}")
        if self.privacy not in (0, 1, 2):
            raise IllegalPropertyValue("privacy level is 0 (none), 1 (optional) or 2 (body)")
        if not -32768 <= self.base_priority <= 32767:
            raise IllegalPropertyValue("base priority is -32768 to 32767")
        if len(self.instance) != GUID_BYTES:
            raise IllegalPropertyValue(f"an instance is a GUID of {GUID_BYTES} bytes")

    @property
    def quota_bytes(self) -> int:
        """The quota in bytes; effectively unlimited by default."""
        return 1 << 62 if self.quota_kb == QUOTA_UNLIMITED_KB else self.quota_kb << 10


def check_queue_name(name: str) -> None:
    """Refuse what is not the name of a queue; raises IllegalPathName."""
    if not name:
        raise IllegalPathName("a queue name is missing")
    if len(name) > QUEUE_NAME_CHARS_MAX:
        raise IllegalPathName(
            f"a queue name has at most {QUEUE_NAME_CHARS_MAX} characters, not {len(name)}"
        )
    for at, char in enumerate(name):
        if not 0x21 <= ord(char) <= 0x7E or char in NAME_EXCLUDED:
            raise IllegalPathName(f"queue name {name!r}: {char!r} at position {at} is not allowed")
