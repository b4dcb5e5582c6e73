"""The table of what applications ask: every request of the client protocol, and what it needs.

Each row says how it is asked, so that it is answered with success by whoever may have it. The test
tries every row as every role through every door; the documentation shows the rows as a table
(``tools/docs_matrix.py``). A request, a look or an order to an outgoing queue without a row here
fails a test.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from onceq.errors import OnceqError
from onceq.model import requests as r
from onceq.model.branches import DecisionState, Join, Leave, Xid, xid_by_row
from onceq.model.identity import TransactionId
from onceq.model.message import PLAIN, Journal
from onceq.model.requests import Access, Grip, PickBy, Request, SendItem, Share, Steer
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.views import looks
from onceq.model.views.queues import RangeAsked
from tests.matrix.roles import ANYONE, NAMED

if TYPE_CHECKING:
    from tests.matrix.scene import Attempt

ORDERS: Final = r"DIRECT=OS:.\private$\orders"
JOURNAL: Final = f"{ORDERS};journal"
LATER: Final = f"{ORDERS};later"
NEW: Final = r"DIRECT=OS:.\private$\new"
BETA: Final = r"DIRECT=OS:BETA\private$\stock"
DEAD: Final = r"DIRECT=OS:.\SYSTEM$;DEADXACT"
KEY: Final = r"private$\orders"
TENANTS_OWN: Final = r"DIRECT=OS:.\private$\app-*"
"""The queue that the tenant has made: its name is the tenant's pattern, letter by letter."""
TENANTS_KEY: Final = r"private$\app-*"
TENANTS_NEXT: Final = r"DIRECT=OS:.\private$\app-next"
NEIGHBOUR: Final = r"DIRECT=OS:.\private$\app-neighbour"
"""Of somebody else, under the same pattern."""


def _nothing(at: Attempt) -> None:
    pass


def _leave(at: Attempt, answer: Any) -> None:
    pass


@dataclass(frozen=True)
class Row:
    """One request, and what it needs.

    Attributes:
        what: For the page, behind the name of the request.
        needs: As ``roles.py`` has it.
        ask: Makes the request; what has to come before it is asked by the same application.
        before: The administrator sees to it that there is something to be asked for.
        after: The administrator, or who has asked, undoes it.
        answers: Code of the error that is the answer of whoever may have it, but cannot, because
            nothing is there; "": it succeeds.
        refused: Code of the error that is the answer of whoever may not have it. A unit of work
            that may not end so is undone, which ``send-failed`` says, with the reason; whoever is
            nobody has none.
        socket_only: Through any other door it is refused for a reason of its own, to whomever.
    """

    kind: type[Request]
    what: str
    needs: str
    ask: Callable[[Attempt], Request]
    before: Callable[[Attempt], None] = _nothing
    after: Callable[[Attempt, Any], None] = _leave
    answers: str = ""
    refused: str = "access-denied"
    socket_only: bool = False

    @property
    def name(self) -> str:
        """Of the test, and on the page."""
        return f"{self.kind.__name__}: {self.what}" if self.what else self.kind.__name__


def item(queue: str = ORDERS, **values: Any) -> SendItem:
    """One message to a queue."""
    return SendItem(queue, PLAIN, Run(b"x", array(LENGTH_TYPE, [1])), values=values)


def _close(at: Attempt, answer: Any) -> None:
    if hasattr(answer, "handle"):
        at.ask(r.CloseQueue(answer.handle))


def _delete_new(at: Attempt, answer: Any) -> None:
    at.admin(r.DeleteQueue(NEW))


def _send_beta(at: Attempt) -> None:
    at.admin(r.Commit(0, [item(BETA)]))


def _dead_letter(at: Attempt) -> None:
    at.admin(r.Commit(0, [item(BETA, journal=int(Journal.DEADLETTER))]))
    at.admin(r.PurgeQueue(BETA))


def _moved(at: Attempt) -> None:
    at.admin(r.MoveMessage(ORDERS, LATER, at.lookup))


def _read(at: Attempt) -> None:
    at.admin(r.TakeRead(ORDERS, 0, at.lookup, at.lookup, reader="reader"))


