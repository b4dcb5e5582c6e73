"""What each setup record does to the durable state: one function for each type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from onceq.core.state import setups
from onceq.core.state.endings import LateRefusal
from onceq.core.state.in_doubt_table import Doubts
from onceq.core.state.job_table import Job, sources_of
from onceq.core.state.name_bindings import Binding, hand_over
from onceq.core.state.peer_table import Reset
from onceq.core.state.proof_setups import (
    ActRepeated,
    AddressBound,
    HeadTold,
    MakerKnown,
    PeerProven,
)
from onceq.core.state.queue_properties import journal_of
from onceq.core.state.records import PUT_ACKS, PUT_DEADLETTER, PUT_FINAL, PUT_JOURNAL
from onceq.core.state.report_requests import ReportRequests
from onceq.core.state.state import UNNAMED, State, queue_key_of
from onceq.core.state.trail import Act
from onceq.core.state.trail_heads import Head
from onceq.model.identity import NO_GUID
from onceq.model.jobs import JobState, Order
from onceq.model.patterns import ActorPattern, QueuePattern
from onceq.model.rights import SharedRights, grant_of_row, rights_of
from onceq.model.shared_rights import load_grants
from onceq.model.tokens import Token
from onceq.model.views.managers import Restored


def apply_setup(state: State, setup: setups.Setup) -> None:
    """Let a rare change happen."""
    _EFFECTS[type(setup)](state, setup)


# ---- queues ------------------------------------------------------------------------------


def _queue(state: State, setup: setups.QueueMade) -> None:
    state.make_queue(setup.properties)


def _queue_set(state: State, setup: setups.QueueSet) -> None:
    queue = state.queues[queue_key_of(setup.properties)]
    if not setup.properties.private:
        state.public.pop(queue.properties.instance, None)
        state.public[setup.properties.instance] = queue
    for each in (queue, *queue.subs.values()):
        each.properties = setup.properties
    assert queue.journal is not None
    queue.journal.properties = journal_of(setup.properties)


def _drop_queue(state: State, setup: setups.QueueDropped) -> None:
    queue = state.queues.pop(setup.key)
    state.queue_numbers.drop(queue.number)
    state.policy.forget_queue(setup.key, queue.number)
    if not queue.properties.private:
        state.public.pop(queue.properties.instance, None)
    for sub in list(queue.subs.values()):
        state.drop_subqueue(sub.number)
    assert queue.journal is not None
    state.drop(queue.journal)
    state.drop(queue)


def _maker(state: State, setup: MakerKnown) -> None:
    state.makers.made(state.all_queues[setup.number], setup.who)


# ---- outgoing queues ---------------------------------------------------------------------


def _outgoing(state: State, setup: setups.OutgoingOpened) -> None:
    outgoing = state.make_outgoing(setup.number, setup.name)
    # One that an earlier version has opened left no mark of what it transmitted.
    outgoing.left_known = setup.marked
    if setup.for_strangers:
        state.answers_only(outgoing)
    if setup.homes is not None:
        outgoing.homes, outgoing.answers = frozenset(setup.homes), True
        state.homes_kept = True


def _left(state: State, setup: setups.Left) -> None:
    outgoing = state.outgoing_numbered(setup.number)
    outgoing.left.update((int(lane), counter) for lane, counter in setup.lanes)
    outgoing.left_known = True


def _elsewhere(state: State, setup: setups.MayHaveLeftElsewhere) -> None:
    outgoing = state.outgoing_numbered(setup.number)
    outgoing.elsewhere.update((int(lane), counter) for lane, counter in setup.lanes)


def _homes(state: State, setup: setups.OutgoingHomes) -> None:
    homes, outgoing = setup.homes, state.outgoing_numbered(setup.number)
    outgoing.homes, outgoing.answers = None if homes is None else frozenset(homes), True
    state.homes_kept = True


def _wanted(state: State, setup: setups.OutgoingWanted) -> None:
    outgoing = state.outgoing_numbered(setup.number)
    outgoing.for_strangers = False
    if not setup.answers:
        outgoing.homes = None
    state.answering.pop(setup.number, None)


def _offline(state: State, setup: setups.Offline) -> None:
    state.offline_s = setup.since_s


def _pause(state: State, setup: setups.Paused) -> None:
    state.outgoing_numbered(setup.number).paused_s = setup.since_s


def _refused_late(state: State, setup: setups.RefusedLate) -> None:
    endings = state.outgoing_numbered(setup.number).endings
    endings.refuse_late(LateRefusal(setup.id, setup.message_class, setup.at_s))
    state.refuse(setup.stream, setup.place)


def _fence(state: State, setup: setups.Fenced) -> None:
    state.outgoing_numbered(setup.number).fence = setup.stream


# ---- other managers ----------------------------------------------------------------------


def _bound(state: State, setup: setups.NameBound) -> None:
    """Somebody answers under a name from now on."""
    name, guid = setup.name, setup.guid
    before = state.bindings.bind(name, Binding(guid, setup.since_s, setup.by_hand))
    sent: dict[int, int] = dict(setup.sent)  # type: ignore[arg-type]
    if before and before != guid:
        for outgoing in state.outgoing_under(name):
            hand_over(outgoing, before, sent.get(outgoing.number))


def _unbound(state: State, setup: setups.NameUnbound) -> None:
    """Whoever answers next is bound; who did may still tell of what it was given."""
    before = state.bindings.guid_of(setup.name)
    state.bindings.forget(setup.name)
    for outgoing in state.outgoing_under(setup.name) if before else ():
        hand_over(outgoing, before, None)


def _proven(state: State, setup: PeerProven) -> None:
    state.proofs.prove(setup.guid)


def _address_bound(state: State, setup: AddressBound) -> None:
    if setup.guid == NO_GUID:
        state.proofs.forget(setup.address)
    else:
        state.proofs.bind(setup.address, setup.guid)


def _stream_reset(state: State, setup: setups.StreamSetBack) -> None:
    """An operator sets back what is known of one sender's messages to one queue."""
    if setup.key == UNNAMED:
        return
    progress = state.progress[setup.source, setup.key]
    was = Reset(setup.at_s, setup.reason, progress.stream, progress.last)
    found = state.memories.back(progress, setup.stream)
    progress.stream = progress.last = progress.message = 0
    progress.passed, progress.vague, progress.since = (), found is None, 1
    if found is not None:
        progress.stream, progress.last = found.stream, found.last
        progress.since, progress.passed = found.since, found.passed
    progress.reset = was


