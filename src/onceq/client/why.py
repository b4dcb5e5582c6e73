"""Why nothing moves: one sentence about an outgoing queue, from what its manager knows of it; and
what can safely be done about a branch."""

from __future__ import annotations

import time

from onceq.model.classes import FORGOTTEN_THERE, TOLD_ALREADY, MessageClass
from onceq.model.identity import guid_text
from onceq.model.views.branches import BranchView
from onceq.model.views.queues import OutgoingView, PutBackView, QueueView, StreamView
from onceq.model.wording import duration, plural
from onceq.model.xid import Xid, decider_of, group_of

CLASH = "Another queue manager has the identity of this one"
_GIVEN_UP = {
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "its time was over",
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: "its time was over",
    MessageClass.NACK_DELETED: "an operator removed it",
    MessageClass.NACK_BAD_DESTINATION_QUEUE: "its queue has left the directory",
    MessageClass.NACK_DELAY_NOT_SUPPORTED: "it was delayed, and its receiver does not know of "
    "delays",
    FORGOTTEN_THERE: "its receiver had acknowledged it and does not know any more how it ended: it "
    "was put back to an earlier moment",
    TOLD_ALREADY: "its receiver has told how it ended, and this queue manager was put back to an "
    "earlier moment",
}
"""Why the wait for an acknowledgment ended, for people."""
_ACKNOWLEDGED = (FORGOTTEN_THERE, TOLD_ALREADY)
"""Of these only the news of the end is missing."""


def clock(seconds: int) -> str:
    """A time of day for people, with the date if it is not today's."""
    then, now = time.localtime(seconds), time.localtime()
    form = "%H:%M:%S" if then[:3] == now[:3] else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, then)


def why(view: OutgoingView | QueueView) -> str:
    """The sentence; there is one for every state of an outgoing queue (Q-40).

    Args:
        view: An outgoing queue as ``outgoing_queue`` gives it, or a queue as ``queue`` gives it.
    """
    put_back = view.put_back
    if isinstance(view, QueueView):
        return _local(view) + (_put_back(put_back, _HERE) if put_back else "")
    text = _why(view, view.state, view.messages - view.awaiting_final)
    if 0 < view.awaiting_final < view.messages:
        text += f"; {view.awaiting_final} more have arrived and are not received yet"
    if view.clash:
        text += f". {CLASH}: {view.clash}"
    if view.elsewhere:
        some = plural(view.elsewhere, "message")
        text += f". {some} here {_ELSEWHERE}"
    return text + (_put_back(put_back, _THERE) if put_back else "")


_ELSEWHERE = (
    "may have left from there: another queue manager with this identity was noticed when that many "
    "waited; whatever of them ends before its receiver is heard ends in doubt, not as undelivered"
)
_THERE = (
    "waited then already and may have left in between: the receiver is asked, or drops what it "
    "has; what nobody can tell ends in doubt, and nothing is delivered twice. 'onceq dead list' "
    "shows what ended so"
)
_HERE = (
    "was here then already: whatever was received in between is received again; compare with what "
    "your applications have done since, before they go on"
)


def _put_back(put_back: PutBackView, what: str) -> str:
    """What a restore of this manager has to do with it: cause and cure."""
    text = (
        f". This queue manager was put back at {clock(put_back.at)} to how it was at "
        f"{clock(put_back.to)}"
    )
    if put_back.messages:
        some = plural(put_back.messages, "message")
        text += f"; of {some} here: what {what}"
    for known in put_back.known:
        text += f"; since then another manager has shown: {known}"
    return text + "; 'onceq qm status' says what the restore has undone"


