"""Patterns of names, and what tells them from names: they are different types.

A *name* means one queue, or one actor, with any characters in it. A *pattern* means all names
that it matches: ``*`` in it is any characters, and ``[*]`` is the character ``*`` itself. Nothing
else has a meaning there: ``?`` and other brackets are characters of names. A name becomes a pattern
by ``exactly`` alone, and matches then itself and nothing else; what people write becomes one by
``read``. So a queue that is called ``*`` is one queue.

Upholds: I28 (nothing happens without a right).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Generic, NewType, TypeVar

from onceq.errors import InvalidParameter
from onceq.model.limits import PATTERN_CHARS_MAX
from onceq.model.record import Record

P = TypeVar("P", bound="Pattern")
V = TypeVar("V")

ANY: Final = "*"
"""Any characters, in a pattern."""
STAR: Final = "[*]"
"""The character ``*``, in a pattern."""
_ANY_OF_PATTERN: Final = "\0"
"""Stands for ``ANY`` where one pattern is compared with another; no pattern has it as a letter."""
ROWS: Final = "rows="
"""What is before the name of a database where rights say who may have its rows decide."""

QueueName = NewType("QueueName", str)
"""A name that rights are asked for at: case-folded, and never read as a pattern. ``""`` is the
whole queue manager."""


class Pattern(Record, frozen=True):
    """Names that have some parts in common.

    Attributes:
        parts: What stands between the places where any characters may stand; one alone is a name.
    """

    parts: tuple[str, ...]

    @classmethod
    def read(cls: type[P], text: str) -> P:
        """The pattern that a text says."""
        parts = text.replace(STAR, _ANY_OF_PATTERN).split(ANY)
        return cls(tuple(part.replace(_ANY_OF_PATTERN, ANY) for part in parts))

    @classmethod
    def exactly(cls: type[P], name: str) -> P:
        """The pattern that matches one name."""
        return cls((name,))

    def __str__(self) -> str:
        return ANY.join(part.replace(ANY, STAR) for part in self.parts)

    @property
    def name(self) -> str | None:
        """The only name that it matches; None: it matches several."""
        return self.parts[0] if len(self.parts) == 1 else None

    def matches(self, name: str) -> bool:
        """Whether it matches a name."""
        first, *others = self.parts
        if not others:
            return name == first
        *middle, last = others
        at, end = len(first), len(name) - len(last)
        if at > end or not name.startswith(first) or not name.endswith(last):
            return False
        for part in middle:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


class QueuePattern(Pattern, frozen=True):
    """A pattern of names of queues; ``WHOLE_MANAGER`` is none, and stands for all of it."""


class ActorPattern(Pattern, frozen=True):
    """A pattern of actors, as ``Actor`` has them as text."""


WHOLE_MANAGER: Final = QueuePattern(("",))
"""Where rights over the whole queue manager hold."""

Where = QueueName | QueuePattern
"""Where a right is needed: at a queue, or at all those that a pattern matches."""


def key_of(where: Where) -> str:
    """What patterns are compared with: one matches all names of another if it matches its key."""
    if not isinstance(where, QueuePattern):
        return where
    return _ANY_OF_PATTERN.join(where.parts)


def queue_name(text: str) -> QueueName:
    """The name of one queue, in the one spelling that is kept; raises InvalidParameter."""
    if not 0 < len(text) <= PATTERN_CHARS_MAX or not text.isprintable():
        raise InvalidParameter(
            f"a name or a pattern of queue names has 1 to {PATTERN_CHARS_MAX} characters that can "
            "be printed, such as private$\\orders or private$\\orders*"
        )
    # As in names of queues, either slash will do; in a URL or a path it cannot be the other one.
    name = text.casefold()
    urls = name.startswith(("direct=http", ROWS))
    return QueueName(name if urls else name.replace("/", "\\"))


def queue_pattern(text: str) -> QueuePattern:
    """The queues that a grant is about, in the one spelling that is kept; raises
    InvalidParameter."""
    return QueuePattern.read(queue_name(text))


class PatternTable(Generic[P, V]):
    """Values by patterns, found by a name that these match.

    A name is found at once, and a pattern by its literal beginning: one look for each length of a
    beginning that there is. Only patterns that begin as the name does are compared with it.
    """

    __slots__ = ("_begins", "_lengths", "_names", "_sorted")

    def __init__(self) -> None:
        self._names: dict[str, V] = {}
        self._begins: dict[str, dict[P, V]] = {}
        self._lengths: Counter[int] = Counter()
        self._sorted: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._names or self._begins)

    def get(self, pattern: P) -> V | None:
        """The value of exactly this pattern."""
        if pattern.name is not None:
            return self._names.get(pattern.name)
        return self._begins.get(pattern.parts[0], _NOTHING).get(pattern)

    def values(self) -> Iterator[V]:
        """All values."""
        yield from self._names.values()
        for alike in self._begins.values():
            yield from alike.values()

    def put(self, pattern: P, value: V) -> None:
        """Set the value of a pattern."""
        first = pattern.parts[0]
        if pattern.name is not None:
            self._names[first] = value
            return
        alike = self._begins.get(first)
        if alike is None:
            alike = self._begins[first] = {}
            self._lengths[len(first)] += 1
            if self._lengths[len(first)] == 1:
                self._sorted = sorted(self._lengths)
        alike[pattern] = value

    def drop(self, pattern: P) -> None:
        """Forget a pattern."""
        first = pattern.parts[0]
        if pattern.name is not None:
            del self._names[first]
            return
        alike = self._begins[first]
        del alike[pattern]
        if not alike:
            del self._begins[first]
            self._lengths[len(first)] -= 1
            if not self._lengths[len(first)]:
                del self._lengths[len(first)]
                self._sorted.remove(len(first))

    def alike(self, pattern: P) -> int:
        """How many other patterns a name is compared with that begins as this one does."""
        if pattern.name is not None:
            return 0
        alike = self._begins.get(pattern.parts[0], _NOTHING)
        return len(alike) - (pattern in alike)

    def find(self, key: str) -> Iterator[V]:
        """The values of all patterns that match: names first, and then as they begin longer."""
        exact = self._names.get(key)
        if exact is not None:
            yield exact
        for length in self._sorted[: bisect_right(self._sorted, len(key))]:
            for pattern, value in self._begins.get(key[:length], _NOTHING).items():
                if pattern.matches(key):
                    yield value


_NOTHING: Final[dict[Any, Any]] = {}