def _clock_ahead(state: State, setup: setups.ClockBelieved) -> None:
    state.clocks_ahead.accept(setup.source, setup.until_s, setup.at_s, setup.reason)


def _receipts(state: State, setup: setups.ReceiptsTo) -> None:
    state.receipts.learn(
        setup.source, setup.stream, setup.name, left=setup.left, queue=setup.queue
    )  # fmt: skip


def _claim(state: State, setup: setups.StreamClaimed) -> None:
    if setup.key != UNNAMED:
        state.memories.claim((setup.source, setup.key, setup.stream), setup.by)


# ---- numbers and lives -------------------------------------------------------------------


def _numbers(state: State, setup: setups.NumbersReserved) -> None:
    state.number_ceiling = setup.ceiling


def _restart(state: State, setup: setups.RestartedBeforeLives) -> None:
    state.next_message = max(state.next_message, setup.message)


def _life(state: State, setup: setups.LifeBegun) -> None:
    if state.lives.enter(setup, state.stamp, state.next_ordinal):
        _doubt_marks(state)
    state.stamp, state.next_ordinal = setup.stamp, setup.ordinal
    state.next_message, state.number_ceiling = setup.message, 0


def _streams(state: State, setup: setups.StreamsGoOn) -> None:
    state.lives.leave(state.stamp, setup.end, setup.ordinal)
    state.stamp, state.next_ordinal = setup.stamp, setup.ordinal