_BEFORE: Final = {DEAD: _dead_letter, BETA: _send_beta, LATER: _moved}
"""How there is something in a queue."""


def _open(what: str, queue: str, access: Access, needs: str) -> Row:
    return Row(
        r.OpenQueue, what, needs, lambda at: r.OpenQueue(queue, access),
        _BEFORE.get(queue, _nothing), after=_close,
    )  # fmt: skip


QUEUES: Final = (
    Row(r.CreateQueue, "", "create@new",
        lambda at: r.CreateQueue({"name": "new", "transactional": True}), after=_delete_new),
    Row(r.SetQueue, "", "set-properties@orders", lambda at: r.SetQueue(ORDERS, {"label": "x"})),
    Row(r.DeleteQueue, "", "delete@orders", lambda at: r.DeleteQueue(ORDERS)),
    Row(r.PurgeQueue, "", "receive@orders | operate", lambda at: r.PurgeQueue(ORDERS)),
    Row(r.PurgeQueue, "a journal", "journal@orders | operate", lambda at: r.PurgeQueue(JOURNAL)),
    Row(r.PurgeQueue, "an outgoing queue", "operate", lambda at: r.PurgeQueue(BETA), _send_beta),
    Row(r.PurgeQueue, "dead letters", "operate", lambda at: r.PurgeQueue(DEAD), _dead_letter),
    _open("to send", ORDERS, Access.SEND, "send@orders"),
    _open("to send, to another queue manager", BETA, Access.SEND, "send@beta"),
    _open("to receive", ORDERS, Access.RECEIVE, "receive@orders"),
    _open("to peek", ORDERS, Access.PEEK, "peek@orders"),
    Row(r.OpenQueue, "to peek, keeping others from receiving", "receive@orders | operate",
        lambda at: r.OpenQueue(ORDERS, Access.PEEK, Share.DENY_RECEIVE), after=_close),
    _open("to move messages there", LATER, Access.MOVE, "receive@orders"),
    _open("to receive from a journal", JOURNAL, Access.RECEIVE, "journal@orders"),
    _open("to receive dead letters", DEAD, Access.RECEIVE, "operate"),
    _open("to look at dead letters", DEAD, Access.PEEK, "monitor"),
    _open("to look at an outgoing queue", BETA, Access.PEEK, "monitor"),
    Row(r.CloseQueue, "", ANYONE, lambda at: r.CloseQueue(99), answers="invalid-handle"),
    Row(r.RenewHold, "", ANYONE, lambda at: r.RenewHold(99, 1000), answers="invalid-handle"),
    Row(r.OpenCursor, "", ANYONE, lambda at: r.OpenCursor(99), answers="invalid-handle"),
    Row(r.CloseCursor, "", ANYONE, lambda at: r.CloseCursor(99), answers="invalid-handle"),
)  # fmt: skip


def _rented(at: Attempt) -> None:
    """The tenant's queue, and that of somebody else under the same pattern, with a message each."""
    for queue, ask in ((TENANTS_OWN, at.tenant), (NEIGHBOUR, at.admin)):
        at.admin(r.DeleteQueue(queue))
        name = queue.rpartition("\\")[2]
        made = ask(r.CreateQueue({"name": name, "transactional": True, "journal": True}))
        assert not isinstance(made, OnceqError), made
        sent = at.admin(r.Commit(0, [item(queue)]))
        assert not isinstance(sent, OnceqError), sent


def _delete_next(at: Attempt, answer: Any) -> None:
    at.admin(r.DeleteQueue(TENANTS_NEXT))


def _for_tenants(
    kind: type[Request], what: str, right: str, ask: Callable[[str], Request], *, more: str = ""
) -> tuple[Row, Row]:
    """One row about the tenant's own queue, and the same about that of the neighbour."""
    return (
        Row(kind, f"{what}the tenant's queue", f"{right}@tenant{more}",
            lambda at: ask(TENANTS_OWN), _rented, after=_close),
        Row(kind, f"{what}its neighbour", f"{right}@neighbour{more}",
            lambda at: ask(NEIGHBOUR), _rented, after=_close),
    )  # fmt: skip


