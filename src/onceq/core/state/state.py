"""The durable state of a queue manager: what records say, and nothing else.

``apply`` is the only way in which it changes, while running and at recovery. ``snapshot`` and
``restore`` are its form in a checkpoint.

Upholds: I2 (one record is applied whole), I7 (numbers come from durable counters), I22 (the same
``apply`` always), I24 (one small entry a stream; tables, not objects, for messages).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from onceq.core.state.branch_table import Branch, Branches
from onceq.core.state.commit_outcomes import Outcomes
from onceq.core.state.damage_table import Damages
from onceq.core.state.due_times import DueTimes
from onceq.core.state.expiry_times import ExpiryTimes
from onceq.core.state.group_table import Groups
from onceq.core.state.in_doubt_table import DOUBTS_QUEUE, Doubt, Doubts, Memories
from onceq.core.state.job_table import Jobs
from onceq.core.state.life_table import Lives
from onceq.core.state.live_bytes import Space
from onceq.core.state.makers import Makers, is_counted
from onceq.core.state.name_bindings import Bindings, holders
from onceq.core.state.numbers import Numbers
from onceq.core.state.peer_table import ClocksAhead, Progress
from onceq.core.state.position_block import AVAILABLE, AWAITING, KEPT, REMOVED
from onceq.core.state.position_states import TRANSITIONS, concerned
from onceq.core.state.positions import Positions
from onceq.core.state.proofs import Proofs
from onceq.core.state.queue_properties import journal_of
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue, OutgoingQueue, Queue, lookup_id
from onceq.core.state.readings import Readings
from onceq.core.state.receipt_addresses import Receipts
from onceq.core.state.records import (
    PUT_EXPRESS,
    PUT_WANTS,
    Change,
    Op,
    Put,
    RangeChange,
    Relocated,
    RestOf,
    Seen,
)
from onceq.core.state.report_requests import ReportRequest, ReportRequests
from onceq.core.state.subqueue_moves import carry_failures, shift
from onceq.core.state.trail import Trail
from onceq.core.state.trail_heads import TrailHeads
from onceq.errors import DamagedRecord
from onceq.model.classes import MessageClass
from onceq.model.limits import (
    ACKS_DEFERRED_S,
    DOUBT_AGE_S,
    DRAINED_STREAMS_MAX,
    DUPLICATE_IDS_MAX,
    REFUSALS_MAX,
)
from onceq.model.log import FRAME_HEADER
from onceq.model.manager_identity import Identity
from onceq.model.names import FormatName, parse_format_name
from onceq.model.policy import Policy
from onceq.model.queue import QueueProperties
from onceq.model.run import InTwoParts, starts_of
from onceq.model.time import NEVER_S
from onceq.model.tokens import Tokens
from onceq.model.views.managers import Restored
from onceq.packet.settle import Memory

IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
NEGATIVE = 0x8000
"""Bit of the classes that say why a message was not received."""
DEAD_XACT, DEAD_LETTER, JOURNAL = 1, 2, 3
ACKS_OWED = 5
"""Hidden queue of messages that have ended and whose acknowledgment messages are still to be made:
the core has their bytes only after the engine has read them
(``core/ending/acknowledgments.py``)."""
DEFERRED_LANE = 1
"""Its lane of those whose administration queues nobody can find before the directory is read."""
DAMAGED = 7
"""Hidden queue of messages whose stored bytes are damaged (``core/management/damage.py``)."""
JOURNAL_BIT = 1 << 31
"""The journal of a queue has the number of the queue, and this bit."""
DOUBTS_KEPT = DOUBTS_QUEUE
"""Hidden queue of messages in doubt of which no dead letter was wanted: their senders asked to be
told how they end (``core/transfer/in_doubt.py``)."""
_NO_LETTERS: Final = frozenset((0, JOURNAL, DOUBTS_KEPT))
"""Where a message that has ended goes without being a dead letter."""
SYSTEM_QUEUES = {
    DEAD_XACT: ("system$;deadxact", True),
    DEAD_LETTER: ("system$;deadletter", False),
    JOURNAL: ("system$;journal", False),
}
ORDER_QUEUE_NUMBER = 4
UNNAMED = "private#00000000"
"""Under this key older versions have noted what senders said of streams to any of their public
queues: of which one is not known, so nothing of it is read from records or checkpoints."""
FIRST_NUMBER = 16
"""Smaller numbers are kept for queues that every manager has; 4 is the order queue."""


def _in_two_parts(whole: Put, address: int, rest_of: RestOf) -> InTwoParts:
    """Where the rests of packets lie, in the packets of a put that lie at ``address``."""
    starts = array("Q", starts_of(whole.packets.lengths, address + rest_of.rest))
    starts.pop()
    return InTwoParts(rest_of.front, starts)


class State:
    """Queues, outgoing queues, streams, outcomes and counters of one manager."""

    homes_kept: bool
    """Whether an answer was ever opened for a sender that is not free (``core/peers/homes.py``)."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.space = Space()
        self.all_queues: dict[int, AnyQueue] = {}
        self.queues: dict[str, Queue] = {}
        self.public: dict[bytes, Queue] = {}
        """By GUID."""
        self.subqueues: dict[int, Queue] = {}
        self.outgoing: dict[str, OutgoingQueue] = {}
        self.queue_numbers, self.outgoing_numbers = Numbers(), Numbers()
        """Of queues and subqueues, and of outgoing queues, for lists of them."""
        self.aliases: dict[str, OutgoingQueue] = {}
        """By key of a name: the outgoing queue of another name that it has joined (EOD-3)."""
        self.bound: dict[str, dict[int, None]] = {}
        """Numbers of the outgoing queues by the name under which their manager is bound."""
        self.streams: dict[int, OutgoingQueue] = {}
        self.drained: dict[int, int] = {}
        """Of the last streams of which nothing is here any more: numbers of outgoing queues."""
        self.progress: dict[tuple[bytes, str], Progress] = {}
        self.bindings, self.clocks_ahead, self.proofs = Bindings(), ClocksAhead(), Proofs()
        self.first_heard: dict[bytes, int] = {}
        """Second in which the first message stream of a manager was noted."""
        self.answering: dict[int, None] = {}
        """Numbers of the outgoing queues that exist only to answer strangers."""
        self.outcomes, self.doubts, self.memories = Outcomes(), Doubts(), Memories()
        self.branches = Branches(self.space)
        self.groups, self.readings = Groups(), Readings()
        self.policy, self.makers = Policy(), Makers()
        self.trail, self.heads, self.tokens, self.jobs = Trail(), TrailHeads(), Tokens(), Jobs()
        self.receipts, self.homes_kept = Receipts(), False
        """Where receipts of streams go that came over HTTP (HTTP-5)."""
        self.seen: OrderedDict[tuple[bytes, str, int, int], int] = OrderedDict()
        """By source, key, message number and sent time (0 in old records): when it came."""
        self.refused: OrderedDict[tuple[int, int], None] = OrderedDict()
        """Stream and number of the messages whose refusal was taken, the oldest first."""
        self.next_number, self.next_message = FIRST_NUMBER, 1
        self.number_ceiling = 0
        """Numbers below it may have been used, whether a record tells of it or not."""
        self.next_ordinal = self.next_transaction = self.first_place = 1
        """The last one: counters of local queues begin there, in what is made in this life."""
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
        for number, (key, transactional) in SYSTEM_QUEUES.items():
            made = QueueProperties(key, private=False, number=number, transactional=transactional)
            queue = Queue(number, self.space, made, system=True)
            self.all_queues[number] = self.queues[key] = queue
            self.queue_numbers.add(number)
        for number, name in ((ACKS_OWED, "owed"), (DOUBTS_KEPT, "doubts"), (DAMAGED, "damaged")):
            properties = QueueProperties(name=f"system$;{name}", private=False, number=number)
            self.all_queues[number] = Queue(number, self.space, properties, system=True)
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
        # (``core/step/change_builder.py``). The offsets go on with those of ``moved``.
        for put, offset in zip(change.puts, offsets, strict=False):
            parts = None
            if put.rest_of is not None:
                of = put.rest_of.put
                parts = _in_two_parts(change.puts[of], payload + offsets[of], put.rest_of)
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
            while len(self.drained) > DRAINED_STREAMS_MAX:
                del self.drained[next(iter(self.drained))]
            outgoing.stream = put.stream
            outgoing.base = first - put.number
            self.streams[put.stream] = outgoing
        elif first - outgoing.base != put.number:
            raise DamagedRecord(
                f"stream {put.stream:#x} is at {first - outgoing.base}, its record at {put.number}"
            )

    def move_stream(self, outgoing: OutgoingQueue, stream: int, first: int, last: int) -> None:
        """What waits from ``first`` to ``last`` goes on in another stream, with its own numbers;
        streams that were begun behind it stay as they are."""
        for s in list(outgoing.stretches_from(first - 1)):
            if first - 1 <= s.base < last:
                self.streams.pop(s.stream, None)
                outgoing.old.drop(s.stream)
        self.streams[stream] = outgoing
        outgoing.moved_to, outgoing.fence = last, 0
        if outgoing.base >= last:
            outgoing.old.add(stream, first - 1)
            return
        if outgoing.base < first - 1:
            outgoing.old.add(outgoing.stream, outgoing.base)
        outgoing.stream, outgoing.base = stream, first - 1

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

    def take_out(self, queue: AnyQueue, index: int, first: int, count: int) -> None:
        queue.lanes[index].remove(first, count)
        if self.doubts.places:
            self.doubts.forget(queue.number, index, first, count)
        wanting = queue.wanting.get(index)
        if wanting is None:
            return
        wanting.forget_before(queue.lanes[index].head)
        if not wanting:
            del queue.wanting[index]

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

    def failed(self, places: Iterable[Sequence[int]], why: str) -> None:
        """A receiver has said why it gives messages back, or refuses them.

        Args:
            places: Queue, lane, first counter and count.
        """
        for number, index, first, count in places:
            queue = self.all_queues.get(number)
            lane = queue.lanes[index] if queue is not None else None
            for counter in range(first, first + count) if lane is not None else ():
                if lane is not None and lane.state(counter) != REMOVED:
                    lane.failures[counter] = (lane.failures.get(counter, (0, ""))[0], why)

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

    def memory_of(self, source: bytes, key: str, stream: int) -> Memory | None:
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
            expires = min(wall_s + DOUBT_AGE_S, NEVER_S - 1)
        elif number == ACKS_OWED and index == DEFERRED_LANE:
            expires = min(wall_s + ACKS_DEFERRED_S, NEVER_S - 1)
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
        while len(self.refused) > REFUSALS_MAX:
            self.refused.popitem(last=False)

    def see(self, seen: Seen, wall_s: int) -> None:
        """Identifiers have come, and are remembered for a while."""
        known, source, key = self.seen, seen.source, seen.key
        for number in seen.numbers:
            known[source, key, number, seen.sent] = wall_s
            known.move_to_end((source, key, number, seen.sent))
        while len(known) > DUPLICATE_IDS_MAX:
            known.popitem(last=False)

    def _moved(self, moved: Relocated, address: int) -> None:
        lane = self.all_queues[moved.queue].lanes[moved.lane]
        lane.relocate(list(moved.counters), address, moved.packets.lengths)

    def apply_branch(self, branch: Branch, position: int) -> None:
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

    def begin_places(self, first: int) -> None:
        """No local queue gives a counter below this one any more."""
        self.first_place = first
        for queue in self.all_queues.values():
            if isinstance(queue, Queue):
                queue.lanes.skip_to(first)

    def make_queue(self, properties: QueueProperties) -> Queue:
        """A queue as a record or a checkpoint describes it."""
        queue = Queue(properties.number, self.space, properties)
        queue.lanes.first = self.first_place
        self.all_queues[queue.number] = queue
        self.queues[queue_key_of(properties)] = queue
        self.queue_numbers.add(queue.number)
        if not properties.private:
            self.public[properties.instance] = queue
        self.next_number = max(self.next_number, queue.number + 1)
        number = queue.number | JOURNAL_BIT
        queue.journal = Queue(number, self.space, journal_of(properties), system=True)
        queue.journal.lanes.first = self.first_place
        self.all_queues[number] = queue.journal
        return queue

    def make_subqueue(self, number: int, parent: int, name: str) -> Queue:
        """A subqueue as a record or a checkpoint describes it."""
        above = self.all_queues[parent]
        assert isinstance(above, Queue)
        queue = Queue(number, self.space, above.properties, parent=above, sub=name)
        queue.lanes.first = self.first_place
        self.all_queues[number] = above.subs[name.casefold()] = self.subqueues[number] = queue
        self.queue_numbers.add(number)
        self.makers.subqueues += is_counted(name)
        self.next_number = max(self.next_number, number + 1)
        return queue

    def drop_subqueue(self, number: int) -> None:
        """Forget a subqueue, and what is in it."""
        queue = self.subqueues.pop(number)
        self.queue_numbers.drop(number)
        assert queue.parent is not None
        del queue.parent.subs[queue.sub.casefold()]
        self.drop(queue)

    def make_outgoing(self, number: int, name: FormatName) -> OutgoingQueue:
        """An outgoing queue as a record or a checkpoint describes it."""
        # As records have it: who opened it may have written the name in other letters.
        outgoing = OutgoingQueue(number, self.space, replace(name, text=str(name)))
        self.all_queues[number] = self.outgoing[outgoing.key] = outgoing
        self.outgoing_numbers.add(number)
        if outgoing.bound_name:
            self.bound.setdefault(outgoing.bound_name, {})[number] = None
        self.next_number = max(self.next_number, number + 1)
        return outgoing

    def outgoing_numbered(self, number: int) -> OutgoingQueue:
        """An outgoing queue that a record names."""
        outgoing = self.all_queues[number]
        assert isinstance(outgoing, OutgoingQueue)
        return outgoing

    def outgoing_under(self, name: str) -> Iterator[OutgoingQueue]:
        """The outgoing queues that lead to a name under which a manager is bound."""
        return map(self.outgoing_numbered, self.bound.get(name, ()))

    def answers_only(self, outgoing: OutgoingQueue) -> None:
        """An outgoing queue is there only to answer strangers."""
        outgoing.for_strangers = True
        self.answering[outgoing.number] = None

    def join_outgoing(self, number: int, name: str) -> None:
        """A name shares the outgoing queue of another from now on: nothing sent under either
        overtakes the other, also when no directory can be asked any more."""
        (element,) = parse_format_name(name)
        outgoing = self.outgoing_numbered(number)
        before = self.aliases.get(element.key())
        if before is not None:
            del before.also[element.key()]
        self.aliases[element.key()] = outgoing
        outgoing.also[element.key()] = name

    def outgoing_of(self, key: str) -> OutgoingQueue | None:
        """The outgoing queue that messages under a name have gone to; None: none was sent."""
        return self.outgoing.get(key) or self.aliases.get(key)

    def drop_outgoing(self, number: int) -> None:
        """Forget an outgoing queue in which nothing is; what is sent there next opens another."""
        outgoing = self.outgoing_numbered(number)
        assert not len(outgoing), "only an empty outgoing queue goes"
        for stream in (*outgoing.old, outgoing.stream):
            self.streams.pop(stream, None)
        del self.outgoing[outgoing.key]
        self.outgoing_numbers.drop(number)
        if outgoing.bound_name:
            of_name = self.bound[outgoing.bound_name]
            del of_name[number]
            if not of_name:
                del self.bound[outgoing.bound_name]
        self.answering.pop(number, None)
        for key in outgoing.also:
            del self.aliases[key]
        self.drop(outgoing)

    def drop(self, queue: AnyQueue) -> None:
        """Forget a queue and what is in it."""
        for lane in queue.lanes.values():
            for state in KEPT:
                for first, count in list(lane.ranges(state, 0)):
                    lane.remove(first, count)
        del self.all_queues[queue.number]
        self.makers.gone(queue)
        self.readings.drop(queue.number)

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

    def all_lanes(self) -> Iterator[tuple[AnyQueue, int, Positions]]:
        """Every lane of every queue."""
        for queue in self.all_queues.values():
            for index, lane in queue.lanes.items():
                yield queue, index, lane

    def recount(self) -> dict[int, int]:
        """Messages of each queue counted anew from the tables (I19)."""
        return {
            queue.number: sum(
                count
                for lane in queue.lanes.values()
                for state in KEPT
                for _, count in lane.ranges(state, 0)
            )
            for queue in self.all_queues.values()
        }


def title_of(queue: AnyQueue) -> str:
    """What people call a queue or an outgoing queue."""
    if isinstance(queue, OutgoingQueue):
        return str(queue.name)
    assert isinstance(queue, Queue)
    if queue.number & JOURNAL_BIT:
        return f"private$\\{queue.properties.name.removesuffix(';journal')};journal"
    private = queue.properties.private and not queue.system
    return f"private$\\{queue.title}" if private else queue.title


def stream_key_of_number(number: int) -> str:
    """Key of the streams to a private queue that is named by its number; 0 is of no queue, and
    ``UNNAMED`` its key in older stores."""
    return f"private#{number:08x}" if number else "private#0"


def queue_key_of(properties: QueueProperties) -> str:
    """How a manager finds a queue of its own: the case-folded path after the computer."""
    name = properties.name.casefold()
    return f"private$\\{name}" if properties.private else name
