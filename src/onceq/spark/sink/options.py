"""The options, columns and destinations of ``write.format("onceq")`` and ``writeStream``.

Two tables have all options and columns; a test compares ``docs/reference/spark-options.md`` with
them. Every mistake that shows without a queue manager is found here, on the driver, before any task
runs.

A queue is named in the sink as in the source: by its name, by ``host:port/name`` with an address
that ``queueManager`` has, or by ``onceq://host:port/name``. A queue manager also knows path names
and format names, of queues anywhere. A name that mixes both forms would mean a computer that cannot
exist, and its messages would wait there until they expire; so it is refused before anything is
sent.

Upholds: I3 at the connector (nothing is taken that can go nowhere), I24.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceq.errors import IllegalFormatName, OnceqError
from onceq.model.limits import GROUP_APP_CHARS_MAX
from onceq.model.names import parse_any
from onceq.spark.argument_checks import SparkOption, named, number, wrong, yes_no
from onceq.spark.connections import (
    CREDENTIALS,
    FROM_ENVIRONMENT,
    SCHEME,
    CredentialFiles,
    Patience,
    credential_files_of,
    parts_of,
    patience_of,
    scheme_of,
)

VERSION_MAX: Final = (1 << 63) - 1
LIFETIME_S_MAX: Final = 0xFFFF_FFFE
"""Seconds; one more would mean "no limit", which a message says by having no such value."""
CHECKPOINT: Final = "checkpointLocation"
"""Spark hands it to every sink."""

SINK_OPTIONS: Final = (
    SparkOption(
        "queueManager", "addresses", "(required)",
        "Where the queue manager accepts applications, as for the source. With several, a write "
        "goes to all of them or to none, and the first decides.",
    ),
    SparkOption(
        "queue", "destination", "(column `queue`)",
        "Where all rows go, before the column `queue`: a path name, a format name, also of "
        "several elements (`DIRECT=...,DIRECT=...`), or a distribution list. `host:port/name` and"
        " `onceq://host:port/name` are as for the source. With several queue managers a name "
        "without an address is a queue at each of them. "
        '`save("...")` and `start("...")` mean the same.',
    ),
    SparkOption(
        "txnAppId", "text", "the query's id",
        "Name under which the queue manager remembers batches, so that none is sent twice. For "
        "batch writes together with `txnVersion`, or not at all.",
    ),
    SparkOption(
        "txnVersion", "whole number, 0 or more", "(streams: the batch's number)",
        "Batch writes only: the number of this write under `txnAppId`. If it is not above the "
        "last one, nothing is sent. The last one again to another `queue` or with other rows is "
        "refused (`group-differs`).",
    ),
    SparkOption(
        "txnRows", "`same` or `any`", "same",
        "Batch writes only: with `any` a repeated write may have other rows, as with `rand()`, "
        "and nothing is sent; with `same` that is refused.",
    ),
    SparkOption(
        "errorQueue", "queue", "(the write fails)",
        "A transactional queue on that queue manager for rows that cannot be sent, in the same "
        "transaction as the others. Without it such a row fails the write.",
    ),
    SparkOption(
        "deadLetter", "`true` or `false`", "false",
        "Whether an undeliverable message goes into a dead-letter queue of the sending queue "
        "manager.",
    ),
    SparkOption(
        "timeToReachQueue", "seconds, 0 or more", "the queue manager's",
        "How long the messages of this write may be under way.",
    ),
    SparkOption(
        "timeToBeReceived", "seconds, 0 or more", "no limit",
        "How long they may be under way and in their queues.",
    ),
    SparkOption(
        "retryTimeout", "a time such as `60s`, `5m`, `500ms`", "60s",
        "How long tasks and driver try again with a queue manager that is away; then the write "
        "fails, and nothing of it was sent. `0s`: at once.",
    ),
    *CREDENTIALS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowColumn:
    """One column that rows may have.

    Attributes:
        kinds: SQL types that it may have.
        property: Of the message; empty: not one.
    """

    name: str
    kinds: tuple[str, ...]
    property: str
    meaning: str


COLUMNS: Final = (
    RowColumn("body", ("binary", "string"), "", "Required, and never null. Text becomes UTF-8."),
    RowColumn(
        "queue", ("string",), "",
        "Where the row goes, as for the option `queue`; needed where that is not given.",
    ),
    RowColumn("label", ("string",), "label", "Up to 249 characters."),
    RowColumn("correlationId", ("binary",), "correlation_id", "20 bytes, such as a `messageId`."),
    RowColumn(
        "responseQueue", ("string",), "response_queue", "Format name of the queue for answers."
    ),
    RowColumn(
        "adminQueue", ("string",), "admin_queue",
        "Format name of the queue for acknowledgment messages.",
    ),
    RowColumn(
        "acknowledge", ("int", "bigint"), "acknowledge",
        "Which of them are wanted: the sum of bits of `onceq.Acknowledge`.",
    ),
    RowColumn("appSpecific", ("int", "bigint"), "app_specific", "A number from 0 to 4294967295."),
    RowColumn(
        "bodyType", ("int", "bigint"), "body_type", "Type number of the body (VARIANT type)."
    ),
    RowColumn("extension", ("binary",), "extension", "Bytes beside the body."),
)  # fmt: skip
"""A null means that the property is not set."""

WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
PLACE: Final = ("sourceMachine", "streamId", "seqNumber")
"""Rows with these carry a message with its place in a stream, or an order acknowledgment."""
CARRIED: Final = (
    RowColumn("sourceMachine", ("string",), "", "Who sent the message that is carried; required."),
    RowColumn("streamId", (*WHOLE, "string"), "", "Its stream; required."),
    RowColumn("seqNumber", WHOLE, "", "Its number there; required."),
    RowColumn(
        "prevNumber", WHOLE, "",
        "The number before it, 0 for none. Null, or no such column: the row is an order "
        "acknowledgment, and has no body.",
    ),
    RowColumn(
        "destination", ("string",), "",
        "The queue that stream and numbers are for. Without this column `queue` says it, also "
        "where the option `queue` says where the rows go.",
    ),
    RowColumn("messageId", ("binary",), "", "Its identifier, 20 bytes."),
    RowColumn("xactId", ("binary",), "", "Its transaction, 20 bytes."),
    RowColumn("firstInXact", ("boolean",), "", "Whether it is the first of its transaction."),
    RowColumn("lastInXact", ("boolean",), "", "Whether it is the last one."),
    RowColumn("sentTime", ("timestamp",), "", "When it was sent, to the microsecond if you know."),
    RowColumn("timeToReachQueue", WHOLE, "", "Seconds from then; null: no limit."),
    RowColumn("timeToBeReceived", WHOLE, "", "Seconds from then; null: no limit."),
    RowColumn(
        "acknowledge", WHOLE, "",
        "Acknowledgments that it asks for, of who settles it; queue managers on the way "
        "acknowledge nothing.",
    ),
    RowColumn("adminQueue", ("string",), "", "Where these go."),
    RowColumn("journal", WHOLE, "", "Copies that it asks for."),
    RowColumn("encrypted", ("boolean",), "", "Whether its body is encrypted."),
    RowColumn("packetBytes", WHOLE, "", "Bytes of its packet."),
)  # fmt: skip
"""What a row may have that carries a message; ``rows.Carrying`` packs them."""

DEFAULT: Final = Patience()

_OF_THE_SOURCE: Final = (
    "queueManager", "class", "className", "abortCount", "moveCount", "lookupId", "arrivedTime",
    "priority", "transactional",
)  # fmt: skip
"""What queue managers set themselves."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options that were checked.

    Attributes:
        managers: Addresses; the first decides.
        queue: For all rows; empty: each row has its own.
        app: Empty: none was given.
        version: -1: none was given.
        errors: The queue for rows that cannot be sent; empty: they fail the write.
        values: Properties that all messages have, by name.
        checkpoint: Of the stream, as far as Spark says it.
        compared: Whether a version that was written before must have had the same rows.
        patience: With a queue manager that is away.
        credentials: Who the query is.
    """

    managers: tuple[str, ...]
    queue: str
    app: str
    version: int
    errors: str
    values: tuple[tuple[str, Any], ...]
    checkpoint: str = ""
    compared: bool = False
    patience: Patience = DEFAULT
    credentials: CredentialFiles = FROM_ENVIRONMENT

    @property
    def manager(self) -> str:
        """The address of the one that decides."""
        return self.managers[0]


def parse_sink(given: Mapping[str, str], *, stream: bool) -> SinkOptions:
    """Check the options of one write.

    Args:
        given: As Spark has them; names in any case.
        stream: Whether it is for ``writeStream``.

    Raises:
        ConfigurationError: One is unknown, missing or has a value that makes no sense.
    """
    names = (*(option.name for option in SINK_OPTIONS), CHECKPOINT)
    values = named(given, names, passed_over="queryname", what=" for writing")
    managers, queue = sink_of(values.get("queueManager", ""), values.get("queue", "").strip())
    app = values.get("txnAppId", "")
    if len(app) > GROUP_APP_CHARS_MAX or not app.isprintable():
        raise wrong(f"txnAppId has up to {GROUP_APP_CHARS_MAX} printable characters")
    for name in ("txnVersion", "txnRows"):
        if stream and name in values:
            raise wrong(f"{name} is for batch writes; a stream's batches have numbers of their own")
    if not stream and ("txnVersion" in values) != bool(app):
        raise wrong(
            "a batch write has txnAppId and txnVersion, both or neither: together they say which "
            "write this is, so that it is not sent twice"
        )
    rows = values.get("txnRows", "same").strip().lower()
    if rows not in ("same", "any"):
        raise wrong(f"txnRows is same or any, not {values['txnRows']!r}")
    if "txnRows" in values and not app:
        raise wrong("txnRows is for writes with txnAppId and txnVersion")
    errors = values.get("errorQueue", "").strip()
    try:
        errors = name_there(managers[0], errors)
    except OnceqError as error:
        raise wrong(f"errorQueue: {error.text}") from None
    return SinkOptions(
        managers=managers,
        queue=queue,
        app=app,
        version=number(values, "txnVersion", -1, VERSION_MAX),
        errors=errors,
        values=_properties(values),
        checkpoint=values.get(CHECKPOINT, ""),
        compared=bool(app) and not stream and rows == "same",
        patience=patience_of(values),
        credentials=credential_files_of(values),
    )


def _properties(values: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    found: dict[str, Any] = {}
    if yes_no(values, "deadLetter", default=False):
        found["journal"] = 1
    for name, into in (
        ("timeToReachQueue", "time_to_reach_queue"),
        ("timeToBeReceived", "time_to_be_received"),
    ):
        if name in values:
            found[into] = number(values, name, 0, LIFETIME_S_MAX)
    return tuple(found.items())


def columns_of(schema: Any, options: SinkOptions) -> tuple[str, ...]:
    """The names of the columns of the rows to be written, in their order.

    Raises:
        ConfigurationError: One is unknown or has a wrong type, or one that is needed is missing.
    """
    carrying = carries([item.name for item in schema.fields])
    table = (*COLUMNS, *CARRIED) if carrying else COLUMNS
    known = {column.name.lower(): column for column in table}
    names: list[str] = []
    for item in schema.fields:
        column = known.get(item.name.lower())
        if column is None:
            raise wrong(_unknown(item.name, list(known)))
        if column.name in names:
            raise wrong(f"there are two columns {column.name}")
        kind = item.dataType.simpleString()
        if kind == "void":
            raise wrong(
                f"column {column.name} is a null without a type, in every row; leave it out, or "
                f"give it its type: lit(None).cast({column.kinds[0]!r})"
            )
        if kind not in column.kinds:
            raise wrong(
                f"column {column.name} is {' or '.join(column.kinds)}, not {kind}; cast it, or "
                "make text of it with to_json"
            )
        names.append(column.name)
    if carrying:
        if not {"queue", "destination"} & set(names):
            raise wrong(
                "rows that carry their place in a stream say which queue it is for: column queue, "
                "or destination"
            )
        if "prevNumber" not in names and "body" in names:
            raise wrong(
                "rows with a body and streamId are messages, and have a column prevNumber: the "
                "number before each, 0 for none; order acknowledgments have neither"
            )
        if "prevNumber" not in names and not options.queue and "destination" not in names:
            raise wrong(
                "order acknowledgments do not go to the queue that they are about: say where they "
                r'go, .option("queue", r"private$\acks"), or rename queue to destination and add '
                "queue"
            )
    if "body" not in names and not (carrying and "prevNumber" not in names):
        raise wrong(
            "there is no column body, the message itself; for example "
            'select(to_json(struct("*")).alias("body"))'
        )
    if not options.queue and "queue" not in names:
        raise wrong(
            r'say where the rows go: .option("queue", r"private$\orders"), or a column queue'
        )
    return tuple(names)


def carries(names: Iterable[str]) -> bool:
    """Whether rows with these columns carry a place in a stream: then they have all of ``PLACE``.

    Raises:
        ConfigurationError: They have some of it.
    """
    there = {name.lower() for name in names}
    lacking = [name for name in PLACE if name.lower() not in there]
    if lacking and len(lacking) < len(PLACE):
        raise wrong(
            f"rows that carry their place in a stream have {', '.join(PLACE)} and prevNumber; "
            f"{', '.join(lacking)} is not there. Add it, or drop the others"
        )
    return not lacking


def _unknown(name: str, known: list[str]) -> str:
    if name in _OF_THE_SOURCE:
        return f"column {name} is set by queue managers, not by who sends: drop it"
    if name in {column.name for column in CARRIED}:
        return (
            f"column {name} is set by queue managers, not by who sends: drop it. Only rows that "
            f"carry a message with its place in a stream have it, beside {', '.join(PLACE)}"
        )
    near = difflib.get_close_matches(name.lower(), known, 1)
    real = {column.name.lower(): column.name for column in (*CARRIED, *COLUMNS)}
    names = ", ".join(real[name] for name in known)
    hint = f"did you mean {real[near[0]]}?" if near else f"there are {names}"
    return f"a message has no column {name!r}; {hint}"


_ADDRESS: Final = re.compile(
    r"(?:(?:onceq|tls)://[^/\\]*|unix://.*?|[^/\\=,\s]+:\d+)[/\\]", re.DOTALL
)
"""What a name begins with whose writer means a queue manager, and no computer."""
_PLACE: Final = re.compile(r"[:/\\.]")
_PORT: Final = re.compile(r"[^:\[\]]+:\d+|\[[^\]]*\]:\d+")


def sink_of(managers: str, queue: str) -> tuple[tuple[str, ...], str]:
    """Addresses of queue managers, and the queue (with an address where there are several), out of
    two options.

    Args:
        managers: The option ``queueManager``; may be empty where ``queue`` is a URL.
        queue: The option ``queue``; empty: each row has its own.

    Raises:
        ConfigurationError: They do not say which queue manager, or name one that they do not have.
    """
    addresses = tuple(dict.fromkeys(parts_of(managers)))
    scheme = scheme_of(queue)
    if not addresses and scheme:
        address, _, name = queue.removeprefix(scheme).partition("/")
        if not address or not name:
            raise wrong(f"{queue!r} is not {scheme}host:port/queue")
        return (scheme + address,), name
    if not addresses:
        raise wrong('say where the queue manager is: .option("queueManager", "host:port")')
    try:
        if len(addresses) == 1:
            return addresses, name_there(addresses[0], queue)
        place_of(addresses, queue)
    except OnceqError as error:
        raise wrong(f"queue: {error.text}") from None
    return addresses, queue


def place_of(addresses: Sequence[str], name: str) -> int:
    """Which of these queue managers a name begins with the address of; -1: none, so any will do.

    Raises:
        IllegalFormatName: As of ``name_there``.
    """
    for at, address in enumerate(addresses):
        if _own(address, name):
            return at
    name_there(", ".join(addresses), name)
    return -1


def name_there(address: str, name: str) -> str:
    """A destination as the queue manager at an address knows it.

    Raises:
        IllegalFormatName: It begins with the address of another, or of a computer that there
            cannot be.
    """
    own = _own(address, name)
    if own:
        return own
    if not _ADDRESS.match(name) and _possible(name):
        return name
    raise IllegalFormatName(
        f"{name!r} names the address of a queue manager that this write does not go through (it "
        f"goes through {address}), and a computer cannot be called so: messages to it would wait "
        f"until they expire. Write {address}/NAME or NAME for a queue of that queue manager, and "
        r"COMPUTER\private$\NAME or a format name, without a port, for one that it forwards to"
    )


def _possible(name: str) -> bool:
    """Whether no computer in it has a port for a part of its name."""
    if ":" not in name:
        return True
    try:
        elements = parse_any(name)
    except OnceqError:
        return True  # What is wrong with it is told where it is sent.
    return not any(e.protocol == "OS" and _PORT.fullmatch(e.host) for e in elements)


def _own(address: str, name: str) -> str:
    """What stands behind that address and a slash; empty: the name does not begin so."""
    scheme = scheme_of(address) or SCHEME
    bare = address.removeprefix(scheme)
    # A directory of one word could be a computer as well, and is.
    for own in (scheme + bare, bare) if _PLACE.search(bare) else ():
        if name.startswith(f"{own}/"):
            return name.removeprefix(f"{own}/")
    return ""
