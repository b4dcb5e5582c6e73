"""What all tests share: how Hypothesis draws, where Spark's tests run, failures told at once.

Examples of Hypothesis follow from the test itself, so that a run can be repeated; ``make fuzz``
asks for more of them with HYPOTHESIS_PROFILE=fuzz, freshly drawn.
"""

from __future__ import annotations

import os
import sys
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


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure when it happens: a run that is stopped later has told of it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        seconds = f"{report.duration:.1f} s"
        last = str(report.longrepr).strip().splitlines()[-1:]
        sys.stdout.write(f"\nFAILED {report.nodeid} ({report.when}, {seconds}) {' '.join(last)}\n")
        sys.stdout.flush()
