"""A connection of one that only looks: a command that asks a daemon something, and ends.

It asks one thing at a time and says nothing that changes anything, so it needs no more of the
client library than frames and the views or messages that it is answered with. To load the rest
takes longer than such a command does.

Upholds: what is seen is what ``QueueManager`` sees: the same requests, views and errors.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from onceq.client.address import parse
from onceq.client.connecting import READ_BYTES_MIN, connected, greet
from onceq.client.credentials import Credentials
from onceq.client.greetings import check_jobs, check_pages
from onceq.errors import LinkLost, UnsupportedOperation
from onceq.model.identity import guid_text
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.wire.app import frames
from onceq.wire.app.frames import FAILED, failure

if TYPE_CHECKING:
    from onceq.model.views.branches import BranchView, DecisionView, GroupView
    from onceq.model.views.jobs import JobView
    from onceq.model.views.managers import (
        DamageView,
        ListView,
        NameView,
        PeerView,
        StatusView,
        TransactionView,
    )
    from onceq.model.views.metrics import MetricsView
    from onceq.model.views.msmq import ReceiveInfo, SendInfo
    from onceq.model.views.pages import Page
    from onceq.model.views.queues import (
        ConsumerView,
        OutgoingView,
        QueueView,
        ReaderView,
        StreamView,
    )
    from onceq.model.views.rights import GrantView
    from onceq.model.views.settings import SettingView
    from onceq.model.views.tokens import TokenView
    from onceq.model.views.trail import ActView, TrailView
    from onceq.model.views.waiting import WaitingView
    from onceq.packet.batch import Batch

T = TypeVar("T")

_LOOK, _RECEIVE = 16, 8
"""Codes of two requests, whose classes (``model/requests``) take longer to load than to ask."""
PAGE: Final = ("after", "limit", "sort", "only", "part")
"""Fields of ``model/requests`` ``Look`` about a page, in their order."""


class Asking:
    """See the module. It belongs to one thread."""

    def __init__(self, where: str, *, timeout: float, token_file: str | None = None) -> None:
        """Connect and greet.

        Args:
            where: See ``onceq.connect``; so are the errors.
            timeout: Seconds for that, and for each piece of an answer.
        """
        self._address = parse(where)
        shown = Credentials(token_file=token_file)
        self._parser = frames.Parser()
        self._number = 1
        since = time.monotonic()
        self._socket = connected(self._address, timeout, shown)
        try:
            said = greet(
                self._socket, self._address, self._parser, shown, since=since, timeout=timeout
            )
            self._socket.settimeout(timeout)
        except BaseException:
            self._socket.close()
            raise
        self.name = said.name
        """Computer name of the queue manager, as it stands in format names."""
        self.id = guid_text(said.id)
        """Its GUID."""
        self.revision = said.revision
        """What it knows of the client protocol."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def look(self, what: str, kind: type[T], name: str = "") -> T:
        """What the queue manager tells of itself.

        Args:
            what: A word of ``model/views/looks.py``.
            kind: The type that stands there beside it.
            name: Whom it is about.

        Raises:
            LinkLost: The connection broke.
            OnceqError: It was refused.
        """
        head, _ = self._ask(_LOOK, (what, name))
        made: T = frames.decode_head(head, kind)
        return made

    def _ask(self, code: int, said: tuple[object, ...]) -> tuple[memoryview, memoryview]:
        """Head and data of the answer to a request, which is given as it crosses the connection."""
        self._number += 1
        self._send(b"".join(frames.frame(self._number, code, said)))
        while True:
            for number, answer, head, data in self._parser.feed(self._received()):
                if number == 0 or (number == self._number and answer & FAILED):
                    raise failure(head)
                if number == self._number:
                    return head, data

    # Apart from the answers, because some of their errors are an OSError, too: ReceiveTimeout is.

    def _send(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._broken(error) from error

    def _received(self) -> bytes:
        try:
            data = self._socket.recv(READ_BYTES_MIN)
        except OSError as error:
            raise self._broken(error) from error
        if not data:
            raise self._broken("the queue manager closed it")
        return data

    def _broken(self, why: object) -> LinkLost:
        return LinkLost(f"the connection to {self._address} broke: {why}")

    def look_at_page(self, what: str, kind: type[T], name: str = "", **asked: Any) -> Page[T]:
        """A page of a list (``client/plans/plan.py``).

        Args:
            kind: Of the views on it.
        """
        from onceq.model.views.pages import Page

        check_pages(self.revision)
        said = tuple(asked.get(one, 0 if one == "limit" else "") for one in PAGE)
        head, _ = self._ask(_LOOK, (what, name, *said))
        page: Page[T] = frames.decode_head(head, Page[kind])  # type: ignore[valid-type]
        return page

    def look_at_all(self, what: str, kind: type[T], name: str = "", **asked: Any) -> list[T]:
        """All pages of a list (``client/plans/plan.py``)."""
        found: list[T] = []
        after = ""
        while True:
            page = self.look_at_page(what, kind, name, after=after, **asked)
            found += page.views
            after = page.next
            if not after:
                return found

    # ---- what can be looked at, as QueueManager has it -----------------------------------------

    def status(self) -> StatusView:
        """See QueueManager."""
        from onceq.model.views.managers import StatusView

        return self.look("status", StatusView)

    def metrics(self, *, queues: bool = False) -> MetricsView:
        """See QueueManager."""
        from onceq.model.views.metrics import PER_QUEUE, MetricsView

        return self.look("metrics", MetricsView, PER_QUEUE if queues else "")

    def settings(self) -> list[SettingView]:
        """See QueueManager."""
        from onceq.model.views.settings import SettingView

        return self.look("settings", list[SettingView])

    def queue(self, name: str) -> QueueView:
        """See QueueManager."""
        from onceq.model.views.queues import QueueView

        return self.look("queue", QueueView, name)

    def consumers(self, queue: str) -> list[ConsumerView]:
        """See QueueManager."""
        from onceq.model.views.queues import ConsumerView

        return self.look("consumers", list[ConsumerView], queue)

    def outgoing_queue(self, destination: str) -> OutgoingView:
        """See QueueManager."""
        from onceq.model.views.queues import OutgoingView

        return self.look("outgoing-queue", OutgoingView, destination)

    def streams(self) -> list[StreamView]:
        """See QueueManager."""
        from onceq.model.views.queues import StreamView

        return self.look_at_all("streams", StreamView)

    def peers(self) -> list[PeerView]:
        """See QueueManager."""
        from onceq.model.views.managers import PeerView

        return self.look_at_all("peers", PeerView)

    def eod_send_info(self, destination: str) -> SendInfo:
        """See QueueManager."""
        from onceq.model.views.msmq import SendInfo

        return self.look("eod-send", SendInfo, destination)

    def eod_receive_info(self, queue: str) -> list[ReceiveInfo]:
        """See QueueManager."""
        from onceq.model.views.msmq import ReceiveInfo

        return self.look("eod-receive", list[ReceiveInfo], queue)

    def lists(self) -> list[ListView]:
        """See QueueManager."""
        from onceq.model.views.managers import ListView

        return self.look_at_all("lists", ListView)

    def explain_name(self, name: str) -> list[NameView]:
        """See QueueManager."""
        from onceq.model.views.managers import NameView

        return self.look("explain-name", list[NameView], name)

    def damages(self) -> list[DamageView]:
        """See QueueManager."""
        from onceq.model.views.managers import DamageView

        return self.look_at_all("damages", DamageView)

    def transactions(self) -> list[TransactionView]:
        """See QueueManager."""
        from onceq.model.views.managers import TransactionView

        return self.look_at_all("transactions", TransactionView)

    def branches(self) -> list[BranchView]:
        """See QueueManager."""
        from onceq.model.views.branches import BranchView

        return self.look("branches", list[BranchView])

    def decisions(self) -> list[DecisionView]:
        """See QueueManager."""
        from onceq.model.views.branches import DecisionView

        return self.look("decisions", list[DecisionView])

    def group_versions(self) -> list[GroupView]:
        """See QueueManager."""
        from onceq.model.views.branches import GroupView

        return sorted(self.look_at_all("groups", GroupView), key=lambda one: -one.since)

    def jobs(self) -> list[JobView]:
        """See QueueManager."""
        from onceq.model.views.jobs import JobView

        check_jobs(self.revision)
        return self.look("jobs", list[JobView])

    def job(self, number: int) -> JobView:
        """See QueueManager."""
        from onceq.model.views.jobs import JobView

        check_jobs(self.revision)
        return self.look("job", JobView, str(number))

    def rights(self, queue: str = "") -> list[GrantView]:
        """See QueueManager."""
        from onceq.model.views.rights import GrantView

        return self.look_at_all("rights", GrantView, queue)

    def tokens(self) -> list[TokenView]:
        """See QueueManager."""
        from onceq.model.views.tokens import TokenView

        return self.look_at_all("tokens", TokenView)

    def readers(self, queue: str = "") -> list[ReaderView]:
        """See QueueManager."""
        from onceq.model.views.queues import ReaderView

        return sorted(self.look_at_all("readers", ReaderView, queue), key=lambda one: -one.since)

    def queues(self, *, only: str = "", part: str = "") -> list[QueueView]:
        """See QueueManager."""
        from onceq.model.views.queues import QueueView

        return self.look_at_all("queues", QueueView, only=only, part=part)

    def queue_page(
        self, *, sort: str = "", only: str = "", part: str = "", after: str = "", limit: int = 0
    ) -> Page[QueueView]:  # fmt: skip
        """See QueueManager."""
        from onceq.model.views.queues import QueueView

        return self.look_at_page(
            "queues", QueueView, sort=sort, only=only, part=part, after=after, limit=limit
        )

    def outgoing(self, *, only: str = "", part: str = "") -> list[OutgoingView]:
        """See QueueManager."""
        from onceq.model.views.queues import OutgoingView

        return self.look_at_all("outgoing", OutgoingView, only=only, part=part)

    def outgoing_page(
        self, *, sort: str = "", only: str = "", part: str = "", after: str = "", limit: int = 0
    ) -> Page[OutgoingView]:  # fmt: skip
        """See QueueManager."""
        from onceq.model.views.queues import OutgoingView

        return self.look_at_page(
            "outgoing", OutgoingView, sort=sort, only=only, part=part, after=after, limit=limit
        )

    def list_members(self, name: str) -> list[str]:
        """See QueueManager."""
        from onceq.model.views.managers import ListView

        return list(self.look("list", ListView, name).members)

    def waiting(self) -> list[WaitingView]:
        """How many messages wait in each queue, and at which place of the log that is true; some
        queues at a time. Raises UnsupportedOperation if the queue manager is older."""
        from onceq.model.views.waiting import WaitingView
        from onceq.wire.app.frames import REVISION_PAGES

        if self.revision < REVISION_PAGES:
            raise UnsupportedOperation(
                "this queue manager is older, and does not tell how much waits at one place of its "
                "log: update it"
            )
        found = [self.look("waiting", WaitingView)]
        while found[-1].more:
            found.append(self.look("waiting", WaitingView, str(found[-1].rows[-1].number)))
        return found

    def trail_end(self) -> TrailView:
        """See ``QueueManager.trail_end``."""
        from onceq.model.views.trail import TrailView

        return self.look("trail-end", TrailView)

    def trail(self, after: int = 0) -> list[ActView]:
        """See QueueManager."""
        from onceq.model.views.trail import ActView

        found: list[ActView] = []
        while some := self.look("trail", list[ActView], str(found[-1].number if found else after)):
            found += some
        return found

    # ---- messages --------------------------------------------------------------------------

    def peek_many(self, queue: str, max: int = 1000, *, after: int = 0) -> Batch:
        """See QueueManager; it never waits."""
        from onceq.wire.app.handed import batch_of

        count = min(max, RECEIVE_MESSAGES_MAX)
        # The fields of ``model/requests`` ``Receive``, up to where the others keep their defaults.
        head, data = self._ask(_RECEIVE, (queue, 0, count, RECEIVE_BYTES, 0, True, after))
        return batch_of(head, data)