def _why(view: OutgoingView, state: str, waiting: int) -> str:
    name = view.destination
    some = plural(waiting, "message")
    they_wait = f"{some} wait{'s' if waiting == 1 else ''}"
    if state == "LOCKED":
        return (
            f"{name}: locked: this queue manager is hardened and sends over HTTP only; "
            f"{they_wait}; to let them go set hardened = false and start it again"
        )
    if view.paused_since:
        return (
            f"{name}: paused by an operator since {clock(view.paused_since)}; {they_wait}; "
            "'outgoing resume' lets them go"
        )
    if view.offline_since:
        return (
            f"{name}: this queue manager was disconnected by an operator at "
            f"{clock(view.offline_since)}; {they_wait}; 'qm connect' lets them go"
        )
    if not waiting and view.awaiting_final:
        return _unprocessed(view, name)
    if not waiting:
        link = "connected; " if state == "CONNECTED" else ""
        return f"{name}: {link}nothing waits; {_ended(view)}"
    return _waiting(view, state, name, some, they_wait)


def _ended(view: OutgoingView) -> str:
    """What became of what has waited here; nothing is called acknowledged that was not."""
    told = []
    given_up, doubt = view.given_up, view.in_doubt
    if given_up:
        some = plural(given_up, "message")
        value = view.given_up_class
        reason = _GIVEN_UP.get(value, f"class {value:#06x}")
        missing = "being told its end" if value in _ACKNOWLEDGED else "an acknowledgment"
        told.append(
            f"{some} ended here without {missing} since the start, the last at "
            f"{clock(view.given_up_at)} ({reason})"
        )
    if doubt:
        some = plural(doubt, "message")
        told.append(
            f"{some} in doubt: ended here after transmission, and whether they arrived is asked "
            "of the receiver"
        )
    return "; ".join(told) or "everything sent since the start was acknowledged"


def _waiting(view: OutgoingView, state: str, name: str, some: str, they_wait: str) -> str:
    if state == "NEED VALIDATION":
        return f"{name}: {they_wait} until the directory can be read and says where this queue is"
    if state == "CONNECTED":
        return _connected(view, name, some)
    if state == "DISCONNECTING":
        return f"{name}: {they_wait}; the session is being closed, and a new one comes after it"
    if view.trouble:
        retry = view.retry_in_s
        again = f"; next try in {duration(retry)}" if retry >= 0 else "; trying now"
        times = plural(view.attempts, "attempt")
        return (
            f"{name}: {some} cannot leave: unreachable since {clock(view.trouble_since)} "
            f"({view.trouble}, {times}){again}"
        )
    if state == "DISCONNECTED":
        return (
            f"{name}: {they_wait} without a session, which was closed because nothing had happened "
            f"on it; the next one is made in {duration(max(view.retry_in_s, 0))}"
        )
    return f"{name}: {they_wait} for the connection to be made"


def _local(view: QueueView) -> str:
    some = plural(view.available, "message")
    if view.paused_since:
        text = (
            f"{view.path}: paused by an operator since {clock(view.paused_since)}, so nobody "
            f"receives from it until 'onceq queue resume'; {some} there"
        )
    else:
        text = f"{view.path}: a queue of this manager; {some} can be received"
    if view.locked:
        text += f", {_are(view.locked)} held by transactions until those end"
    if view.delayed:
        until = clock(view.delayed_until)
        text += (
            f", {_are(view.delayed)} delayed, the first until {until} by the clock of this manager"
        )
    if view.readers_waiting:
        wait = "waits" if view.readers_waiting == 1 else "wait"
        text += f", {plural(view.readers_waiting, 'reader')} {wait} for more"
    elif view.available and not (view.locked or view.system or view.paused_since):
        text += ", and nobody waits for one"
    return text


def _are(count: int) -> str:
    return f"{count:,} {'is' if count == 1 else 'are'}"


def _unprocessed(view: OutgoingView, name: str) -> str:
    some = plural(view.awaiting_final, "message")
    have, their = ("has", "its sender") if view.awaiting_final == 1 else ("have", "their senders")
    return (
        f"{name}: {some} {have} arrived; {their} asked to know the end, and nobody has received "
        f"{'it' if view.awaiting_final == 1 else 'them'} yet"
    )


