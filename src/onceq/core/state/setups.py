"""Setup records: the rare changes that operators, starts and single events make.

A setup is one JSON record, ``["verb", {values}]``. Its type is a struct: the tag is the verb, the
fields are the values, and ``table`` names the table of ``State`` that applies it. Bytes are
hexadecimal in JSON. Fields that an older version did not write have a default; values that this
version does not know are ignored.

Also here:

* Structs as JSON: the values of a setup record, and the rows of a checkpoint.

Upholds: I22 (a record means the same while running and at recovery), I23 (a record that makes no
sense is named).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache
from inspect import get_annotations
from typing import Any, ClassVar, Final, Self, TypeVar

from onceq.errors import DamagedRecord, OnceqError
from onceq.model.queue import QueueProperties
from onceq.model.record import Record, Struct, convert, names

# ---- rows ----------------------------------------------------------------------------------------


T = TypeVar("T", bound=Struct)


def as_json(value: object) -> object:
    """What ``json`` writes for a value that it does not know.

    A row is the list of a struct's fields, in their order. A version may add fields with defaults
    at the end: it reads the shorter rows of older versions.
    """
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct):
        return row_of(value)
    raise TypeError(f"{value!r} has no form in JSON")


encode_rows: Final = json.JSONEncoder(separators=(",", ":"), default=as_json).encode
"""Rows, or a member of a checkpoint, as JSON."""


def row_of(record: Struct) -> list[Any]:
    """The fields of a struct, as a row of a checkpoint has them."""
    return [getattr(record, name) for name in names(type(record))]


def read_row(kind: type[T], row: Iterable[Any]) -> T:
    """Make a struct from its row; raises ValueError."""
    return read_fields(kind, dict(zip(names(kind), row, strict=False)))


def read_fields(kind: type[T], values: Mapping[str, Any]) -> T:
    """Make a struct from its fields as JSON has them; raises ValueError."""
    given = dict(values)
    for name in _bytes_fields(kind):
        if name in given:
            given[name] = bytes.fromhex(given[name])
    return convert(given, kind)


@cache
def _bytes_fields(kind: type[Struct]) -> tuple[str, ...]:
    """The names of the fields that are bytes, which JSON has as hexadecimal digits."""
    hints = {name: hint for one in kind.__mro__ for name, hint in get_annotations(one).items()}
    return tuple(name for name in names(kind) if hints[name] in ("bytes", bytes))


def restore_properties(values: dict[str, Any]) -> QueueProperties:
    """Queue properties from their JSON form."""
    guids = {name: bytes.fromhex(values[name]) for name in ("instance", "type")}
    return QueueProperties(**{**values, **guids})


def dump_properties(properties: QueueProperties) -> dict[str, Any]:
    """Queue properties in JSON form."""
    guids = {"instance": properties.instance.hex(), "type": properties.type.hex()}
    return {f.name: getattr(properties, f.name) for f in fields(properties)} | guids


# ---- setups --------------------------------------------------------------------------------------


KIND_SETUP = 2
SETUP_VERSION = 1
_JSON: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, default=as_json)


class Setup(Record, frozen=True):
    """The base of all setups.

    Attributes:
        table: The attribute of ``State`` that applies it; "": ``State`` itself, because it changes
            several tables.
    """

    table: ClassVar[str] = ""

    @property
    def verb(self) -> str:
        """What the record calls it."""
        return str(self.__struct_config__.tag)

    def values(self) -> dict[str, Any]:
        """The values of the record."""
        return {name: getattr(self, name) for name in names(type(self))}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Make one from the values of a record; raises ValueError or KeyError."""
        return read_fields(cls, values)

    def encode(self) -> bytes:
        """The bytes of the record."""
        text = _JSON.encode([self.verb, self.values()])
        return bytes((KIND_SETUP, SETUP_VERSION)) + text.encode()


def decode_setup(raw: bytes) -> Setup:
    """Read a setup from the JSON of its record; raises DamagedRecord."""
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


# ---- queues ------------------------------------------------------------------------------


class _OfQueue(Setup, frozen=True):
    """The base of setups whose values are the properties of a queue."""

    properties: QueueProperties

    def values(self) -> dict[str, Any]:
        return dump_properties(self.properties)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        return cls(restore_properties(values))


class QueueMade(_OfQueue, frozen=True, tag="queue"):
    """A queue was made."""


