"""Requests about units of work of this manager: send, commit, abort, and what became of it.

Transactions are numbered by their owner.

Also here:

* What an application sends in one call: a batch, with its properties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceq.errors import IllegalPropertyId, IllegalPropertyValue, InvalidParameter
from onceq.model.identity import GUID_BYTES, TransactionId
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.record import MutableRecord, field, names
from onceq.model.requests.request import Needs, Request, check_failure, is_text, quoted
from onceq.model.results import Outcome, Sent
from onceq.model.run import Run

# ---- batch ---------------------------------------------------------------------------------------


AGE_S_MAX: Final = 30 * 24 * 3600
"""How long ago a message of a commit can have been sent; lifetimes count from there."""
_NAMES: Final = frozenset(names(Properties))
_TEXTS: Final = ("label", "admin_queue", "response_queue", "dead_letter_queue")
_BYTES: Final = ("correlation_id", "extension")
_CHOICES: Final = (("delivery", Delivery), ("acknowledge", Acknowledge), ("journal", Journal))


class SendItem(MutableRecord):
    """Messages of one batch: the same destination and properties, different bodies.

    Attributes:
        destination: Format name with one or more elements, as the application gave it.
        properties: Those of ``values``, once they are checked.
        age_s: Seconds since the application called send (lifetimes count from there).
        own: Headers of the messages' own (``packet/own.py``), one for each body; None: label and
            the like are those of ``properties`` for all of them.
        values: Properties by their names, as the application gave them.
    """

    destination: str
    properties: Properties
    bodies: Run
    age_s: int = 0
    own: Run | None = None
    values: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse properties that cannot be; see ``Request.check``."""
        if self.values:
            self.properties = properties_of(self.values)
        if self.age_s:
            self.age_s = min(max(self.age_s, 0), AGE_S_MAX)


def properties_of(values: Mapping[str, Any]) -> Properties:
    """Message properties from their names and values.

    Raises:
        IllegalPropertyId: There is no such property.
        IllegalPropertyValue: Its value is of a wrong type or out of range.
    """
    if not values:
        return PLAIN
    unknown = values.keys() - _NAMES
    if unknown:
        raise IllegalPropertyId(f"there is no message property {quoted(min(unknown))}")
    for name, value in values.items():
        if name in _TEXTS:
            good = isinstance(value, str) and is_text(value)
        elif name in _BYTES:
            good = isinstance(value, bytes)
        else:
            good = isinstance(value, int) or (name == "priority" and value is None)
        if not good:
            raise IllegalPropertyValue(f"property {name} cannot be {quoted(value)}")
    found = dict(values)
    acknowledge, journal = found.get("acknowledge", 0), found.get("journal", 0)
    if acknowledge & ~15 or journal & ~3:
        raise IllegalPropertyValue(
            f"acknowledge is a sum of 1, 2, 4 and 8 and journal of 1 and 2, not {acknowledge} and "
            f"{journal}"
        )
    try:
        # To make one of a choice costs more than all the rest: only where something is said.
        for name, kind in _CHOICES:
            if name in found:
                found[name] = kind(found[name])
        return Properties(**found)
    except ValueError as error:
        raise IllegalPropertyValue(str(error)) from None


# ---- transactions --------------------------------------------------------------------------------


COMMITS_MAX: Final = 1 << 62
"""Largest number of a commit."""
AS_SET: Final = -1
"""In place of a limit of a transaction: the settings have it."""
IDLE_S_MAX: Final = 10 * 366 * 24 * 3600
"""Longest time that a transaction can ask to be left alone."""


class Begin(Request):
    """Begin a transaction numbered by its owner. Answer: None.

    Attributes:
        idle_s: Seconds in which nothing is asked in it, after which it is rolled back; 0: never,
            as long as its owner is connected; AS_SET: as the settings say. The same holds for the
            one that begins with its commit.
    """

    code = 4
    needs = Needs.STATE
    quiet = True
    transaction: int
    idle_s: int = AS_SET

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if not AS_SET <= self.idle_s <= IDLE_S_MAX:
            raise InvalidParameter(f"a transaction is left alone for at most {IDLE_S_MAX} s")


class Send(Request):
    """Send batches: inside a transaction, or now and non-transactionally (transaction 0).

    All items or none. Answer inside a transaction: None. Outside: ``Sent``, after the messages
    are durable (express ones: after they are queued).
    """

    code = 5
    needs = Needs.STATE
    answer = Sent | None
    transaction: int
    items: Sequence[SendItem]

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        for item in self.items:
            item.check()


class Commit(Request):
    """Add the items, then commit. Answer: ``Sent``, once durable.

    Transaction 0 commits the items alone, as one transaction. If an item is wrong in itself
    nothing happens: the answer is the error and the transaction stays open as it was. If a send
    of the transaction was refused because of the state of things (``check_all_sends``), now or
    before, the transaction is undone: the answer is SendFailed.

    Attributes:
        id: Under which the outcome can be asked for; its number rises with each commit of the
            session. None: nobody will ask.
        then: The transaction that begins with it, if it commits; 0: none. What is asked behind the
            commit in that transaction is refused if it did not.
    """

    code = 6
    needs = Needs.STATE
    answer = Sent
    transaction: int
    items: Sequence[SendItem] = ()
    id: TransactionId | None = None
    then: int = 0

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if self.then < 0:
            raise InvalidParameter("numbers of transactions begin at 1")
        if self.id is not None:
            check_id(self.id)
        for item in self.items:
            if item.values or item.age_s:
                item.check()


class Abort(Request):
    """Undo a transaction: nothing is sent, received messages go back (SND-4). Answer: None.

    Attributes:
        why: What its application says of it; it is kept with what it has received.
        blameless: The messages are not what failed: their abort counts stay as they are (SND-21).
    """

    code = 7
    needs = Needs.NOTHING
    quiet = True
    transaction: int
    why: str = ""
    blameless: bool = False

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        check_failure(self.why)


class AskOutcome(Request):
    """What became of a commit. Answer: ``Outcome``; from then on it cannot change (I3a)."""

    code = 11
    needs = Needs.NOTHING
    answer = Outcome
    id: TransactionId

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        check_id(self.id)


def check_id(id: TransactionId) -> None:
    """Raises InvalidParameter if no outcome can be kept under it."""
    if len(id.session) != GUID_BYTES or not 0 < id.number <= COMMITS_MAX:
        raise InvalidParameter(
            f"a commit is known by a session of {GUID_BYTES} bytes and a number from 1 to "
            f"{COMMITS_MAX}"
        )
