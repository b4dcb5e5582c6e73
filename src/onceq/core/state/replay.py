"""The durable state from a checkpoint and the records behind it, and nothing else.

Upholds: I22 (the same ``apply`` while running and at recovery).
"""

from __future__ import annotations

from collections.abc import Iterable

from onceq.core.state import snapshot
from onceq.core.state.branch_table import Branch
from onceq.core.state.records import Change, decode
from onceq.core.state.setups import Setup
from onceq.core.state.state import State
from onceq.errors import DamagedRecord
from onceq.model.log import FRAME_HEADER


def replay(
    state: State, checkpoint: bytes | None, records: Iterable[tuple[int, memoryview]]
) -> None:
    """Load what is durable into a new State.

    Args:
        checkpoint: What ``snapshot`` gave, or None: the records are all that there ever were.
        records: Position and payload of every record after it, in order.

    Raises:
        DamagedRecord: The records do not fit together.
    """
    if checkpoint is not None:
        snapshot.restore(state, checkpoint)
    for at, payload in records:
        apply(state, decode(payload, at + FRAME_HEADER), at)


def apply(state: State, record: tuple[Change, list[int]] | Setup | Branch, at: int) -> None:
    """Change a State as a record says; raises DamagedRecord where it does not fit."""
    if isinstance(record, Setup):
        state.apply_setup(record)
    elif isinstance(record, Branch):
        state.apply_branch(record, at)
    else:
        change, offsets = record
        try:
            state.apply(change, at, offsets)
        except (AssertionError, KeyError, IndexError) as error:
            raise DamagedRecord(f"the record at {at} does not fit: {error!r}") from error
