"""Setup records: what operators, starts and rare events do, each a type of its own.

A setup is one JSON record, ``["verb", {values}]``. The fields of its type are the values; bytes are
hexadecimal there. Fields with a default may be missing, because older versions did not write them;
values that this version does not know are passed over.

Every type says what it does to the durable state; ``setup_effects.py`` does it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from onceq.core.state.queue_properties import dump_properties, restore_properties
from onceq.errors import DamagedRecord, OnceqError
from onceq.model.names import FormatName, parse_format_name
from onceq.model.queue import QueueProperties

KIND_SETUP = 2
SETUP_VERSION = 1

T = TypeVar("T", bound="Setup")
KINDS: dict[str, type[Setup]] = {}
"""By verb."""
_JSON = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


class Setup:
    """One thing that was set up; see the module."""

    __slots__ = ()
    verb: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    """Of its fields; looked up once for the type, not for each record."""

    def values(self) -> dict[str, Any]:
        """As JSON has them."""
        found = {name: getattr(self, name) for name in self.names}
        return {name: v.hex() if isinstance(v, bytes) else v for name, v in found.items()}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """From JSON; raises KeyError, TypeError or ValueError."""
        taken = {}
        for field in fields(cls):  # type: ignore[arg-type]
            if field.name in values or field.default is MISSING:
                value = values[field.name]
                taken[field.name] = bytes.fromhex(value) if field.type == "bytes" else value
        return cls(**taken)

    def encode(self) -> bytes:
        """Bytes of the record."""
        text = _JSON.encode([self.verb, self.values()])
        return bytes((KIND_SETUP, SETUP_VERSION)) + text.encode()


def decode_setup(raw: bytes) -> Setup:
    """A setup from the JSON of its record; raises DamagedRecord."""
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise DamagedRecord(f"a setup record is not JSON: {error}") from None
    match found:
        case [str(verb), dict(values)] if verb in KINDS:
            try:
                return KINDS[verb].of(values)
            except (KeyError, TypeError, ValueError, OnceqError) as error:
                raise DamagedRecord(f"a record of {verb!r} makes no sense: {error!r}") from None
        case [str(verb), dict()]:
            raise DamagedRecord(f"a record of unknown purpose {verb!r}")
    raise DamagedRecord("a setup record without verb and values")


@dataclass_transform(frozen_default=True)
def _setup(verb: str) -> Callable[[type[T]], type[T]]:
    """Make a class a frozen dataclass, and the one that a verb stands for."""

    def made(kind: type[T]) -> type[T]:
        found = dataclass(frozen=True, slots=True)(kind)
        found.verb = verb
        found.names = tuple(field.name for field in fields(found))  # type: ignore[arg-type]
        KINDS[verb] = found
        return found

    return made


# ---- queues ------------------------------------------------------------------------------


class _OfQueue(Setup):
    """All properties of a queue are the values."""

    __slots__ = ()
    properties: QueueProperties

    def values(self) -> dict[str, Any]:
        return dump_properties(self.properties)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        return cls(restore_properties(values))  # type: ignore[call-arg]


@_setup("queue")
class QueueMade(_OfQueue):
    """A queue was made."""

    properties: QueueProperties


@_setup("queue-set")
class QueueSet(_OfQueue):
    """A queue has these properties from now on."""

    properties: QueueProperties


@_setup("drop-queue")
class QueueDropped(Setup):
    """A queue was deleted, with its journal and its subqueues."""

    key: str


@_setup("subqueue")
class SubqueueMade(Setup):
    """A subqueue of the queue ``parent`` was made."""

    number: int
    parent: int
    name: str


@_setup("forget-reader")
class ReaderForgotten(Setup):
    """It is forgotten how far a reader of a queue was."""

    queue: int
    reader: str


@_setup("failed")
class FailureTold(Setup):
    """A receiver has said why it gives messages back, or refuses them.

    Attributes:
        places: Queue, lane, first counter and count of each range.
        why: In its words, cut at ``FAILURE_CHARS_MAX``.
    """

    places: list[list[int]]
    why: str


@_setup("drop-subqueue")
class SubqueueDropped(Setup):
    """A subqueue that was empty and that nobody used went."""

    number: int


# ---- outgoing queues ---------------------------------------------------------------------


@_setup("outgoing")
class OutgoingOpened(Setup):
    """An outgoing queue was opened.

    Attributes:
        marked: ``Left`` says what it has transmitted; missing in older stores: everything may have
            been.
        for_strangers: Only to answer strangers.
        homes: Addresses that it may be connected to (``core/peers/homes.py``); None: to any.
    """

    number: int
    name: FormatName
    marked: bool = False
    for_strangers: bool = False
    homes: tuple[str, ...] | None = None

    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "number": self.number, "name": str(self.name), "marked": self.marked,
            "for_strangers": self.for_strangers,
        }  # fmt: skip
        return values if self.homes is None else values | {"homes": list(self.homes)}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        (name,) = parse_format_name(values["name"])
        marked, for_strangers = values.get("marked", False), values.get("for_strangers", False)
        homes = values.get("homes")
        more = None if homes is None else tuple(homes)
        return cls(values["number"], name, marked, for_strangers, more)


@_setup("left")
class Left(Setup):
    """No message behind these counters has been transmitted: pairs of lane and counter."""

    number: int
    lanes: list[list[int]]


@_setup("elsewhere")
class MayHaveLeftElsewhere(Setup):
    """Another manager with this identity was noticed, and may have transmitted what stood in the
    outgoing queue up to these counters: pairs of lane and counter."""

    number: int
    lanes: list[list[int]]


@_setup("alias")
class AliasJoined(Setup):
    """A further name of an outgoing queue's destination shares the queue from now on (EOD-3)."""

    number: int
    name: str