TENANTS: Final = (
    Row(r.CreateQueue, "under the tenant's pattern", "create@tenants",
        lambda at: r.CreateQueue({"name": "app-next", "transactional": True}),
        after=_delete_next),
    *_for_tenants(r.Commit, "with messages, to ", "send", lambda name: r.Commit(0, [item(name)])),
    *_for_tenants(r.Receive, "from ", "receive", r.Receive),
    *_for_tenants(r.OpenQueue, "to peek, keeping others from receiving, ", "receive",
                  lambda name: r.OpenQueue(name, Access.PEEK, Share.DENY_RECEIVE),
                  more=" | operate"),
    *_for_tenants(r.PurgeQueue, "", "receive", r.PurgeQueue, more=" | operate"),
    *_for_tenants(r.SetQueue, "", "set-properties", lambda name: r.SetQueue(name, {"label": "x"})),
    *_for_tenants(r.DeleteQueue, "", "delete", r.DeleteQueue),
    *_for_tenants(r.Look, "queue, ", "get-properties", lambda name: r.Look("queue", name),
                  more=" | monitor"),
)  # fmt: skip

SENDS: Final = (
    Row(r.Begin, "", ANYONE, lambda at: r.Begin(at.number()),
        after=lambda at, answer: at.abort()),
    Row(r.Abort, "", ANYONE, lambda at: r.Abort(at.begin())),
    Row(r.Send, "in a transaction", "send@orders", lambda at: r.Send(at.begin(), [item()])),
    Row(r.Send, "to another queue manager", "send@beta",
        lambda at: r.Send(at.begin(), [item(BETA)])),
    Row(r.Send, "to several queues", "send@orders & send@beta",
        lambda at: r.Send(at.begin(), [item(f"{BETA},{ORDERS}")])),
    Row(r.Send, "to a queue of the queue manager's own", "send@dead",
        lambda at: r.Send(0, [item(DEAD)]), answers="unsupported-format-name"),
    Row(r.Commit, "", ANYONE, lambda at: r.Commit(at.begin())),
    Row(r.Commit, "with messages", "send@orders", lambda at: r.Commit(0, [item()])),
    Row(r.Commit, "of a transaction, with messages", "send@orders",
        lambda at: r.Commit(at.begin(), [item()]), refused="send-failed"),
    Row(r.AskOutcome, "", ANYONE, lambda at: r.AskOutcome(TransactionId(bytes(15) + b"1", 1))),
)  # fmt: skip


def _receive(what: str, needs: str, queue: str = ORDERS, **more: Any) -> Row:
    return Row(
        r.Receive, what, needs, lambda at: r.Receive(queue, **more),
        _BEFORE.get(queue, _nothing),
    )  # fmt: skip


def _claimed(at: Attempt) -> int:
    """A transaction that has taken the message, or has tried to."""
    tx = at.begin()
    at.ask(r.Claim(ORDERS, tx, [(at.lookup, at.lookup)]))
    return tx


_TOP: Final = (1).to_bytes(4, "little")

