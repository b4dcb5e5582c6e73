"""What a queue manager counts: for metrics, by whatever system they are read.

Counters begin at 0 with each start of the process, but for what destinations have refused, which is
durable; everything else is the present state. Ages are
seconds from now, 0 where there is nothing, and sizes are bytes. ``onceq.exposition`` names them for
Prometheus.
"""

from __future__ import annotations

from typing import Final

from onceq.model.record import field
from onceq.model.views.view import View

PER_QUEUE: Final = "queues"
"""Name of the look at these that tells of each queue, too."""


class Durations(View, frozen=True):
    """How long something took, each time since the start: a histogram.

    Attributes:
        bounds: Upper bounds of the classes in seconds, without the last, which has none.
        counts: How often it took so long, by class: one more than there are bounds.
        total_s: All of it together.
    """

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    total_s: float = 0.0


class QueueMetrics(View, frozen=True):
    """One queue of applications, or one of their subqueues.

    Attributes:
        name: With the name of a subqueue (``orders;retry``).
        messages: All that it holds, those that transactions hold included.
        bytes: Of its messages.
        oldest_age_s: Since when the oldest message in it is there.
        quota_ratio: How much of its quota is used; 0: it has none.
    """

    name: str = ""
    messages: int = 0
    bytes: int = 0
    oldest_age_s: int = 0
    quota_ratio: float = 0.0


class OutgoingMetrics(View, frozen=True):
    """All outgoing queues to one other queue manager.

    Attributes:
        peer: Its name as senders write it, or its GUID; "(others)" stands for all for which there
            was no room.
        states: How many outgoing queues are in which state (Q-40).
        messages: All that they hold.
        unacknowledged: Of these, transactional ones without an order acknowledgment.
        bytes: Of all.
        oldest_age_s: Since when the oldest one waits that the other manager does not have yet.
        refused: How many it did not take, by class, since this queue manager first sent there.
    """

    peer: str = ""
    states: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    unacknowledged: int = 0
    bytes: int = 0
    oldest_age_s: int = 0
    refused: dict[str, int] = field(default_factory=dict)


class MetricsView(View, frozen=True):
    """The metrics of a queue manager.

    Attributes:
        name: Its computer name.
        id: Its GUID.
        version: Of onceq.
        impl: What runs it, such as ``cpython-3.12``.
        sent: Messages that applications have sent; one to several destinations counts once.
        accepted: Messages that came in streams from other queue managers and were accepted.
        received: Messages that applications have received for good.
        returned: Messages that transactions had received and gave back.
        acknowledged: Messages that other queue managers have taken over.
        resent: Messages that were transmitted once more.
        ended: Messages that ended otherwise than by being received here or handed over, by class.
        refused: Requests that were refused, by the code of the error.
        reports_dropped: Trace reports that no report queue has taken.
        disbelieved: What other queue managers said that does not count, by what it was.
        turned_away: Connections that were not let in, by kind.
        queues: How many there are, those of the system not counted.
        queues_paused: Those of them that an operator has paused.
        queues_failing: Those of which a consumer says that it can handle no message.
        clashes: Identities, its own or others', that two queue managers use.
        directory_away: Whether it has a directory that it cannot read.
        trail_untold: Whether acts of administration wait that are to be told outside.
        trail_lost: Acts that went before they were told.
        messages: How many are in them.
        bytes: Of all messages that the manager holds, wherever.
        oldest_age_s: Of the oldest message in any of them.
        journal_messages: How many are in journals.
        dead_letters: Messages in the dead-letter queue.
        transactional_dead_letters: Messages in the transactional dead-letter queue.
        poison_messages: Messages that policies have moved aside, because their receives
            were aborted too often.
        damaged_messages: Those that were set aside because their stored bytes are damaged.
        doubts: Messages of which it is not known whether they arrived.
        waiting_readers: Receives and peeks that wait for a message.
        outgoing: Where messages go, by other queue manager.
        sessions: Connections with other queue managers.
        transactions: Those that are open.
        in_doubt: Branches that are prepared and not decided.
        in_doubt_oldest_age_s: Since when the oldest of them is.
        jobs_running: Jobs that are not over.
        jobs_waiting: Those of them that cannot go on now.
        quota_ratio: How much of the quota of the computer is used.
        queue_quota_ratio: How much the fullest queue has used of its own quota.
        offline: Whether an operator has disconnected it.
        space_low: Whether the reserve of its disk is reached: sends are refused.
        certificate_ends: Until when (seconds since 1970) its certificate is good; 0: it has none.
        commits: From when a turn of work began until all that it decided was durable: what each
            commit in it has waited, one entry for all of them.
        syncs: Waits for the disk, of these.
        log_position: Where its log ends: bytes that were ever written to it.
        store_bytes: What it takes on its disk, by kind: log, ready, checkpoint.
        disk_free: What is left for it.
        per_queue: Its queues, if they were asked for; those with the oldest messages if they are
            too many.
        left_out: How many queues are not among these.
        started: When it was started (seconds since 1970); 0: an older one, which does not say it.
    """

    name: str = ""
    id: str = ""
    version: str = ""
    impl: str = ""
    sent: int = 0
    accepted: int = 0
    received: int = 0
    returned: int = 0
    acknowledged: int = 0
    resent: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    reports_dropped: int = 0
    disbelieved: dict[str, int] = field(default_factory=dict)
    turned_away: dict[str, int] = field(default_factory=dict)
    queues: int = 0
    queues_paused: int = 0
    queues_failing: int = 0
    clashes: int = 0
    directory_away: bool = False
    trail_untold: bool = False
    trail_lost: int = 0
    messages: int = 0
    bytes: int = 0
    oldest_age_s: int = 0
    journal_messages: int = 0
    dead_letters: int = 0
    transactional_dead_letters: int = 0
    poison_messages: int = 0
    damaged_messages: int = 0
    doubts: int = 0
    waiting_readers: int = 0
    outgoing: tuple[OutgoingMetrics, ...] = ()
    sessions: int = 0
    transactions: int = 0
    in_doubt: int = 0
    in_doubt_oldest_age_s: int = 0
    jobs_running: int = 0
    jobs_waiting: int = 0
    quota_ratio: float = 0.0
    queue_quota_ratio: float = 0.0
    offline: bool = False
    space_low: bool = False
    certificate_ends: int = 0
    commits: Durations = Durations()
    syncs: Durations = Durations()
    log_position: int = 0
    store_bytes: dict[str, int] = field(default_factory=dict)
    disk_free: int = 0
    per_queue: tuple[QueueMetrics, ...] = ()
    left_out: int = 0
    started: int = 0
