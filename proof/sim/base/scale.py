"""The sizes of tables, drawn small, so that worlds live through what lies at their limits.

A queue has its positions in tables of 4,096, a manager remembers 10,000 identifiers: a world of
ninety transactions comes near none of that. So each world draws these constants, as it draws the
size of segments, from a stream of its own; some worlds keep what the product has. They are put
into the product's modules while a world runs, here and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from onceq.core.ending.ending import ENDED_AT_ONCE, QUEUES_AT_ONCE
from onceq.core.state.position_block import CHUNK_SHIFT
from onceq.core.step import connections
from onceq.core.transfer.pending_outcomes import STREAMS_AT_ONCE
from onceq.model import limits
from onceq.model.log import LARGE_BLOCK_BYTES, LARGE_RECORD_BYTES
from proof.sim.base import marks

if TYPE_CHECKING:
    from onceq.core.manager import Manager

MANY_CHUNKS: Final = 4
BLOCKS_SHARE: Final = 0.25
"""Of worlds whose sizes are drawn: records with packets are large from few bytes on."""
RESTS_SHARE: Final = 0.5
"""Of worlds whose sizes are drawn: what goes to several destinations is written once, however
small it is."""
READERS_SHARE: Final = 0.3
"""Of worlds whose sizes are drawn: few readers are remembered of a queue."""
WORKS_SHARE: Final = 0.4
"""Of worlds whose sizes are drawn: purges, deletions and expiries take many steps; and so do
questions, and what happens to many outgoing queues."""
_PARTS: Final = (
    "onceq.core.", "onceq.packet.", "onceq.service.", "onceq.model.limits", "onceq.model.log",
    "onceq.store.framing",
)  # fmt: skip
"""Modules that these constants are put into; others of the store have some of the same name."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Constants of the product, by the names that they have there."""

    CHUNK_SHIFT: int = CHUNK_SHIFT
    COMPACT_AT: int = 1_024
    REGION_BYTES: int = 1 << 20
    OUTCOME_WINDOW: int = limits.OUTCOME_WINDOW
    DUPLICATE_IDS_MAX: int = limits.DUPLICATE_IDS_MAX
    LEFT_STREAMS_MAX: int = limits.LEFT_STREAMS_MAX
    PASSED_RANGES_MAX: int = limits.PASSED_RANGES_MAX
    DOUBTS_MAX: int = limits.DOUBTS_MAX
    INQUIRY_STREAMS_MAX: int = limits.INQUIRY_STREAMS_MAX
    NOTES_MAX: int = limits.NOTES_MAX
    READERS_MAX: int = limits.READERS_MAX
    EARLY_SESSION_BYTES_MAX: int = limits.EARLY_SESSION_BYTES_MAX
    ACKS_AT_ONCE: int = limits.ACKS_AT_ONCE
    RECEIVE_MESSAGES_MAX: int = limits.RECEIVE_MESSAGES_MAX
    RECEIVE_BYTES_MAX: int = limits.RECEIVE_BYTES_MAX
    BLOCK_MESSAGES: int = 1_000
    PROBE_MESSAGES: int = 64
    ROOM_BYTES: int = 1 << 20
    OWED_BYTES: int = 4 << 20
    MOVE_BYTES: int = 1 << 20
    SEGMENTS_MAX: int = 8
    NUMBERS_RESERVED: int = 1 << 16
    ROUTES_MAX: int = 1_024
    REFUSED_MAX: int = 1_024
    LARGE_RECORD_BYTES: int = LARGE_RECORD_BYTES
    LARGE_BLOCK_BYTES: int = LARGE_BLOCK_BYTES
    ENDED_AT_ONCE: int = ENDED_AT_ONCE
    QUEUES_AT_ONCE: int = QUEUES_AT_ONCE
    STREAMS_AT_ONCE: int = STREAMS_AT_ONCE
    REST_BYTES_MIN: int = limits.REST_BYTES_MIN


