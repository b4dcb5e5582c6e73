"""The queues of a manager: how they are made and deleted, what leads to them, and who made them.

These are the tables of ``State`` that hold queues, subqueues and outgoing queues; records alone
change them (``State.apply`` and ``State.apply_setup``). The maker of a queue is noted when it is
made and kept as long as the queue exists, even if the maker loses its rights. Queues that the
account that runs the queue manager has made have no noted maker.

A message that moves between a queue and its subqueues keeps its packet, the second of its arrival,
its lifetime (unless a poison policy sets it aside for people), and the senders that ask how it
ends. It gets a new place, a new lookup identifier, one more in its count of moves, and a fresh
abort count (Q-35, SND-22). Its earlier failures go with it. A delayed message that moves is not
delayed any more, and that is not counted as a move.

Upholds: I7 (the number of a queue is given once), I11 (the end of a moved message is still told),
I18 (no counter is given twice), I22, I24 (shares of owners, ``model/shares.py``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from onceq.core.state import setups
from onceq.core.state.audit_trail import ReportRequests
from onceq.core.state.client_memory import Readings
from onceq.core.state.in_doubt_table import DOUBTS_QUEUE, Doubts
from onceq.core.state.log_space import Space
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import KEPT, REMOVED
from onceq.core.state.positions import Positions
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.state.records import SET_ASIDE, RangeChange
from onceq.core.state.setups import Setup
from onceq.errors import DamagedRecord
from onceq.model.marks import DELAYED, NEVER_S
from onceq.model.names import FormatName, parse_format_name
from onceq.model.policy import Policy
from onceq.model.queue import QueueProperties
from onceq.model.shares import OwnerCounts, Thing


class Numbers:
    """Numbers that rise."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: list[int] = []

    def add(self, number: int) -> None:
        """One more, which is not there; most are greater than all others."""
        if self._all and number < self._all[-1]:
            insort(self._all, number)
        else:
            self._all.append(number)

    def drop(self, number: int) -> None:
        """One less, which is there."""
        del self._all[bisect_left(self._all, number)]

    def behind(self, number: int) -> list[int]:
        """Those that are greater, the smallest first."""
        return self._all[bisect_right(self._all, number) :]


def thing_of(queue: AnyQueue) -> Thing:
    """As what a queue is counted."""
    if isinstance(queue, OutgoingQueue):
        return Thing.OUTGOING
    assert isinstance(queue, Queue)
    return Thing.QUEUES if queue.parent is None else Thing.SUBQUEUES


def is_counted(sub: str) -> bool:
    """Whether a subqueue of that name is counted. The one for delayed messages is not: there is at
    most one for each queue, and neither a commit nor an arrival may fail for it."""
    return sub.casefold() != DELAYED


class Makers:
    """Who made each queue, and how many of each kind a maker has."""

    __slots__ = ("_of", "counts", "streams", "subqueues")

    def __init__(self) -> None:
        self._of: dict[int, str] = {}
        """By number."""
        self.subqueues = 0
        """All counted subqueues, of any maker."""
        self.streams = OwnerCounts()
        """Incoming streams that are remembered, by the GUID, in hexadecimal, of their sender."""
        self.counts = {
            thing: OwnerCounts() for thing in (Thing.QUEUES, Thing.SUBQUEUES, Thing.OUTGOING)
        }

    def of(self, number: int) -> str:
        """Who has made one; "": the account that runs the queue manager, or nobody knows."""
        return self._of.get(number, "")

    def note_maker(self, queue: AnyQueue, who: str) -> None:
        """Somebody has made it."""
        if queue.number not in self._of:
            self._of[queue.number] = who
            self.counts[thing_of(queue)].add(who)

    def owned(self, queue: Queue | None, number: int, who: str) -> None:
        """Somebody owns a queue of that number, if it is there (0: older stores do not say which):
        before makers were noted, that was who had made it."""
        if queue is not None and number in (0, queue.number):
            self.note_maker(queue, who)

    def gone(self, queue: AnyQueue) -> None:
        """It is there no more."""
        if isinstance(queue, Queue) and queue.parent is not None:
            self.subqueues -= is_counted(queue.sub)
        who = self._of.pop(queue.number, None)
        if who is not None:
            self.counts[thing_of(queue)].drop(who)

    def dump(self) -> list[tuple[int, str]]:
        """For a checkpoint: pairs of a number and its maker."""
        return list(self._of.items())


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
"""Hidden queue of messages in doubt whose senders want no dead letter, and asked to be told how
the messages end (``core/transfer/in_doubt.py``)."""
SYSTEM_QUEUES = {
    DEAD_XACT: ("system$;deadxact", True),
    DEAD_LETTER: ("system$;deadletter", False),
    JOURNAL: ("system$;journal", False),
}
ORDER_QUEUE_NUMBER = 4
FIRST_NUMBER = 16
"""Smaller numbers are kept for queues that every manager has; 4 is the order queue."""


