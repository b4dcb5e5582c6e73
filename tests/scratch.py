"""Folders that outlive one test, and nothing else: a queue manager's files are 48 MiB and more.

``tmp_path`` of pytest goes with its test (``tmp_path_retention_policy``); what a fixture makes for
several tests, or under a short name, goes with the fixture. A run of all tests thus needs a few
hundred megabytes at a time, not ten gigabytes at its end.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def scratch(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A new folder; short names keep those of Unix sockets under their hundred characters."""
    path = factory.mktemp(name)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
