"""Dead letters and journal copies: find them, look at them, send them home, remove them.

A dead letter of a transactional queue goes home in one transaction with its removal: whatever
crashes in between, it is in exactly one place. A dead letter of a message that was not
transactional is sent first and removed then, so that a crash in between leaves two of it, and
never none.

Written once for threads and tasks, as generators of calls (``partners/driving.py``);
``threads/letters`` and ``tasks/letters`` are the faces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import Any, Final, Protocol, Unpack

from onceq.client.enlisting import AnyTransaction, leave
from onceq.client.plans.tracking import ENDS
from onceq.client.properties import SendProperties
from onceq.errors import InvalidParameter, OnceqError, ReceiveTimeout
from onceq.model.classes import FORGOTTEN_THERE, SECOND_LETTER, TOLD_ALREADY, MessageClass
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.message import NO_CORRELATION, Acknowledge, Journal, Message
from onceq.model.returned import marked
from onceq.model.time import NEVER_S
from onceq.model.views.queues import QueueView
from onceq.packet.batch import Batch
from onceq.partners.driving import Calls, call

DEAD_XACT: Final = "SYSTEM$;DEADXACT"
DEAD: Final = "SYSTEM$;DEADLETTER"
JOURNAL: Final = "SYSTEM$;JOURNAL"
PAGE: Final = 256
BATCH: Final = 100
"""Dead letters that go home in one transaction."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message in a dead-letter queue or a journal.

    Attributes:
        here: GUID of the manager that it was found at.
    """

    queue: str
    message: Message
    here: bytes = NO_GUID

    @property
    def reason(self) -> str:
        """In a word: expired, refused, in doubt, ..."""
        return ENDS.get(self.message.message_class, ("", ""))[0]

    @property
    def why(self) -> str:
        """In a sentence."""
        known = ENDS.get(self.message.message_class)
        text = known[1] if known else f"class {self.message.message_class:#06x}"
        return f"{text} ({self.cause})" if self.cause else text

    @property
    def in_doubt(self) -> bool:
        """Whether it may have been received, for all that is known here."""
        return self.message.message_class == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER

    @property
    def cause(self) -> str:
        """Of one in doubt: what ended the wait for it, in words; "" if that is not known."""
        return CAUSES.get(self.message.note, "")

    @property
    def second(self) -> str:
        """Where its sender has another dead letter, which is the one to return; "" if nowhere.

        What is kept where a transactional message died is beside the sender's own, if that was
        asked for: the sender's application knows what to do with it.
        """
        message = self.message
        if message.note == SECOND_LETTER:
            return "in the dead-letter queue that its sender has named"
        elsewhere = message.id.source not in (self.here, NO_GUID)
        asked = bool(message.journal & Journal.DEADLETTER)
        if elsewhere and asked and message.transactional and self.queue == DEAD_XACT:
            return f"at {guid_text(message.id.source)}"
        return ""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of them. Everything that is given must fit.

    Attributes:
        reason: A word (``Letter.reason``) or a class such as 0x8003.
        destination, label: A part of it, in any case of letters.
        origin: Name or GUID of the sending manager.
        older_s, younger_s: Seconds since they came here.
        id: Message identifier as text, with / or \\ in it.
    """

    reason: str = ""
    destination: str = ""
    label: str = ""
    origin: str = ""
    older_s: int = 0
    younger_s: int = 0
    id: str = ""

    def fits(self, letter: Letter, now_s: int) -> bool:
        """Whether it is one of them."""
        message = letter.message
        age = max(now_s - message.arrived_time, 0)
        return (
            self._fits_reason(letter)
            and self.destination.replace("/", "\\").casefold() in message.destination.casefold()
            and self.label.casefold() in message.label.casefold()
            and (not self.origin or message.id.source == guid_bytes(self.origin))
            and age >= self.older_s
            and (not self.younger_s or age <= self.younger_s)
            and (not self.id or str(message.id) == self.id.replace("/", "\\"))
        )

    def _fits_reason(self, letter: Letter) -> bool:
        if not self.reason:
            return True
        if self.reason[:1].isdigit():
            return letter.message.message_class == int(self.reason, 0)
        return letter.reason == self.reason.casefold()


CAUSES: Final[dict[int, str]] = {
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "its time was over",
    MessageClass.NACK_DELETED: "an operator removed it from the outgoing queue",
    MessageClass.NACK_BAD_DESTINATION_QUEUE: "its queue left the directory",
    FORGOTTEN_THERE: "its receiver had acknowledged it and does not know any more how it ended: it "
    "was put back to an earlier moment",
    TOLD_ALREADY: "its receiver has told how it ended, and this queue manager was put back to an "
    "earlier moment",
}
"""What ended the wait for a message in doubt, in words."""
REASONS: Final = tuple(sorted({word for word, _ in ENDS.values()} - {"arrived", "received"}))


