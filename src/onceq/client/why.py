"""Why nothing moves: one sentence about an outgoing queue, from what its manager knows of it; and
what can safely be done about a branch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from onceq.model.branches import Xid, decider_of, group_of
from onceq.model.identity import guid_text
from onceq.model.resultcodes import FORGOTTEN_THERE, TOLD_ALREADY, MessageClass, is_refused_there
from onceq.model.views.looks import BranchView
from onceq.model.views.queues import EndingView, OutgoingView, PutBackView, QueueView, StreamView
from onceq.model.views.view import Page
from onceq.model.wording import duration, plural

CLASH = "Another queue manager has the identity of this one"
_GIVEN_UP: Final[Mapping[int, str]] = {
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "its time was over",
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: "its time was over",
    MessageClass.NACK_DELETED: "an operator removed it",
    MessageClass.NACK_DELAY_NOT_SUPPORTED: "it was delayed, and its receiver does not know of "
    "delays",
    FORGOTTEN_THERE: "its receiver had acknowledged it and does not know any more how it ended: it "
    "was put back to an earlier moment",
    MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED: "it was set aside when this queue manager was "
    "put back as another one",
    TOLD_ALREADY: "its receiver has told how it ended, and this queue manager was put back to an "
    "earlier moment",
}
"""Why the wait for an acknowledgment ended, for people."""
_REFUSED: Final[Mapping[int, str]] = {
    MessageClass.NACK_BAD_DESTINATION_QUEUE: "no such queue there",
    MessageClass.NACK_QUEUE_EXCEED_QUOTA: "the quota of the queue is used up there",
    MessageClass.NACK_ACCESS_DENIED: "access denied there",
    MessageClass.NACK_HOP_COUNT_EXCEEDED: "too many queue managers passed it on",
    MessageClass.NACK_BAD_SIGNATURE: "its signature is not valid there",
    MessageClass.NACK_BAD_ENCRYPTION: "it is encrypted",
    MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE: "the queue there is not transactional",
    MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE: "the queue there is transactional",
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER: "its signature needs what is not there",
    MessageClass.NACK_MESSAGE_TOO_LARGE: "it is too large there",
}
"""Why a destination does not take a message, for people."""
_ENDED_THERE: Final[Mapping[int, str]] = {
    MessageClass.NACK_QUEUE_DELETED: "its queue was deleted",
    MessageClass.NACK_QUEUE_PURGED: "its queue was purged",
    MessageClass.NACK_RECEIVE_TIMEOUT: "its time was over",
    MessageClass.NACK_RECEIVE_REJECTED: "the application there rejected it",
}
"""How a message has ended in its queue, for people."""
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
    waiting = view.messages - view.awaiting_final
    text = _why(view, view.state, waiting)
    if waiting or view.awaiting_final:
        # Where nothing waits, the sentence is about what has ended.
        text = "; ".join((text, *refusals(view)))
    if 0 < view.awaiting_final < view.messages:
        text += f"; {view.awaiting_final} more have arrived and are not received yet"
    if view.clash:
        text += f". {CLASH}: {view.clash}"
    if view.answered_by:
        text += f". {view.answered_by}"
    if view.elsewhere:
        some = plural(view.elsewhere, "message")
        text += f". {some} here {_ELSEWHERE}"
    return text + (_put_back(put_back, _THERE) if put_back else "")


_ELSEWHERE = (
    "may have left from there: another queue manager with this identity was noticed when that many "
    "waited; those that end before their receiver is heard end in doubt, not as undelivered"
)
_THERE = (
    "waited then already and may have left in between: the receiver is asked, or drops what it "
    "has; what nobody can tell ends in doubt, and nothing is delivered twice. 'onceq dead list' "
    "shows what ended so"
)
_HERE = (
    "was here then already: messages that were received in between are received again; compare "
    "with what your applications have done since, before they go on"
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
        some = plural(view.awaiting_final, "message")
        one = view.awaiting_final == 1
        have, their = ("has", "its sender") if one else ("have", "their senders")
        return (
            f"{name}: {some} {have} arrived; {their} asked to know the end, and nobody has "
            f"received {'it' if one else 'them'} yet"
        )
    if not waiting:
        link = "connected; " if state == "CONNECTED" else ""
        return f"{name}: {link}nothing waits; {_ended(view)}"
    return _waiting(view, state, name, some, they_wait)


def _ended(view: OutgoingView) -> str:
    """What became of what has waited here; nothing is called acknowledged that was not."""
    told = [*refusals(view)]
    for one in view.endings:
        some = plural(one.messages, "message")
        last = f"the last at {clock(one.last)}"
        there = _ENDED_THERE.get(one.message_class)
        if there:
            told.append(f"{some} had arrived and ended there unreceived, {last} ({there})")
        elif not is_refusal(one):
            value = one.cause or one.message_class
            reason = _GIVEN_UP.get(value, f"class {value:#06x}")
            missing = "being told its end" if value in _ACKNOWLEDGED else "an acknowledgment"
            told.append(f"{some} ended here without {missing}, {last} ({reason})")
    doubt = view.in_doubt
    if doubt:
        some = plural(doubt, "message")
        told.append(
            f"{some} in doubt: ended here after transmission, and whether they arrived is asked "
            "of the receiver"
        )
    return "; ".join(told) or "everything sent since the start was acknowledged"


def is_refusal(one: EndingView) -> bool:
    """Whether the destination did not take these messages."""
    return is_refused_there(one.message_class)


def refusals(view: OutgoingView) -> list[str]:
    """What its destination has refused, a sentence for each reason (finding U1)."""
    return [_refusal(one) + _late(view, one) for one in view.endings if is_refusal(one)]


def recent_refusals(page: Page[OutgoingView]) -> list[str]:
    """What destinations have refused within a week, for an overview: each destination in one
    sentence; and how many others there are.

    Args:
        page: Of the outgoing queues with "refused", those of the last refusals first.
    """
    told = [f"{view.destination}: {'; '.join(refusals(view))}" for view in page.views]
    return told + _others(page, "refused messages")


def stuck(page: Page[OutgoingView]) -> list[str]:
    """Why outgoing queues do not move, for an overview: each in one sentence; and how many others
    there are.

    Args:
        page: Of the outgoing queues with "stuck".
    """
    return [why(view) for view in page.views] + _others(page, "wait or are paused: 'outgoing list'")


def _others(page: Page[OutgoingView], what: str) -> list[str]:
    left = (page.of or 0) - len(page.views)
    return [f"{plural(left, 'other destination')} {what}"] if left > 0 else []


def _refusal(one: EndingView) -> str:
    count, kept = one.messages, one.dead_letters
    reason = _REFUSED.get(one.message_class, f"class {one.message_class:#06x}")
    were = "was" if count == 1 else "were"
    they = "it" if count == 1 else "they"
    text = f"{plural(count, 'message')} {were} refused ({reason}), the last at {clock(one.last)}"
    if kept >= count:
        return f"{text}; {they} became {'a dead letter' if count == 1 else 'dead letters'}"
    if one.late >= count:
        return text
    if not kept:
        return f"{text}; {they} asked for no dead letter"
    others = "did not" if one.late else "asked for none"
    return f"{text}; {kept:,} became dead letters, the others {others}"


def _late(view: OutgoingView, one: EndingView) -> str:
    """Those that were refused when this manager had let go of them, the last ones by name."""
    if not one.late:
        return ""
    some = "it" if one.messages == 1 else f"{one.late:,} of them"
    was, is_ = ("was", "is") if one.late == 1 else ("were", "are")
    told = f"; {some} {was} refused after it was acknowledged, and {is_} in no dead-letter queue"
    same = [late for late in view.late_refusals if late.message_class == one.message_class]
    named = ", ".join(f"{late.id} at {clock(late.at)}" for late in reversed(same))
    return f"{told}: {named}" if len(same) == one.late else f"{told}; the last: {named}"


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
    name = f"{view.name or view.queue} from {view.sender or view.source}"
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
    return f"{text}; the next messages will be accepted"


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
    if group_of(xid) and decider == here:
        return "of a group (tx groups): its application commits it, or it is undone by time"
    return (
        f"in doubt: queue manager {guid_text(decider)} decides; ask it (tx commit --decider "
        "WHERE), and do not decide by hand while it can be reached"
    )
