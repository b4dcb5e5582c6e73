"""How texts say a number of things."""

from __future__ import annotations

import pytest

from onceq.model.wording import plural


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 message"), (0, "0 messages"), (12_000, "12,000 messages")]
)
def test_plural(count: int, text: str) -> None:
    assert plural(count, "message") == text
