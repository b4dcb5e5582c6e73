"""A connection of one that only looks: a command that asks a daemon something, and ends.

It asks one thing at a time and says nothing that changes anything, so it needs no more of the
client library than frames and the views or messages that it is answered with. To load the rest
takes longer than such a command does.

Upholds: what is seen is what ``QueueManager`` sees: the same requests, views and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from onceq.client.address import parse
from onceq.client.connecting import READ_BYTES_MIN, connected, greet
from onceq.client.credentials import Credentials
from onceq.client.greetings import check_jobs
from onceq.errors import InvalidParameter, LinkLost
from onceq.model.identity import guid_text
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.wire.app import frames
from onceq.wire.app.frames import FAILED, Code, failure

if TYPE_CHECKING:
    from onceq.model.views.branches import BranchView, DecisionView, GroupView
    from onceq.model.views.jobs import JobView
    from onceq.model.views.managers import (
        DamageView,
        ListView,
        NameStep,
        PeerView,
        StatusView,
        TransactionView,
    )
    from onceq.model.views.metrics import MetricsView
    from onceq.model.views.msmq import ReceiveInfo, SendInfo
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
    from onceq.model.views.trail import ActView
    from onceq.packet.batch import Batch

T = TypeVar("T")


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
        self._socket = connected(self._address, timeout, shown)
        try:
            said = greet(self._socket, self._address, self._parser, shown)
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
        head, _ = self._ask(Code.LOOK, (what, name))
        made: T = frames.decode_head(head, kind)
        return made

    def _ask(self, code: Code, said: tuple[object, ...]) -> tuple[memoryview, memoryview]:
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

    def look_on(
        self, what: tuple[str, str], kind: type[list[T]], mark: Callable[[T], int]
    ) -> list[T]:
        """A list that may be long, some of it at a time (``client/plans/plan.py``).

        Args:
            what: The word for the whole list, for a queue manager that does not tell of some at a
                time, and the one for those behind a number.
            mark: The number of one; those with 0 belong to the one before.
        """
        found: list[Any] = []
        after = 0
        while True:
            try:
                some = self.look(what[1], kind, str(after))
            except InvalidParameter:
                return self.look(what[0], kind)
            if not some:
                return found
            found += some
            after = next(number for number in map(mark, reversed(some)) if number)

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

        return self.look("streams", list[StreamView])

    def peers(self) -> list[PeerView]:
        """See QueueManager."""
        from onceq.model.views.managers import PeerView

        return self.look("peers", list[PeerView])

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

        return self.look("lists", list[ListView])

    def resolve(self, name: str) -> list[NameStep]:
        """See QueueManager."""
        from onceq.model.views.managers import NameStep

        return self.look("resolve", list[NameStep], name)

    def damages(self) -> list[DamageView]:
        """See QueueManager."""
        from onceq.model.views.managers import DamageView

        return self.look("damages", list[DamageView])

    def transactions(self) -> list[TransactionView]:
        """See QueueManager."""
        from onceq.model.views.managers import TransactionView

        return self.look("transactions", list[TransactionView])

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

        return self.look("groups", list[GroupView])

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

        return self.look("rights", list[GrantView], queue)

    def tokens(self) -> list[TokenView]:
        """See QueueManager."""
        from onceq.model.views.tokens import TokenView

        return self.look("tokens", list[TokenView])

    def readers(self, queue: str = "") -> list[ReaderView]:
        """See QueueManager."""
        from onceq.model.views.queues import ReaderView

        return self.look("readers", list[ReaderView], queue)

    def queues(self) -> list[QueueView]:
        """See QueueManager."""
        from onceq.model.views.queues import QueueView

        words = ("queues", "queues-behind")
        return self.look_on(words, list[QueueView], lambda one: 0 if one.parent else one.number)

    def outgoing(self) -> list[OutgoingView]:
        """See QueueManager."""
        from onceq.model.views.queues import OutgoingView

        words = ("outgoing", "outgoing-behind")
        return self.look_on(words, list[OutgoingView], lambda one: one.number)

    def list_members(self, name: str) -> list[str]:
        """See QueueManager."""
        from onceq.model.views.managers import ListView

        return list(self.look("list", ListView, name).members)

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
        head, data = self._ask(Code.RECEIVE, (queue, 0, count, RECEIVE_BYTES, 0, True, after))
        return batch_of(head, data)