PRODUCT: Final = Scale()
EARLY_DROPPED: Final = {
    connections.NO_ROOM: marks.EARLY_FULL,
    connections.STREAM_LEFT: marks.EARLY_LEFT,
    connections.QUEUE_DELETED: marks.EARLY_DELETED,
    connections.SESSION_CLOSED: marks.EARLY_CLOSED,
}
"""Marks by why what came too early was not kept to its end."""
_SMALL: Final[dict[str, tuple[int, ...]]] = {
    "CHUNK_SHIFT": (1, 2, 3, 5),
    "EARLY_SESSION_BYTES_MAX": (0, 2_000, 4_000),
    "COMPACT_AT": (1, 2, 8),
    "REGION_BYTES": (256, 4 << 10, 32 << 10),
    "OUTCOME_WINDOW": (16, 64),
    "DUPLICATE_IDS_MAX": (2, 8, 40),
    "LEFT_STREAMS_MAX": (1, 3),
    "PASSED_RANGES_MAX": (1, 2),
    "DOUBTS_MAX": (1, 2, 4),
    "INQUIRY_STREAMS_MAX": (3, 4),
    "NOTES_MAX": (1, 3),
    "ACKS_AT_ONCE": (1, 3),
    "RECEIVE_MESSAGES_MAX": (1, 2, 7),
    "RECEIVE_BYTES_MAX": (200, 2_000),
    "BLOCK_MESSAGES": (1, 2, 5),
    "PROBE_MESSAGES": (1, 4),
    "ROOM_BYTES": (300, 3_000),
    "OWED_BYTES": (200, 2_000),
    "MOVE_BYTES": (500, 5_000),
    "SEGMENTS_MAX": (1, 2),
    "NUMBERS_RESERVED": (1, 5),
    "ROUTES_MAX": (1, 2),
    "REFUSED_MAX": (1, 2),
}


def draw(rng: Random) -> Scale:
    """The sizes of one world: the product's in every fifth, else most of them small."""
    if rng.random() < 0.2:
        return PRODUCT
    drawn = {}
    for name, sizes in _SMALL.items():
        small = rng.choice(sizes)
        if rng.random() < 0.6:
            drawn[name] = small
    if rng.random() < BLOCKS_SHARE:
        drawn["LARGE_RECORD_BYTES"] = rng.choice((300, 1_000))
        drawn["LARGE_BLOCK_BYTES"] = rng.choice((64, 200, 512))
    if rng.random() < WORKS_SHARE:
        drawn["ENDED_AT_ONCE"] = rng.choice((1, 2))
    if rng.random() < RESTS_SHARE:
        drawn["REST_BYTES_MIN"] = 1
    if rng.random() < WORKS_SHARE:
        drawn["STREAMS_AT_ONCE"] = rng.choice((1, 2))
        drawn["QUEUES_AT_ONCE"] = rng.choice((1, 2))
    if rng.random() < READERS_SHARE:  # drawn last: the others are those of before
        drawn["READERS_MAX"] = rng.choice((1, 2))
    return Scale(**drawn)


@contextmanager
def put_in(scale: Scale) -> Iterator[None]:
    """Let the product have these sizes for a while."""
    before = _set(PRODUCT, scale)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(sys.modules[module], name, value)


def _set(product: Scale, scale: Scale) -> list[tuple[str, str, int]]:
    """Put constants, and what follows from them, into every module that has them."""
    known, wanted = _with_derived(product), _with_derived(scale)
    before = []
    for name, module in list(sys.modules.items()):
        if not name.startswith(_PARTS):
            continue
        for constant, value in wanted.items():
            if vars(module).get(constant) == known[constant]:
                before.append((name, constant, known[constant]))
                setattr(module, constant, value)
    return before


def _with_derived(scale: Scale) -> dict[str, int]:
    return asdict(scale) | {
        "CHUNK": 1 << scale.CHUNK_SHIFT,
        "ASKED_MAX": scale.INQUIRY_STREAMS_MAX - 2,
        "_MASK": (1 << scale.OUTCOME_WINDOW) - 1,
    }


def looked(reached: marks.Marks, scale: Scale, manager: Manager) -> None:
    """A process ends: which borders it has reached."""
    state = manager.state
    chunks = max((len(lane.blocks()) for _, _, lane in state.all_lanes()), default=0)
    reached[marks.WORK_CUT] += manager.at_work
    reached[marks.IN_TWO_PARTS] += any(lane.in_parts for _, _, lane in state.all_lanes())
    reached[marks.CHUNKS] += chunks > 1
    reached[marks.MANY_CHUNKS] += chunks > MANY_CHUNKS
    reached[marks.IDS_FULL] += len(state.seen) >= scale.DUPLICATE_IDS_MAX
    reached[marks.STREAMS_FULL] += sum(1 for _ in state.memories) >= scale.LEFT_STREAMS_MAX
    reached[marks.DOUBTS_FULL] += len(state.doubts) >= scale.DOUBTS_MAX
    passed = max((len(p.passed) for p in state.progress.values()), default=0)
    reached[marks.PASSED_FULL] += passed >= scale.PASSED_RANGES_MAX
    dropped = manager._step.sessions.early.dropped
    reached[marks.EARLY_SHOWN] += manager._step.sessions.early.shown
    for reason, mark in EARLY_DROPPED.items():
        reached[mark] += dropped[reason]