def filter_of(**given: Any) -> Filter:
    """A filter, checked.

    Raises:
        InvalidParameter: There is no such reason, or the origin is no GUID.
    """
    made = Filter(**{name: value for name, value in given.items() if value})
    if made.reason:
        try:
            known = made.reason.casefold() in REASONS or int(made.reason, 0) >= 0
        except ValueError:
            known = False
        if not known:
            raise InvalidParameter(
                f"there is no reason {made.reason!r}; say a class such as 0x8003, or one of "
                f"{', '.join(REASONS)}"
            )
    if made.origin:
        try:
            guid_bytes(made.origin.strip("{}"))
        except ValueError as error:
            raise InvalidParameter(f"an origin is the GUID of a queue manager: {error}") from None
    return made


ALL: Final = Filter()


class Manager(Protocol):
    """A queue manager as this uses it, of either face."""

    @property
    def id(self) -> str: ...

    def peek_many(self, queue: str, max: int, /, *, after: int) -> Awaitable[Batch] | Batch: ...

    def receive(self, queue: str, /, *, lookup_id: int) -> Awaitable[Message] | Message: ...

    def queue(self, name: str, /) -> Awaitable[QueueView] | QueueView: ...

    def purge(self, name: str, /) -> Awaitable[int] | int: ...

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        transactional: bool,
        **properties: Unpack[SendProperties],
    ) -> object: ...

    def transaction(self) -> Transaction: ...


class Transaction(AnyTransaction, Protocol):
    """A transaction as this uses it, of either face."""

    def receive(self, queue: str, /, *, lookup_id: int) -> object: ...

    def send(
        self, destination: str, body: bytes, **properties: Unpack[SendProperties]
    ) -> object: ...

    def commit(self) -> object: ...


class Search:
    """Goes through the messages of queues, page by page."""

    def __init__(self, queues: Iterable[str], which: Filter, now_s: int) -> None:
        self._queues = deque(queues)
        self._which, self._now_s = which, now_s
        self._after = 0

    @property
    def over(self) -> bool:
        """Whether everything was looked at."""
        return not self._queues

    def page(self, qm: Manager) -> Calls[list[Letter]]:
        """Those of the next page that fit."""
        queue, here = self._queues[0], guid_bytes(qm.id)
        try:
            page = yield from call(qm.peek_many, queue, PAGE, after=self._after)
        except ReceiveTimeout:
            self._queues.popleft()
            self._after = 0
            return []
        self._after = page.lookup_ids[-1]
        found = (Letter(queue, message, here) for message in page)
        return [letter for letter in found if self._which.fits(letter, self._now_s)]


def home(letter: Letter, to: str = "") -> tuple[str, dict[str, Any]]:
    """Where a dead letter goes, and with which properties: its own, and the count one higher."""
    message = letter.message
    values: dict[str, Any] = {
        "label": message.label,
        "priority": None if message.transactional else message.priority,
        "delivery": message.delivery,
        "acknowledge": message.acknowledge,
        "admin_queue": message.admin_queue,
        "response_queue": message.response_queue,
        "journal": message.journal | Journal.DEADLETTER,
        "app_specific": message.app_specific,
        "body_type": message.body_type,
        "extension": marked(message.extension, message.returned + 1),
        "trace": int(message.trace),
        "deliver_at": message.deliver_at,
    }
    if message.correlation_id != NO_CORRELATION:
        values["correlation_id"] = message.correlation_id
    for name in ("time_to_reach_queue", "time_to_be_received"):
        if getattr(message, name) < NEVER_S - 1:
            values[name] = getattr(message, name)
    if letter.queue not in (DEAD, DEAD_XACT):
        values["dead_letter_queue"] = letter.queue
    empty = ("", None, b"", Acknowledge.NONE, 0)
    kept = {name: value for name, value in values.items() if value not in empty}
    kept["delivery"] = message.delivery
    return to or message.destination, kept


@dataclass(slots=True)
class Returned:
    """What became of dead letters that were to go home.

    Attributes:
        sent: How many went.
        kept: Those that stayed, with the reason.
        more: Whether there were more than the limit.
    """

    sent: int
    kept: list[tuple[Letter, str]]
    more: bool = False


