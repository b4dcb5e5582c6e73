"""The directory, as far as the engine has to do with it: check it, inform the core, write.

Checks are cheap and at most one in DIRECTORY_LOOK_S, beside those for a request with a name that
the last check did not find: it may be there since. The core gets changes before the requests that
came with them. Registration of this computer is tried again until it is written; nothing else waits
for that.

Two copies of one manager each write their own address into the entry of both. So a manager that
finds its own entry changed reports it, and waits before it writes again: twice as long each time.
Otherwise both would write as fast as they can check, and every manager would read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from onceq.core.decision import Register, Rewrite, RewriteRights
from onceq.core.inputs import DirectoryChanged, Input, RightsRead
from onceq.core.management.directory_rules import list_view
from onceq.directory.contract import Directory, Seen, SeenRights
from onceq.errors import DirectoryError
from onceq.model import requests
from onceq.model.directory import Computer, PublicQueue, Snapshot
from onceq.model.limits import DIRECTORY_DISPUTE_S_MAX, DIRECTORY_LOOK_S, DIRECTORY_RETRY_S
from onceq.model.marks import SECOND_US, Now
from onceq.model.rights import NO_RIGHTS
from onceq.service.clock import NEVER, Due, at
from onceq.service.committer import Committer
from onceq.service.logs import event

_ABOUT = frozenset(("lists", "list", "explain-name", "rights"))

Entry = tuple[Computer, frozenset[PublicQueue]]
"""What a directory says of one computer."""


class Naming:
    """The use of the directory by one manager."""

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
        self._rights: SeenRights | None = None
        self._troubled = False
        """True if something could not be read at the last check."""
        self._pending: Entry | None = None
        """What is to be registered, and could not be, or not yet."""
        self._written: Entry | None = None
        """What was registered last, and when."""
        self._written_us = 0
        self._unread = False
        """True if that was not checked again yet."""
        self._wait_s = 0.0
        """Seconds before the entry can be written again, because others change it."""
        self._now_us = 0
        self._retry_us = 0
        self.endpoint = ""
        """Where other managers find this one, "host:port"."""
        self.look_us = NEVER if directory is None else 0
        """When the next check is due (monotonic)."""

    @property
    def where(self) -> str:
        """Return the name of this directory; "" for none."""
        return "" if self._directory is None else self._directory.where

    @property
    def trouble(self) -> str:
        """Return why it cannot be read; "" if it can, or if there is none."""
        return "" if self._seen is None else self._seen.trouble

    def due(self) -> Due:
        """Return when a check is due although nothing else is to be done."""
        if self._directory is None:
            return at(None)
        waits = self._troubled or (self._seen is not None and self._pending is not None)
        return at(self._retry_us if waits else None)

    def listening(self, endpoint: str) -> None:
        """Note the address where this manager takes connections; it goes to the directory."""
        self.endpoint = endpoint
        self._seen = None
        if self._directory is not None:
            self.look_us = 0

    def prepare(self, now: Now, items: Sequence[Input]) -> None:
        """Check the directory if it is time to, or if an input is about the directory."""
        self._now_us = now.mono_us
        known = self._seen.snapshot if self._seen is not None else None
        # A program that has just made a public queue or a list, here or elsewhere, uses it at once:
        # the last check did not find it.
        if (
            self.look_us <= now.mono_us or any(map(_about, items))
            or (known is not None and any(map(known.lacks, _named(items))))
        ):  # fmt: skip
            self.check_directory(now)

    def check_directory(self, now: Now) -> None:
        """Check whether the directory has changed, and inform the core."""
        if self._directory is None:
            # Only a manager that once had a directory has rights of one.
            if self._committer.manager.state.policy.shared.id:
                self._learn_rights(now, SeenRights(NO_RIGHTS))
            return
        self._now_us = now.mono_us
        rights = self._directory.look_rights()
        self._learn_rights(now, rights)
        self.look_us = now.mono_us + int(DIRECTORY_LOOK_S * SECOND_US)
        seen = self._directory.look()
        self._troubled = bool(seen.trouble or rights.trouble)
        self._unread = False
        if seen is self._seen:
            self._try_again()
            if self._troubled:
                self._later(DIRECTORY_RETRY_S)
            return
        if seen.trouble and seen.trouble != self.trouble:
            event("the directory cannot be read", directory=self.where, reason=seen.trouble)
        self._seen = seen
        if self._learned is not None and seen.snapshot is not None:
            self._learned(seen.snapshot)
        committer = self._committer
        changed = DirectoryChanged(seen.snapshot, seen.trouble)
        committer.settle([committer.manager.step(now, changed)])
        if self._troubled:
            self._later(DIRECTORY_RETRY_S)

    def _learn_rights(self, now: Now, seen: SeenRights) -> None:
        """Give the core the rights of the directory, if they are new."""
        if seen is self._rights or seen == self._rights:
            return
        self._rights = seen
        committer = self._committer
        read = RightsRead(seen.book, seen.trouble)
        committer.settle([committer.manager.step(now, read)])

    def _later(self, seconds: float) -> None:
        self._retry_us = max(self._now_us + int(seconds * SECOND_US), self.look_us)
        self._committer.due.by(self._retry_us)

    # ---- actions --------------------------------------------------------------------------

    def register(self, action: Register) -> None:
        """Write what the directory does not say of this computer yet."""
        entry = replace(action.computer, endpoint=self.endpoint), frozenset(action.queues)
        there = self._written if self._unread else self._known(entry[0])
        waits = entry == self._pending
        self._pending = None if there == entry else entry
        if there == entry:
            return
        if waits:
            self._try_again()
        elif entry == self._written:
            # Somebody else has changed it: it is written again when it is time.
            calm_us = self._now_us - self._written_us
            if calm_us >= DIRECTORY_DISPUTE_S_MAX * SECOND_US:
                self._wait_s = 0.0
            self._wait_s = min(max(self._wait_s * 2, DIRECTORY_LOOK_S), DIRECTORY_DISPUTE_S_MAX)
            left_s = self._wait_s - calm_us / SECOND_US
            event(
                "somebody else has changed what the directory says of this queue manager",
                directory=self.where, written_again_in_s=max(left_s, 0),
                cure="look whether a copy of this queue manager runs, and end one of the two",
            )  # fmt: skip
            if self._wait_s * SECOND_US <= calm_us:
                self._write(entry)
            else:
                self._later(left_s)
        else:
            self._write(entry)

    def _known(self, computer: Computer) -> Entry | None:
        """Return what the directory says of a computer."""
        known = self._seen.snapshot if self._seen is not None else None
        there = known.computer_of(computer.guid) if known is not None else None
        if known is None or there is None:
            return None
        name = computer.name.casefold()
        queues = (one for one in known.queues.values() if one.computer.casefold() == name)
        return there, frozenset(queues)

    def _try_again(self) -> None:
        if self._pending is not None and self._retry_us <= self._now_us:
            self._write(self._pending)

    def _write(self, entry: Entry) -> None:
        assert self._directory is not None
        computer, queues = entry
        try:
            self._directory.register(computer, tuple(queues))
        except DirectoryError as error:
            self._pending = entry
            self._later(DIRECTORY_RETRY_S)
            event("this computer could not be registered", directory=self.where, reason=error.text)
            return
        self._pending, self._written = None, entry
        self._written_us, self._unread, self.look_us = self._now_us, True, 0

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

    def rewrite_rights(self, action: RewriteRights) -> None:
        """Grant or revoke rights for all managers that share the directory, and answer."""
        assert self._directory is not None
        result: object = None
        try:
            self._directory.put_rights(action.change)
        except DirectoryError as error:
            result = error
        self.look_us = 0
        self._committer.answer(action.owner, action.request, result)


def _named(items: Sequence[Input]) -> Iterator[str]:
    """Yield the names of destinations in requests, as applications gave them."""
    for item in items:
        if isinstance(item, requests.OpenQueue):
            yield item.name
        elif isinstance(
            item, (requests.Send, requests.Commit, requests.PrepareBranch, requests.Promise)
        ):
            for one in item.items:
                yield one.destination


def _about(item: Input) -> bool:
    """Return True if an input is about the directory itself."""
    return isinstance(
        item, (requests.EditDirectory, requests.SetRights, requests.ExplainRight)
    ) or (isinstance(item, requests.Look) and item.what in _ABOUT)