RECEIVES: Final = (
    _receive("", "receive@orders"),
    _receive("in a subqueue", "receive@orders", LATER),
    _receive("peek at headers", "peek@orders", peek=True, pick=PickBy.HEADS),
    _receive("peek without bodies", "peek@orders", peek=True, pick=PickBy.BODILESS),
    _receive("peek", "peek-body@orders", peek=True),
    _receive("peek at the first bytes", "peek-body@orders", peek=True, pick=PickBy.TOPS,
             value=_TOP),
    _receive("peek at one by its correlation", "peek-body@orders", peek=True,
             pick=PickBy.CORRELATION, value=bytes(20)),
    _receive("peek at one by its identifier", "peek-body@orders", peek=True,
             pick=PickBy.MESSAGE, value=bytes(20)),
    _receive("from a journal", "journal@orders", JOURNAL),
    _receive("peek at a journal", "journal@orders", JOURNAL, peek=True),
    _receive("dead letters", "operate", DEAD),
    _receive("peek at headers of dead letters", "monitor", DEAD, peek=True, pick=PickBy.HEADS),
    _receive("peek at dead letters without bodies", "monitor", DEAD, peek=True,
             pick=PickBy.BODILESS),
    _receive("peek at dead letters", "operate", DEAD, peek=True),
    _receive("peek at headers in an outgoing queue", "monitor", BETA, peek=True,
             pick=PickBy.HEADS),
    _receive("peek in an outgoing queue", "operate", BETA, peek=True),
    Row(r.CancelReceive, "", ANYONE, lambda at: r.CancelReceive(1)),
    Row(r.Remove, "", "receive@orders", lambda at: r.Remove(ORDERS, 0, at.lookup, at.lookup)),
    Row(r.TakeRead, "", "receive@orders",
        lambda at: r.TakeRead(ORDERS, 0, at.lookup, at.lookup, reader="reader")),
    Row(r.ForgetReader, "", "receive@orders", lambda at: r.ForgetReader(ORDERS, "reader"), _read),
    Row(r.Claim, "", "receive@orders",
        lambda at: r.Claim(ORDERS, at.begin(), [(at.lookup, at.lookup)])),
    Row(r.Fetch, "", "receive@orders",
        lambda at: r.Fetch(ORDERS, _claimed(at), at.lookup, at.lookup)),
    Row(r.Reject, "", "receive@orders", lambda at: r.Reject(ORDERS, _claimed(at), [at.lookup])),
    Row(r.MoveMessage, "to a subqueue", "receive@orders",
        lambda at: r.MoveMessage(ORDERS, LATER, at.lookup)),
)  # fmt: skip


# ---- branches ----------------------------------------------------------------------------------


def _prepared(at: Attempt) -> None:
    """A branch that sends to orders."""
    tx = at.number()
    at.admin(r.StartBranch(tx, at.xid))
    at.admin(r.Send(tx, [item()]))
    at.admin(r.PrepareBranch(at.xid, tx))


def _begun(at: Attempt) -> None:
    """The same, which has not ended."""
    tx = at.number()
    at.admin(r.StartBranch(tx, at.xid))
    at.admin(r.Send(tx, [item()]))
    at.admin(r.EndBranch(tx, at.xid))


def _by_hand(at: Attempt) -> None:
    _prepared(at)
    at.admin(r.CommitBranch(at.xid, by_hand=True))


def _suspended(at: Attempt) -> None:
    tx = at.number()
    at.admin(r.StartBranch(tx, at.xid))
    at.admin(r.EndBranch(tx, at.xid, Leave.SUSPEND))


def _decided(at: Attempt) -> None:
    """A decision of the administrator's, which he is telling."""
    tx = at.number()
    at.admin(r.Begin(tx))
    at.enlist(tx, at.admin)
    at.admin(r.Commit(tx))


def _done(at: Attempt, answer: Any) -> None:
    at.admin(r.DecisionDone(at.gtrid))


def _is_done(at: Attempt, answer: Any) -> None:
    assert at.admin(r.AskDecision(at.gtrid)) is DecisionState.ABORTED, "nothing is on record of it"


def _decides(at: Attempt) -> None:
    """A promise with no work of its own, which decides for a partner."""
    tx = at.number()
    at.admin(r.Begin(tx))
    at.enlist(tx, at.admin)
    at.admin(r.Promise(tx, at.by_row()))


def _end_deciding(at: Attempt, answer: Any) -> None:
    _end_branch(at, answer)
    _done(at, answer)


def _rows_decide(at: Attempt) -> None:
    """A row of a database has decided a branch of the administrator."""
    _decides(at)
    at.admin(r.CommitBranch(at.xid))
    at.admin(r.DecisionDone(at.gtrid))


def _by_another_row(at: Attempt) -> r.Promise:
    """Of the same database."""
    at.xid = xid_by_row(at.manager.guid, at.number(), at.base)
    return r.Promise(0, at.xid, [item()])