class QueueTables:
    """The queues, subqueues and outgoing queues of one manager."""

    def __init__(self) -> None:
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
        """Numbers of outgoing queues by their last streams, for streams without messages here."""
        self.answering: dict[int, None] = {}
        """Numbers of the outgoing queues that exist only to answer strangers."""
        self.homes_kept = False
        """Whether an answer was ever opened for a sender that is not free
        (``core/peers/answer_addresses.py``)."""
        self.next_number = FIRST_NUMBER
        self.first_place = 1
        """Counters of local queues begin there, in what is made in this life."""
        self.makers, self.readings, self.policy = Makers(), Readings(), Policy()
        self.doubts = Doubts()
        for number, (key, transactional) in SYSTEM_QUEUES.items():
            made = QueueProperties(key, private=False, number=number, transactional=transactional)
            queue = Queue(number, self.space, made, system=True)
            self.all_queues[number] = self.queues[key] = queue
            self.queue_numbers.add(number)
        for number, name in ((ACKS_OWED, "owed"), (DOUBTS_KEPT, "doubts"), (DAMAGED, "damaged")):
            properties = QueueProperties(name=f"system$;{name}", private=False, number=number)
            self.all_queues[number] = Queue(number, self.space, properties, system=True)

    # ---- setup records ------------------------------------------------------------------

    def apply_to_queues(self, setup: Setup) -> None:
        """Apply a setup about queues or outgoing queues."""
        match setup:
            case setups.QueueMade(properties):
                self.make_queue(properties)
            case setups.QueueSet(properties):
                queue = self.queues[queue_key_of(properties)]
                if not properties.private:
                    self.public.pop(queue.properties.instance, None)
                    self.public[properties.instance] = queue
                for each in (queue, *queue.subs.values()):
                    each.properties = properties
                assert queue.journal is not None
                queue.journal.properties = journal_of(properties)
            case setups.QueueDropped(key):
                queue = self.queues.pop(key)
                self.queue_numbers.drop(queue.number)
                self.policy.forget_queue(key, queue.number)
                if not queue.properties.private:
                    self.public.pop(queue.properties.instance, None)
                for sub in list(queue.subs.values()):
                    self.drop_subqueue(sub.number)
                assert queue.journal is not None
                self.drop(queue.journal)
                self.drop(queue)
            case setups.SubqueueMade(number, parent, name):
                self.make_subqueue(number, parent, name)
            case setups.SubqueueDropped(number):
                self.drop_subqueue(number)
            case setups.MakerKnown(number, who):
                self.makers.note_maker(self.all_queues[number], who)
            case setups.FailureTold(places, why):
                self.failed(places, why)
            case setups.PlacesBegun(first):
                self.begin_places(first)
            case setups.SkippedBeforePlaces(lanes):
                for number, index, counter in lanes:
                    self.all_queues[number].lanes[index].skip_to(counter)
            case setups.OutgoingOpened():
                (opened,) = parse_format_name(setup.name)
                outgoing = self.make_outgoing(setup.number, opened)
                # One that an earlier version has opened left no mark of what it transmitted.
                outgoing.left_known = setup.marked
                if setup.for_strangers:
                    self.answers_only(outgoing)
                if setup.homes is not None:
                    outgoing.homes = frozenset(setup.homes)
                    outgoing.answers = self.homes_kept = True
            case setups.OutgoingDropped(number):
                self.drop_outgoing(number)
            case setups.AliasJoined(number, name):
                self.join_outgoing(number, name)
            case setups.OfOutgoing(number):
                self._apply_to_outgoing(setup, self.outgoing_numbered(number))
            case _:
                raise DamagedRecord(f"nothing applies {setup.verb!r}")

    def _apply_to_outgoing(self, setup: setups.OfOutgoing, outgoing: OutgoingQueue) -> None:
        match setup:
            case setups.Left(_, lanes):
                outgoing.left.update((int(lane), counter) for lane, counter in lanes)
                outgoing.left_known = True
            case setups.MayHaveLeftElsewhere(_, lanes):
                outgoing.elsewhere.update((int(lane), counter) for lane, counter in lanes)
            case setups.OutgoingHomes(_, homes):
                outgoing.homes = None if homes is None else frozenset(homes)
                outgoing.answers = self.homes_kept = True
            case setups.OutgoingWanted(number, answers):
                outgoing.for_strangers = False
                if not answers:
                    outgoing.homes = None
                self.answering.pop(number, None)
            case setups.Paused(_, since_s):
                outgoing.paused_s = since_s
            case setups.Fenced(_, stream):
                outgoing.fence = stream
            case setups.StreamMoved(_, stream, first, last):
                self.move_stream(outgoing, stream, first, last)

    # ---- queues of this manager ---------------------------------------------------------

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

    def begin_places(self, first: int) -> None:
        """No local queue gives a counter below this one any more."""
        self.first_place = first
        for queue in self.all_queues.values():
            if isinstance(queue, Queue):
                queue.lanes.skip_to(first)

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

    # ---- outgoing queues ----------------------------------------------------------------

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

    # ---- what is in them ----------------------------------------------------------------

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

    def drop(self, queue: AnyQueue) -> None:
        """Forget a queue and what is in it."""
        for lane in queue.lanes.values():
            for state in KEPT:
                for first, count in list(lane.ranges(state, 0)):
                    lane.remove(first, count)
        del self.all_queues[queue.number]
        self.makers.gone(queue)
        self.readings.drop(queue.number)

    def all_lanes(self) -> Iterator[tuple[AnyQueue, int, Positions]]:
        """Every lane of every queue."""
        for queue in self.all_queues.values():
            for index, lane in queue.lanes.items():
                yield queue, index, lane

    def recount(self) -> dict[int, int]:
        """Count the messages of each queue from the tables, without the kept totals (I19)."""
        return {
            queue.number: sum(
                count
                for lane in queue.lanes.values()
                for state in KEPT
                for _, count in lane.ranges(state, 0)
            )
            for queue in self.all_queues.values()
        }


