"""Requests about queues: open and close, make and delete, purge.

Also here:

* Requests about the directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from onceq import errors
from onceq.model.identity import guid_bytes
from onceq.model.queue import QueueProperties, changed
from onceq.model.record import field
from onceq.model.requests.request import WORDS_MAX, Needs, Request, choice, is_text, quoted
from onceq.model.results import Opened
from onceq.model.rights import Right
from onceq.model.views.managers import ListView

_KINDS: Final[Mapping[str, type]] = {
    "name": str,
    "private": bool,
    "transactional": bool,
    "label": str,
    "quota_kb": int,
    "journal": bool,
    "journal_quota_kb": int,
    "type": str,
    "base_priority": int,
    "authenticate": bool,
    "priv_level": int,
    "poison_attempts": int,
    "poison_retry_after": int,
    "poison_retries": int,
    "poison_then": str,
}
"""What an application may say of a queue that it makes, or (but for the first three) changes."""


class Access(IntEnum):
    """What a queue is opened for (Q-41)."""

    RECEIVE = 1
    SEND = 2
    MOVE = 4
    PEEK = 0x20


class Share(IntEnum):
    """Whether others may receive meanwhile."""

    DENY_NONE = 0
    DENY_RECEIVE = 1


class OpenQueue(Request):
    """Check that a queue may be used so, and hold it (MQOpenQueue). Answer: ``Opened``.

    Attributes:
        note: Who holds it, for those who are refused because of that.
    """

    code = 2
    needs = Needs.STATE
    answer = Opened
    name: str
    access: Access
    share: Share = Share.DENY_NONE
    note: str = ""

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        self.access = choice(Access, self.access)
        self.share = choice(Share, self.share)
        self.note = self.note[:WORDS_MAX]


class CloseQueue(Request):
    """Give a handle back. Answer: None."""

    code = 3
    needs = Needs.NOTHING
    quiet = True
    handle: int


class _CreateQueue(Request, kw_only=True):
    """Of the making of a queue, what the service fills in."""

    properties: QueueProperties | None = None
    instance: bytes = b""


class CreateQueue(_CreateQueue):
    """Make a queue. Answer: QueueProperties.

    Attributes:
        values: Properties that are to be other than by default, by their names.
        properties: Made of them; number and times are filled in by the rule.
        instance: GUID of the queue, which the service draws.
    """

    code = 12
    needs = Needs.STATE
    answer = object
    values: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        values = self.values
        if "name" not in values:
            raise errors.InvalidParameter("a queue needs a name")
        for name in values.keys() - _KINDS.keys():
            if name != "multicast_address":
                raise errors.IllegalPropertyId(
                    f"there is no queue property {quoted(name)} that can be set"
                )
        checked = queue_values({n: v for n, v in values.items() if n in _KINDS})
        self.properties = QueueProperties(**checked)
        if "multicast_address" in values:
            changed(self.properties, dict(values), now_s=0)


class SetQueue(Request):
    """Change properties of a queue (PRP-7). Answer: QueueProperties.

    Attributes:
        values: Names of ``QueueProperties`` with their new values; all of them or none.
    """

    code = 17
    needs = Right.SET_PROPERTIES
    answer = object
    name: str
    values: Mapping[str, Any]

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        self.values = queue_values(self.values)


class DeleteQueue(Request):
    """Delete a queue and what is in it. Answer: number of messages removed."""

    code = 13
    needs = Right.DELETE
    name: str


class PurgeQueue(Request):
    """Remove the messages of a queue (or of an outgoing queue). Answer: number removed."""

    code = 14
    needs = Needs.STATE
    name: str


def queue_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Queue properties with their types checked; ranges are the matter of ``model/queue.py``.

    Raises:
        IllegalPropertyType: A value has a wrong type.
        IllegalPropertyValue: It is no GUID, or no text that can be encoded.
    """
    found = dict(values)
    for name, value in values.items():
        kind = _KINDS.get(name)
        if kind is None:
            continue
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise errors.IllegalPropertyType(f"queue property {name} cannot be {quoted(value)}")
        if isinstance(value, str) and not is_text(value):
            raise errors.IllegalPropertyValue(f"queue property {name} cannot be {quoted(value)}")
        if name == "type" and isinstance(value, str):
            try:
                found[name] = guid_bytes(value)
            except ValueError as error:
                raise errors.IllegalPropertyValue(f"a queue type: {error}") from None
    return found


# ---- directory -----------------------------------------------------------------------------------


class _EditDirectory(Request, kw_only=True):
    """Of a change of the directory, what the service fills in."""

    guid: bytes = b""


class EditDirectory(_EditDirectory):
    """Change a list of the directory. Answer: a ListView (``core/management/directory_rules.py``).

    Attributes:
        what: create, add, remove or drop.
        name: Of the list, or ``DL=guid``.
        members: Format names to be added or removed.
        guid: Of a new list, which the service draws.
    """

    code = 24
    needs = Right.ADMINISTER
    answer = ListView
    what: str
    name: str
    members: Sequence[str] = ()