def _anchor(at: Attempt, ask: Callable[[Request], object]) -> Xid:
    """A branch with nothing in it, which stands for those at another queue manager."""
    at.group_branch(ask)
    at.xid = Xid(at.xid.format_id, at.xid.gtrid, b"group.for." + bytes(16).hex().encode())
    tx = at.number()
    ask(r.StartBranch(tx, at.xid))
    ask(r.PrepareBranch(at.xid, tx))
    return at.xid


def _anchored(at: Attempt) -> None:
    _anchor(at, at.admin)


def _own_group(at: Attempt) -> r.CommitGroup:
    xid = _anchor(at, at.ask)
    return r.CommitGroup("app", "", at.number(), at.prefix, [xid])


def _still_prepares(at: Attempt, answer: Any) -> None:
    """What others prepare of the batch is not given up."""
    _prepared(at)
    assert at.admin(r.RollbackGroup(at.prefix)) == 1


def _end_branch(at: Attempt, answer: Any) -> None:
    at.admin(r.RollbackBranch(at.xid, by_hand=True))
    at.admin(r.ForgetBranch(at.xid))


def _started(at: Attempt) -> int:
    tx = at.number()
    at.ask(r.StartBranch(tx, at.xid))
    return tx


def _prepared_group(at: Attempt) -> None:
    at.group_branch()
    _prepared(at)


def _committed_group(at: Attempt) -> None:
    _prepared_group(at)
    at.admin(r.CommitGroup("app", "", at.number(), at.prefix, [at.xid]))


def _own_name(at: Attempt) -> r.ForgetGroup:
    at.group_branch()
    at.ask(r.CommitGroup("app", "", at.number(), at.prefix, []))
    return r.ForgetGroup("app")


def _is_left(at: Attempt, answer: Any) -> None:
    """What the administrator has prepared is there; who decides it for all is the account that runs
    the manager."""
    at.admin(r.ForgetGroup("app"))
    assert at.admin(r.RollbackGroup(at.prefix)) == 1


def _end_group(at: Attempt, answer: Any) -> None:
    at.admin(r.RollbackGroup(at.prefix))
    at.admin(r.ForgetGroup("app"))


def _end_anchored(at: Attempt, answer: Any) -> None:
    _end_group(at, answer)
    at.admin(r.DecisionDone(at.xid.gtrid))


