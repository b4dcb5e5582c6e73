"""Two durable states, held against each other field by field.

Every attribute of a State and of all that hangs on it is compared, by any name: a field that is
added one day is compared without being named here. What is not durable is named in
``FLEETING``, with its reason; nothing else is left out. So a field that a checkpoint forgets is
seen as soon as a history has used it, also where no later step would ask for it.

Watches: I22 (a checkpoint and the log behind it are the log from the beginning).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, cast

from onceq.core.state.audit_trail import ReportRequests, Trail
from onceq.core.state.in_doubt_table import OfStream
from onceq.core.state.log_space import DueTimes, Space
from onceq.core.state.outgoing_queues import EarlierStreams, OutgoingQueue
from onceq.core.state.peer_table import Progress
from onceq.core.state.position_block import PositionBlock
from onceq.core.state.positions import Positions
from onceq.core.state.queues import Queue
from onceq.core.state.state import State
from onceq.model.policy import Policy

FLEETING: Final[Mapping[type, frozenset[str]]] = {
    # Hints that may be too early, never too late; and places that follow from the tables.
    State: frozenset({"due", "expiry", "next_due", "next_expiry"}),
    DueTimes: frozenset({"_heap", "latest"}),
    EarlierStreams: frozenset({"_order", "_start"}),
    OfStream: frozenset({"last"}),
    # An index of the grants, and answers that were found by it.
    Policy: frozenset({"_answers", "_own", "_shared_index"}),
    Positions: frozenset({"_soon", "next_expiry", "cursor", "head", "in_parts"}),
    PositionBlock: frozenset({"next_expiry", "reach_known", "rising", "shared"}),
    # Of the running process: waiting readers, open handles, the session, pace and troubles.
    Queue: frozenset({"denying", "handles", "looking", "shown", "turns", "waiting"}),
    OutgoingQueue: frozenset({
        "connected_s", "ends", "history", "inquiries", "knows_delays",
        "last_ack", "last_ack_count", "last_ack_s", "link", "pace", "plain_sent", "purging",
        "repair", "repeated", "retry_us", "sent", "session", "stranded_s", "told", "transmitted",
        "tried_once", "trouble", "turned_away",
    }),
    Progress: frozenset({
        "acked_us", "conflicts", "direct", "due_us", "duplicates", "gaps", "leads_to", "rejects",
        "session", "since_ack", "stale", "stale_s", "stale_stream",
    }),
    # What is to be told to others, of the running process.
    Trail: frozenset({"fresh"}),
}  # fmt: skip
"""Attributes that are not durable, by class."""

ORDERED: Final = frozenset({"state.groups._last"})
ORDERED_IN: Final = ("state.readings._of[",)
"""Plain dictionaries whose order means something, as in every OrderedDict: the entry that was used
longest ago comes first, and goes first; and dictionaries in these."""
ABSENT: Final = "(absent)"
_PLAIN: Final = frozenset({type(None), bool, int, str, float, bytes})
"""Values that are what they are: most of a state."""


def differences(one: State, other: State, *, apart: Iterable[str] = ()) -> list[str]:
    """Where two states are not the same: paths with what stands there in the first and the second.

    Args:
        apart: Names of attributes that may differ, wherever they are.
    """
    apart = frozenset(apart)
    form, other_form = _Form(apart).of(one, "state"), _Form(apart).of(other, "state")
    return [] if form == other_form else list(_compare("state", form, other_form))


class _Ordered(dict[str, Any]):
    """A dictionary whose order counts."""

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self, other) is True and list(self) == list(cast(_Ordered, other))

    __hash__ = None


class _Form:
    """A state as plain dictionaries, lists and values. What occurs in several places stands at
    the first; the others name it."""

    def __init__(self, apart: frozenset[str]) -> None:
        self._apart = apart
        self._seen: dict[int, str] = {}

    def of(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is dict or kind is OrderedDict:
            return self._mapping(value, path)
        if kind is list or kind is tuple:
            return self._items(value, path)
        if isinstance(value, Enum | int | str | float):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        if isinstance(value, array):
            return value.tolist()
        if isinstance(value, set | frozenset):
            return sorted(value, key=repr)
        if isinstance(value, Space):
            return {repr(base): live for base, live in value.dump() if live}
        if isinstance(value, list | tuple | ReportRequests):
            return self._items(value, path)
        if issubclass(kind, Mapping):
            return self._mapping(value, path)
        return self._object(value, path)

    def _mapping(self, value: Mapping[Any, Any], path: str) -> dict[str, Any]:
        ordered = isinstance(value, OrderedDict) or path in ORDERED or path.startswith(ORDERED_IN)
        form: dict[str, Any] = _Ordered() if ordered else {}
        for key, kept in value.items():
            name = _key(key)
            form[name] = kept if type(kept) in _PLAIN else self.of(kept, f"{path}[{name}]")
        return form

    def _items(self, value: Iterable[Any], path: str) -> list[Any]:
        return [
            one if type(one) in _PLAIN else self.of(one, f"{path}[{at}]")
            for at, one in enumerate(value)
        ]

    def _object(self, value: Any, path: str) -> Any:
        known = self._seen.setdefault(id(value), path)
        if known != path:
            return f"see {known}"
        form: dict[str, Any] = {}
        for name in _names(value):
            if name not in self._apart:
                kept = getattr(value, name, ABSENT)
                form[name] = kept if type(kept) in _PLAIN else self.of(kept, f"{path}.{name}")
        if "lanes" in form:
            # A lane is made when somebody looks at it; one that was never used is none.
            first = value.lanes.first
            form["lanes"] = {
                k: v for k, v in form["lanes"].items() if v["next"] > first or v["_keys"]
            }
        if isinstance(value, PositionBlock):
            form["express"] = form["express"] or None
        return form


def _names(value: Any) -> Sequence[str]:
    """Attributes of an object, but for the fleeting ones."""
    kind = type(value)
    has = tuple(value.__dict__) if kind.__dictoffset__ else ()
    found = _compared(cast(Hashable, kind), has)
    assert found, f"{value!r} cannot be compared"
    return found


@cache
def _compared(kind: type, has: tuple[str, ...]) -> Sequence[str]:
    """Names that are compared, of objects of a class that have these besides the declared ones."""
    declared, fleeting = _declared(cast(Hashable, kind))
    return sorted(declared.union(has) - fleeting)


@cache
def _declared(kind: type) -> tuple[frozenset[str], frozenset[str]]:
    """Attributes that a class tells of, and the fleeting ones."""
    fleeting = {name for base in kind.__mro__ for name in FLEETING.get(base, ())}
    found: set[str] = set()
    if is_dataclass(kind):
        found |= {field.name for field in fields(kind)}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found |= {slots} if isinstance(slots, str) else set(slots)
    return frozenset(found - {"__dict__", "__weakref__"}), frozenset(fleeting)


def _key(key: Any) -> str:
    return key.hex() if isinstance(key, bytes) else repr(key)


def _compare(path: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            here = f"{path}.{key}" if key.isidentifier() else f"{path}[{key}]"
            yield from _compare(here, one.get(key, ABSENT), other.get(key, ABSENT))
        if isinstance(one, _Ordered) and set(one) == set(other) and list(one) != list(other):
            yield f"{path}: in the order {list(one)[:9]} / {list(other)[:9]}"
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _compare(f"{path}[{index}]", left, right)
    elif one != other:
        yield f"{path}: {_short(one)} / {_short(other)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
