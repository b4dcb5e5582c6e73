"""``make spark-land``, a short one."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.torture.spark import land as spark_land

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_landing_that_is_killed_has_each_message_once(tmp_path: Path) -> None:
    """The daemon and the command, by this seed; ``make spark-land`` goes on."""
    outcome, more = spark_land.run(kills=2, seed=34, folder=tmp_path)
    assert outcome.violations == []
    assert outcome.kills == {"command": 1, "ALPHA": 1}
    assert outcome.received == outcome.committed > 0
    assert more["batches"] >= 2