BRANCHES: Final = (
    Row(r.StartBranch, "", NAMED, lambda at: r.StartBranch(at.number(), at.xid),
        after=_end_branch),
    Row(r.StartBranch, "that others have begun", "send@orders",
        lambda at: r.StartBranch(at.number(), at.xid, Join.JOIN), _begun, after=_end_branch),
    Row(r.EndBranch, "", NAMED, lambda at: r.EndBranch(_started(at), at.xid), after=_end_branch),
    Row(r.EndBranch, "that others have suspended", "operate",
        lambda at: r.EndBranch(0, at.xid, Leave.FAIL), _suspended, after=_end_branch),
    Row(r.PrepareBranch, "with messages", "send@orders",
        lambda at: r.PrepareBranch(at.xid, _started(at), [item()]), after=_end_branch,
        refused="send-failed"),
    Row(r.PrepareBranch, "that others have begun", "send@orders",
        lambda at: r.PrepareBranch(at.xid), _begun, after=_end_branch),
    Row(r.CommitBranch, "", "send@orders", lambda at: r.CommitBranch(at.xid), _prepared,
        after=_end_branch),
    Row(r.RollbackBranch, "", "send@orders", lambda at: r.RollbackBranch(at.xid), _prepared,
        after=_end_branch),
    Row(r.CommitBranch, "that decides for others", "operate",
        lambda at: r.CommitBranch(at.xid), _decides, after=_end_deciding),
    Row(r.RollbackBranch, "that decides for others", "operate",
        lambda at: r.RollbackBranch(at.xid), _decides, after=_end_deciding),
    Row(r.CommitBranch, "by hand", "operate", lambda at: r.CommitBranch(at.xid, by_hand=True),
        _prepared, after=_end_branch),
    Row(r.RollbackBranch, "by hand", "operate",
        lambda at: r.RollbackBranch(at.xid, by_hand=True), _prepared, after=_end_branch),
    Row(r.ForgetBranch, "", "operate", lambda at: r.ForgetBranch(at.xid), _by_hand,
        after=_end_branch),
    Row(r.Promise, "with messages", "send@orders",
        lambda at: r.Promise(0, at.by_row(), [item()]), after=_end_branch),
    Row(r.Promise, "by a row of a database whose rows decide for another",
        "send@orders & send@rows | operate", _by_another_row, _rows_decide, after=_end_branch),
    Row(r.Enlist, "", NAMED, lambda at: r.Enlist(at.begin(), "partner")),
    Row(r.AskDecision, "", NAMED, lambda at: r.AskDecision(at.gtrid)),
    Row(r.AskRows, "", NAMED, lambda at: r.AskRows("sqlite:x")),
    Row(r.AskRows, "of a database whose rows decide for another", "send@rows | operate",
        lambda at: r.AskRows(at.base), _rows_decide),
    Row(r.AskRows, "that accept a restored database of another", "operate",
        lambda at: r.AskRows(at.base, -1), _rows_decide),
    Row(r.LeaveDecision, "", NAMED, lambda at: r.LeaveDecision(at.decides()), after=_done),
    Row(r.LeaveDecision, "of another", "operate", lambda at: r.LeaveDecision(at.gtrid), _decided,
        after=_done),
    Row(r.DecisionDone, "", NAMED, lambda at: r.DecisionDone(at.decides()), after=_is_done),
    Row(r.DecisionDone, "of another", "operate", lambda at: r.DecisionDone(at.gtrid), _decided,
        after=_done),
    Row(r.BeginAttempt, "", NAMED, lambda at: at.attempt()),
    Row(r.CommitGroup, "of one's own branches, with nothing in them", NAMED,
        _own_group, after=_end_anchored),
    Row(r.CommitGroup, "of branches that others have prepared", "send@orders & operate",
        lambda at: r.CommitGroup("app", "", at.number(), at.prefix, [at.xid]), _prepared_group,
        after=_end_group),
    Row(r.CommitGroup, "without branches that others have prepared, which stay", NAMED,
        lambda at: r.CommitGroup("app", "", at.number(), at.prefix, []),
        _prepared_group, after=_is_left),
    Row(r.CommitGroup, "under the name of somebody else's application", "operate",
        lambda at: r.CommitGroup("app", "", at.number(), at.prefix, []), _committed_group,
        after=_end_group),
    Row(r.RollbackGroup, "in which others have prepared branches, which stay", NAMED,
        lambda at: r.RollbackGroup(at.prefix), _prepared_group, after=_is_left),
    Row(r.RollbackGroup, "for good, before others have prepared anything", NAMED,
        lambda at: r.RollbackGroup(at.prefix, True), lambda at: at.group_branch(),
        after=_still_prepares),
    Row(r.CommitGroup, "of what stands for branches elsewhere", "operate",
        lambda at: r.CommitGroup("app", "", at.number(), at.prefix, [at.xid]), _anchored,
        after=_end_anchored),
    Row(r.ForgetGroup, "", NAMED, _own_name, after=_end_group),
    Row(r.ForgetGroup, "of another", "operate", lambda at: r.ForgetGroup("app"),
        _committed_group, after=_end_group),
)  # fmt: skip


# ---- operators ---------------------------------------------------------------------------------


def _steer(action: Steer, destination: str = "", **more: Any) -> Row:
    return Row(
        r.SteerOutgoing, action.value, "operate",
        lambda at: r.SteerOutgoing(destination, action), _send_beta, _steer_back, **more,
    )  # fmt: skip


def _steer_back(at: Attempt, answer: Any) -> None:
    at.admin(r.SteerOutgoing(BETA, Steer.RESUME))
    at.admin(r.SteerOutgoing("", Steer.CONNECT))


def _let_go(at: Attempt, answer: Any) -> None:
    if hasattr(answer, "number"):
        at.ask(r.HoldLog(Grip.END, answer.number))


def _token(at: Attempt) -> None:
    at.admin(r.CreateToken("another"))


def _no_token(at: Attempt, answer: Any) -> None:
    at.admin(r.RevokeToken("another"))


