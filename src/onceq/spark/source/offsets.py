"""Offsets of the source: which messages a micro-batch has, and how far a stream is behind.

It also decides where a batch begins and ends, and which part of it each task reads.

A place in a queue is the lookup identifier of the last message before it: ranges are open below
and closed above. Spark logs the end offset of a batch before it runs the batch, and does not log
the first offset of a query at all. So an end offset carries the beginning of its batch too, and a
batch is planned from its end offset alone: run again after a crash, it has the same messages.

A hole is a place whose message had gone before the batch was made: it expired, another application
received it, or it moved. Holes are normal (PIPE-3), so an end offset says how many messages there
were, and later counts are compared with that.

``lag`` reads the progress that Spark reports with every batch: where each source is, and where its
data ends. Both are offsets of this source, so the difference is a number of messages.

Everything here is arithmetic. Upholds: I4 at the connector (a batch has the same rows each time),
I4 at the connector (a batch ends where its order does), I18 (a place is found, and no message).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from onceq.errors import OnceqError
from onceq.model.views.queues import RangeView
from onceq.spark.argument_checks import described, wrong
from onceq.spark.connections import EARLIEST, LATEST

# ---- offsets -------------------------------------------------------------------------------------


T = TypeVar("T")

NOTHING: Final = 0
"""The place before every message."""


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one queue: after one lookup identifier, up to and with another.

    Attributes:
        messages: How many there were when they were counted; None: nobody has.
        ended: How many had gone by then, by what was known of them.
    """

    key: str
    after: int
    to: int
    messages: int | None = None
    ended: Mapping[str, int] = field(default_factory=dict)

    @property
    def places(self) -> int:
        """How many messages it has if nothing has gone from it."""
        return self.to - self.after

    @property
    def size(self) -> int:
        """How many messages it has, as far as that is known."""
        return self.places if self.messages is None else self.messages

    def since(self, ended: Mapping[str, int]) -> dict[str, int]:
        """What has ended since it was counted, of what is known to have ended now."""
        gone = {how: count - self.ended.get(how, 0) for how, count in ended.items()}
        return {how: count for how, count in gone.items() if count > 0}


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in every queue; an end offset knows where its batch begins, too.

    Attributes:
        to: By key of a queue (``SourceTarget``), the last lookup identifier before the place.
        begins: The same for the beginning of the batch; None for the first offset of a query.
        instances: Identity of each queue. It stays when its host has another name or more queue
            managers join, and is another one when the queue is deleted and made again.
        subscription: Name of the reader whose checkpoint this is.
        messages: How many messages the batch has of each queue.
        ended: What the queue manager knew then of those that had gone from the range
            (``RangeView.ended``); nothing is the usual.
        left: By identity, what the last batch had of queues that are not read any more; their keys
            are those that they had then.
        query: What this checkpoint has and no other; "": a reader that only peeks.
    """

    to: Mapping[str, int]
    begins: Mapping[str, int] | None = None
    instances: Mapping[str, str] = field(default_factory=dict)
    subscription: str = ""
    messages: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    left: Mapping[str, Range] = field(default_factory=dict)
    query: str = ""

    def pack(self) -> dict[str, Any]:
        """As Spark keeps it: by identity, with the key of each under ``names``. Spark compares
        offsets as JSON text, so keys are in order."""

        def by_identity(values: Mapping[str, T]) -> dict[str, T]:
            return _ordered({self.instances[key]: value for key, value in values.items()})

        packed: dict[str, Any] = {} if self.begins is None else {"from": by_identity(self.begins)}
        packed["names"] = by_identity({key: key for key in self.to})
        if self.subscription:
            packed["subscription"] = self.subscription
        if self.messages:
            packed["messages"] = by_identity(self.messages)
        if self.ended:
            packed["ended"] = by_identity({key: _ordered(how) for key, how in self.ended.items()})
        if self.left:
            left: dict[str, dict[str, Any]] = {}
            for one, part in self.left.items():
                left[one] = {"from": part.after, "name": part.key, "to": part.to}
                if part.messages is not None:
                    left[one]["messages"] = part.messages
            packed["left"] = _ordered(left)
        if self.query:
            packed["query"] = self.query
        packed["to"] = by_identity(self.to)
        return packed

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Offset:
        """Read the form of ``pack``; raises ConfigurationError for anything else."""
        try:
            names: Mapping[str, str] = packed["names"]

            def by_key(values: Mapping[str, Any]) -> dict[str, int]:
                return {names[one]: int(value) for one, value in values.items()}

            begins = packed.get("from")
            return cls(
                by_key(packed["to"]),
                None if begins is None else by_key(begins),
                {str(key): str(one) for one, key in names.items()},
                str(packed.get("subscription", "")),
                by_key(packed.get("messages", {})),
                {
                    names[one]: {str(how): int(count) for how, count in ended.items()}
                    for one, ended in packed.get("ended", {}).items()
                },
                {
                    one: Range(
                        str(part["name"]),
                        int(part["from"]),
                        int(part["to"]),
                        None if part.get("messages") is None else int(part["messages"]),
                    )
                    for one, part in packed.get("left", {}).items()
                },
                str(packed.get("query", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise wrong(f"the checkpoint is not of this source: offset {packed!r}") from None

    def ranges(self) -> list[Range]:
        """What the batch that ends here has of each queue."""
        if self.begins is None:
            return []
        ranges = []
        for name in sorted(self.to):
            after, to = self.begins.get(name, NOTHING), self.to[name]
            if to > after:
                ended = self.ended.get(name, {})
                ranges.append(Range(name, after, to, self.messages.get(name), ended))
        return ranges


def _ordered(values: Mapping[str, T]) -> dict[str, T]:
    return dict(sorted(values.items()))


@dataclass(frozen=True, slots=True)
class QueueSample:
    """What can be seen of a queue at one moment; zeros for an empty one.

    Attributes:
        instance: GUID of the queue, which it shares with its journal; of a system queue the GUID of
            its manager.
        apart: What tells it from others with that GUID; "" for the queue itself.
    """

    instance: str
    first: int
    last: int
    messages: int
    locked: int
    transactional: bool = True
    steady: bool = True
    """Whether new messages only come in behind all others, so that places can be gone through."""
    apart: str = ""
    bytes: int = 0

    @property
    def identity(self) -> str:
        """What no other queue has anywhere, and this one under every name."""
        return f"{self.instance}/{self.apart}" if self.apart else self.instance

    def full_behind(self, place: int) -> bool:
        """Whether every place behind one has a message that can be received now."""
        full = self.messages == self.last - self.first + 1 and not self.locked
        return full and place >= self.first - 1

    def behind(self, place: int, in_flight: int) -> int:
        """How many messages stand behind a place, at most; the number itself where what stands
        before it belongs to one batch.

        Args:
            in_flight: Messages before the place that are there still.
        """
        places = max(self.last - max(place, self.first - 1), 0) if self.first else 0
        return min(places, max(self.messages - in_flight, 0))


def lag(progress: Any) -> dict[str, int]:
    """How many messages each queue holds that the last batch has not read.

    A queue has the name that offsets have for it: its own, or ``address/name`` where there are
    several queue managers. Holes do not count, unless a stream that only peeks leaves what it has
    read between them.

    Args:
        progress: ``query.lastProgress``, the ``progress`` of a listener's event, or either as JSON
            text; None, as before the first batch, gives nothing.

    Returns:
        Messages behind, by queue. Sources of other formats are passed over.

    Raises:
        ConfigurationError: It is the progress of no query.
    """
    found: dict[str, int] = {}
    for source in _plain(progress).get("sources", ()):
        ends = [_offset(source.get(name)) for name in ("endOffset", "latestOffset")]
        at, last = ends
        if last is None:
            continue
        before = last.begins or {}
        for key, to in last.to.items():
            place = at.to.get(key, 0) if at is not None else 0
            if key in last.messages and before.get(key) == place:
                found[key] = last.messages[key]
                continue
            found[key] = max(to - max(place, before.get(key, 0)), 0)
    return found


def lag_bytes(progress: Any) -> dict[str, int]:
    """About how many bytes of packets each queue holds that the last batch has not read: those of
    the whole queue, in the share of the messages that are behind.

    Args:
        progress: As for ``lag``.

    Raises:
        ConfigurationError: It is the progress of no query.
    """
    found: dict[str, int] = {}
    for source in _plain(progress).get("sources", ()):
        report = source.get("latestOffset")
        if isinstance(report, str):
            report = json.loads(report)
        if not isinstance(report, Mapping) or _offset(report) is None:
            continue
        names = report.get("names", {})
        found |= {names[one]: int(count) for one, count in report.get("bytes", {}).items()}
    return found


def _plain(progress: Any) -> Mapping[str, Any]:
    """Return progress as a dictionary, from any form that Spark gives it."""
    if progress is None:
        return {}
    if isinstance(progress, Mapping) and not hasattr(progress, "json"):
        return progress
    text: Any = progress if isinstance(progress, str) else getattr(progress, "json", None)
    try:
        return dict(json.loads(text() if callable(text) else text))
    except (TypeError, ValueError):
        raise wrong(
            "lag needs the progress of a query (query.lastProgress, or event.progress of a "
            f"listener), or its JSON, and was given {described(progress)}"
        ) from None


def _offset(value: Any) -> Offset | None:
    """An offset of this source; None for anything else."""
    try:
        return Offset.unpack(json.loads(value) if isinstance(value, str) else value)
    except (OnceqError, ValueError):
        return None


# ---- batch limits --------------------------------------------------------------------------------
#
# Where a batch begins and ends, and which part of it each task reads.


PARTITION_MESSAGES: Final = 65_536
"""Messages of one task: enough to be worth starting it, few enough to spread them."""
BATCH_MESSAGES: Final = 2_000_000
"""Messages of one batch: they are removed in one transaction, which holds no more."""


class RangeCount(Protocol):
    """Counts the messages of a range, up to a number of messages or bytes that is not 0."""

    def __call__(self, part: Range, *, messages: int, bytes: int) -> RangeView: ...


def limit_batch(
    begins: Mapping[str, int], ends: Mapping[str, int], sights: Mapping[str, QueueSample],
    count: RangeCount, *, messages: int, bytes: int,
) -> dict[str, RangeView]:  # fmt: skip
    """What a batch has of each queue.

    Args:
        begins: Place of each queue before the batch.
        ends: The last place that it may have.
        messages: Most messages of all queues together.
        bytes: Most bytes of their packets, which the queues with messages share; 0: no limit. Each
            of these gives one message at least.

    Returns:
        Of each queue how far that is, and how many messages that are. Where there are none,
        ``locked`` says whether it waits for a transaction.
    """

    def upto(key: str, to: int, most: int) -> RangeView:
        after = begins[key]
        if to <= after:
            return RangeView(to=after)
        if sights[key].full_behind(after):
            size = min(to - after, most)
            return RangeView(to=after + size, messages=size)
        return count(Range(key, after, to), messages=most, bytes=0)

    found = {key: upto(key, to, messages) for key, to in ends.items()}
    there = {key: view.messages for key, view in found.items()}
    shares = advance(dict.fromkeys(there, 0), there, messages)
    for key, share in shares.items():
        if 0 < share < there[key]:
            found[key] = upto(key, found[key].to, share)
        elif not share and there[key]:
            found[key] = RangeView(to=begins[key])
    giving = [key for key in sorted(found) if found[key].messages] if bytes else []
    each = max(bytes // max(len(giving), 1), 1)
    for key in giving:
        part = Range(key, begins[key], found[key].to)
        found[key] = count(part, messages=found[key].messages, bytes=each)
    return found


def start_of(starting: int, sight: QueueSample) -> int:
    """The place where a new query begins."""
    if starting == EARLIEST:
        return NOTHING
    if starting == LATEST:
        return sight.last
    return max(starting - 1, NOTHING)


def beginning(place: int, sight: QueueSample) -> int:
    """Where a batch really begins: from "before everything" the first message decides."""
    return sight.first - 1 if place == NOTHING and sight.first else place


def advance(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """Where a batch of at most ``most`` messages ends.

    The queues share the limit evenly; what one leaves over goes to those with more. A limit below
    the number of queues leaves the last ones (by name) for later batches, which is fair as soon
    as the first ones have nothing left, and never stops.

    Args:
        begins, ends: Place of each queue before the batch, and the last that it may have.
    """
    result = dict(begins)
    left = most
    open_queues = [name for name in sorted(ends) if ends[name] > begins[name]]
    while left > 0 and open_queues:
        share = max(left // len(open_queues), 1)
        for name in list(open_queues):
            taken = min(share, ends[name] - result[name], left)
            result[name] += taken
            left -= taken
            if result[name] == ends[name]:
                open_queues.remove(name)
    return result


def split(ranges: Sequence[Range], partitions_min: int) -> list[tuple[Range, ...]]:
    """Deal ranges out to tasks; a pure function, as a batch may run twice.

    Tasks are of equal size where there are no holes. A range with holes is cut as if these were
    spread evenly; how many messages its parts have is not known then. Few messages in many queues
    are one task: what a task costs by itself is more than what they do. So there may be fewer
    tasks than queues, or queue managers.

    Args:
        partitions_min: Fewest tasks, as long as there are messages for them.
    """
    total = sum(whole.size for whole in ranges)
    count = min(max(partitions_min, -(-total // PARTITION_MESSAGES)), total)
    edges = [total * index // count for index in range(1, count + 1)]
    tasks: list[tuple[Range, ...]] = []
    parts: list[Range] = []
    done = 0
    for whole in ranges:
        taken = 0
        while taken < whole.size:
            more = min(whole.size - taken, edges[len(tasks)] - done)
            parts.append(_part(whole, taken, taken + more))
            taken, done = taken + more, done + more
            if done == edges[len(tasks)]:
                tasks.append(tuple(parts))
                parts = []
    return tasks


def _part(whole: Range, first: int, end: int) -> Range:
    """So much of a range, counted in its messages."""
    if not first and end == whole.size:
        return whole
    after = whole.after + whole.places * first // whole.size
    to = whole.after + whole.places * end // whole.size
    return Range(whole.key, after, to, end - first if whole.size == whole.places else None)


def place_before(
    sight: QueueSample, second: int, next_behind: Callable[[int], tuple[int, int] | None]
) -> int:
    """The place before the first message that arrived in a second or later; the end of the queue if
    there is none.

    Args:
        next_behind: Lookup identifier and arrival of the next message behind a place; None: there
            is none that can be seen.
    """
    if not sight.first:
        return NOTHING
    low, high = sight.first - 1, sight.last
    while low < high:
        middle = (low + high) // 2
        found = next_behind(middle)
        if found is None or found[1] >= second:
            high = middle
        else:
            low = max(found[0], low + 1)
    return low
