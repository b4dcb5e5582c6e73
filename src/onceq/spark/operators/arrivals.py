"""Messages that arrive, out of Arrow columns; the table of their queues; and their ends as columns.

``settle`` is given the table of queues. It is read once, on the driver, and goes with every task.
Between columns in and columns out the rules decide on arrays (``rules``, ``quotas``). Rows keep
their places, so an answer belongs to the row beside it.

Upholds: I11 (one end), I24 (the table has a limit; what is no message is refused).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.marks import NEVER_S, SECOND_US
from onceq.model.names import folded
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.resultcodes import MessageClass
from onceq.spark.argument_checks import require_frame, wrong
from onceq.spark.operators import rules
from onceq.spark.operators.columns import TEXT, WHOLE, YES_NO, need
from onceq.spark.operators.rules import FOREVER, NOT_YET, ArrivingMessages, Flags, Ints

QUEUE_COLUMNS: Final = {
    "queue": (TEXT, "the name of the queue, as messages name it"),
    "transactional": (YES_NO, "whether it is transactional"),
}
QUEUE_OPTIONAL: Final = {
    "journal": (YES_NO, "whether it keeps a journal; null: it does not"),
    "quotaKb": (WHOLE, "KiB that it may hold; null, or 4,294,967,295: no limit"),
    "usedBytes": (
        WHOLE,
        "bytes that lay in it before the first of these messages, and stay; null: 0",
    ),
}
QUEUES_MAX: Final = 100_000
"""Queues of a table: it goes with every task."""
UNLIMITED: Final = 1 << 62
"""More bytes than anything holds."""
SIZE_MAX: Final = 1 << 42
"""Larger than every quota: what claims to be larger still counts as this, so that sums are sums."""
SYSTEM_NAMES: Final = ("admin_queue$", "notify_queue$", "order_queue$")
"""Queues that managers use among themselves, which may be kept quiet (Q-17)."""


@dataclass(frozen=True, slots=True)
class QueueSetup:
    """One queue: its properties, and bytes that it may hold and that it holds."""

    transactional: bool
    journal: bool = False
    quota_bytes: int = UNLIMITED
    used_bytes: int = 0

    @property
    def limited(self) -> bool:
        """Whether it has a quota."""
        return self.quota_bytes < UNLIMITED


def queue_table(queues: Any, what: str) -> Mapping[str, QueueSetup]:
    """The queues of a frame by folded name.

    Raises:
        ConfigurationError: A column is missing, or a row cannot be.
    """
    what = f"{what}: the table of queues"
    require_frame(queues, what)
    given = {name: kind for name, kind in QUEUE_OPTIONAL.items() if name in queues.columns}
    need(queues, what, {**QUEUE_COLUMNS, **given})
    rows = queues.select(*QUEUE_COLUMNS, *given).limit(QUEUES_MAX + 1).collect()
    if len(rows) > QUEUES_MAX:
        raise wrong(f"{what} has more than {QUEUES_MAX} rows; give those that messages go to")
    found: dict[str, QueueSetup] = {}
    for row in rows:
        name, place = _place(row.asDict(), what)
        if folded(name) in found:
            raise wrong(f"{what} has {name} twice")
        found[folded(name)] = place
    return found


def _place(row: dict[str, Any], what: str) -> tuple[str, QueueSetup]:
    name, transactional = row["queue"], row["transactional"]
    if not name or transactional is None:
        raise wrong(f"{what} has a row without a name, or that does not say transactional")
    quota, used = row.get("quotaKb"), row.get("usedBytes") or 0
    if quota is None:
        quota = QUOTA_UNLIMITED_KB
    if not 0 <= quota <= QUOTA_UNLIMITED_KB or used < 0:
        raise wrong(
            f"{what}: {name} has quotaKb {quota} and usedBytes {used}; they are whole numbers, "
            f"from 0 to {QUOTA_UNLIMITED_KB} and from 0 up"
        )
    limit = UNLIMITED if quota == QUOTA_UNLIMITED_KB else quota << 10
    return name, QueueSetup(transactional, bool(row.get("journal")), limit, min(used, SIZE_MAX))


def is_system(name: str) -> bool:
    """Whether a queue, by its folded name, is one that managers use among themselves."""
    return name.rpartition("\\")[2] in SYSTEM_NAMES


WHEN: Final = ("timestamp",)
COLUMNS: Final = {
    "queue": (TEXT, "its destination: one queue"),
    "transactional": (YES_NO, "whether it was sent in a transaction"),
    "sentTime": (WHEN, "when it was sent; null: when it arrived"),
}
OPTIONAL: Final = {
    "arrivedTime": (WHEN, "when it arrived; null or no such column: now"),
    "receivedTime": (
        WHEN,
        "when it was received, by a receive that was committed; null: it was not",
    ),
    "timeToReachQueue": (WHOLE, "seconds from when it was sent; null: no limit"),
    "timeToBeReceived": (WHOLE, "seconds from when it was sent; null: no limit"),
    "acknowledge": (WHOLE, "acknowledgments that it asks for: the bits of `onceq.Acknowledge`"),
    "adminQueue": (TEXT, "where they go; null: nowhere, and then there are none"),
    "journal": (WHOLE, "copies that it asks for: the bits of `onceq.Journal`"),
    "encrypted": (YES_NO, "whether its body is encrypted"),
    "packetBytes": (WHOLE, "bytes of its packet; needed where a queue has a quota"),
}
ADDED: Final = {
    "result": "string",
    "messageClass": "int",
    "acknowledgments": "array<int>",
    "finalAck": "int",
    "deadLetter": "string",
    "deadLetterAtSource": "boolean",
    "journalCopy": "boolean",
    "journalCopyAtSource": "boolean",
}
DECIDING: Final = (*COLUMNS, *OPTIONAL)
RESULTS: Final = ("waiting", "received", "refused", "expired", "malformed")
WAITING, RECEIVED, REFUSED, EXPIRED, MALFORMED = range(5)
DEAD_LETTER, DEAD_XACT = "DEADLETTER", "DEADXACT"


@dataclass(frozen=True, slots=True)
class Settler:
    """What there is at the destination, by folded name, and how it is set up."""

    places: Mapping[str, QueueSetup]
    permit_insecure_nacks: bool = True
    quiet_system_queues: bool = False


def sound_of(rows: Any) -> Flags:
    """Which rows are messages: such that say where they go, and how they were sent."""
    there = pc.and_(rows.column("queue").is_valid(), rows.column("transactional").is_valid())
    found: Flags = there.to_numpy(zero_copy_only=False)
    return found


def build_outcomes(
    messages: ArrivingMessages, sound: Flags, refusals: Ints, now_s: Ints, work: Settler
) -> Any:
    """Build a structure of the columns ``ADDED`` for each row.

    A row that is no message has no outcome and keeps no copy: nobody can say which.
    """
    found = rules.settle(
        messages, refusals, now_s, permit_insecure_nacks=work.permit_insecure_nacks
    )
    results = np.select(
        [
            ~sound,
            found.classes == MessageClass.ACK_REACH_QUEUE,
            found.classes == MessageClass.ACK_RECEIVE,
            found.classes == MessageClass.NACK_RECEIVE_TIMEOUT,
        ],
        [MALFORMED, WAITING, RECEIVED, EXPIRED],
        default=REFUSED,
    )
    graves = np.where(found.dead_here, 1, np.where(found.dead_ordered_here, 2, 0))
    acks = np.stack((found.told_arrival, found.told_end), axis=1) * sound[:, None]
    offsets = np.concatenate(([0], np.cumsum((acks > 0).sum(axis=1)))).astype(np.int32)
    added = [
        _words(results, RESULTS),
        pa.array(found.classes.astype(np.int32), mask=~sound),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(acks[acks > 0].astype(np.int32))),
        pa.array(found.final.astype(np.int32), mask=(found.final == 0) | ~sound),
        _words(graves * sound, (None, DEAD_LETTER, DEAD_XACT)),
        pa.array(found.dead_at_source & sound),
        pa.array(found.journal_here & sound),
        pa.array(found.journal_at_source & sound),
    ]
    return pa.StructArray.from_arrays(added, list(ADDED))


def _words(codes: Any, words: tuple[str | None, ...]) -> Any:
    return pa.array(words, pa.string()).take(pa.array(codes))


def with_answers(rows: Any, found: Any) -> Any:
    """Rows with the columns of a structure that is an answer to each."""
    for at, name in enumerate(ADDED):
        rows = rows.append_column(name, found.field(at))
    return rows


def leaves(rows: Any, m: ArrivingMessages) -> Ints:
    """When messages leave their queues again, if they enter them (us)."""
    expires = rules.expiries(m)
    late = np.where(expires == NEVER_S, FOREVER, expires * SECOND_US)
    found: Ints = np.where(rules.in_time(m, expires), micros(rows, "receivedTime", FOREVER), late)
    return found


def one(table: Any) -> Any:
    """A table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def whole(rows: Any, name: str, default: int) -> Ints:
    """Whole numbers; ``default`` where there is none, or no such column."""
    at = rows.schema.get_field_index(name)
    if at < 0:
        return np.full(rows.num_rows, default, np.int64)
    found: Ints = pc.fill_null(rows.column(at).cast(pa.int64()), default).to_numpy()
    return found


