"""Which view answers which look: one table for the core, the connections and the client library.

A ``Look`` is the word that crosses a connection, with the type of its answer. The core's table of
looks, the decoding of answers and the client's methods take theirs from here, so that all three
agree and a type checker sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from onceq.model.record import Record
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
from onceq.model.views.metrics import MetricsView
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
from onceq.model.views.view import Page
from onceq.model.views.work import BranchView, DecisionView, GroupView, JobView

T_co = TypeVar("T_co", covariant=True)


class Look(Record, Generic[T_co], frozen=True):
    """Something to look at.

    Attributes:
        what: The word for it.
        kind: Type of the answer.
    """

    what: str
    kind: type[T_co]


STATUS: Final = Look("status", StatusView)
QUEUES: Final = Look("queues", Page[QueueView])
"""A page of the queues, subqueues and system queues among them, by ``number``, ``name``,
``messages``, ``bytes`` or ``oldest``: all, or only those that are ``used`` (no empty system queue),
``busy`` (something is in it, or it is paused), or hold ``poison``."""
QUEUE: Final = Look("queue", QueueView)
RANGE: Final = Look("range", RangeView)
"""What stands in a range of places (``model/views/queues.py`` says how it is asked for)."""
READERS: Final = Look("readers", Page[ReaderView])
"""Who has read a queue and removed what he had read; of all queues if none is named."""
CONSUMERS: Final = Look("consumers", list[ConsumerView])
"""Who works on a queue now: waits at it, has it open, or holds messages of it."""
OUTGOING: Final = Look("outgoing", Page[OutgoingView])
"""A page of the outgoing queues, in the same orders or by the last time that something was
``refused``: all, or only those that are ``busy``, ``stuck``, have ``refused`` something lately, or
are ``unanswered``."""
OUTGOING_QUEUE: Final = Look("outgoing-queue", OutgoingView)
STREAMS: Final = Look("streams", Page[StreamView])
PEERS: Final = Look("peers", Page[PeerView])
EOD_SEND: Final = Look("eod-send", SendInfo)
EOD_RECEIVE: Final = Look("eod-receive", list[ReceiveInfo])
LISTS: Final = Look("lists", Page[ListView])
LIST: Final = Look("list", ListView)
COPIES: Final = Look("copies", list[str])
EXPLAIN_NAME: Final = Look("explain-name", list[NameView])
MANAGEMENT: Final = Look("management", dict[str, ManagementValue])
BRANCHES: Final = Look("branches", list[BranchView])
DECISIONS: Final = Look("decisions", list[DecisionView])
DAMAGES: Final = Look("damages", Page[DamageView])
SCRUB: Final = Look("scrub", ScrubView)
GROUPS: Final = Look("groups", Page[GroupView])
TRANSACTIONS: Final = Look("transactions", Page[TransactionView])
TRAIL: Final = Look("trail", list[ActView])
"""The next acts of administration behind a number, some at once; none: that was the last."""
TRAIL_END: Final = Look("trail-end", TrailView)
"""The digest of its last act, and what it holds of the trails of others."""
RIGHTS: Final = Look("rights", Page[GrantView])
"""Who was given what; about one queue if one is named."""
TOKENS: Final = Look("tokens", Page[TokenView])
JOBS: Final = Look("jobs", list[JobView])
"""All that run or are remembered, the oldest first, without what failed."""
JOB: Final = Look("job", JobView)
"""One of them."""
METRICS: Final = Look("metrics", MetricsView)
"""What is counted; with the name PER_QUEUE each queue, too."""
WAITING: Final = Look("waiting", WaitingView)
"""How much waits in the next queues behind a number, at one place of the log."""
SETTINGS: Final = Look("settings", list[SettingView])
"""What the table ``[settings]`` of ``onceq.toml`` may say, as it holds now."""

LOOKS: Final[Mapping[str, Look[object]]] = {
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