def _job(at: Attempt) -> int:
    """Of the administrator, and over: nothing changes while somebody looks at it."""
    made: Any = at.admin(r.StartJob("purge", [DEAD]))
    at.admin(r.CancelJob(made.number))
    return int(made.number)


def _over(at: Attempt) -> None:
    at.lookup = _job(at)


def _no_job(at: Attempt, answer: Any) -> None:
    at.admin(r.CancelJob(answer.number))


def _rights(
    what: str, needs: str, words: Sequence[str], pattern: str, *, take: bool = False
) -> Row:  # fmt: skip
    def undo(at: Attempt, answer: Any) -> None:
        at.admin(r.SetRights("token:other", words, pattern, True))

    return Row(
        r.SetRights, what, needs, lambda at: r.SetRights("token:other", words, pattern, take),
        after=undo,
    )  # fmt: skip


def _to_let_others(what: str, needs: str, pattern: str) -> Row:
    row = _rights(what, needs, ["send"], pattern)
    return replace(row, before=_rented)


def _everywhere(what: str, *, take: bool) -> Row:
    def ask(*, take: bool) -> Request:
        return r.SetRights("certificate:everywhere", ["send"], KEY, take, everywhere=True)

    def undo(at: Attempt, answer: Any) -> None:
        at.admin(ask(take=True))

    return Row(r.SetRights, what, "administer", lambda at: ask(take=take), after=undo)


OPERATORS: Final = (
    *(_steer(action, BETA) for action in (Steer.PAUSE, Steer.RESUME, Steer.RESEND)),
    _steer(Steer.RELEASE, ORDERS),
    *(_steer(action) for action in (
        Steer.DISCONNECT, Steer.CONNECT, Steer.TIDY, Steer.FORGET_UNANSWERED, Steer.RELOAD,
        Steer.DROP_DAMAGED, Steer.SCRUB, Steer.SCRUB_STOP)),
    Row(r.ResetStream, "", "operate", lambda at: r.ResetStream(ORDERS, "gamma", "why"),
        answers="queue-not-found"),
    Row(r.ForgetPeer, "", "operate", lambda at: r.ForgetPeer("os:gamma"),
        answers="queue-not-found"),
    Row(r.AcceptClock, "", "operate", lambda at: r.AcceptClock("gamma", "why"),
        answers="queue-not-found"),
    Row(r.HoldLog, "", "operate", lambda at: r.HoldLog(Grip.BEGIN), after=_let_go,
        socket_only=True),
    Row(r.EditDirectory, "", "administer", lambda at: r.EditDirectory("create", "everybody"),
        after=lambda at, answer: _drop(at)),
    _rights("give a right to a queue", "set-rights@orders & send@orders", ["send"], KEY),
    _rights("take one", "set-rights@orders", ["send"], KEY, take=True),
    _rights("give the right to make queues", "administer", ["create"], KEY),
    _rights("give one over the whole queue manager", "administer", ["monitor"], ""),
    _everywhere("give one in the directory", take=False),
    _everywhere("take one in the directory", take=True),
    Row(r.ExplainRight, "about oneself", NAMED, lambda at: r.ExplainRight("", "send", KEY)),
    Row(r.ExplainRight, "about others", "monitor",
        lambda at: r.ExplainRight("token:other", "send", KEY)),
    Row(r.CreateToken, "", "administer", lambda at: r.CreateToken("another"), after=_no_token),
    Row(r.RevokeToken, "", "administer", lambda at: r.RevokeToken("another"), _token,
        after=_no_token),
    Row(r.StartJob, "return dead letters", "operate",
        lambda at: r.StartJob("return", [DEAD]), after=_no_job),
    Row(r.StartJob, "to another queue", "operate & send@orders",
        lambda at: r.StartJob("return", [DEAD], ORDERS), after=_no_job),
    Row(r.StartJob, "move what is in a queue", "receive@orders & send@beta",
        lambda at: r.StartJob("move", [ORDERS], BETA), after=_no_job),
    Row(r.StartJob, "purge a queue", "receive@orders | operate",
        lambda at: r.StartJob("purge", [ORDERS]), after=_no_job),
    Row(r.StartJob, "send what is in a queue as new", "peek-body@orders",
        lambda at: r.StartJob("send-as-new", [ORDERS]), after=_no_job),
    Row(r.CancelJob, "of another one", "operate", lambda at: r.CancelJob(at.lookup),
        _over),
)  # fmt: skip