def micros(rows: Any, name: str, default: int) -> Ints:
    """Microseconds since 1970; ``default`` where there are none, or no such column."""
    at = rows.schema.get_field_index(name)
    if at < 0:
        return np.full(rows.num_rows, default, np.int64)
    times = rows.column(at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    found: Ints = pc.fill_null(times, default).to_numpy()
    return found


def flag(rows: Any, name: str) -> Flags:
    """What is said of rows; nothing, or no such column, is no."""
    at = rows.schema.get_field_index(name)
    if at < 0:
        return np.zeros(rows.num_rows, np.bool_)
    found: Flags = pc.fill_null(rows.column(at), False).to_numpy(zero_copy_only=False)
    return found


def messages_of(batch: Any, work: Settler, now_s: Ints) -> ArrivingMessages:
    """Messages as their rules see them; ``now_s``: what counts where no time of arrival is said."""

    def seconds(name: str) -> Ints:
        at = micros(batch, name, FOREVER)
        found: Ints = np.where(at == FOREVER, NOT_YET, np.floor_divide(at, SECOND_US))
        return found

    arrived = seconds("arrivedTime")
    arrived = np.where(arrived == NOT_YET, now_s, arrived)
    sent = seconds("sentTime")
    known, ordered, journaled, quiet = _places(batch.column("queue"), work)
    admin = batch.schema.get_field_index("adminQueue")
    level = np.zeros(batch.num_rows, np.int64)
    if admin >= 0:
        named = pc.not_equal(pc.fill_null(batch.column(admin), ""), "")
        named = named.to_numpy(zero_copy_only=False)
        level = np.where(named, whole(batch, "acknowledge", 0), 0)
    return ArrivingMessages(
        transactional=flag(batch, "transactional"),
        encrypted=flag(batch, "encrypted"),
        sent=np.where(sent == NOT_YET, arrived, sent),
        arrived=arrived,
        received=seconds("receivedTime"),
        reach=whole(batch, "timeToReachQueue", NEVER_S),
        receive=whole(batch, "timeToBeReceived", NEVER_S),
        level=level,
        journal=whole(batch, "journal", 0),
        known=known,
        ordered=ordered,
        journaled=journaled,
        quiet=quiet,
    )


def _places(column: Any, work: Settler) -> tuple[Flags, Flags, Flags, Flags]:
    """Of the queue of each row: whether it is known, transactional, keeps a journal, and has a name
    that is to be kept quiet. Each distinct name is looked up once."""
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False)
    names = [folded(name) for name in encoded.dictionary.to_pylist()] or [""]
    found = [work.places.get(name) for name in names]
    return (
        np.array([one is not None for one in found])[code],
        np.array([one is not None and one.transactional for one in found])[code],
        np.array([one is not None and one.journal for one in found])[code],
        np.array([work.quiet_system_queues and is_system(name) for name in names])[code],
    )
