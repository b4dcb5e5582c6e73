"""What applications and operators do with a queue manager, wherever it runs."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from onceq.client.threads.manager import QueueManager
from onceq.errors import LinkLost, ReceiveTimeout
from onceq.model import requests
from onceq.model.branches import NUMBER_BYTES, TAG_BYTES, DecisionState, Join, Leave, Vote, Xid
from onceq.model.identity import TransactionId
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.requests import EditDirectory
from onceq.model.results import Opened, Outcome, Sent
from onceq.model.run import Run
from onceq.model.views.looks import GroupResult
from onceq.model.views.view import Page
from onceq.packet.arrived import Batch
from onceq.packet.own import own_headers

if TYPE_CHECKING:
    from tests.conformance.clocks import HostClock
    from tests.conformance.world import World

MESSAGES_MAX = 10_000
BYTES_MAX = 1 << 25


class AnswerLost(LinkLost):
    """The queue manager died before it answered: what an application hears then."""


def item(destination: str, *bodies: bytes, **properties: Any) -> requests.SendItem:
    """A batch; a property that is a list has a value for each message."""
    lists = {name: value for name, value in properties.items() if isinstance(value, list)}
    shared = Properties(**{n: value for n, value in properties.items() if n not in lists})
    own = own_headers(len(bodies), lists) if lists else None
    return requests.SendItem(destination, shared, Run.of(bodies), own=own)


class Applications:
    """Every request is an input of the core; ``ask`` brings it there and its answer back."""

    world: World
    clock: HostClock
    exit_code: int | None
    """Of the process that was seen to end."""

    @property
    def said(self) -> str:
        """What stands in its log, all lives together; only if there is a process."""
        raise NotImplementedError

    def __init__(self) -> None:
        self.numbers = itertools.count(1)

    def ask(self, request: requests.Request) -> Any:
        """One request and its answer; errors are raised. Lets the world run until it comes.

        Args:
            request: Without its owner and number.

        Raises:
            AnswerLost: The queue manager died instead.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """It is killed, or its connection is lost. Only a stranger can leave alone."""
        raise NotImplementedError

    def client(self) -> AbstractContextManager[QueueManager]:
        """The client library, connected; only if the queue manager is a process."""
        raise NotImplementedError

    def see_its_end(self) -> None:
        """Wait until the process has ended, which it is about to; only if there is one."""
        raise NotImplementedError

    def create(self, name: str, *, transactional: bool = True, **more: Any) -> None:
        properties = QueueProperties(name, transactional=transactional, **more)
        instance = name.encode()[:16].ljust(16, b"Q")
        self.ask(requests.CreateQueue(properties=properties, instance=instance))

    def delete(self, name: str) -> Any:
        return self.ask(requests.DeleteQueue(name))

    def purge(self, name: str) -> Any:
        return self.ask(requests.PurgeQueue(name))

    def open(
        self, name: str, access: requests.Access, share: requests.Share = requests.Share.DENY_NONE
    ) -> Opened:
        result = self.ask(requests.OpenQueue(name, access, share))
        assert isinstance(result, Opened)
        return result

    def close_handle(self, handle: int) -> None:
        self.ask(requests.CloseQueue(handle))

    def begin(self) -> int:
        number = next(self.numbers)
        self.ask(requests.Begin(number))
        return number

    def send(self, tx: int, destination: str, *bodies: bytes, **properties: Any) -> Any:
        """Messages of a transaction, or (0) of none."""
        items = (item(destination, *bodies, **properties),)
        return self.ask(requests.Send(tx, items))

    def commit(self, tx: int, id: TransactionId | None = None, *, then: int = 0) -> Sent:
        result = self.ask(requests.Commit(tx, (), id, then))
        assert isinstance(result, Sent)
        return result

    def abort(self, tx: int) -> None:
        self.ask(requests.Abort(tx))

    def once(
        self, destination: str, *bodies: bytes, id: TransactionId | None = None, **properties: Any
    ) -> Sent:
        """One transaction that sends these."""
        items = (item(destination, *bodies, **properties),)
        result = self.ask(requests.Commit(0, items, id))
        assert isinstance(result, Sent)
        return result

    def outcome(self, id: TransactionId) -> Outcome:
        result = self.ask(requests.AskOutcome(id))
        assert isinstance(result, Outcome)
        return result

    def start_branch(self, xid: Xid, how: Join = Join.NEW) -> int:
        """Work in a branch; the number under which it goes on."""
        number = next(self.numbers)
        self.ask(requests.StartBranch(number, xid, how))
        return number

    def end_branch(self, number: int, xid: Xid, how: Leave = Leave.SUCCESS) -> None:
        self.ask(requests.EndBranch(number, xid, how))

    def prepare(self, xid: Xid, tx: int = 0, *items: requests.SendItem) -> Vote:
        vote = self.ask(requests.PrepareBranch(xid, tx, items))
        assert isinstance(vote, Vote)
        return vote

    def commit_branch(self, xid: Xid, **more: bool) -> Sent:
        result = self.ask(requests.CommitBranch(xid, **more))
        assert isinstance(result, Sent)
        return result

    def rollback(self, xid: Xid, **more: bool) -> None:
        self.ask(requests.RollbackBranch(xid, **more))

    def forget(self, xid: Xid) -> None:
        self.ask(requests.ForgetBranch(xid))

    def promise(self, xid: Xid, *items: requests.SendItem) -> Vote:
        """A whole branch, up to its promise."""
        return self.prepare(xid, self.start_branch(xid), *items)

    def commit_group(
        self, app: str, version: int, prefix: bytes, *xids: Xid, query: str = "", target: str = "",
        digest: str = "",
    ) -> GroupResult:  # fmt: skip
        asked = requests.CommitGroup(app, query, version, prefix, xids, target, digest)
        result = self.ask(asked)
        assert isinstance(result, GroupResult)
        return result

    def rollback_group(self, prefix: bytes, *, final: bool = False) -> int:
        return int(self.ask(requests.RollbackGroup(prefix, final)))

    def forget_group(self, app: str) -> None:
        self.ask(requests.ForgetGroup(app))

    def enlist(self, tx: int, partner: str = "db") -> bytes:
        """The identifier under which its decision can be asked for."""
        drawn = next(self.numbers).to_bytes(NUMBER_BYTES, "big")
        return bytes(self.ask(requests.Enlist(tx, partner, drawn=drawn)))

    def attempt(self, prefix: bytes) -> bytes:
        """The identifier of the branches of another attempt at a batch."""
        drawn = next(self.numbers).to_bytes(TAG_BYTES, "big")
        return bytes(self.ask(requests.BeginAttempt(prefix, drawn=drawn)))

    def decision(self, gtrid: bytes) -> DecisionState:
        result = self.ask(requests.AskDecision(gtrid))
        assert isinstance(result, DecisionState)
        return result

    def leave_decision(self, gtrid: bytes) -> None:
        self.ask(requests.LeaveDecision(gtrid))

    def decision_done(self, gtrid: bytes) -> None:
        self.ask(requests.DecisionDone(gtrid))

    def receive(self, queue: str, *, tx: int = 0, count: int = 1, wait_s: float = 0) -> Batch:
        until = self.world.now_us + int(wait_s * 1e6) if wait_s else 0
        result = self.ask(requests.Receive(queue, tx, count, BYTES_MAX, wait_until_us=until))
        assert isinstance(result, Batch)
        return result

    def messages(self, queue: str) -> Batch:
        """What is in a queue, by peeking; raises ReceiveTimeout if nothing is."""
        result = self.ask(
            requests.Receive(queue, 0, MESSAGES_MAX, BYTES_MAX, wait_until_us=0, peek=True)
        )
        assert isinstance(result, Batch)
        return result

    def bodies(self, queue: str) -> list[bytes]:
        """The bodies of what is in a queue."""
        try:
            return self.messages(queue).bodies()
        except ReceiveTimeout:
            return []

    def look(self, what: str, name: str = "") -> Any:
        """A view; of what is told in pages the views of all of them."""
        found = self.ask(requests.Look(what, name))
        if not isinstance(found, Page):
            return found
        views = list(found.views)
        while found.next:
            found = self.ask(requests.Look(what, name, found.next))
            views += found.views
        return views

    def edit_list(self, what: str, name: str, *members: str) -> str:
        """Change a distribution list of the directory; its format name."""
        guid = name.encode()[:16].ljust(16, b"L")
        view = self.ask(EditDirectory(what, name, members, guid=guid))
        return str(view.format_name)

    def steer(self, destination: str, action: str) -> None:
        self.ask(requests.SteerOutgoing(destination, requests.Steer(action)))
