"""What an operator should know of a queue or an outgoing queue, in a few words each: one place for
every table that has a column for it (``queue list``, ``outgoing list``, ``top``, the console)."""

from __future__ import annotations

from onceq.client.why import is_refusal
from onceq.model.views.queues import QUOTA_WARN, OutgoingView, QueueView

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
        found.append(f"{view.poison:,} received in vain")
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