def _drop(at: Attempt) -> None:
    at.admin(r.EditDirectory("drop", "everybody"))


TENANTS_RIGHTS: Final = (
    _to_let_others("give a right to the tenant's queue", "set-rights@tenant & send@tenant",
                   r"private$\app-[*]"),
    _to_let_others("give a right to all queues under the tenant's pattern",
                   "set-rights@tenants & send@tenants", TENANTS_KEY),
    _to_let_others("give a right to its neighbour",
                   "set-rights@neighbour & send@neighbour", r"private$\app-neighbour"),
)  # fmt: skip


# ---- looks -------------------------------------------------------------------------------------


def _look(
    look: looks.LookEntry[Any], needs: str, name: str = "", what: str = "", **more: Any
) -> Row:  # fmt: skip
    said = f"{look.what}{', ' if what else ''}{what}"
    return Row(r.Look, said, needs, lambda at: r.Look(look.what, name), _send_beta, **more)


_QUEUE = "get-properties@orders | monitor"

LOOKS: Final = (
    _look(looks.QUEUE, _QUEUE, ORDERS),
    _look(looks.READERS, _QUEUE, ORDERS, "of a queue"),
    _look(looks.READERS, "monitor", what="of all queues"),
    _look(looks.CONSUMERS, _QUEUE, ORDERS, "one's own without monitor"),
    _look(looks.RANGE, "peek@orders", RangeAsked(ORDERS, 0, 1 << 62).text()),
    _look(looks.RIGHTS, "get-rights@orders | monitor", KEY, "of a queue"),
    _look(looks.RIGHTS, NAMED, what="one's own"),
    _look(looks.TOKENS, "administer"),
    *(_look(look, "monitor") for look in (
        looks.STATUS, looks.OUTGOING, looks.STREAMS, looks.PEERS, looks.DAMAGES, looks.SCRUB,
        looks.METRICS, looks.SETTINGS, looks.TRAIL_END, looks.WAITING)),
    *(_look(look, "monitor", "0") for look in (
        looks.TRAIL,)),
    _look(looks.QUEUES, NAMED, what="those that one may look at"),
    _look(looks.TRANSACTIONS, NAMED, what="one's own"),
    _look(looks.JOBS, NAMED, what="one's own"),
    Row(r.Look, "job, of another one", "monitor",
        lambda at: r.Look(looks.JOB.what, str(at.lookup)), _over),
    _look(looks.OUTGOING_QUEUE, "monitor", BETA),
    _look(looks.EOD_SEND, "monitor", BETA),
    _look(looks.EOD_RECEIVE, "monitor", ORDERS),
    _look(looks.MANAGEMENT, "monitor", ORDERS),
    _look(looks.LISTS, NAMED),
    _look(looks.BRANCHES, NAMED, what="those of others without what they do"),
    _look(looks.DECISIONS, NAMED, what="one's own"),
    _look(looks.GROUPS, NAMED, what="one's own"),
    _look(looks.LIST, NAMED, "nobody", answers="queue-not-found"),
    _look(looks.COPIES, NAMED, "public", answers="queue-not-found"),
    _look(looks.EXPLAIN_NAME, NAMED, ORDERS, what="where others are only with *monitor*"),
)  # fmt: skip

PARTS: Final = {
    "Queues": QUEUES,
    "Queues under a tenant's pattern": (*TENANTS, *TENANTS_RIGHTS),
    "Sending": SENDS,
    "Receiving": RECEIVES,
    "Transactions with others": BRANCHES,
    "Operators and administrators": OPERATORS,
    "Looking": LOOKS,
}
"""The rows, as the page has them."""
ROWS: Final = tuple(row for part in PARTS.values() for row in part)
NAMES: Final = {row.name: row for row in ROWS}
