"""Which messages a micro-batch has: offsets, ranges of lookup identifiers, partitions.

A place in a queue is the lookup identifier of the last message before it: ranges are open below
and closed above. Spark writes the end offset of a batch into its log before the batch runs, and
nothing else; it does not write the first offset of a query at all. So an end offset carries the
beginning of its batch as well, and a batch is worked off from its end offset alone: run again
after a crash, it has the same messages.

Everything here is arithmetic. Upholds: I4 at the connector (a batch has the same rows each time).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onceq.spark.targets import EARLIEST, LATEST, wrong

PARTITION_MESSAGES: Final = 65_536
"""Messages of one task: enough to be worth starting it, few enough to spread them."""
BATCH_MESSAGES: Final = 2_000_000
"""Messages of one batch: they are removed in one transaction, which holds no more."""
UNKNOWN_INSTANCE: Final = "0" * 32
"""What system queues said of themselves before their queue manager was part of it."""

NOTHING: Final = 0
"""The place before every message."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in every queue; an end offset knows where its batch begins, too.

    Attributes:
        to: By key of a queue (``targets.py``), the last lookup identifier before the place.
        begins: The same for the beginning of the batch; None for the first offset of a query.
        instances: Identity of each queue, because a queue that was deleted and made again under
            its name is another one.
        subscription: Name of the reader whose checkpoint this is.
    """

    to: Mapping[str, int]
    begins: Mapping[str, int] | None = None
    instances: Mapping[str, str] = field(default_factory=dict)
    subscription: str = ""

    def pack(self) -> dict[str, Any]:
        """As Spark keeps it. Spark compares offsets as JSON text, so keys are in order."""
        packed: dict[str, Any] = {} if self.begins is None else {"from": _ordered(self.begins)}
        packed["queues"] = _ordered(self.instances)
        if self.subscription:
            packed["subscription"] = self.subscription
        packed["to"] = _ordered(self.to)
        return packed

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Offset:
        """From the form of ``pack``; raises ConfigurationError for anything else."""
        try:
            begins = packed.get("from")
            return cls(
                {name: int(place) for name, place in packed["to"].items()},
                None if begins is None else {name: int(at) for name, at in begins.items()},
                {name: str(instance) for name, instance in packed["queues"].items()},
                str(packed.get("subscription", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise wrong(f"the checkpoint is not of this source: offset {packed!r}") from None

    def ranges(self) -> list[Range]:
        """What the batch that ends here has of each queue."""
        if self.begins is None:
            return []
        return [
            Range(name, self.begins.get(name, NOTHING), self.to[name])
            for name in sorted(self.to)
            if self.to[name] > self.begins.get(name, NOTHING)
        ]


def _ordered(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(values.items()))


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one queue: after one lookup identifier, up to and with another."""

    key: str
    after: int
    to: int

    @property
    def size(self) -> int:
        """How many messages it has if none is missing."""
        return self.to - self.after


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a queue at one moment; zeros for an empty one."""

    instance: str
    first: int
    last: int
    messages: int
    locked: int
    transactional: bool = True
    steady: bool = True
    """Whether new messages only come in behind all others, so that places can be gone through."""

    def known_as(self, instance: str) -> bool:
        """Whether a checkpoint that names this instance means this queue."""
        return instance in (self.instance, UNKNOWN_INSTANCE)


def start_of(starting: int, sight: Sight) -> int:
    """The place where a new query begins."""
    if starting == EARLIEST:
        return NOTHING
    if starting == LATEST:
        return sight.last
    return max(starting - 1, NOTHING)


def beginning(place: int, sight: Sight) -> int:
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
    """Deal ranges out to tasks of equal size; a pure function, as a batch may run twice.

    Few messages in many queues are one task: what a task costs by itself is more than what they
    do. So there may be fewer tasks than queues, or queue managers.

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
        after = whole.after
        while after < whole.to:
            to = min(whole.to, after + edges[len(tasks)] - done)
            parts.append(Range(whole.key, after, to))
            done += to - after
            after = to
            if done == edges[len(tasks)]:
                tasks.append(tuple(parts))
                parts = []
    return tasks