@_setup("drop-outgoing")
class OutgoingDropped(Setup):
    """An outgoing queue with nothing in it was forgotten, and its further names."""

    number: int


@_setup("homes")
class OutgoingHomes(Setup):
    """Answers of an outgoing queue go to these addresses from now on; None: to any."""

    number: int
    homes: list[str] | None


@_setup("wanted")
class OutgoingWanted(Setup):
    """An outgoing queue that was opened for answers alone is wanted here as well.

    Attributes:
        answers: Only for answers to managers that are no strangers.
    """

    number: int
    answers: bool = False


@_setup("offline")
class Offline(Setup):
    """An operator took the manager off the network; 0: back."""

    since_s: int


@_setup("pause")
class Paused(Setup):
    """An outgoing queue was paused; 0: resumed."""

    number: int
    since_s: int


@_setup("fence")
class Fenced(Setup):
    """The receiver of an outgoing queue has left the streams in which messages wait: this newer
    one is announced to it; 0: not any more."""

    number: int
    stream: int


@_setup("moved-stream")
class StreamMoved(Setup):
    """What waits from counter ``first`` to ``last`` goes on in that stream, numbered from 1; the
    packets in the log keep the numbers that they had."""

    number: int
    stream: int
    first: int
    last: int


@_setup("refused-late")
class RefusedLate(Setup):
    """A receiver has refused a message of an outgoing queue that had let go of it.

    Attributes:
        message_class: Why.
        id: Of the message.
        stream, place: Its stream, and its number there.
    """

    number: int
    message_class: int
    id: str
    stream: int
    place: int
    at_s: int


# ---- other managers ----------------------------------------------------------------------


@_setup("bound")
class NameBound(Setup):
    """A manager answers under a name that was connected to, such as ``os:beta``.

    Attributes:
        sent: Pairs of an outgoing queue and the last counter that was transmitted from it to the
            one before, where that is not all.
        by_hand: An operator says so.
    """

    name: str
    guid: bytes
    since_s: int
    sent: list[list[int]] | tuple[()] = ()
    by_hand: bool = False


@_setup("unbound")
class NameUnbound(Setup):
    """Nobody is known to answer under a name any more."""

    name: str


