"""Other settings for a running manager, as an input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onceq.model.limits import Settings


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Settings, and which manager passes messages on to which (GUID to computer name)."""

    settings: Settings
    routes: Mapping[bytes, str]
