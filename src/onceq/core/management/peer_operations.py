"""Operators set right what others have said: incoming streams that were moved, and clocks.

A stream that a liar, or a sender with a wrong clock, has moved ahead makes what its sender says
truly stale. An operator sets it back, to the stream before if that is remembered, so that
repetitions of what had arrived in it are known for what they are; the reason is on record.

A manager that was once started with a clock which was days ahead is refused for as long as it was
ahead, since its streams only rise. An operator who knows that it is honest has them taken.

Upholds: I4, as far as the stream before is remembered; I6.
"""

from __future__ import annotations

from onceq.core.management.msmq_names import leads_to
from onceq.core.names.resolve import find_queue
from onceq.core.peers.trust import STAMP_SHIFT
from onceq.core.state.queues import Progress
from onceq.core.state.setups import ClockBelieved, NameUnbound, StreamSetBack
from onceq.core.step.early_runs import SET_BACK
from onceq.core.step.step import Step
from onceq.errors import InsufficientResources, InvalidParameter, OnceqError, QueueNotFound
from onceq.model.identity import guid_text
from onceq.model.limits import CLOCKS_AHEAD_MAX, REASON_CHARS_MAX, STREAM_AHEAD_S_MAX
from onceq.model.requests import AcceptClock, ForgetPeer, ResetStream
from onceq.model.views.managers import ClockAccepted, PeerView
from onceq.model.views.queues import StreamReset


def reset_stream(step: Step, item: ResetStream) -> None:
    """Set a stream back."""
    reason = _reason(item.reason)
    progress = _find(step, item.queue, item.source)
    before = None if item.whole else step.state.memories.before(progress)
    done = StreamReset(
        queue=progress.key,
        source=guid_text(progress.source),
        from_stream=progress.stream,
        from_number=progress.last,
        stream=before.stream if before is not None else 0,
        number=before.last if before is not None else 0,
        reason=reason,
        dry_run=item.dry_run,
    )
    if not item.dry_run:
        step.setup(
            StreamSetBack(
                source=progress.source,
                key=progress.key,
                stream=done.stream,
                reason=reason,
                at_s=step.now.wall_s,
            )
        )
        step.sessions.early.forget((progress.source, progress.key), SET_BACK)
        progress.stale_stream = progress.stale = progress.rejects = progress.due_us = 0
        step.act_notice("an incoming stream was set back by an operator", queue=progress.key,
                        source=done.source, reason=reason)  # fmt: skip
    step.answer(item.owner, item.request, done)


def accept_clock(step: Step, item: AcceptClock) -> None:
    """Take the streams of a manager whose clock was ahead.

    It may start again before its clock is right, and each start takes a stamp above the last; so
    there is as much room above the stream that was refused as clocks are allowed to differ.
    """
    reason = _reason(item.reason)
    found = [
        guid for guid in step.sessions.watch.refused_ahead if step.is_called(guid, item.source)
    ]
    if not found:
        raise QueueNotFound(
            f"no message stream from the future of {item.source or 'nobody'} was refused since the "
            "start; 'outgoing why' at the sender says what is turned away"
        )
    if len(found) > 1:
        names = ", ".join(guid_text(guid) for guid in found[:4])
        raise InvalidParameter(f"{len(found)} queue managers are meant ({names}): name one of them")
    (guid,) = found
    clocks = step.state.clocks_ahead
    if not clocks.until_s(guid) and len(clocks) >= CLOCKS_AHEAD_MAX:
        raise InsufficientResources(f"{CLOCKS_AHEAD_MAX} queue managers with a clock ahead already")
    begun_s = step.sessions.watch.refused_ahead[guid] >> STAMP_SHIFT
    until_s = begun_s + STREAM_AHEAD_S_MAX
    if not item.dry_run:
        step.setup(ClockBelieved(source=guid, until_s=until_s, at_s=step.now.wall_s, reason=reason))
        step.sessions.watch.taken(guid)
        step.act_notice(
            "an operator has the streams of a clock that was ahead taken", source=guid_text(guid),
            begun=begun_s, until=until_s, reason=reason,
        )  # fmt: skip
    step.answer(item.owner, item.request, ClockAccepted(
        guid_text(guid), step.name_of(guid), begun_s, until_s, reason, item.dry_run,
    ))  # fmt: skip


def _reason(text: str) -> str:
    reason = text.strip()
    if not reason or len(reason) > REASON_CHARS_MAX:
        raise InvalidParameter(
            f"say why, in 1 to {REASON_CHARS_MAX} characters: whoever looks at it next year wants "
            "to know"
        )
    return reason


def peers(step: Step) -> list[PeerView]:
    """Who answers under the names that were connected to."""
    return [
        PeerView(name, guid_text(one.guid), one.since_s, one.guid in step.sessions.of)
        for name, one in sorted(step.state.bindings.items())
    ]


def forget_peer(step: Step, item: ForgetPeer) -> None:
    """Let another manager answer under a name."""
    name = item.name.casefold()
    found = [one for one in peers(step) if one.name in (name, f"os:{name}", f"tcp:{name}")]
    if len(found) != 1:
        raise QueueNotFound(
            f"{'several names are' if found else 'no name is'} known as {item.name}; 'peer list' "
            "shows what there is"
        )
    if not item.dry_run:
        step.setup(NameUnbound(name=found[0].name))
        step.act_notice("an operator lets another queue manager answer under a name",
                        name=found[0].name, before=found[0].id)  # fmt: skip
    step.answer(item.owner, item.request, found[0])


def _find(step: Step, queue: str, source: str) -> Progress:
    """The one stream that is meant."""
    try:
        local = find_queue(step, queue)
    except OnceqError:
        local = None
    found = [
        progress
        for progress in step.state.progress.values()
        if progress.key == queue.casefold() or (local is not None and leads_to(progress, local))
    ]
    found = [progress for progress in found if step.is_called(progress.source, source)]
    if not found:
        raise QueueNotFound(
            f"no message stream from {source or 'nobody'} leads to {queue}; 'stream list' shows "
            "what there is"
        )
    if len(found) > 1:
        names = ", ".join(f"{p.key} from {guid_text(p.source)}" for p in found[:4])
        raise InvalidParameter(f"{len(found)} streams are meant ({names}): name one of them")
    return found[0]