@_setup("stream-reset")
class StreamSetBack(Setup):
    """An operator has set an incoming stream back to one that was left before; 0: to nothing."""

    source: bytes
    key: str
    stream: int
    reason: str
    at_s: int


@_setup("clock-ahead")
class ClockBelieved(Setup):
    """An operator has the streams of a manager taken that begin no later than ``until_s``, though
    they may begin in the future."""

    source: bytes
    until_s: int
    at_s: int
    reason: str


@_setup("receipts")
class ReceiptsTo(Setup):
    """Where receipts for a stream that came over HTTP go.

    Attributes:
        left: The stream whose place it takes, and whose address is forgotten; 0: none.
        queue: URL of the destination queue; "" in older stores.
    """

    source: bytes
    stream: int
    name: str
    left: int = 0
    queue: str = ""


@_setup("claim")
class StreamClaimed(Setup):
    """What was not accepted of a stream that a sender's messages have left goes on in the stream
    ``by``, and in no other."""

    source: bytes
    key: str
    stream: int
    by: int


# ---- numbers and lives -------------------------------------------------------------------


@_setup("numbers")
class NumbersReserved(Setup):
    """Message numbers below the ceiling may be in use."""

    ceiling: int


@_setup("restart")
class RestartedBeforeLives(Setup):
    """The next message number after a restart, in stores of before there were lives."""

    message: int


@_setup("life")
class LifeBegun(Setup):
    """A life began with a start of the process: it gives streams from that stamp and ordinal on,
    and message numbers from that one on.

    Attributes:
        made_ns: When the directory was made, so that a copy of it is noticed.
        at_us: When, by the wall clock; 0: in older stores, which do not say it.
        orderly: Whether the life before had closed the store in order; None: nobody knows, or
            there was none.
    """

    id: bytes
    stamp: int
    ordinal: int
    message: int
    made_ns: int = 0
    at_us: int = 0
    orderly: bool | None = None


@_setup("streams")
class StreamsGoOn(Setup):
    """New streams go on there, in the same life; of the last stamp the ordinals before ``end`` were
    given."""

    stamp: int
    ordinal: int
    end: int


@_setup("skip")
class SkippedBeforePlaces(Setup):
    """Places passed over at a restart, because express messages may have had them: triples of
    queue, lane and counter. In stores of before a life had places of its own."""

    lanes: list[list[int]]


@_setup("places")
class PlacesBegun(Setup):
    """Messages that come into local queues get this counter and those behind it, in every lane:
    earlier lives, and those that a restore has undone, have given none of them."""

    first: int


@_setup("restored")
class StorePutBack(Setup):
    """The store was put back from a backup: what was known of incoming streams is vague from here
    on, and in a copy nobody wants to be told of its messages. With ``told`` only: the
    operator was told of it."""

    at_s: int
    taken_s: int
    position: int
    previous: str = ""
    aside: int = 0
    told: bool = False
    jobs: int = 0
    promises: int = 0
    tokens: int = 0


@_setup("undone")
class UndoneKnown(Setup):
    """Since a restore a manager has shown that it knows of what the restore has undone."""

    manager: bytes
    knows: str
    at_s: int


# ---- damage ------------------------------------------------------------------------------


@_setup("damaged")
class FoundDamaged(Setup):
    """A message that had just been received outside a transaction turned out to be damaged: nothing
    of it is left but this."""

    queue: str
    lookup: int
    bytes: int
    address: int
    at_s: int


@_setup("damage-drop")
class DamageDropped(Setup):
    """An operator forgets an entry of damaged messages."""

    number: int


# ---- rights ------------------------------------------------------------------------------


@_setup("rights-given")
class RightsGiven(Setup):
    """Somebody may do something from now on.

    Attributes:
        rights: Words (``model/rights.py``).
        owner: He owns the queue, because he has made it.
        queue: Number of the queue that this goes with; 0: it stays, whatever queue has such a name.
        by: Who has given it; "": the account that runs the queue manager.
    """

    who: str
    rights: list[str]
    pattern: str = ""
    owner: bool = False
    queue: int = 0
    by: str = ""