def carry_failures(lane: Positions, first: int, count: int, into: Positions, place: int) -> None:
    """Copy the undone receipts of messages, and the reasons, to their new places."""
    if not lane.aborts and not lane.failures:
        return
    for at in range(count):
        aborts = lane.aborts.get(first + at, 0)
        before, why = lane.failures.get(first + at, (0, ""))
        if aborts or before or why:
            into.failures[place + at] = (before + aborts, why)


def shift(state: QueueTables, move: RangeChange, wall_s: int) -> None:
    """Take a range out of one queue and put it behind what is in another."""
    queue, target = state.all_queues[move.queue], state.all_queues[move.to]
    lane, into = queue.lanes[move.lane], target.lanes[move.lane]
    begin = into.next
    for counter in range(move.first, move.first + move.count):
        ((address, lengths, parts),) = lane.stored(counter, 1)
        place = into.append(
            address, lengths, arrived=lane.arrived(counter, 1)[0],
            expires=NEVER_S if move.reason == SET_ASIDE else lane.expires(counter),
            express=lane.is_express(counter), parts=parts,
        )  # fmt: skip
        # That its time has come is no move of anybody, and its count is not touched.
        if lane.due is None or counter not in lane.due:
            into.moved[place] = (lane.moved.get(counter, (0, 0))[0] + 1, wall_s)
        elif counter in lane.moved:
            into.moved[place] = lane.moved[counter]
        reason = lane.classes.get(counter)
        if reason is not None:
            into.classes[place] = reason
        if counter in lane.notes:
            into.notes[place] = lane.notes[counter]
        carry_failures(lane, counter, 1, into, place)
    for w, start, size in queue.wants(move.lane).parts(move.first, move.count):
        if w is not None:
            at = start - w.first
            told = replace(
                w, first=begin + start - move.first, count=size, number=w.number + at,
                message=w.message + at,
            )  # fmt: skip
            target.wanting.setdefault(move.lane, ReportRequests()).add(told)
    state.take_out(queue, move.lane, move.first, move.count)


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


def journal_of(properties: QueueProperties) -> QueueProperties:
    """Properties of the journal of a queue: it keeps copies, and nothing is copied from it. Who
    pauses the queue does not pause it."""
    quota_kb = properties.journal_quota_kb
    return replace(properties, journal=False, quota_kb=quota_kb, paused_since=0)
