"""What somebody who is new to a queue manager looks for, and finds."""

from __future__ import annotations

import pytest

from tests.daemon.shell import Shell

pytestmark = pytest.mark.slow


def test_status_says_since_when_it_runs(onceq_: Shell) -> None:
    assert "running since" in onceq_("qm", "status")
    said = onceq_.json("qm", "status")
    assert isinstance(said, dict)
    assert said["started"] > 1_700_000_000