def _skip(state: State, setup: setups.SkippedBeforePlaces) -> None:
    for number, index, counter in setup.lanes:
        state.all_queues[number].lanes[index].skip_to(counter)


def _places(state: State, setup: setups.PlacesBegun) -> None:
    state.begin_places(setup.first)


def _restored(state: State, setup: setups.StorePutBack) -> None:
    state.restored = Restored(**asdict(setup))
    if setup.told:
        return
    state.undone.clear()
    state.memories.lost()
    # It lies in a directory that was made for it: that is no copy to warn of.
    state.lives.made_ns = 0
    if setup.previous:
        state.doubts = Doubts()
        _untold(state)
    for progress in state.progress.values():
        progress.vague = True
    _doubt_marks(state)


def _untold(state: State) -> None:
    """Nobody wants to be told of an end any more, because another manager tells it. Dead letters
    and journal copies stay here."""
    for queue in state.all_queues.values():
        for index, wanted in list(queue.wanting.items()):
            left = ReportRequests(
                replace(one, flags=one.flags & ~(PUT_FINAL | PUT_ACKS))
                for one in wanted
                if one.flags & (PUT_DEADLETTER | PUT_JOURNAL)
            )
            if left:
                queue.wanting[index] = left
            else:
                del queue.wanting[index]


def _doubt_marks(state: State) -> None:
    for outgoing in state.outgoing.values():
        outgoing.left, outgoing.left_known = {}, False  # another life may have sent more


def _undone(state: State, setup: setups.UndoneKnown) -> None:
    state.undone[setup.manager, setup.knows] = setup.at_s


# ---- damage ------------------------------------------------------------------------------


def _damaged(state: State, setup: setups.FoundDamaged) -> None:
    state.damages.add(
        setup.queue, setup.lookup, 1, first=0, bytes=setup.bytes, address=setup.address,
        at_s=setup.at_s,
    )  # fmt: skip


def _group(state: State, setup: setups.GroupCommitted) -> None:
    prepared = list(filter(state.branches.is_prepared, setup.branches))
    # The decision about branches elsewhere stands in the record that decides about those here.
    state.branches.decide(prepared, setup.at, setup.by)
    state.groups.committed(setup, prepared)


# ---- rights ------------------------------------------------------------------------------


def _rights_given(state: State, setup: setups.RightsGiven) -> None:
    state.policy.grant(
        grant_of_row(setup.who, setup.rights, setup.pattern, setup.owner, setup.queue, setup.by)
    )
    if setup.owner:
        # Older versions did not note who has made a queue.
        state.makers.owned(state.queues.get(setup.pattern), setup.queue, setup.who)


def _shared(state: State, setup: setups.RightsShared) -> None:
    state.policy.shared = SharedRights(setup.id, setup.number, load_grants(setup.grants))


def _noted(state: State, setup: setups.Noted) -> None:
    state.trail.note(
        Act(setup.number, setup.at_s, setup.who, setup.where, setup.what, setup.about, setup.result,
            setup.before)
    )  # fmt: skip


def _token(state: State, setup: setups.TokenCreated) -> None:
    token = Token(setup.name, setup.salt, setup.digest, setup.made_s, setup.expires_s)
    state.tokens.put(token)
    for words, pattern in setup.grants:
        state.policy.grant(grant_of_row(token.actor, words, pattern))


def _token_revoked(state: State, setup: setups.TokenRevoked) -> None:
    token = state.tokens.get(setup.name)
    if token is not None:
        state.tokens.drop(setup.name)
        state.policy.forget_actor(ActorPattern.exactly(token.actor))


# ---- jobs --------------------------------------------------------------------------------


def _job(state: State, setup: setups.JobStarted) -> None:
    state.jobs.start(
        Job(setup.number, sources_of(setup.sources), Order.load(setup.order), setup.who,
            setup.where, setup.free, setup.at_s, setup.total, into=tuple(setup.into))
    )  # fmt: skip


