"""What may be looked at, and the views of work in progress: jobs, branches, decisions, groups.

Times are seconds since 1970 UTC.

Also here:

* Which view answers which look: one table for the core, the connections and the client library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Generic, TypeVar

from onceq.model.record import Record, field
from onceq.model.views.managers import (
    ActView,
    DamageView,
    GrantView,
    ListView,
    NameView,
    PeerView,
    ScrubView,
    SettingView,
    StatusView,
    TokenView,
    TrailView,
    TransactionView,
)
from onceq.model.views.queues import (
    ConsumerView,
    ManagementValue,
    OutgoingView,
    QueueView,
    RangeView,
    ReaderView,
    ReceiveInfo,
    SendInfo,
    StreamView,
    WaitingView,
)
from onceq.model.views.view import Column, MetricsView, Page, View

# ---- work ----------------------------------------------------------------------------------------


class BranchView(View, frozen=True):
    """One branch, for operators and coordinators.

    Attributes:
        xid: Identifier of the branch.
        phase: Its state: active, suspended, ended, prepared, committed by hand, or
            rolled back by hand.
        since: When it was prepared, or begun.
        messages: Messages that it sends.
        bytes: Size of their bodies.
        received: Messages that it has received and holds.
        queues: Those from which it has received.
        destinations: Names to which it sends.
        number: Of this manager, once it is prepared.
        agent: The database whose row decides it; empty: none does.
        at_work: Whether the application that has prepared it for such a row is still connected.
    """

    xid: Annotated[str, Column("branch")] = ""
    phase: Annotated[str, Column("here")] = ""
    since: Annotated[int, Column("for", "since", leaves=1, empty="")] = 0
    messages: Annotated[int, Column("sends", leaves=2)] = 0
    bytes: int = 0
    received: Annotated[int, Column("holds", leaves=3)] = 0
    queues: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    number: int = 0
    agent: str = ""
    at_work: bool = False


class DecisionView(View, frozen=True):
    """A transaction that this queue manager has decided to commit, and that has partners to be
    told.

    Attributes:
        gtrid: Global identifier of the transaction.
        since: When it was decided.
        partners: Names of the partners that are still to be told, as they were enlisted.
    """

    gtrid: Annotated[str, Column("decided to commit")] = ""
    since: Annotated[int, Column("since", "moment")] = 0
    partners: Annotated[tuple[str, ...], Column("partners still to be told")] = ()


class RowsView(View, frozen=True):
    """What a queue manager has seen of the rows of a last agent.

    Attributes:
        agent: Its name.
        kept: Up to which number nothing is looked for but what is ``late``; 0: nothing is known.
        mark: Up to which number rows are to be looked for now; 0: none are.
        count: How many with numbers above ``kept``, up to ``mark``, must be there, besides those of
            ``open`` and ``late``.
        open: Numbers of branches that are prepared: whether these have rows is not known.
        late: Numbers of rows up to ``mark``, or ``kept``, that must be there, each of them.
        note: Number of the note that must be there; 0: none is known.
        missing: Whether somebody looked and did not find all of it: the database was set back, and
            takes part in nothing until an operator accepts it.
    """

    agent: str = ""
    kept: int = 0
    mark: int = 0
    count: int = 0
    open: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    note: int = 0
    missing: bool = False


class GroupView(View, frozen=True):
    """The last group of branches that an application has committed.

    Attributes:
        app: Name of the application.
        query: Identifier of its run; "": it gave none.
        version: Number of the batch.
        since: When that batch was committed.
        left: Branches of later attempts at the same batch that are still prepared.
    """

    app: Annotated[str, Column("application")] = ""
    query: Annotated[str, Column("query", empty="")] = ""
    version: Annotated[int, Column("last version")] = 0
    since: Annotated[int, Column("ago", "since")] = 0
    left: int = 0


class GroupResult(View, frozen=True):
    """What became of a group of branches.

    Attributes:
        already: Whether its version had been committed before: nothing was sent now.
        messages: How many were sent now.
        rolled_back: Prepared branches of other attempts at the batch, which were rolled back.
    """

    already: bool = False
    messages: int = 0
    rolled_back: int = 0


class JobFailure(View, frozen=True):
    """A message to which a job could not do what it was to do; it stands where it stood.

    Attributes:
        queue: The queue that it is in.
        lookup_id: Its lookup identifier there.
        id: Message identifier.
        code: Code of the error.
        text: Text of the error.
    """

    queue: str = ""
    lookup_id: int = 0
    id: str = ""
    code: str = ""
    text: str = ""


class JobView(View, frozen=True):
    """A job: what it is to do, and how far it is.

    Messages that were looked at, and are in none of ``done``, ``kept``, ``gone`` and ``failed``, do
    not fit ``which``.

    Attributes:
        number: Number of the job; each has the next one.
        action: return, purge, move or send-as-new.
        state: running, done, cancelled or failed.
        queues: Queues whose messages it looks at.
        to: Destination of all; "": each goes to its own.
        which: What was said of the messages that are meant, by name; what was not said is absent.
        limit: Messages after which it ends; 0: none.
        who: Who started it, as ``kind:name``; "": the account that runs the queue manager.
        began: When it began (seconds since 1970).
        ended: When it ended; 0: it runs.
        total: Messages that stood there when it began.
        looked: Messages that it has looked at so far.
        done: Messages with which it has done its action.
        kept: Messages that it leaves in place, by the reason.
        gone: Messages that somebody else had taken before their turn.
        failed: Messages with which it could not do its action.
        more: Whether there were more than ``limit``.
        failures: The first of those that failed; where many jobs are listed they are left out.
        why: Of a job that failed or was cancelled: why, or by whom.
        trouble: What a running job waits for; "" if it goes on.
        torn: Of those that are done, how many were sent without others of the transaction that had
            sent them: nobody is given them as a whole one (``receive_transaction``).
        held: Messages of its queues that transactions hold now: a job passes over what is held.
            Left out where many jobs are listed.
    """

    number: Annotated[int, Column("job")] = 0
    action: Annotated[str, Column("action")] = ""
    queues: Annotated[tuple[str, ...], Column("queues", "name", leaves=5, empty="")] = ()
    state: Annotated[str, Column("state")] = ""
    looked: Annotated[int, Column("looked")] = 0
    total: Annotated[int, Column("total", leaves=3)] = 0
    done: Annotated[int, Column("done")] = 0
    kept: Annotated[dict[str, int], Column("kept", "count", leaves=4)] = field(default_factory=dict)
    failed: Annotated[int, Column("failed")] = 0
    began: Annotated[int, Column("began", "moment", leaves=2)] = 0
    who: Annotated[str, Column("by", leaves=1)] = ""
    to: str = ""
    which: dict[str, str | int | bool] = field(default_factory=dict)
    limit: int = 0
    ended: int = 0
    gone: int = 0
    more: bool = False
    failures: tuple[JobFailure, ...] = ()
    why: str = ""
    trouble: str = ""
    torn: int = 0
    held: int = 0

    @property
    def over(self) -> bool:
        """Whether nothing more is done."""
        return self.state not in ("", "running")


# ---- looks ---------------------------------------------------------------------------------------
#
# A `Look` is the word that crosses a connection, with the type of its answer. The core's table
# of looks, the decoding of answers and the client's methods take theirs from here, so that all
# three agree and a type checker sees it.


T_co = TypeVar("T_co", covariant=True)


class LookEntry(Record, Generic[T_co], frozen=True):
    """Something to look at.

    Attributes:
        what: The word for it.
        kind: Type of the answer.
    """

    what: str
    kind: type[T_co]


STATUS: Final = LookEntry("status", StatusView)
QUEUES: Final = LookEntry("queues", Page[QueueView])
"""A page of the queues, subqueues and system queues among them, by ``number``, ``name``,
``messages``, ``bytes`` or ``oldest``: all, or only those that are ``used`` (no empty system queue),
``busy`` (something is in it, or it is paused), or hold ``poison``."""
QUEUE: Final = LookEntry("queue", QueueView)
RANGE: Final = LookEntry("range", RangeView)
"""The content of a range of places (``model/views/queues.py`` says how to ask for it)."""
READERS: Final = LookEntry("readers", Page[ReaderView])
"""Readers that have removed what they had read of a queue; of all queues if none is named."""
CONSUMERS: Final = LookEntry("consumers", list[ConsumerView])
"""Who works on a queue now: waits at it, has it open, or holds messages of it."""
OUTGOING: Final = LookEntry("outgoing", Page[OutgoingView])
"""A page of the outgoing queues, in the same orders or by the last time that something was
``refused``: all, or only those that are ``busy``, ``stuck``, have ``refused`` something lately, or
are ``unanswered``."""
OUTGOING_QUEUE: Final = LookEntry("outgoing-queue", OutgoingView)
STREAMS: Final = LookEntry("streams", Page[StreamView])
PEERS: Final = LookEntry("peers", Page[PeerView])
EOD_SEND: Final = LookEntry("eod-send", SendInfo)
EOD_RECEIVE: Final = LookEntry("eod-receive", list[ReceiveInfo])
LISTS: Final = LookEntry("lists", Page[ListView])
LIST: Final = LookEntry("list", ListView)
COPIES: Final = LookEntry("copies", list[str])
EXPLAIN_NAME: Final = LookEntry("explain-name", list[NameView])
MANAGEMENT: Final = LookEntry("management", dict[str, ManagementValue])
BRANCHES: Final = LookEntry("branches", list[BranchView])
DECISIONS: Final = LookEntry("decisions", list[DecisionView])
DAMAGES: Final = LookEntry("damages", Page[DamageView])
SCRUB: Final = LookEntry("scrub", ScrubView)
GROUPS: Final = LookEntry("groups", Page[GroupView])
TRANSACTIONS: Final = LookEntry("transactions", Page[TransactionView])
TRAIL: Final = LookEntry("trail", list[ActView])
"""The next acts of administration behind a number, some at once; none: that was the last."""
TRAIL_END: Final = LookEntry("trail-end", TrailView)
"""The digest of its last act, and what it holds of the trails of others."""
RIGHTS: Final = LookEntry("rights", Page[GrantView])
"""Who was given what; about one queue if one is named."""
TOKENS: Final = LookEntry("tokens", Page[TokenView])
JOBS: Final = LookEntry("jobs", list[JobView])
"""All that run or are remembered, the oldest first, without what failed."""
JOB: Final = LookEntry("job", JobView)
"""One of them."""
METRICS: Final = LookEntry("metrics", MetricsView)
"""What is counted; with the name PER_QUEUE each queue, too."""
WAITING: Final = LookEntry("waiting", WaitingView)
"""How much waits in the next queues behind a number, at one place of the log."""
SETTINGS: Final = LookEntry("settings", list[SettingView])
"""What the table ``[settings]`` of ``onceq.toml`` may say, as it holds now."""

LOOKS: Final[Mapping[str, LookEntry[object]]] = {
    look.what: look
    for look in (
        STATUS, QUEUES, QUEUE, OUTGOING, OUTGOING_QUEUE, STREAMS,
        PEERS, EOD_SEND, EOD_RECEIVE, LISTS, LIST, COPIES,
        EXPLAIN_NAME, MANAGEMENT, BRANCHES, DECISIONS, DAMAGES, SCRUB,
        GROUPS, TRANSACTIONS, RANGE, READERS, RIGHTS, TRAIL, TRAIL_END, TOKENS, JOBS, JOB, METRICS,
        SETTINGS, CONSUMERS, WAITING,
    )
}  # fmt: skip
"""All of them, by their words."""
