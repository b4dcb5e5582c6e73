"""What a queue manager is set to."""

from __future__ import annotations

from typing import Annotated

from onceq.model.views.view import Column, View

SettingValue = bool | int | float | str
"""A setting is a truth value, a number in the unit that its name ends in, or a text."""


class SettingView(View, frozen=True):
    """One setting.

    Attributes:
        name: Its name in the table ``[settings]`` of ``onceq.toml``.
        value: Its value now.
        default: Its default.
        at_start: Whether only a restart changes it, and no reload.
    """

    name: Annotated[str, Column("setting")] = ""
    value: Annotated[SettingValue, Column("value", "setting")] = ""
    default: Annotated[SettingValue, Column("default", "setting")] = ""
    at_start: bool = False

    @property
    def read(self) -> Annotated[str, Column("read")]:
        """When a change in ``onceq.toml`` takes effect."""
        return "at a start" if self.at_start else "at a reload"
