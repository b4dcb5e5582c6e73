"""What a queue manager is set to."""

from __future__ import annotations

from dataclasses import dataclass, fields

from onceq.model.settings import AT_START, Settings
from onceq.model.views.view import View

SettingValue = bool | int | float | str
"""A setting is a truth value, a number in the unit that its name ends in, or a text."""
_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class SettingView(View):
    """One setting.

    Attributes:
        name: As it stands in the table ``[settings]`` of ``onceq.toml``.
        value: What the queue manager goes by now.
        default: What it is if nobody says otherwise.
        at_start: It is taken at the start, and a reload does not change it.
    """

    name: str = ""
    value: SettingValue = ""
    default: SettingValue = ""
    at_start: bool = False


def views(settings: Settings) -> list[SettingView]:
    """All settings, in the order of ``docs/reference/settings.md``."""
    return [
        SettingView(
            name := field.name,
            getattr(settings, name),
            getattr(_DEFAULTS, name),
            at_start=name in AT_START,
        )
        for field in fields(settings)
    ]
