"""Counters of the running process."""

from __future__ import annotations

from onceq.core.step.units import Counts
from onceq.model.resultcodes import MessageClass


def test_classes_of_others_are_one() -> None:
    counts = Counts()
    counts.ended[MessageClass.NACK_DELETED] += 2
    counts.ended[0x8ABC] += 1
    counts.ended[0x8ABD] += 1
    assert counts.by_class() == {"nack-deleted": 2, "other": 2}