def stays(
    letter: Letter, qm: Manager, *, in_doubt: bool, second: bool, returns_max: int, to: str
) -> Calls[str]:
    """Why a dead letter is not returned; "" if it may be."""
    message = letter.message
    if letter.in_doubt and not in_doubt:
        cause = f" ({letter.cause})" if letter.cause else ""
        return (
            f"in doubt{cause}: it may have been received, and would be twice (--in-doubt sends it)"
        )
    if letter.second and not second:
        return (
            f"its sender has a dead letter of it too, {letter.second}: return that one; both, and "
            "it would be received twice (--second sends this one)"
        )
    if message.returned >= returns_max:
        return f"it was returned {message.returned} times already (--max-returns)"
    if message.id.source in (letter.here, NO_GUID) or to:
        return ""
    return (yield from _cannot_go_back(qm, message))


def _cannot_go_back(qm: Manager, message: Message) -> Calls[str]:
    """Why a message that another manager sent does not go to its queue again; "" if it may.

    Where it died as the target its queue is here, and it goes there: nobody else has it any more.
    """
    sender = guid_text(message.id.source)
    try:
        queue = yield from call(qm.queue, message.destination)
    except OnceqError:
        return f"it was sent by {sender}, and its queue is not here (--to sends it on)"
    if message.transactional and not queue.transactional:
        return "it is transactional, and its queue is not (--to sends it to another)"
    return ""


def give_back(
    qm: Manager, queues: Sequence[str], which: Filter, now_s: int, *, to: str = "",
    limit: int = RETURN_MESSAGES_MAX, returns_max: int = RETURNS_MAX, in_doubt: bool = False,
    second: bool = False, dry_run: bool = False, progress: Callable[[int], object] | None = None,
) -> Calls[Returned]:  # fmt: skip
    """Send dead letters home.

    Args:
        to: Another destination for all of them.
        limit: At most so many.
        returns_max: None that was returned so often.
        in_doubt: Also those that may have been received.
        second: Also those of which their sender has another dead letter.
        dry_run: Only say what would happen.
        progress: Called with the number of those that went, after each transaction.

    Raises:
        OnceqError: A destination cannot be sent to any more; what went before has gone.
    """
    if limit < 1 or returns_max < 1:
        raise InvalidParameter("a limit is a number from 1")
    found = Returned(0, [])
    # All of them are found first: what goes home and dies again at once must not go round.
    wanted: list[Letter] = []
    search = Search(queues, which, now_s)
    while not (search.over or found.more):
        for letter in (yield from search.page(qm)):
            reason = yield from stays(
                letter, qm, in_doubt=in_doubt, second=second, returns_max=returns_max, to=to
            )
            if reason:
                found.kept.append((letter, reason))
            elif len(wanted) == limit:
                found.more = True
                break
            else:
                wanted.append(letter)
    if dry_run:
        found.sent = len(wanted)
        return found
    for queue, of_queue in groupby(wanted, lambda letter: letter.queue):
        while batch := list(islice(of_queue, BATCH)):
            yield from _send_plain(qm, batch, to) if queue == DEAD else _send(qm, batch, to)
            found.sent += len(batch)
            if progress is not None:
                progress(found.sent)
    return found


def _send(qm: Manager, batch: list[Letter], to: str) -> Calls[None]:
    """In one transaction with their removal."""
    tx = qm.transaction()
    try:
        for letter in batch:
            destination, values = home(letter, to)
            yield partial(tx.receive, letter.queue, lookup_id=letter.message.lookup_id)
            yield partial(tx.send, destination, letter.message.body, **values)
        yield tx.commit
    except BaseException:
        yield from leave(tx)
        raise


def _send_plain(qm: Manager, batch: list[Letter], to: str) -> Calls[None]:
    """Not transactional: sent, and then removed. What died because its queue is transactional
    goes in a transaction of its own."""
    for letter in batch:
        message, (destination, values) = letter.message, home(letter, to)
        in_transaction = message.message_class == MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE
        if in_transaction:
            values.pop("priority", None)
            values.pop("delivery", None)
        yield partial(qm.send, destination, message.body, transactional=in_transaction, **values)
        yield partial(qm.receive, letter.queue, lookup_id=message.lookup_id)


def discard(
    qm: Manager, queues: Sequence[str], which: Filter, now_s: int, *, dry_run: bool = False
) -> Calls[int]:
    """Remove messages for good; how many."""
    count = 0
    if which == ALL and not dry_run:
        for queue in queues:
            count += yield from call(qm.purge, queue)
        return count
    search, wanted = Search(queues, which, now_s), list[Letter]()
    while not search.over:
        wanted += yield from search.page(qm)
    for letter in wanted:
        if not dry_run:
            try:
                yield partial(qm.receive, letter.queue, lookup_id=letter.message.lookup_id)
            except OnceqError:
                continue  # Somebody else was faster.
        count += 1
    return count
