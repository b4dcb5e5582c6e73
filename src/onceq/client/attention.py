"""What an operator should look at, in sentences: ``onceq qm status`` and the overview of the
console say the same, because both take it from here (finding U5).

It also has the few words that tables of queues say in their column of notes.

Lists are looked at a page at a time: an overview names some of those that are held up, and how many
others there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypedDict

from onceq.client.why import clock, is_refusal, recent_refusals, stuck
from onceq.model.limits import CERTIFICATE_WARN_DAYS
from onceq.model.marks import DAY_S
from onceq.model.views.looks import BranchView
from onceq.model.views.managers import StatusView
from onceq.model.views.queues import QUOTA_WARN, OutgoingView, QueueView
from onceq.model.views.view import MetricsView, Page
from onceq.model.wording import plural

# ---- attention -----------------------------------------------------------------------------------


REFUSED: Final = {
    "nack-bad-destination-queue": "there is no such queue",
    "nack-queue-exceed-quota": "the quota of the queue was used up",
    "nack-access-denied": "the sender may not send there",
    "nack-not-transactional-queue": "they are transactional, and the queue is not",
    "nack-not-transactional-message": "the queue is transactional, and they are not",
}
"""Classes of messages that a queue does not take, and why, in a word."""


TROUBLES_SHOWN: Final = 20
"""Queues, or outgoing queues, that get a sentence each; of the others it is said how many there
are."""
REFUSALS_SHOWN: Final = 5
"""Destinations that are named because they have refused messages lately."""


class Wanted(TypedDict):
    """Which page of a list is needed."""

    only: str
    sort: str
    limit: int


PAUSED: Final = Wanted(only="paused", sort="messages", limit=TROUBLES_SHOWN)
FULL: Final = Wanted(only="full", sort="bytes", limit=TROUBLES_SHOWN)
"""Of queues."""
STUCK: Final = Wanted(only="stuck", sort="messages", limit=TROUBLES_SHOWN)
RECENTLY_REFUSED: Final = Wanted(only="refused", sort="refused", limit=REFUSALS_SHOWN)
"""Of outgoing queues."""


class Inspected(NamedTuple):
    """What was looked at.

    Attributes:
        paused, full: Pages of queues.
        stuck, refused: Pages of outgoing queues.
        branches: All that the one who looks may see.
    """

    status: StatusView
    metrics: MetricsView
    paused: Page[QueueView]
    full: Page[QueueView]
    stuck: Page[OutgoingView]
    refused: Page[OutgoingView]
    branches: Sequence[BranchView]


def held_up(seen: Inspected, now_s: float) -> list[str]:
    """What keeps messages from moving."""
    view, found = seen.status, []
    if view.offline_since:
        found.append(
            f"disconnected by an operator since {clock(view.offline_since)}: 'onceq qm connect' "
            "brings it back"
        )
    found += [
        f"two queue managers have the identity {one.name or one.id}: {one.found} (noticed since "
        f"{clock(one.since)}); end one of them"
        for one in view.clashes
    ]
    found += [
        f"{text} ({plural(count, 'time')} since the start)"
        for text, count in view.wrong_names.items()
    ]
    if view.tls and not now_s < view.certificate_ends:
        found.append(
            "no other queue manager believes this one: "
            f"{view.certificate_problem or 'its certificate has expired'}; 'onceq tls renew'"
        )
    if view.directory_trouble:
        found.append(
            f"the directory cannot be read: {view.directory_trouble}; what needs it is refused or "
            "waits"
        )
    if view.trail_trouble:
        found.append(f"acts of administration cannot be told outside: {view.trail_trouble}")
    if view.trail_lost:
        found.append(
            f"{plural(view.trail_lost, 'act')} of administration went before they were told outside"
        )
    if view.space_low:
        found.append("the disk is nearly full: sends are refused until there is room")
    found += stuck(seen.stuck)
    found += paused(seen.paused)
    found += [f"{queue}: {says}" for queue, says in view.failing.items()]
    if view.failing_others:
        others = plural(view.failing_others, "other queue")
        found.append(f"{others} with consumers that can handle no message: onceq queue consumers")
    if seen.metrics.jobs_waiting:
        found.append(
            f"{_are(seen.metrics.jobs_waiting, 'job')} waiting for what cannot be done now: onceq "
            "job list"
        )
    return found


def to_look_at(seen: Inspected, now_s: float) -> list[str]:
    """What holds nothing up, and should be known."""
    view = seen.status
    found = [f"since the restore {one.name or one.id} shows: {one.what}" for one in view.undone]
    found += certificate_warnings(view, now_s)
    if view.rights_trouble:
        found.append(
            f"the rights in the directory are not followed: {view.rights_trouble}; what was read "
            "before goes on to hold"
        )
    found += recent_refusals(seen.refused)
    found += refused_here(seen.metrics.ended)
    found += [
        f"{one.path}: {100 * one.quota_used:.0f} % of its quota is used: what does not fit is "
        "refused"
        for one in seen.full.views
    ]
    left = (seen.full.of or 0) - len(seen.full.views)
    if left:
        found.append(f"{plural(left, 'other queue')} with a quota that is nearly used up")
    if seen.metrics.quota_ratio >= QUOTA_WARN:
        found.append(
            f"{100 * seen.metrics.quota_ratio:.0f} % of the computer's quota is used "
            "(computer_quota_bytes): what does not fit is refused"
        )
    found += [
        f"{what}: {plural(count, 'time')} since the start; the log says from where"
        for what, count in view.disbelieved.items()
    ]
    if view.damaged_messages:
        found.append(
            f"{plural(view.damaged_messages, 'message')} set aside because stored bytes are "
            "damaged: onceq damage list"
        )
    if seen.metrics.reports_dropped:
        found.append(
            f"{plural(seen.metrics.reports_dropped, 'trace report')} dropped since the start, "
            "because the report queue could not take them; the log says why"
        )
    found += prepared(seen.branches)
    if seen.metrics.jobs_running:
        found.append(f"{_are(seen.metrics.jobs_running, 'job')} running: onceq job list")
    return found


def letters(view: StatusView) -> list[str]:
    """Messages that wait for an operator's decision."""
    counts = (
        (view.transactional_dead_letters, "in the transactional dead-letter queue", ""),
        (view.dead_letters, "in the dead-letter queue", ""),
        (view.poison_messages, "moved aside: delivery attempts used up",
         " --reason poison"),
    )  # fmt: skip
    return [
        f"{plural(count, 'message')} {where}: onceq dead list{how}"
        for count, where, how in counts
        if count
    ]


