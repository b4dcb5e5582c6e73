"""A plugin for pytest that plants the mistake named by ONCEQ_PLANT before any test is run."""

from __future__ import annotations

import os

import pytest

from tests.planted.planted import all_planted


def pytest_configure(config: pytest.Config) -> None:
    """Plant it; the process ends with it."""
    name = os.environ.get("ONCEQ_PLANT", "")
    if name:
        all_planted()[name].plant(pytest.MonkeyPatch())
