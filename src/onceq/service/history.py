"""The history of this manager, if its setting asks for one: found by name, fed by the engine.

Its writer needs libraries that a plain install lacks (``onceq[history]``), so nothing of it is
imported before the setting is read.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from onceq.core.decision import Observed
from onceq.errors import ConfigurationError
from onceq.model.manager_identity import Identity
from onceq.model.settings import Settings
from onceq.store.files import Files
from onceq.store.log import LogStore


class History(Protocol):
    """What keeps a history: ``onceq.history.keeper.Keeper``."""

    @property
    def position(self) -> int:
        """Return the position before which everything is recorded, or known to be missing."""

    @property
    def notes(self) -> int:
        """Return the number of events in memory, which wait even if the log has nothing more to
        report."""

    def mark(self, position: int, wall_us: int) -> None:
        """Note that everything before a log position is durable at that time."""

    def observe(self, position: int, wall_us: int, what: Observed) -> None:
        """Note an event that has no record."""

    def covered(self, position: int) -> None:
        """Note that a checkpoint is in force."""

    def needs(self, base: int, end: int) -> bool:
        """Return True if a part of the log must stay; not to be called while ``project`` runs."""

    def project(self, upto: int, wall_us: int) -> None:
        """Go on up to a position that is durable; slow, in any thread, never raises."""


def history_of(store: LogStore, files: Files, settings: Settings) -> History | None:
    """Return the history of the manager in a store; None if none is wanted.

    Raises:
        ConfigurationError: A library is missing.
        StorageFailure: Its folder cannot be used.
    """
    if not settings.history:
        return None
    try:
        made = importlib.import_module("onceq.history.keeper").keeper
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"settings.history needs the package {error.name}: pip install 'onceq[history]', or "
            "set history = false"
        ) from None
    return cast(History, made(store, files, store.path, Identity.unpack(store.identity), settings))
