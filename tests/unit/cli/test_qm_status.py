"""How ``onceq qm status`` words what it shows."""

from __future__ import annotations

from onceq.cli.status import since

ENDS_S = 1_800_000_000


def test_since_when_it_runs_is_a_time_and_how_long_that_is() -> None:
    assert since(ENDS_S - 90_000, ENDS_S + 0.5).endswith(" (25 h)")
    assert since(ENDS_S, ENDS_S - 5).endswith("(0 s)")  # the clocks differ