class QueueSet(_OfQueue, frozen=True, tag="queue-set"):
    """A queue has these properties from now on."""


class QueueDropped(Setup, frozen=True, tag="drop-queue"):
    """A queue was deleted, with its journal and its subqueues."""

    key: str


class SubqueueMade(Setup, frozen=True, tag="subqueue"):
    """A subqueue of the queue ``parent`` was made."""

    number: int
    parent: int
    name: str


class ReaderForgotten(Setup, frozen=True, tag="forget-reader"):
    """It is forgotten how far a reader of a queue was."""

    table = "readings"
    queue: int
    reader: str


class FailureTold(Setup, frozen=True, tag="failed"):
    """A receiver has said why it gives messages back, or refuses them.

    Attributes:
        places: Queue, lane, first counter and count of each range.
        why: In its words, cut at ``FAILURE_CHARS_MAX``.
    """

    places: list[list[int]]
    why: str


class SubqueueDropped(Setup, frozen=True, tag="drop-subqueue"):
    """A subqueue that was empty and that nobody used went."""

    number: int


class MakerKnown(Setup, frozen=True, tag="made-by"):
    """Who has made a queue, a subqueue or an outgoing queue (``core/state/queue_tables.py``)."""

    number: int
    who: str


# ---- outgoing queues ---------------------------------------------------------------------


class OfOutgoing(Setup, frozen=True):
    """The base of setups that change an outgoing queue that is there."""

    number: int


class OutgoingOpened(Setup, frozen=True, tag="outgoing"):
    """An outgoing queue was opened.

    Attributes:
        marked: ``Left`` says what it has transmitted; missing in older stores: everything may have
            been.
        for_strangers: Only to answer strangers.
        homes: Addresses that it may be connected to (``core/peers/answer_addresses.py``); None: to
            any.
    """

    number: int
    name: str
    marked: bool = False
    for_strangers: bool = False
    homes: tuple[str, ...] | None = None

    def values(self) -> dict[str, Any]:
        values = super().values()
        if self.homes is None:
            del values["homes"]
        return values


class Left(OfOutgoing, frozen=True, tag="left"):
    """No message behind these counters has been transmitted: pairs of lane and counter."""

    lanes: list[list[int]]


class MayHaveLeftElsewhere(OfOutgoing, frozen=True, tag="elsewhere"):
    """Another manager with this identity was noticed, and may have transmitted what stood in the
    outgoing queue up to these counters: pairs of lane and counter."""

    lanes: list[list[int]]


class AliasJoined(Setup, frozen=True, tag="alias"):
    """A further name of an outgoing queue's destination shares the queue from now on (EOD-3)."""

    number: int
    name: str


class OutgoingDropped(Setup, frozen=True, tag="drop-outgoing"):
    """An outgoing queue with nothing in it was forgotten, and its further names."""

    number: int


class OutgoingHomes(OfOutgoing, frozen=True, tag="homes"):
    """Answers of an outgoing queue go to these addresses from now on; None: to any."""

    homes: list[str] | None


class OutgoingWanted(OfOutgoing, frozen=True, tag="wanted"):
    """An outgoing queue that was opened for answers alone is wanted here as well.

    Attributes:
        answers: Only for answers to managers that are no strangers.
    """

    answers: bool = False


class Offline(Setup, frozen=True, tag="offline"):
    """An operator took the manager off the network; 0: back."""

    since_s: int


class Paused(OfOutgoing, frozen=True, tag="pause"):
    """An outgoing queue was paused; 0: resumed."""

    since_s: int


class Fenced(OfOutgoing, frozen=True, tag="fence"):
    """The receiver of an outgoing queue has left the streams in which messages wait: this newer
    one is announced to it; 0: not any more."""

    stream: int


class StreamMoved(OfOutgoing, frozen=True, tag="moved-stream"):
    """What waits from counter ``first`` to ``last`` goes on in that stream, numbered from 1; the
    packets in the log keep the numbers that they had."""

    stream: int
    first: int
    last: int


class RefusedLate(Setup, frozen=True, tag="refused-late"):
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


class NameBound(Setup, frozen=True, tag="bound"):
    """A manager answers under a name that was connected to, such as ``os:beta``.

    Attributes:
        sent: Pairs of an outgoing queue and the last counter that was transmitted from it to the
            one before, where that is not all.
        by_hand: An operator says so.
    """

    name: str
    guid: bytes
    since_s: int
    sent: Sequence[Sequence[int]] = ()
    by_hand: bool = False


