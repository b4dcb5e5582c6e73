"""The directory, as far as the engine has to do with it: look, tell the core, write.

Looks are cheap and at most one in DIRECTORY_LOOK_S; what has changed is told to the core before
the requests that came with it. What this computer has to register is tried again until it is
written; nothing else waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onceq.core.decision import Register, Rewrite
from onceq.core.inputs.directory import DirectoryChanged
from onceq.core.inputs.inputs import Input
from onceq.core.management.directory_rules import list_view
from onceq.directory.contract import Directory, Seen
from onceq.errors import DirectoryError
from onceq.model.directory import Snapshot
from onceq.model.limits import DIRECTORY_LOOK_S, DIRECTORY_RETRY_S
from onceq.model.requests import EditDirectory, Look
from onceq.model.time import SECOND_US, Now
from onceq.service.committer import Committer
from onceq.service.due import NEVER, Due, at
from onceq.service.logs import event

_ABOUT = frozenset(("lists", "list", "resolve"))


class Naming:
    """See the module."""

    def __init__(
        self,
        committer: Committer,
        directory: Directory | None,
        learned: Callable[[Snapshot], None] | None,
    ) -> None:
        self._committer = committer
        self._directory = directory
        self._learned = learned
        self._seen: Seen | None = None
        self._unregistered = False
        self._retry_us = 0
        self.endpoint = ""
        """Where other managers find this one, "host:port"."""
        self.look_us = NEVER if directory is None else 0
        """When it is time to look again (monotonic)."""

    @property
    def where(self) -> str:
        """Which directory this is; "" for none."""
        return "" if self._directory is None else self._directory.where

    @property
    def trouble(self) -> str:
        """Why it cannot be read; "" if it can, or if there is none."""
        return "" if self._seen is None else self._seen.trouble

    def due(self) -> Due:
        """When a look is wanted although nothing else is to be done."""
        waits = self._seen is not None and (self._seen.trouble or self._unregistered)
        return at(self._retry_us if waits else None)

    def listening(self, endpoint: str) -> None:
        """This manager takes connections there from now on; the directory is to know."""
        self.endpoint = endpoint
        self._seen = None
        if self._directory is not None:
            self.look_us = 0

    def prepare(self, now: Now, items: Sequence[Input]) -> None:
        """Look at the directory if it is time to, or if one of these is about the directory."""
        if self.look_us <= now.mono_us or any(map(_about, items)):
            self.look(now)

    def look(self, now: Now) -> None:
        """Look whether the directory has changed, and tell the core."""
        if self._directory is None:
            return
        self.look_us = now.mono_us + int(DIRECTORY_LOOK_S * SECOND_US)
        self._retry_us = now.mono_us + int(DIRECTORY_RETRY_S * SECOND_US)
        seen = self._directory.look()
        if seen is self._seen and not self._unregistered:
            return
        if seen.trouble and seen.trouble != self.trouble:
            event("the directory cannot be read", directory=self.where, reason=seen.trouble)
        self._seen, self._unregistered = seen, False
        if self._learned is not None and seen.snapshot is not None:
            self._learned(seen.snapshot)
        committer = self._committer
        changed = DirectoryChanged(seen.snapshot, seen.trouble)
        committer.settle([committer.manager.step(now, changed)])
        if seen.trouble:
            committer.due.by(self._retry_us)

    # ---- actions --------------------------------------------------------------------------

    def register(self, action: Register) -> None:
        """Let the directory know of this computer what it does not say."""
        assert self._directory is not None
        computer = replace(action.computer, endpoint=self.endpoint)
        known = self._seen.snapshot if self._seen is not None else None
        if known is not None and known.computer_of(computer.guid) == computer:
            name = computer.name.casefold()
            there = {one for one in known.queues.values() if one.computer.casefold() == name}
            if there == set(action.queues):
                return
        try:
            self._directory.register(computer, action.queues)
        except DirectoryError as error:
            self._unregistered = True
            self._committer.due.by(self._retry_us)
            event("this computer could not be registered", directory=self.where, reason=error.text)
            return
        self.look_us = 0

    def rewrite(self, action: Rewrite) -> None:
        """Change a list, and answer."""
        assert self._directory is not None
        result: object
        try:
            self._directory.put_list(action.after, action.before)
            shown = action.after or action.before
            assert shown is not None
            result = list_view(shown)
        except DirectoryError as error:
            result = error
        self.look_us = 0
        self._committer.answer(action.owner, action.request, result)


def _about(item: Input) -> bool:
    """Whether this is about the directory itself."""
    return isinstance(item, EditDirectory) or (isinstance(item, Look) and item.what in _ABOUT)