def paused(page: Page[QueueView]) -> list[str]:
    """Queues from which an operator lets nobody receive."""
    found = [
        f"{one.path}: paused since {clock(one.paused_since)}, with "
        f"{plural(one.messages, 'message')}: 'onceq queue resume' lets it be received from"
        for one in page.views
    ]
    left = (page.of or 0) - len(page.views)
    return [*found, f"{plural(left, 'other queue')} paused: 'onceq queue list'"] if left else found


def prepared(branches: Sequence[BranchView]) -> list[str]:
    """Branches that are prepared: their messages wait for somebody's decision."""
    found = [one for one in branches if one.phase == "prepared"]
    if not found:
        return []
    oldest = min(one.since for one in found)
    some = (
        "1 branch of an external transaction is"
        if len(found) == 1
        else f"{len(found)} branches of external transactions are"
    )
    return [f"{some} prepared, the oldest since {clock(oldest)}: onceq tx list"]


def refused_here(ended: Mapping[str, int]) -> list[str]:
    """Messages that came for a queue that does not take them."""
    return [
        f"{plural(count, 'message')} refused since the start: {REFUSED[name]}; the log names the "
        "queue; what was transactional is a dead letter of its sender (there: xact_dead_letter)"
        for name, count in ended.items()
        if count and name in REFUSED
    ]


def certificate_warnings(view: StatusView, now_s: float) -> list[str]:
    """How others come in, as far as it ends soon or needs no proof."""
    found = []
    if view.tls and now_s < view.certificate_ends < now_s + CERTIFICATE_WARN_DAYS * DAY_S:
        days = int((view.certificate_ends - now_s) // DAY_S)
        found.append(f"the certificate ends in {plural(days, 'day')}: 'onceq tls renew'")
    if view.plain_peers:
        found.append(
            "who has one of these addresses is believed without proof (plain_peers): "
            f"{', '.join(view.plain_peers)}"
        )
    return found


def _are(count: int, what: str) -> str:
    return f"{plural(count, what)} {'is' if count == 1 else 'are'}"


# ---- notes ---------------------------------------------------------------------------------------
#
# What an operator should know of a queue or an outgoing queue, in a few words each: one place for
# every table that has a column for it (`queue list`, `outgoing list`, `top`, the console).


OFFLINE = "disconnected by an operator"


def notes_of_queue(view: QueueView) -> list[str]:
    """Of a queue: what keeps messages out or in comes first."""
    found = []
    if view.paused_since:
        found.append("paused")
    if view.quota_used >= QUOTA_WARN:
        found.append(f"{100 * view.quota_used:.0f} % of its quota is used")
    if view.parent and view.path.casefold().endswith(";delayed") and view.messages:
        found.append("received later")
    if view.poison:
        found.append(f"{view.poison:,} moved aside")
    return found


def notes_of_outgoing(view: OutgoingView) -> list[str]:
    """Of an outgoing queue: why it does not move, if it does not, and then what has ended."""
    found = []
    if view.clash:
        found.append("another queue manager has the identity of this one")
    held = _held(view)
    if held:
        found.append(held)
    if view.in_doubt:
        found.append(f"{view.in_doubt:,} in doubt")
    refused = sum(one.messages for one in view.endings if is_refusal(one))
    if refused:
        found.append(f"{refused:,} refused there")
    return found


def _held(view: OutgoingView) -> str:
    """The first thing that keeps it from moving, in the order of ``why``."""
    if view.state == "LOCKED":
        return "hardened: sends over HTTP only"
    if view.paused_since:
        return "paused"
    if view.offline_since:
        return OFFLINE
    if view.state == "NEED VALIDATION" and view.messages:
        return "waits for the directory"
    if view.stranded_since:
        return "its receiver has left the stream"
    if view.turned_away:
        return f"turned away there: {view.turned_away}"
    return view.trouble