@_setup("act")
class Noted(Setup):
    """An act of administration (``core/state/trail.py``).

    Attributes:
        since: Place of the first record of its decision: all from there was done at once; 0: none.
        before: Digest of the act before it; empty: of a version without digests.
    """

    number: int
    at_s: int
    who: str
    where: str
    what: str
    about: str
    result: str = ""
    since: int = 0
    before: bytes = b""


@_setup("rights-taken")
class RightsTaken(Setup):
    """Rights that were given by these words are taken away."""

    who: str
    rights: list[str]
    pattern: str = ""


@_setup("rights-shared")
class RightsShared(Setup):
    """These are the rights that the directory gives from now on, in place of those before.

    Attributes:
        id: Of the directory's book of rights; empty: there is none.
        number: Of its last change.
        grants: Whom, words, and pattern of queues.
    """

    id: bytes
    number: int
    grants: list[list[object]]


@_setup("token")
class TokenCreated(Setup):
    """A token is good from now on, and has these rights.

    Attributes:
        digest: Of salt and secret (``model/tokens.py``); the secret is nowhere.
        expires_s: 0: it does not expire.
        grants: Pairs of the words of rights and a pattern.
    """

    name: str
    salt: bytes
    digest: bytes
    made_s: int
    expires_s: int = 0
    grants: list[list[Any]] | tuple[()] = ()


@_setup("token-revoked")
class TokenRevoked(Setup):
    """A token is no longer good, and what was granted to it by its name is taken away."""

    name: str


# ---- jobs --------------------------------------------------------------------------------


@_setup("job")
class JobStarted(Setup):
    """A job begins (``core/state/job_table.py``).

    Attributes:
        sources: Queues: number, name, and pairs of a lane and the counter behind its last message.
        order: What it is to do, as ``model/jobs.Order`` dumps it.
        into: Numbers of the queues here that it sends to.
    """

    number: int
    sources: list[list[Any]]
    order: dict[str, Any]
    who: str
    where: str
    free: bool
    at_s: int
    total: int
    into: list[int] | tuple[()] = ()


@_setup("job-ended")
class JobEnded(Setup):
    """A job is over that was not done: it was cancelled, or has failed."""

    number: int
    state: str
    at_s: int
    why: str = ""


# ---- branches ----------------------------------------------------------------------------


@_setup("branch-forget")
class BranchForgotten(Setup):
    """A branch that was decided by hand is known to its coordinator."""

    number: int


@_setup("decision-done")
class DecisionCarriedOut(Setup):
    """All partners have carried out a decision."""

    gtrid: bytes


@_setup("rows-marked")
class RowsMarked(Setup):
    """Rows of a last agent are to be looked for, up to the last that has committed a branch."""

    agent: str


@_setup("rows-found")
class RowsFound(Setup):
    """They are there, and so is the note that says so: those before the mark may be removed."""

    agent: str
    noted: bool = False


@_setup("rows-missing")
class RowsMissing(Setup):
    """Somebody has looked for rows of a last agent: some are not there, or all are there again."""

    agent: str
    missing: bool


@_setup("rows-forgotten")
class RowsForgotten(Setup):
    """A last agent is taken as it is, whatever rows it has lost."""

    agent: str


@_setup("group")
class GroupCommitted(Setup):
    """These branches are committed as one.

    The marked changes that carry it out follow; where the log ends before them, recovery carries
    out the rest.

    Attributes:
        prefix: Of the global identifiers.
        at: Second.
        branches: Numbers, in order.
        target, digest: Where it went and what was in it, as the application said; empty: it did
            not.
        by: Whose application it is; empty: of whoever runs the manager.
    """

    app: str
    query: str
    version: int
    prefix: str
    at: int
    branches: list[int]
    target: str = ""
    digest: str = ""
    by: str = ""


@_setup("group-forget")
class GroupForgotten(Setup):
    """The last version of an application is forgotten."""

    app: str
