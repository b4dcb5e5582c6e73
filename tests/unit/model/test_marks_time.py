"""Instants: the second that stands in packets."""

from __future__ import annotations

from onceq.model.marks import Now


def test_seconds_of_packets() -> None:
    assert Now(wall_us=1_999_999, mono_us=5).wall_s == 1
