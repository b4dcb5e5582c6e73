"""Settings: the waits between resends."""

from __future__ import annotations

import tomllib

from onceq.model.settings import SETTING_NAMES, Settings, as_written


def test_the_resend_table() -> None:
    """EOD-17: three of the first, three of the second, three of the third, then the last."""
    settings = Settings()
    waits = [settings.resend_wait_s(count) for count in range(12)]
    assert waits == [30.0] * 3 + [300.0] * 3 + [1_800.0] * 3 + [21_600.0] * 3
    assert SETTING_NAMES[0] == "resend_first_s"


def test_values_are_written_as_the_file_has_them() -> None:
    values = {"a": True, "b": 0.02, "c": 30.0, "d": 8 << 30, "e": r"private$\q"}
    text = "\n".join(f"{name} = {as_written(value)}" for name, value in values.items())
    assert tomllib.loads(text) == values