_EFFECTS: dict[type[setups.Setup], Callable[[State, Any], object]] = {
    ActRepeated: lambda state, setup: state.trail.repeat(setup.number, setup.at_s),
    setups.AliasJoined: lambda state, setup: state.join_outgoing(setup.number, setup.name),
    setups.BranchForgotten: lambda state, setup: state.branches.drop(
        state.branches.numbered(setup.number)
    ),
    setups.ClockBelieved: _clock_ahead,
    setups.DamageDropped: lambda state, setup: state.drop_damage(setup.number),
    setups.DecisionCarriedOut: lambda state, setup: state.branches.carried_out(setup.gtrid),
    setups.RowsFound: lambda state, setup: state.branches.rows.found(
        setup.agent, noted=setup.noted
    ),
    setups.RowsForgotten: lambda state, setup: state.branches.rows.forget(setup.agent),
    setups.RowsMissing: lambda state, setup: state.branches.rows.miss(
        setup.agent, missing=setup.missing
    ),
    setups.RowsMarked: lambda state, setup: state.branches.rows.marked(setup.agent),
    setups.Fenced: _fence,
    setups.FoundDamaged: _damaged,
    setups.GroupCommitted: _group,
    setups.GroupForgotten: lambda state, setup: state.groups.forget(setup.app),
    HeadTold: lambda state, setup: state.heads.told(
        setup.source, Head(setup.number, setup.digest, setup.at_s)
    ),
    setups.JobEnded: lambda state, setup: state.jobs.end(
        setup.number, JobState(setup.state), setup.at_s, setup.why
    ),
    setups.JobStarted: _job,
    setups.Left: _left,
    setups.LifeBegun: _life,
    MakerKnown: _maker,
    setups.MayHaveLeftElsewhere: _elsewhere,
    setups.NameBound: _bound,
    setups.NameUnbound: _unbound,
    PeerProven: _proven,
    AddressBound: _address_bound,
    setups.Noted: _noted,
    setups.NumbersReserved: _numbers,
    setups.Offline: _offline,
    setups.FailureTold: lambda state, setup: state.failed(setup.places, setup.why),
    setups.OutgoingDropped: lambda state, setup: state.drop_outgoing(setup.number),
    setups.OutgoingOpened: _outgoing,
    setups.OutgoingHomes: _homes,
    setups.OutgoingWanted: _wanted,
    setups.Paused: _pause,
    setups.PlacesBegun: _places,
    setups.SkippedBeforePlaces: _skip,
    setups.QueueDropped: _drop_queue,
    setups.QueueMade: _queue,
    setups.QueueSet: _queue_set,
    setups.ReaderForgotten: lambda state, setup: state.readings.forget(setup.queue, setup.reader),
    setups.ReceiptsTo: _receipts,
    setups.RefusedLate: _refused_late,
    setups.RestartedBeforeLives: _restart,
    setups.RightsGiven: _rights_given,
    setups.RightsShared: _shared,
    setups.RightsTaken: lambda state, setup: state.policy.revoke(
        ActorPattern.read(setup.who), rights_of(setup.rights), QueuePattern.read(setup.pattern)
    ),
    setups.TokenCreated: _token,
    setups.TokenRevoked: _token_revoked,
    setups.StorePutBack: _restored,
    setups.StreamClaimed: _claim,
    setups.StreamMoved: lambda state, setup: state.move_stream(
        state.outgoing_numbered(setup.number), setup.stream, setup.first, setup.last
    ),
    setups.StreamSetBack: _stream_reset,
    setups.StreamsGoOn: _streams,
    setups.SubqueueDropped: lambda state, setup: state.drop_subqueue(setup.number),
    setups.SubqueueMade: lambda state, setup: state.make_subqueue(
        setup.number, setup.parent, setup.name
    ),
    setups.UndoneKnown: _undone,
}
