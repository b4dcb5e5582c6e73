"""The settings: their present values, beside their defaults."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from onceq.core.step.step import Step
from onceq.model.settings import AT_START, Settings
from onceq.model.views.managers import SettingView

_DEFAULTS: Final = Settings()


def settings(step: Step) -> list[SettingView]:
    """Return all of them, in the order of ``docs/reference/settings.md``."""
    return [
        SettingView(
            name := field.name,
            getattr(step.settings, name),
            getattr(_DEFAULTS, name),
            at_start=name in AT_START,
        )
        for field in fields(step.settings)
    ]
