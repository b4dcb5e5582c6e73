"""The durable state of a queue manager: what records say, and nothing else.

``apply`` is the only way in which it changes, while running and at recovery. ``snapshot`` and
``restore`` are its form in a checkpoint.

Upholds: I2 (one record is applied whole), I7 (numbers come from durable counters), I22 (the same
``apply`` always), I24 (one small entry a stream; tables, not objects, for messages).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from onceq.core.state import setups
from onceq.core.state.audit_trail import ReportRequest, ReportRequests, Trail, TrailHeads
from onceq.core.state.branch_table import Branches, GroupTable, PreparedBranch
from onceq.core.state.client_memory import Outcomes
from onceq.core.state.in_doubt_table import UNNAMED, Doubt, Doubts, Memories
from onceq.core.state.job_table import Jobs
from onceq.core.state.log_space import Damages, DueTimes, ExpiryTimes
from onceq.core.state.outgoing_queues import LateRefusal, OutgoingQueue
from onceq.core.state.peer_table import (
    Binding,
    Bindings,
    ClocksAhead,
    Lives,
    Progress,
    Proofs,
    Receipts,
    Reset,
    hand_over,
    holders,
)
from onceq.core.state.position_block import AVAILABLE, AWAITING, REMOVED
from onceq.core.state.positions import TRANSITIONS, Positions, concerned
from onceq.core.state.queue_tables import (
    ACKS_OWED,
    DAMAGED,
    DEFERRED_LANE,
    DOUBTS_KEPT,
    JOURNAL,
    QueueTables,
    carry_failures,
    shift,
    title_of,
)
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue, lookup_id
from onceq.core.state.records import (
    PUT_ACKS,
    PUT_DEADLETTER,
    PUT_EXPRESS,
    PUT_FINAL,
    PUT_JOURNAL,
    PUT_WANTS,
    Change,
    Op,
    Put,
    RangeChange,
    Relocated,
    SeenIdentifiers,
)
from onceq.core.state.setups import Setup, row_of
from onceq.errors import DamagedRecord
from onceq.model import limits
from onceq.model.identity import Identity
from onceq.model.log import FRAME_HEADER
from onceq.model.marks import NEVER_S
from onceq.model.patterns import ActorPattern, QueuePattern
from onceq.model.resultcodes import MessageClass
from onceq.model.rights import SharedRights, grant_of_row, load_grants, rights_of
from onceq.model.run import InTwoParts, starts_of
from onceq.model.tokens import Token, Tokens
from onceq.model.views.managers import Restored
from onceq.packet.acks import StreamMemory

IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
NEGATIVE = 0x8000
"""Bit of the classes that say why a message was not received."""
_NO_LETTERS: Final = frozenset((0, JOURNAL, DOUBTS_KEPT))
"""Where a message that has ended goes without being a dead letter."""


class State(QueueTables):
    """Queues, outgoing queues, streams, outcomes and counters of one manager."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        super().__init__()
        self.progress: dict[tuple[bytes, str], Progress] = {}
        self.bindings, self.clocks_ahead, self.proofs = Bindings(), ClocksAhead(), Proofs()
        self.first_heard: dict[bytes, int] = {}
        """Second in which the first message stream of a manager was noted."""
        self.outcomes, self.memories = Outcomes(), Memories()
        self.branches = Branches(self.space)
        self.groups = GroupTable()
        self.trail, self.heads, self.tokens, self.jobs = Trail(), TrailHeads(), Tokens(), Jobs()
        self.receipts = Receipts()
        """Where receipts of streams go that came over HTTP (HTTP-5)."""
        self.seen: OrderedDict[tuple[bytes, str, int, int], int] = OrderedDict()
        """By source, key, message number and sent time (0 in old records): when it came."""
        self.refused: OrderedDict[tuple[int, int], None] = OrderedDict()
        """Stream and number of the messages whose refusal was taken, the oldest first."""
        self.next_message = 1
        self.number_ceiling = 0
        """Numbers below it may have been used, whether a record tells of it or not."""
        self.next_ordinal = self.next_transaction = 1
        self.stamp = identity.installed_s
        """High half of new stream identifiers (EOD-14)."""
        self.lives = Lives()
        self.undone: dict[tuple[bytes, str], int] = {}
        """Who has shown that it knows of what the restore has undone, and what: since when."""
        self.restored: Restored | None = None
        """The last restore that this manager comes from; None: it comes from none."""
        self.offline_s = 0
        """Since when (seconds since 1970) an operator has disconnected this manager; 0: not."""
        self.expiry: ExpiryTimes[tuple[int, int]] = ExpiryTimes()
        """When something expires, by number of the queue and lane."""
        self.due: ExpiryTimes[tuple[int, int]] = ExpiryTimes()
        """When something that is delayed may be received, by number of the subqueue and lane."""
        self.next_expiry = self.next_due = NEVER_S
        """No message expires, or is due, before that second; may be too early, never too late."""
        self.damages = Damages()

    # ---- records ------------------------------------------------------------------------

    def apply(self, change: Change, position: int, offsets: list[int]) -> None:
        """Let a change happen; its record's frame lies at ``position`` in the log."""
        if offsets and position >= self.space.region_end:
            self.space.begin(position)
        if change.next_message:
            self.next_message = change.next_message
        if change.next_ordinal:
            self.next_ordinal = change.next_ordinal
        if change.next_transaction:
            self.next_transaction = change.next_transaction
        payload = position + FRAME_HEADER
        # First, because their counters were given before anything was handed on to the same queues
        # (``core/step/step.py``). The offsets go on with those of ``moved``.
        for put, offset in zip(change.puts, offsets, strict=False):
            parts = None
            if put.rest_of is not None:
                of = put.rest_of.put
                # Their rests lie in the packets of that put.
                rests = payload + offsets[of] + put.rest_of.rest
                starts = array("Q", starts_of(change.puts[of].packets.lengths, rests))
                starts.pop()
                parts = InTwoParts(put.rest_of.front, starts)
            self._put(put, put.address or payload + offset, change.wall_s, parts)
        for move in change.moves:
            if move.op == Op.SHIFT:
                shift(self, move, change.wall_s)
                # What was locked past its time was not counted while it was.
                self.expires_by(move.to, move.lane)
            else:
                self._move(move, change.wall_s)
        for advance in change.advances:
            if advance.key == UNNAMED:
                self.first_heard.setdefault(advance.source, change.wall_s)
                continue
            key = (advance.source, advance.key)
            progress = self.progress.get(key)
            if progress is None:
                progress = self.progress[key] = Progress(advance.source, advance.key)
                self.makers.streams.add(advance.source.hex())
                self.first_heard.setdefault(advance.source, change.wall_s)
            self.memories.advance(
                progress, advance.stream, advance.first, advance.last,
                surely_new=self.restored is None,
            )  # fmt: skip
            progress.message = advance.message
            progress.last_access_s = change.wall_s
        for seen in change.seen:
            self.see(seen, change.wall_s)
        for stream, number in change.refused:
            self.refuse(stream, number)
        for moved, offset in zip(change.moved, offsets[len(change.puts) :], strict=True):
            self._moved(moved, payload + offset)
        if change.outcome is not None:
            self.outcomes.committed(change.outcome, change.wall_s)
        if change.marks is not None:
            self.branches.mark(change.marks, change.wall_s)
            self.groups.carried_out(change.marks.branch)
            if change.marks.job is not None:
                self.jobs.advance(change.marks.job, change.wall_s)
            for read in change.marks.reads:
                if read.queue in self.all_queues:
                    self.readings.read(read, change.wall_s)

    def _put(self, put: Put, address: int, wall_s: int, parts: InTwoParts | None) -> None:
        queue = self.all_queues[put.queue]
        lane = queue.lanes[put.lane]
        soonest = lane.next_expiry
        first = lane.append(
            address,
            put.packets.lengths,
            arrived=wall_s,
            expires=put.expires,
            express=bool(put.flags & PUT_EXPRESS),
            parts=parts,
        )
        if first != put.first:
            raise DamagedRecord(f"queue {put.queue} is at {first}, its record at {put.first}")
        if put.expires < soonest:
            self.expires_by(put.queue, put.lane)
        count = len(put.packets.lengths)
        if put.reason:
            lane.classes.update(dict.fromkeys(range(first, first + count), put.reason))
        if put.due:
            if lane.due is None:
                lane.due = DueTimes()
            lane.due.add(first, count, put.due)
            self.due_by(put.queue, put.lane)
        if put.flags & PUT_WANTS:
            wanting = ReportRequest(
                first, count, put.source, put.stream, put.number, put.message, put.flags,
                put.confirm_by, put.dead_letter_queue,
            )  # fmt: skip
            queue.wanting.setdefault(put.lane, ReportRequests()).add(wanting)
        if isinstance(queue, OutgoingQueue) and put.lane == TRANSACTIONAL_LANE:
            self._number(queue, put, first)

    def _number(self, outgoing: OutgoingQueue, put: Put, first: int) -> None:
        """Keep the relation of counters and numbers (EOD-4, EOD-12)."""
        if put.stream != outgoing.stream:
            if outgoing.stream:
                outgoing.old.add(outgoing.stream, outgoing.base)
            # Nothing is here any more of those that are let go of.
            for stream in outgoing.old.forget(outgoing.ordered_lane.head, first - 1):
                del self.streams[stream]
                self.drained[stream] = outgoing.number
            while len(self.drained) > limits.DRAINED_STREAMS_MAX:
                del self.drained[next(iter(self.drained))]
            outgoing.stream = put.stream
            outgoing.base = first - put.number
            self.streams[put.stream] = outgoing
        elif first - outgoing.base != put.number:
            raise DamagedRecord(
                f"stream {put.stream:#x} is at {first - outgoing.base}, its record at {put.number}"
            )

    def _move(self, move: RangeChange, wall_s: int) -> None:
        queue, op = self.all_queues[move.queue], move.op
        lane, transition = queue.lanes[move.lane], TRANSITIONS.get(op)
        if transition is None:
            raise DamagedRecord(f"a record of an unknown operation {op}")
        if transition.ends:
            if move.to == DAMAGED:
                self._damaged(queue, lane, move, wall_s)
            elif op == Op.END and move.reason & NEGATIVE:
                self._count_end(queue, lane, move, wall_s)
            if move.to:
                self._doubt(queue, lane, move)
                # A dead letter's class is its reason; a journal copy keeps its own.
                reason = move.reason if move.reason & NEGATIVE else 0
                self._adopt(lane, move, (move.to, move.to_lane, reason), wall_s, move.note)
            for copy in move.copies_to:
                self._adopt(lane, move, copy, wall_s)
            self.take_out(queue, move.lane, move.first, move.count)
        elif op == Op.SETTLE:
            self._settle(lane, move, wall_s)
        elif transition.strict:
            ((old, new),) = transition.moves
            lane.set_state(move.first, move.count, old, new)
            if new == AWAITING:
                for w, start, size in queue.wants(move.lane).parts(move.first, move.count):
                    if w is not None:
                        lane.set_expiry(start, size, w.confirm_by)
                self.expires_by(move.queue, move.lane)
        else:
            for first, count, old, new in concerned(lane, transition, move.first, move.count):
                if new == REMOVED:
                    self.take_out(queue, move.lane, first, count)
                else:
                    lane.set_state(first, count, old, new)
                if new == AVAILABLE:
                    self._give_back(lane, first, count, counted=op == Op.UNLOCK)
                    self.expires_by(move.queue, move.lane)
                    self.due_by(move.queue, move.lane)

    def _give_back(self, lane: Positions, first: int, count: int, *, counted: bool) -> None:
        lane.expiry_due(first, count)
        if lane.due is not None:
            lane.due.again(first, count)
        if counted:
            for counter in range(first, first + count):
                lane.aborts[counter] = lane.aborts.get(counter, 0) + 1

    def _doubt(self, queue: AnyQueue, lane: Positions, move: RangeChange) -> None:
        """Dead letters in doubt are remembered by stream and number."""
        if move.reason != IN_DOUBT or move.lane != TRANSACTIONAL_LANE:
            return
        assert isinstance(queue, OutgoingQueue)
        # The packets are handed over after this: they will get the next counters there.
        place = self.all_queues[move.to].lanes[move.to_lane].next
        for at in range(move.count):
            counter = move.first + at
            arrived = lane.state(counter) == AWAITING
            w = queue.wants(move.lane).at(counter)
            flags = w.flags if w is not None else 0
            given = holders(queue, self.bindings.guid_of(queue.bound_name), counter)
            doubt = Doubt(queue.number, move.to, move.to_lane, place + at, arrived, flags, given)
            self.doubts.add(*queue.place_of(counter), doubt)

    def _damaged(self, queue: AnyQueue, lane: Positions, move: RangeChange, wall_s: int) -> None:
        """Remember where messages were that are set aside now."""
        self.damages.add(
            title_of(queue), lookup_id(move.lane, move.first), move.count,
            first=self.all_queues[DAMAGED].lanes[0].next, bytes=lane.size(move.first, move.count),
            address=lane.place_in_log(move.first)[0], at_s=wall_s, reason=move.reason,
        )  # fmt: skip

    def _count_end(self, queue: AnyQueue, lane: Positions, move: RangeChange, wall_s: int) -> None:
        """Messages end: their outgoing queue counts them, by class."""
        if isinstance(queue, OutgoingQueue):
            letters = 0 if move.to in _NO_LETTERS else move.count
            cause = move.note if move.reason == IN_DOUBT else 0
            queue.endings.note(move.reason, cause, move.count, letters=letters, at_s=wall_s)
        elif queue.number == DOUBTS_KEPT and move.reason != IN_DOUBT:
            for counter in range(move.first, move.first + move.count):
                doubt = self.doubts.at((move.queue, move.lane, counter))
                if doubt is not None:
                    self._count_settled(doubt, lane.notes.get(counter, 0), move, wall_s)

    def _count_settled(self, doubt: Doubt, cause: int, move: RangeChange, wall_s: int) -> None:
        outgoing = self.all_queues.get(doubt.outgoing)
        if isinstance(outgoing, OutgoingQueue):
            hidden = move.queue == DOUBTS_KEPT
            letters = (not hidden, not hidden or move.to not in _NO_LETTERS)
            outgoing.endings.settle(IN_DOUBT, cause, move.reason, letters=letters, at_s=wall_s)

    def _settle(self, lane: Positions, move: RangeChange, wall_s: int) -> None:
        for counter in range(move.first, move.first + move.count):
            place = (move.queue, move.lane, counter)
            doubt = self.doubts.at(place)
            if doubt is not None and move.reason == IN_DOUBT:
                self.doubts.has_arrived(place)
            elif doubt is not None:
                lane.classes[counter] = move.reason
                cause = lane.notes.pop(counter, 0)
                if move.reason & NEGATIVE and move.queue != DAMAGED:
                    self._count_settled(doubt, cause, move, wall_s)
                self.doubts.forget(move.queue, move.lane, counter, 1)
                one = replace(move, first=counter, count=1)
                for copy in move.copies_to:
                    self._adopt(lane, one, copy, wall_s)

    def served(self, number: int) -> tuple[bytes, ...]:
        """The managers that messages of an outgoing queue were ever given to."""
        outgoing = self.all_queues.get(number)
        if not isinstance(outgoing, OutgoingQueue):
            return ()
        return holders(outgoing, self.bindings.guid_of(outgoing.bound_name))

    def memory_of(self, source: bytes, key: str, stream: int) -> StreamMemory | None:
        """What is known of a stream to a queue here; None: nothing any more."""
        progress = self.progress.get((source, key))
        if progress is not None and progress.stream == stream:
            return self.memories.current(progress)
        return self.memories.left(source, key, stream)

    def _adopt(
        self,
        lane: Positions,
        move: RangeChange,
        copy: tuple[int, int, int],
        wall_s: int,
        note: int = 0,
    ) -> None:
        """Another queue takes packets over where they lie: a dead letter costs no copy.

        It arrives there now, so that a dead letter says when its message ended.
        """
        number, index, reason = copy
        target, expires = self.all_queues[number].lanes[index], NEVER_S
        if number == DOUBTS_KEPT:
            expires = min(wall_s + limits.DOUBT_AGE_S, NEVER_S - 1)
        elif number == ACKS_OWED and index == DEFERRED_LANE:
            expires = min(wall_s + limits.ACKS_DEFERRED_S, NEVER_S - 1)
        at = move.first
        for address, lengths, parts in lane.stored(move.first, move.count):
            first = target.append(address, lengths, arrived=wall_s, expires=expires, parts=parts)
            if number not in _NO_LETTERS and number != ACKS_OWED:
                carry_failures(lane, at, len(lengths), target, first)
            at += len(lengths)
            if reason:
                target.classes.update(dict.fromkeys(range(first, first + len(lengths)), reason))
            if note:
                target.notes.update(dict.fromkeys(range(first, first + len(lengths)), note))
        if expires < NEVER_S:
            self.expires_by(number, index)

    def refuse(self, stream: int, number: int) -> None:
        """A refusal was taken: when it is told again it says nothing new."""
        self.refused[stream, number] = None
        self.refused.move_to_end((stream, number))
        while len(self.refused) > limits.REFUSALS_MAX:
            self.refused.popitem(last=False)

    def see(self, seen: SeenIdentifiers, wall_s: int) -> None:
        """Identifiers have come, and are remembered for a while."""
        known, source, key = self.seen, seen.source, seen.key
        for number in seen.numbers:
            known[source, key, number, seen.sent] = wall_s
            known.move_to_end((source, key, number, seen.sent))
        while len(known) > limits.DUPLICATE_IDS_MAX:
            known.popitem(last=False)

    def _moved(self, moved: Relocated, address: int) -> None:
        lane = self.all_queues[moved.queue].lanes[moved.lane]
        lane.relocate(list(moved.counters), address, moved.packets.lengths)

    def apply_branch(self, branch: PreparedBranch, position: int) -> None:
        """A branch of an external transaction is prepared; its record lies at ``position``."""
        self.next_number = max(self.next_number, branch.number + 1)
        if branch.laid:
            if position >= self.space.region_end:
                self.space.begin(position)
            self.next_message = branch.next_message
            self.next_transaction = branch.next_transaction
        self.branches.add(branch)

    def drop_damage(self, number: int) -> None:
        """Forget damaged messages; their part of the log is not needed any more."""
        entry = self.damages.get(number)
        if entry is not None and entry.first:
            queue = self.all_queues[DAMAGED]
            end = entry.first + entry.count
            for first, count in list(queue.lanes[0].ranges(AVAILABLE, entry.first, end=end)):
                self.take_out(queue, 0, first, count)
        if entry is not None:
            self.damages.drop(number)

    def expires_by(self, number: int, index: int) -> None:
        """Something in a lane may expire sooner than before; it follows from the messages, so no
        record says it."""
        soonest = self.all_queues[number].lanes[index].next_expiry
        if soonest < NEVER_S:
            self.expiry.note((number, index), soonest)
            self.next_expiry = min(self.next_expiry, soonest)

    def due_by(self, number: int, index: int) -> None:
        """Something that is delayed in a lane of a queue here may be due sooner than before. In an
        outgoing queue it is due where it goes."""
        queue = self.all_queues[number]
        due = queue.lanes[index].due
        if due is not None and due.next < NEVER_S and not isinstance(queue, OutgoingQueue):
            self.due.note((number, index), due.next)
            self.next_due = min(self.next_due, due.next)

    # ---- setup records ------------------------------------------------------------------

    def apply_setup(self, setup: Setup) -> None:
        """Apply a rare change: to the one table that it names, or to all that it concerns."""
        if setup.table:
            getattr(self, setup.table).apply(setup)
            return
        match setup:
            case setups.NameBound(name, guid, since_s, sent, by_hand):
                before = self.bindings.bind(name, Binding(guid, since_s, by_hand))
                if before != guid:
                    self._hand_over(name, before, dict(sent))  # type: ignore[arg-type]
            case setups.NameUnbound(name):
                # The one before may still say what became of what it was given.
                before = self.bindings.guid_of(name)
                self.bindings.forget(name)
                self._hand_over(name, before, {})
            case setups.Offline(since_s):
                self.offline_s = since_s
            case setups.RefusedLate():
                endings = self.outgoing_numbered(setup.number).endings
                endings.refuse_late(LateRefusal(setup.id, setup.message_class, setup.at_s))
                self.refuse(setup.stream, setup.place)
            case setups.StreamSetBack():
                self._set_back(setup)
            case setups.UndoneKnown(manager, knows, at_s):
                self.undone[manager, knows] = at_s
            case setups.DamageDropped(number):
                self.drop_damage(number)
            case setups.GroupCommitted():
                prepared = list(filter(self.branches.is_prepared, setup.branches))
                # The decision about branches elsewhere is in the record that decides those here.
                self.branches.decide(prepared, setup.at, setup.by)
                self.groups.committed(setup, prepared)
            case setups.NumbersReserved(ceiling):
                self.number_ceiling = ceiling
            case setups.RestartedBeforeLives(message):
                self.next_message = max(self.next_message, message)
            case setups.LifeBegun():
                if self.lives.enter(setup, self.stamp, self.next_ordinal):
                    self._doubt_marks()
                self.stamp, self.next_ordinal = setup.stamp, setup.ordinal
                self.next_message, self.number_ceiling = setup.message, 0
            case setups.StreamsGoOn(stamp, ordinal, end):
                self.lives.leave(self.stamp, end, ordinal)
                self.stamp, self.next_ordinal = stamp, ordinal
            case setups.StorePutBack():
                self._put_back(setup)
            case setups.RightsGiven(who, rights, pattern, owner, queue, by):
                self.policy.grant(grant_of_row(who, rights, pattern, owner, queue, by))
                if owner:
                    # Older versions did not note who has made a queue.
                    self.makers.owned(self.queues.get(pattern), queue, who)
            case setups.RightsTaken(who, rights, pattern):
                where = QueuePattern.read(pattern)
                self.policy.revoke(ActorPattern.read(who), rights_of(rights), where)
            case setups.RightsShared(id, number, grants):
                self.policy.shared = SharedRights(id, number, load_grants(grants))
            case setups.TokenCreated():
                token = Token(setup.name, setup.salt, setup.digest, setup.made_s, setup.expires_s)
                self.tokens.put(token)
                for words, pattern in setup.grants:
                    self.policy.grant(grant_of_row(token.actor, words, pattern))
            case setups.TokenRevoked(name):
                revoked = self.tokens.get(name)
                if revoked is not None:
                    self.tokens.drop(name)
                    self.policy.forget_actor(ActorPattern.exactly(revoked.actor))
            case _:
                self.apply_to_queues(setup)

    def _hand_over(self, name: str, before: bytes, sent: dict[int, int]) -> None:
        """Another manager, or none, answers under a name from now on."""
        for outgoing in self.outgoing_under(name) if before else ():
            hand_over(outgoing, before, sent.get(outgoing.number))

    def _set_back(self, setup: setups.StreamSetBack) -> None:
        """Set back what is known of one sender's messages to one queue."""
        if setup.key == UNNAMED:
            return
        progress = self.progress[setup.source, setup.key]
        was = Reset(setup.at_s, setup.reason, progress.stream, progress.last)
        found = self.memories.back(progress, setup.stream)
        progress.stream = progress.last = progress.message = 0
        progress.passed, progress.vague, progress.since = (), found is None, 1
        if found is not None:
            progress.stream, progress.last = found.stream, found.last
            progress.since, progress.passed = found.since, found.passed
        progress.reset = was

    def _put_back(self, setup: setups.StorePutBack) -> None:
        """The store was put back from a backup.

        What was done after the backup is undone here, and not elsewhere. So nothing that was known
        for certain of what had arrived is certain any more (CNF-22).
        """
        self.restored = Restored(*row_of(setup))
        if setup.told:
            return
        self.undone.clear()
        self.memories.lost()
        # The store lies in a directory that was made for it: that is no copy to warn of.
        self.lives.made_ns = 0
        if setup.previous:
            self.doubts = Doubts()
            # No sender wants to be told how its messages end, because another manager tells it.
            # Dead letters and journal copies stay here.
            for queue in self.all_queues.values():
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
        for progress in self.progress.values():
            progress.vague = True
        self._doubt_marks()

    def _doubt_marks(self) -> None:
        """Another life may have transmitted more than the marks of this one say."""
        for outgoing in self.outgoing.values():
            outgoing.left, outgoing.left_known = {}, False
