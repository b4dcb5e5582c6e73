"""What a unit of work sends: gathered here until it goes along with the commit, in one frame where
it fits; a large one is shipped ahead in parts.

The queue manager refuses a frame entirely or takes it entirely, so a call that fails has added
nothing. If something is refused that an earlier call had accepted, or only part of a call could be
taken back, the unit is doomed: it never commits without a message that it was given.

Neighbours of one kind are put together, so that one by one sent they travel as a batch.

The commit begins the next transaction at the queue manager (``Commit.then``), so that it is there
only if the commit has happened, and its receive stands behind the commit in the same write. So a
loop over a queue costs one round trip a transaction, and a commit that fails takes no message
along.

Upholds: I2 (all or none).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from onceq import errors
from onceq.client.link import LinkRequest, Session, of_parent
from onceq.client.plans.handles import know_for_transaction
from onceq.client.plans.plan import DONE, Plan, do, tell
from onceq.client.plans.selection import some
from onceq.client.properties import BARE_BYTES, Bodies, parted, parts, run_of, weight
from onceq.client.results import MessageIds
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.message import PLAIN, check_lifetimes
from onceq.model.record import MutableRecord, field
from onceq.model.requests import SendItem
from onceq.model.requests.transactions import AS_SET
from onceq.model.results import dooms, send_failed
from onceq.model.run import Run, largest_of
from onceq.packet.arrived import Batch


class Gathered(SendItem):
    """A batch that grows by messages of the same destination, properties and second.

    The bytes of bodies, and of headers of their own, are pieces: they are joined when they are
    wanted.

    Attributes:
        second: In which they were sent.
    """

    second: int = 0
    _more: list[tuple[Run, Run | None]] = field(default_factory=list)
    """What came after the first; each by one step, which no signal handler and no other thread can
    come between."""

    def took(self, destination: str, values: dict[str, Any], second: int, run: Run,
             own: Run | None) -> bool:  # fmt: skip
        """Add more messages if they are of this kind; whether they are."""
        if (
            self.second != second
            or self.destination != destination
            or self.values != values
            or (own is None) != (self.own is None)
        ):
            return False
        self._more.append((run, own))
        return True


def _joined(first: Run, more: list[Run]) -> Run:
    """Runs of messages as one."""
    lengths = first.lengths[:]
    for run in more:
        lengths.extend(run.lengths)
    return Run(b"".join([first.data, *(run.data for run in more)]), lengths)


def offered(gathered: list[Gathered], clock: Callable[[], float]) -> list[Gathered]:
    """Complete gathered messages for a frame: join their runs, and set their ages."""
    now = int(clock()) if gathered else 0
    for item in gathered:
        item.age_s = now - item.second
        more, item._more = item._more, []
        if not more:
            continue
        item.bodies = _joined(item.bodies, [run for run, _ in more])
        if item.own is not None:
            item.own = _joined(item.own, [own for _, own in more if own is not None])
    return gathered


def named(items: Sequence[SendItem]) -> str:
    """Where gathered sends go, for an error of one of them: the queue manager names it better."""
    names = dict.fromkeys(item.destination for item in items)
    return next(iter(names)) if len(names) == 1 else "one of " + ", ".join(names)


class Taken(dict[str, list[Sequence[int]]]):
    """Lookup identifiers by the name of the queue that they were received from."""

    def queue_of(self, lookup: int) -> str:
        """Where this transaction has received a message from.

        Raises:
            InvalidParameter: From no queue, or from several.
        """
        if len(self) == 1:
            return next(iter(self))
        names = [name for name, ids in self.items() if any(lookup in part for part in ids)]
        if len(names) != 1:
            raise errors.InvalidParameter(
                "say in which queue it is: this transaction has received no message with that "
                "lookup identifier" + (", or several of different queues" if names else "")
            )
        return names[0]


class Next(Protocol):
    """The unit of work that is to begin."""

    session: Session
    begun: bool
    number: int
    ahead: PipelinedReceive | None


class PipelinedReceive(MutableRecord):
    """A receive that is asked for before its transaction has begun; or nothing.

    Attributes:
        unit: In which it is.
        number: Of the transaction.
        request: The receive.
    """

    unit: Next | None = None
    number: int = 0
    request: LinkRequest | None = None

    def committed(self) -> None:
        """The transaction has begun."""
        if self.unit is not None:
            self.unit.begun, self.unit.number, self.unit.ahead = True, self.number, self

    def answer(self) -> Plan[Batch]:
        """Wait for what it takes."""
        assert self.request is not None
        batch: Batch = yield self.request
        return batch

    def give_up(self) -> Plan[None]:
        """Nobody knows whether the transaction has begun: end it."""
        if self.unit is not None:
            with contextlib.suppress(errors.OnceqError):
                yield from tell(requests.Abort(self.number))


NOTHING: Final = PipelinedReceive()


def ahead(unit: Next, queue: str, *, count: int, timeout: float | None) -> PipelinedReceive:
    """What a unit of work takes first, for the commit before it."""
    session = unit.session
    number = session.next_transaction()
    asked = holding(session, queue, number, count=count, timeout=timeout)
    return PipelinedReceive(unit, number, next(asked))


def holding(
    session: Session, queue: str, transaction: int, *, count: int, timeout: float | None,
    lookup: int = 0,
) -> Plan[Batch]:  # fmt: skip
    """Take messages, also from a queue that is not transactional."""
    return some(
        session, queue, count=count, timeout=timeout, transaction=transaction, lookup=lookup,
        hold=True,
    )  # fmt: skip


T = TypeVar("T")
FLUSH_BYTES: Final = 4 << 20
"""Bodies of a transaction gathered here before they are shipped ahead of its commit."""
FLUSH_MESSAGES: Final = 100_000
HEADERS_BYTES: Final = 4_096
"""A body nearer than this to the largest packet is shown to the manager at once."""
LOST: Final = "aborted, because the connection was lost"
ENDING: Final = "being committed, and that is not over"


class SendingUnit:
    """A unit of work, as far as it sends.

    Attributes:
        begun: Whether the manager knows of it.
        number: Under which it does; 0 before that.
        over: "" while it is open; else what became of it.
        doomed: The send that was refused, if one was: it can only be aborted.
        id: Of its commit, once that was tried.
        sent: Identifiers of its messages, after the commit.
        idle_s: How long nothing may be asked in it; 0: without end; AS_SET: as the settings say.
        blameless: To abort it counts against no message that it holds.
        owed: What was called in it and has not been awaited to its end.
        ahead: Its first receive, if that went out with the commit before it.
        life: Of its session, when it was made; in a forked child the session has another one.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.number = 0
        self.begun = False
        self.over = ""
        self.doomed: errors.SendFailed | None = None
        self.id: TransactionId | None = None
        self.sent: MessageIds | None = None
        self.ahead: PipelinedReceive | None = None
        self._from = Taken()
        self._items: list[Gathered] = []
        self._bytes = 0
        self._messages = 0
        self._first: Mapping[str, Any] = {}
        self._worked = False
        self.idle_s = AS_SET
        self.blameless = False
        self.owed: list[str] = []
        self.life = session.life
        self.total = 0
        """Messages added to it so far."""

    @property
    def decided(self) -> bool:
        """Whether its commit has happened, or may have."""
        return self.over in ("committed", ENDING) or self.over.startswith("in doubt")

    # ---- its state ------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises TransactionOver if it is not; TransactionLost if its manager has undone it;
        WrongProcess in a child of its process."""
        if self.life is not self.session.life:
            self.check_process()
        if self.over == LOST:
            raise self.lost()
        if self.over:
            raise errors.TransactionOver(f"this transaction is over: it was {self.over}")

    def check_awaited(self) -> None:
        """Raises NotCarriedOut if a call in it has not been awaited: it was not made."""
        if self.owed:
            raise errors.NotCarriedOut(
                f"{', '.join(self.owed)} of this transaction: called and not awaited, so nothing "
                "of the transaction happens; write await before each call"
            )

    def check_process(self) -> None:
        """Raises WrongProcess in a child of its process."""
        if self.life is not self.session.life:
            raise of_parent("this transaction")

    def check_sound(self) -> None:
        """The same; raises SendFailed if there is nothing left but to abort it."""
        self.check_open()
        if self.doomed is not None:
            raise self.doomed

    def _refused(self, destination: str, error: errors.OnceqError) -> errors.SendFailed:
        """A send was refused, and its transaction with it; the manager says the same."""
        if isinstance(error, errors.WrongQueueKind):  # Another queue has the name that was known.
            self.session.destinations.clear()
        self.doomed = send_failed(destination, error)
        return self.doomed

    def lost(self) -> errors.TransactionLost:
        """Its connection is gone, and with it all that it had done."""
        self.over = LOST
        return errors.TransactionLost(f"this transaction is over: it was {self.over}; do it again")

    def begin(self) -> Plan[None]:
        """Let the manager know of it."""
        if not self.begun:
            self.number = self.session.next_transaction()
            # It goes out with the first request that needs it, in one write.
            yield from tell(requests.Begin(self.number, self.idle_s), lazy=True)
            self.begun = True

    def guard(self, plan: Plan[T]) -> Plan[T]:
        """A lost connection ends what was begun on it."""
        try:
            return (yield from plan)
        except errors.ServiceNotAvailable as error:
            if self.begun and self.over != LOST:
                raise self.lost() from error
            raise

    @property
    def idle(self) -> bool:
        """Whether it has sent and received nothing."""
        return not (self.total or self._from or self._worked)

    def _abort(self, why: str = "") -> requests.Abort:
        """What undoes it at the manager."""
        return requests.Abort(self.number, why, self.blameless)

    def _undo(self) -> Plan[None]:
        """Abort it at the manager; the caller is told what led to it, not this."""
        if self.begun:
            with contextlib.suppress(errors.OnceqError):
                yield from tell(self._abort())

    # ---- sending --------------------------------------------------------------------------

    def send(self, destination: str, bodies: Bodies, properties: Mapping[str, Any]) -> Plan[None]:
        """Add messages. If this raises none was added, and if not because of the call itself
        (a wrong name or property) the transaction is doomed: its commit says so (S0).

        Returns:
            What is still to do; DONE if nothing had to be asked of the manager.
        """
        if self.over or self.doomed is not None or self.life is not self.session.life:
            self.check_sound()
        if not isinstance(destination, str):
            raise errors.InvalidParameter(f"a destination is a name, not {destination!r}")
        run = run_of(bodies)
        count = len(run.lengths)
        own: Run | None = None
        values: dict[str, Any] = {}
        size = len(run.data) + BARE_BYTES
        if properties:
            values, own = parted(properties, count)
            size += weight(values, own)
            if self.total:
                check_lifetimes(self._first, values)
        if (
            not count
            # Its send may be refused for its size: that is to be said by this call, not by the
            # commit.
            or size > PACKET_BYTES_MAX - HEADERS_BYTES
            or self._bytes + size > FLUSH_BYTES
            or self._messages + count > FLUSH_MESSAGES
            or self.session.destinations.get(destination, False) is False
        ):
            return self.add(destination, run, values, own, size)
        self._gather(destination, values, run, own, size)
        return DONE

    def add(
        self, destination: str, run: Run, values: dict[str, Any], own: Run | None, size: int
    ) -> Plan[None]:
        """The same, with everything checked."""
        yield from self.guard(know_for_transaction(self.session, destination))
        full = self._bytes + size > FLUSH_BYTES or self._messages + len(run) > FLUSH_MESSAGES
        large = largest_of(run.lengths) > PACKET_BYTES_MAX - HEADERS_BYTES
        if self._items and (full or large):
            yield from self._ship()
        if large or size > FLUSH_BYTES or len(run) > FLUSH_MESSAGES:
            yield from self._ship_apart(destination, values, run, own)
        elif len(run):
            self._gather(destination, values, run, own, size)

    def add_apart(
        self, destination: str, run: Run, values: dict[str, Any], own: Run | None
    ) -> Plan[None]:
        """Add messages to a unit in which nothing is gathered, and ship them at once."""
        yield from self.guard(know_for_transaction(self.session, destination))
        yield from self._ship_apart(destination, values, run, own)

    def _gather(
        self, destination: str, values: dict[str, Any], run: Run, own: Run | None, size: int
    ) -> None:
        second = int(self.session.clock())
        self._bytes += size
        self._messages += len(run.lengths)
        if not self.total:
            self._first = values
        self.total += len(run.lengths)
        if not (self._items and self._items[-1].took(destination, values, second, run, own)):
            self._items.append(Gathered(destination, PLAIN, run, 0, own, values, second))

    def _ship(self) -> Plan[None]:
        """Send the gathered messages ahead of the commit. Their calls have already succeeded, so a
        fault in one of them dooms the transaction."""
        yield from self.begin()
        items, self._items, self._bytes, self._messages = self._items, [], 0, 0
        try:
            yield from self._sending(offered(items, self.session.clock))
        except (
            errors.TransactionOver,
            errors.RolledBackByTime,
            errors.SendFailed,
            errors.ServiceNotAvailable,
        ):
            self._items[:0] = items
            raise
        except errors.OnceqError as error:
            doomed = self._refused(named(items), error)
            if dooms(error):
                raise doomed from error
            raise

    def _ship_apart(
        self, destination: str, values: dict[str, Any], run: Run, own: Run | None
    ) -> Plan[None]:
        """Send ahead the messages of one call, in as many frames as they need."""
        yield from self.begin()
        for index, (part, heads) in enumerate(parts(run, own)):
            item = SendItem(destination, PLAIN, part, own=heads, values=values)
            try:
                yield from self._sending([item])
            except (
                errors.TransactionOver,
                errors.RolledBackByTime,
                errors.SendFailed,
                errors.ServiceNotAvailable,
            ):
                raise
            except errors.OnceqError as error:
                if index or dooms(error):  # A part of the call was taken, or could be no more.
                    self._refused(destination, error)
                raise
            if not self.total:
                self._first = values
            self.total += len(part)

    def _sending(self, items: Sequence[SendItem]) -> Plan[None]:
        """One frame of sends; interrupted, it leaves the transaction without nobody knows what."""
        try:
            yield from self.guard(do(requests.Send(self.number, items)))
        except (errors.OnceqError, GeneratorExit):
            raise
        except BaseException:
            self.over = "aborted, because a send in it was given up while it waited"
            yield from self._undo()
            raise
