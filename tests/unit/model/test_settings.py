"""Settings: the waits between resends."""

from __future__ import annotations

from onceq.model.settings import SETTING_NAMES, Settings


def test_the_resend_table() -> None:
    """EOD-17: three of the first, three of the second, three of the third, then the last."""
    settings = Settings()
    waits = [settings.resend_wait_s(count) for count in range(12)]
    assert waits == [30.0] * 3 + [300.0] * 3 + [1_800.0] * 3 + [21_600.0] * 3
    assert SETTING_NAMES[0] == "resend_first_s"
