"""What a queue manager is set to."""

from __future__ import annotations

from onceq.model.views.view import View

SettingValue = bool | int | float | str
"""A setting is a truth value, a number in the unit that its name ends in, or a text."""


class SettingView(View, frozen=True):
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
