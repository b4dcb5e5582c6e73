"""Which pending operations of a disk have happened when the power goes: the plans of P5.

All of them, none, any prefix, any subset, another order, the last one torn; names one by one. The
plans are numbers only; ``onceq.testing.disk`` makes the disks that they describe.
"""

from __future__ import annotations

import random as _random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

SECTOR = 512
SUBSETS_OF = 8
"""Up to this many pending operations, all subsets are tried, of more only some."""
RANDOM_SUBSETS = 200
RANDOM_CUTS = 20
FILLS = ("", "zero", "noise", "late")


@dataclass(frozen=True, slots=True)
class Torn:
    """A write of which not all came.

    Only the first ``length`` bytes did, and the rest is old (``fill`` is ""), "zero" or "noise";
    or ("late") the first ``length`` bytes are old, and only what lies behind them came.
    """

    write: int
    length: int
    fill: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which pending operations have reached the disk when the power went.

    Attributes:
        writes: Their numbers, in the order in which they reached it.
        names: Numbers of the changes of names that did.
    """

    writes: tuple[int, ...]
    names: tuple[int, ...]
    torn: Torn | None = None


def systematic(
    random: _random.Random, sizes: dict[int, int], names: Sequence[int]
) -> Iterator[Plan]:
    """The plans that P5 lists; may repeat itself."""
    writes, every_name = tuple(sizes), tuple(names)
    yield Plan((), every_name)
    yield Plan((), ())
    yield Plan(writes, every_name)
    yield Plan(writes, ())
    both = sorted([*writes, *names])
    for count in range(1, len(both)):
        done = set(both[:count])
        yield Plan(tuple(w for w in writes if w in done), tuple(n for n in names if n in done))
    for some in _subsets(random, every_name):
        yield Plan(writes, some)
        yield Plan((), some)
    for some in _subsets(random, writes):
        yield Plan(some, every_name)
        yield Plan(some, ())
    if len(writes) > 1:
        yield Plan(writes[::-1], every_name)
    if writes:
        last, size = writes[-1], sizes[writes[-1]]
        cuts = [*range(0, size, SECTOR), *(random.randrange(size) for _ in range(RANDOM_CUTS))]
        for cut, fill in product(cuts, FILLS):
            yield Plan(writes, every_name, Torn(last, cut, fill))
            yield Plan((last,), every_name, Torn(last, cut, fill))


def _subsets(random: _random.Random, of: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(of) <= SUBSETS_OF:
        for size in range(len(of) + 1):
            yield from combinations(of, size)
        return
    for left in of:
        yield tuple(n for n in of if n != left)
    for pair in combinations(of, 2):
        yield tuple(n for n in of if n not in pair)
    for _ in range(RANDOM_SUBSETS):
        yield tuple(n for n in of if random.random() < 0.5)


def random_plan(random: _random.Random, sizes: dict[int, int], names: Sequence[int]) -> Plan:
    """Any plan, from the pending writes with their sizes and the changes of names, by number."""
    how = random.choice(("all", "none", "prefix", "subset", "mixed", "torn", "torn"))
    writes = list(sizes)
    if how == "none":
        return Plan((), ())
    if how == "prefix":
        last = random.choice([*writes, *names, 0])
        return Plan(tuple(w for w in writes if w <= last), tuple(n for n in names if n <= last))
    if how != "all":
        chance = random.choice((0.1, 0.5, 0.9))
        writes = [write for write in writes if random.random() < chance]
        names = [name for name in names if random.random() < chance]
    if how == "mixed":
        random.shuffle(writes)
    torn = None
    if how == "torn" and writes:
        write = random.choice(writes)
        torn = Torn(write, random.randint(0, sizes[write]), random.choice(FILLS))
    return Plan(tuple(writes), tuple(names), torn)


def tear(data: bytes, torn: Torn) -> tuple[int, bytes]:
    """What has come of a write that was torn: from which byte on, and what."""
    rest = len(data) - torn.length
    if torn.fill == "late":
        return torn.length, data[torn.length :]
    if torn.fill == "zero":
        return 0, data[: torn.length] + bytes(rest)
    if torn.fill == "noise":
        return 0, data[: torn.length] + _random.Random(torn.length).randbytes(rest)
    return 0, data[: torn.length]
