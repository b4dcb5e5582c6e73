"""What all tests share: how Hypothesis draws, and where Spark's tests run.

Examples of Hypothesis follow from the test itself, so that a run can be repeated; ``make fuzz``
asks for more of them with HYPOTHESIS_PROFILE=fuzz, freshly drawn.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

settings.register_profile(
    "change",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", deadline=None, max_examples=20_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "change"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark share one session, and so one process of the two that run tests."""
    for item in items:
        if HERE / "spark" in item.path.parents:
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
