"""Operators correct what other managers have claimed: moved incoming streams, and clocks.

A stream that a liar, or a sender with a wrong clock, has moved ahead makes its sender's messages
truly stale. An operator sets it back, to the stream before if that is remembered, so that
repetitions of what had arrived in it are recognized; the reason is on record.

A manager that was once started with a clock which was days ahead is refused for as long as it was
ahead, since its streams only rise. An operator that knows it to be honest has them accepted.

Upholds: I4, as far as the stream before is remembered; I6.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from onceq.core.management.msmq_names import leads_to
from onceq.core.management.paging import PagedListing, PageOrder
from onceq.core.management.queue_views import people_call
from onceq.core.names import find_queue
from onceq.core.peers.trust import STAMP_SHIFT, rebind
from onceq.core.state.peer_table import PREFIX, Binding
from onceq.core.state.setups import AddressBound, ClockBelieved, NameUnbound, StreamSetBack
from onceq.core.step.connections import SET_BACK
from onceq.core.step.step import Step, rule_for
from onceq.errors import InsufficientResources, InvalidParameter, OnceqError, QueueNotFound
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.limits import CLOCKS_AHEAD_MAX, REASON_CHARS_MAX, STREAM_AHEAD_S_MAX
from onceq.model.requests import AcceptClock, ForgetPeer, ResetStream
from onceq.model.views.managers import ClockAccepted, PeerView
from onceq.model.views.queues import StreamReset


@rule_for(ResetStream)
def reset_stream(step: Step, item: ResetStream) -> None:
    """Set a stream back."""
    reason = _reason(item.reason)
    try:
        local = find_queue(step, item.queue)
    except OnceqError:
        local = None
    found = [
        progress
        for progress in step.state.progress.values()
        if item.queue.casefold() in (progress.key, people_call(step, progress).casefold())
        or (local is not None and leads_to(progress, local))
    ]
    found = [progress for progress in found if step.is_called(progress.source, item.source)]
    if not found:
        raise QueueNotFound(
            f"no message stream from {item.source or 'nobody'} leads to {item.queue}; 'stream "
            "list' shows what there is"
        )
    if len(found) > 1:
        names = ", ".join(f"{p.key} from {guid_text(p.source)}" for p in found[:4])
        raise InvalidParameter(f"{len(found)} streams are meant ({names}): name one of them")
    (progress,) = found
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


@rule_for(AcceptClock)
def accept_clock(step: Step, item: AcceptClock) -> None:
    """Accept the streams of a manager whose clock was ahead.

    It may start again before its clock is right, and each start takes a stamp above the last; so
    the room above the refused stream is as large as the allowed difference of clocks.
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
            f"say why, in 1 to {REASON_CHARS_MAX} characters: an operator who looks at it next "
            "year wants to know"
        )
    return reason


def _view(step: Step, bound: tuple[str, Binding]) -> PeerView:
    name, one = bound
    return PeerView(name, guid_text(one.guid), one.since_s, one.guid in step.sessions.of)


def _bound(step: Step) -> list[tuple[str, Binding]]:
    addresses = step.state.proofs.addresses.items()
    return [
        *step.state.bindings.items(),
        *((f"{PREFIX}{address}", Binding(guid, 0)) for address, guid in addresses),
    ]


PEERS: Final[PagedListing[tuple[str, Binding], PeerView]] = PagedListing(
    lambda step, item: _bound(step),
    _view,
    {"name": PageOrder(lambda step, one: (one[0],), (str,))},
)
"""The managers that answer under connected names, and the managers at the plain addresses."""


@rule_for(ForgetPeer)
def forget_peer(step: Step, item: ForgetPeer) -> None:
    """Let another manager answer under a name, or speak at a plain address."""
    name = item.name.casefold()
    spelled = [name, f"os:{name}", f"tcp:{name}", f"{PREFIX}{name}"]
    with suppress(ValueError):
        spelled.append(f"public:{guid_bytes(name.removeprefix('public=')).hex()}")
    known = dict(_bound(step))
    found = [_view(step, (one, known[one])) for one in dict.fromkeys(spelled) if one in known]
    guid = _given(item.to)
    if not found and guid != NO_GUID:
        whole = name.startswith(("os:", "tcp:", "public:"))
        found = [PeerView(name if whole else f"os:{name}", "", 0, False)]
    if len(found) != 1:
        raise QueueNotFound(
            f"{'several names are' if found else 'no name is'} known as {item.name}; 'peer list' "
            "shows what there is"
        )
    if not item.dry_run:
        bound = found[0].name
        if bound.startswith(PREFIX):
            step.setup(AddressBound(address=bound.removeprefix(PREFIX), guid=guid))
        elif guid == NO_GUID:
            step.setup(NameUnbound(name=bound))
        elif step.state.bindings.full and step.state.bindings.get(bound) is None:
            raise InsufficientResources("too many names are remembered already: forget some")
        else:
            rebind(step, bound, guid, by_hand=True)
        step.act_notice("an operator lets another queue manager answer under a name",
                        name=bound, before=found[0].id, now=item.to)  # fmt: skip
    step.answer(item.owner, item.request, found[0])


def _given(text: str) -> bytes:
    try:
        return guid_bytes(text) if text else NO_GUID
    except ValueError:
        raise InvalidParameter(f"{text!r} is not the GUID of a queue manager") from None
