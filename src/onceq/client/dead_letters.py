"""Dead letters and journal copies: send them home, remove them (``letter_search`` finds them).

A dead letter of a transactional queue goes home in one transaction with its removal: whatever
crashes in between, it is in exactly one place. A dead letter of a message that was not
transactional is sent first and removed then, so that a crash in between leaves two of it, and
never none.

Written once for threads and tasks, as generators of calls (``partners/driving.py``);
``threads/letters`` and ``tasks/letters`` are the faces.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import Final, Protocol, Unpack

from onceq.client.enlisting import AnyTransaction, leave
from onceq.client.letter_search import Peekable, Search
from onceq.client.properties import SendProperties
from onceq.errors import (
    InvalidParameter,
    LinkLost,
    MessageAlreadyReceived,
    MessageLocked,
    MessageNotFound,
    OnceqError,
)
from onceq.model import letters
from onceq.model.classes import MessageClass
from onceq.model.letters import (
    ALL,
    CAUSES,
    DEAD,
    DEAD_XACT,
    JOURNAL,
    REASONS,
    Filter,
    Letter,
    filter_of,
    home,
)
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.message import Message
from onceq.model.views.queues import QueueView
from onceq.partners.driving import Calls, call

__all__ = [
    "ALL", "CAUSES", "DEAD", "DEAD_XACT", "JOURNAL", "REASONS", "Filter", "Letter", "Manager",
    "Returned", "Search", "Transaction", "discard", "filter_of", "give_back", "home", "stays",
]  # fmt: skip

BATCH: Final = 100
"""Dead letters that go home in one transaction."""
FASTER: Final = (MessageNotFound, MessageAlreadyReceived, MessageLocked)
"""Somebody else has a message that was found."""


class Manager(Peekable, Protocol):
    """A queue manager as this uses it, of either face."""

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


@dataclass(slots=True)
class Returned:
    """What became of dead letters that were to go home.

    Attributes:
        sent: How many went.
        kept: Those that stayed, with the reason.
        more: Whether there were more than the limit.
        were_for: Destinations of those that went, each with how many: what is sent to another one
            does not say it any more.
    """

    sent: int
    kept: list[tuple[Letter, str]]
    more: bool = False
    were_for: dict[str, int] = field(default_factory=dict)


def stays(
    letter: Letter, qm: Manager, *, in_doubt: bool, second: bool, returns_max: int, to: str
) -> Calls[str]:
    """Why a dead letter is not returned; "" if it may be."""
    why = letters.stays(letter, in_doubt=in_doubt, second=second, returns_max=returns_max)
    if why or to or not letters.is_foreign(letter):
        return why
    transactional: bool | None = None
    with contextlib.suppress(OnceqError):
        transactional = (yield from call(qm.queue, letter.message.destination)).transactional
    return letters.cannot_go_back(letter.message, transactional)


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
        progress: Called with the number of those that went, whenever it grows.

    Raises:
        OnceqError: A destination cannot be sent to any more; what went before has gone.
    """
    if limit < 1 or returns_max < 1:
        raise InvalidParameter("a limit is a number from 1")
    found, tell = Returned(0, []), progress or (lambda count: None)
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
    found.were_for = dict(Counter(letter.message.destination for letter in wanted))
    if dry_run:
        found.sent = len(wanted)
        return found
    for queue, of_queue in groupby(wanted, lambda letter: letter.queue):
        while batch := list(islice(of_queue, BATCH)):
            if queue != DEAD:
                yield from _send(qm, batch, to)
                found.sent += len(batch)
                tell(found.sent)
                continue
            for letter in batch:
                yield from _send_plain(qm, letter, to)
                found.sent += 1
                tell(found.sent)
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


def _send_plain(qm: Manager, letter: Letter, to: str) -> Calls[None]:
    """Not transactional: sent, and then removed. What died because its queue is transactional
    goes in a transaction of its own."""
    message, (destination, values) = letter.message, home(letter, to)
    in_transaction = message.message_class == MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE
    if in_transaction:
        values.pop("priority", None)
        values.pop("delivery", None)
    what = "may have been sent, and stands"
    try:
        yield partial(qm.send, destination, message.body, transactional=in_transaction, **values)
        what = "was sent, and may stand"
        yield partial(qm.receive, letter.queue, lookup_id=message.lookup_id)
    except OnceqError as error:
        if isinstance(error, LinkLost) or what.startswith("was"):
            said = f"{error.text}; dead letter {message.id} {what} here all the same"
            error.args = (said, *error.args[1:])
        raise


def discard(
    qm: Manager, queues: Sequence[str], which: Filter, now_s: int, *, dry_run: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Calls[int]:  # fmt: skip
    """Remove messages for good; how many.

    Args:
        progress: Called with the number of those that are removed, whenever it grows.
    """
    count, tell = 0, progress or (lambda count: None)
    if which == ALL and not dry_run:
        for queue in queues:
            count += yield from call(qm.purge, queue)
            tell(count)
        return count
    search, wanted = Search(queues, which, now_s), list[Letter]()
    while not search.over:
        wanted += yield from search.page(qm)
    for letter in wanted:
        if not dry_run:
            try:
                yield partial(qm.receive, letter.queue, lookup_id=letter.message.lookup_id)
            except FASTER:
                continue
        count += 1
        tell(count)
    return count