def _connected(view: OutgoingView, name: str, some: str) -> str:
    if view.stranded_since:
        return (
            f"{name}: connected; {some} wait in a stream that the receiver has left since "
            f"{clock(view.stranded_since)} for a newer one of another life of this manager; it "
            "is asked what it has accepted of them, and the others go on in a newer stream still"
        )
    unheard = view.no_ack_count
    if view.behind_stream:
        some += f" ({view.behind_stream} follow when those from before the last start are gone)"
    if view.turned_away:
        return f"{name}: connected; {_turned_away(view, some)}"
    if unheard and view.resend_in_s >= 0:
        times = view.resend_count
        again = f", after {plural(times, 'time-out')}" if times else ""
        return (
            f"{name}: connected; {unheard} of {some} transmitted and waiting for an order "
            f"acknowledgment until {clock(view.resend_at)}, then they are sent again{again}"
        )
    return f"{name}: connected, {some} being transmitted"


def _turned_away(view: OutgoingView, some: str) -> str:
    """What the receiver says of messages that it turns away."""
    text = f"the receiver turns {some} away since {clock(view.turned_away_at)}"
    text += f": {view.turned_away}"
    if view.turned_away_for > view.stream > 0:
        begun = clock(view.turned_away_for >> 32)
        text += (
            f" (theirs {view.turned_away_for:#018x}, begun {begun}; ours {view.stream:#018x})"
            "; if this queue manager never was in that stream, somebody spoke in its name: "
            "'onceq stream reset' there sets it back"
        )
    return text + "; they are sent again and again, and nothing is lost meanwhile"


def stream_why(view: StreamView) -> str:
    """One sentence about an incoming stream, as ``streams`` gives it."""
    name = f"{view.queue} from {view.sender or view.source}"
    if not view.number and not view.reset_at:
        return f"{name}: a stream was announced, and nothing of it was accepted yet"
    where = f"accepted up to number {view.number} at {clock(view.last_access)}"
    link = "connected" if view.connected else "the sender is not connected"
    turned = []
    if view.duplicates:
        turned.append(f"{view.duplicates} duplicates dropped")
    if view.gaps:
        turned.append(f"{view.gaps} that came before an earlier message left to be sent again")
    if view.rejects:
        turned.append(f"{view.rejects} turned away since the last one was accepted")
    if view.conflicts:
        turned.append(
            f"{view.conflicts} not taken because other messages had come under their numbers"
        )
    aside = f" ({', '.join(turned)})" if turned else ""
    text = f"{name}: {link}; {where}{aside}"
    if view.clash:
        text += f"; two queue managers have the identity of the sender: {view.clash}"
    if view.reset_at:
        text += (
            f"; set back by an operator at {clock(view.reset_at)} from stream "
            f"{view.reset_from:#018x} ({view.reset_reason})"
        )
    if view.stale_stream:
        return (
            f"{text}; messages of an older stream ({view.stale_stream:#018x}) come and are "
            f"turned away, last at {clock(view.stale_at)}: if they are no old repetitions, its "
            "stream was moved ahead, and 'onceq stream reset' sets it back"
        )
    return f"{text}; whatever is sent next will be accepted"


def branch_advice(branch: BranchView, here: bytes) -> str:
    """What can safely be done about a branch.

    Args:
        here: GUID of its queue manager.
    """
    phase = branch.phase
    if phase.endswith("by hand"):
        return "compare with the decision of its coordinator, then forget it (tx forget)"
    if phase != "prepared":
        return "its application is at work; it is rolled back if that goes away"
    if branch.agent:
        return f"a row of {branch.agent} decides; recovery asks for it"
    xid = Xid.parse(branch.xid)
    decider = decider_of(xid.gtrid)
    if decider is None:
        return "its coordinator decides; by hand only if that never comes back"
    if group_of(xid) and decider[0] == here:
        return "of a group (tx groups): its application commits it, or it is undone by time"
    return (
        f"in doubt: queue manager {guid_text(decider[0])} decides; ask it (tx commit --decider "
        "WHERE), and do not decide by hand while it can be reached"
    )