class NameUnbound(Setup, frozen=True, tag="unbound"):
    """Nobody is known to answer under a name any more."""

    name: str


class PeerProven(Setup, frozen=True, tag="proven"):
    """A queue manager has shown its certificate: it is believed with one alone from now on."""

    table = "proofs"
    guid: bytes


class AddressBound(Setup, frozen=True, tag="address-bound"):
    """An address that is believed without proof is that queue manager; NO_GUID: none yet."""

    table = "proofs"
    address: str
    guid: bytes


class HeadTold(Setup, frozen=True, tag="trail-head"):
    """Another queue manager has told the end of its trail: number and digest of its last act."""

    table = "heads"
    source: bytes
    number: int
    digest: bytes
    at_s: int


class StreamSetBack(Setup, frozen=True, tag="stream-reset"):
    """An operator has set an incoming stream back to one that was left before; 0: to nothing."""

    source: bytes
    key: str
    stream: int
    reason: str
    at_s: int


class ClockBelieved(Setup, frozen=True, tag="clock-ahead"):
    """An operator has the streams of a manager taken that begin no later than ``until_s``, though
    they may begin in the future."""

    table = "clocks_ahead"
    source: bytes
    until_s: int
    at_s: int
    reason: str


class ReceiptsTo(Setup, frozen=True, tag="receipts"):
    """Where receipts for a stream that came over HTTP go.

    Attributes:
        left: The stream whose place it takes, and whose address is forgotten; 0: none.
        queue: URL of the destination queue; "" in older stores.
    """

    table = "receipts"
    source: bytes
    stream: int
    name: str
    left: int = 0
    queue: str = ""


class StreamClaimed(Setup, frozen=True, tag="claim"):
    """What was not accepted of a stream that a sender's messages have left goes on in the stream
    ``by``, and in no other."""

    table = "memories"
    source: bytes
    key: str
    stream: int
    by: int


# ---- numbers and lives -------------------------------------------------------------------


class NumbersReserved(Setup, frozen=True, tag="numbers"):
    """Message numbers below the ceiling may be in use."""

    ceiling: int


class RestartedBeforeLives(Setup, frozen=True, tag="restart"):
    """The next message number after a restart, in stores of before there were lives."""

    message: int


class LifeBegun(Setup, frozen=True, tag="life"):
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


class StreamsGoOn(Setup, frozen=True, tag="streams"):
    """New streams go on there, in the same life; of the last stamp the ordinals before ``end`` were
    given."""

    stamp: int
    ordinal: int
    end: int


class SkippedBeforePlaces(Setup, frozen=True, tag="skip"):
    """Places passed over at a restart, because express messages may have had them: triples of
    queue, lane and counter. In stores of before a life had places of its own."""

    lanes: list[list[int]]


class PlacesBegun(Setup, frozen=True, tag="places"):
    """Messages that come into local queues get this counter and those behind it, in every lane:
    earlier lives, and those that a restore has undone, have given none of them."""

    first: int


class StorePutBack(Setup, frozen=True, tag="restored"):
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


class UndoneKnown(Setup, frozen=True, tag="undone"):
    """Since a restore a manager has shown that it knows of what the restore has undone."""

    manager: bytes
    knows: str
    at_s: int


# ---- damage ------------------------------------------------------------------------------


class FoundDamaged(Setup, frozen=True, tag="damaged"):
    """A message that had just been received outside a transaction turned out to be damaged: nothing
    of it is left but this."""

    table = "damages"
    queue: str
    lookup: int
    bytes: int
    address: int
    at_s: int


class DamageDropped(Setup, frozen=True, tag="damage-drop"):
    """An operator forgets an entry of damaged messages."""

    number: int


# ---- rights ------------------------------------------------------------------------------


class RightsGiven(Setup, frozen=True, tag="rights-given"):
    """Somebody may do something from now on.

    Attributes:
        rights: Words (``model/rights.py``).
        owner: The actor owns the queue, because it has made it.
        queue: Number of the queue that this goes with; 0: it applies to every queue of such a
            name, also to later ones.
        by: The actor that has given it; "": the account that runs the queue manager.
    """

    who: str
    rights: list[str]
    pattern: str = ""
    owner: bool = False
    queue: int = 0
    by: str = ""


class Noted(Setup, frozen=True, tag="act"):
    """An act of administration (``core/state/audit_trail.py``).

    Attributes:
        since: Place of the first record of its decision: all from there was done at once; 0: none.
        before: Digest of the act before it; empty: of a version without digests.
    """

    table = "trail"
    number: int
    at_s: int
    who: str
    where: str
    what: str
    about: str
    result: str = ""
    since: int = 0
    before: bytes = b""


class ActRepeated(Setup, frozen=True, tag="act-again"):
    """An act that is kept was done again, and changed nothing."""

    table = "trail"
    number: int
    at_s: int


class RightsTaken(Setup, frozen=True, tag="rights-taken"):
    """Rights that were given by these words are taken away."""

    who: str
    rights: list[str]
    pattern: str = ""


class RightsShared(Setup, frozen=True, tag="rights-shared"):
    """These are the rights that the directory gives from now on, in place of those before.

    Attributes:
        id: Of the directory's book of rights; empty: there is none.
        number: Of its last change.
        grants: Whom, words, and pattern of queues.
    """

    id: bytes
    number: int
    grants: list[list[object]]


class TokenCreated(Setup, frozen=True, tag="token"):
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
    grants: Sequence[Sequence[Any]] = ()


class TokenRevoked(Setup, frozen=True, tag="token-revoked"):
    """A token is no longer good, and what was granted to it by its name is taken away."""

    name: str


# ---- jobs --------------------------------------------------------------------------------


class JobStarted(Setup, frozen=True, tag="job"):
    """A job begins (``core/state/job_table.py``).

    Attributes:
        sources: Queues: number, name, and pairs of a lane and the counter behind its last message.
        order: What it is to do, as ``model/jobs.Order`` dumps it.
        into: Numbers of the queues here that it sends to.
    """

    table = "jobs"
    number: int
    sources: list[list[Any]]
    order: dict[str, Any]
    who: str
    where: str
    free: bool
    at_s: int
    total: int
    into: Sequence[int] = ()


class JobEnded(Setup, frozen=True, tag="job-ended"):
    """A job is over that was not done: it was cancelled, or has failed."""

    table = "jobs"
    number: int
    state: str
    at_s: int
    why: str = ""


# ---- branches ----------------------------------------------------------------------------


class BranchForgotten(Setup, frozen=True, tag="branch-forget"):
    """A branch that was decided by hand is known to its coordinator."""

    table = "branches"
    number: int


class DecisionCarriedOut(Setup, frozen=True, tag="decision-done"):
    """All partners have carried out a decision."""

    table = "branches"
    gtrid: bytes


class RowsMarked(Setup, frozen=True, tag="rows-marked"):
    """Rows of a last agent are to be looked for, up to the last that has committed a branch."""

    table = "branches"
    agent: str


class RowsFound(Setup, frozen=True, tag="rows-found"):
    """They are there, and so is the note that says so: those before the mark may be removed."""

    table = "branches"
    agent: str
    noted: bool = False


class RowsMissing(Setup, frozen=True, tag="rows-missing"):
    """Somebody has looked for rows of a last agent: some are not there, or all are there again."""

    table = "branches"
    agent: str
    missing: bool


class RowsForgotten(Setup, frozen=True, tag="rows-forgotten"):
    """A last agent is accepted with its present rows, even if it has lost some."""

    table = "branches"
    agent: str


class GroupCommitted(Setup, frozen=True, tag="group"):
    """These branches are committed as one.

    The marked changes that carry it out follow; where the log ends before them, recovery carries
    out the rest.

    Attributes:
        prefix: Of the global identifiers.
        at: Second.
        branches: Numbers, in order.
        target, digest: Destination and digest of the batch, as the application said; empty: it
            did not.
        by: The owner of the application; empty: the account that runs the manager.
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


class GroupForgotten(Setup, frozen=True, tag="group-forget"):
    """The last version of an application is forgotten."""

    table = "groups"
    app: str


def _kinds(base: type[Setup]) -> dict[str, type[Setup]]:
    """All types below one, by verb."""
    found: dict[str, type[Setup]] = {}
    for kind in base.__subclasses__():
        if kind.__struct_config__.tag is not None:
            found[str(kind.__struct_config__.tag)] = kind
        found |= _kinds(kind)
    return found


KINDS: Final = _kinds(Setup)
"""All setups, by verb."""
