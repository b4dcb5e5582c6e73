"""The options and columns of the source ``format("onceq")``: names, types, defaults, checks.

One table has all options, another all columns; a test compares ``docs/reference/spark-options.md``
with the first. Spark hands options over as text, under names in any case. Every mistake is found
when the reader is made, on the driver, before any task runs.

A user who names no columns gets the usual ones, and those are fixed: one more would break a query
that writes into a table, and a checkpoint with state. Later columns go to users who name them.
``rows.py`` makes the values. This module imports nothing large, because Spark's driver imports it
to learn the schema.

Upholds: I24 (every limit has an option).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceq.model.limits import READER_CHARS_MAX
from onceq.spark.argument_checks import SparkOption, named, number, second_of, span_s, wrong, yes_no
from onceq.spark.connections import (
    CREDENTIALS,
    LOOKUP_MAX,
    CredentialFiles,
    Patience,
    QueueSearch,
    SourceTarget,
    credential_files_of,
    offsets_of,
    patience_of,
    pattern_of,
    targets_of,
    word_of,
)
from onceq.spark.source.offsets import BATCH_MESSAGES

NEVER: Final = -1

PARTITIONS_MAX: Final = 10_000

OPTIONS: Final = (
    SparkOption(
        "queueManager", "addresses", "(required)",
        "Where the queue manager accepts applications: `host:port`, `onceq://host:port`, "
        "`tls://host:port`, `unix:///path/onceq.sock`, or its data directory; several with "
        "commas.",
    ),
    SparkOption(
        "executorQueueManager", "addresses", "as `queueManager`",
        "The same queue managers, in the same order, under addresses that executors reach, where "
        "these differ.",
    ),
    SparkOption(
        "queue", "queue names", "(required)",
        "The queue, or several with commas; each is read from every queue manager. "
        "`host:port/name`, is a queue of that one alone; `onceq://host:port/name` needs no "
        "`queueManager`. `load(\"...\")` means the same.",
    ),
    SparkOption(
        "subscribe", "queue names", "as `queue`",
        "The same as `queue`.",
    ),
    SparkOption(
        "subscribePattern", "regular expression", "(none)",
        "In place of `queue`: all transactional queues whose whole name it matches, such as "
        "`orders-.*`, on each queue manager, in any case, with or without `private$\\`. New queues"
        " are found within 15 seconds.",
    ),
    SparkOption(
        "columns", "names, or `all`", "the usual ones",
        "Columns of the rows, in this order: `body, label, sentTime`. `all`: every column "
        "below. `.schema(...)` means the same.",
    ),
    SparkOption(
        "startingOffsets", "`earliest`, `latest` or JSON", "earliest",
        "Where a *new* query begins: with the first message, behind the last, or for each queue "
        "at a lookup identifier, as in `{\"private$\\\\orders\": 504403158265495553}`; -2 is "
        "earliest, -1 latest. With several queue managers a queue is `address/name`, or its name "
        "for all of them. With a checkpoint this counts only for queues that it lacks.",
    ),
    SparkOption(
        "startingTimestamp", "milliseconds since 1970, or ISO 8601 with a zone", "(none)",
        "In place of `startingOffsets`: a *new* query begins with the first message that arrived "
        "in that second or later, by the queue manager's clock, or behind the last.",
    ),
    SparkOption(
        "endingOffsets", "`latest` or JSON", "latest",
        "Batch reads only: the last message of each queue, as a lookup identifier.",
    ),
    SparkOption(
        "maxMessagesPerTrigger", "whole number, 1 or more", "2000000",
        "Streams only: most messages of a micro-batch, over all queues. The default is the most.",
    ),
    SparkOption(
        "maxBytesPerTrigger", "bytes, 1 or more", "no limit",
        "Streams only: most bytes of packets of a micro-batch, over all queues; of each queue at "
        "least one message.",
    ),
    SparkOption(
        "minOffsetsPerTrigger", "whole number, 1 or more", "1",
        "Streams only: fewest messages of a micro-batch, over all queues; it waits for them, up "
        "to `maxTriggerDelay`; with `availableNow` not at all.",
    ),
    SparkOption(
        "maxTriggerDelay", "a time such as `15m`, `30s`, `500ms`", "15m",
        "With `minOffsetsPerTrigger`: how long after a batch the next one comes with fewer "
        "messages.",
    ),
    SparkOption(
        "minPartitions", "whole number, 1 or more", "1",
        "Fewest tasks of a batch; there is at least one for every 65,536 messages.",
    ),
    SparkOption(
        "failOnDataLoss", "`true` or `false`", "true",
        "Streams only: whether the query ends when a message of a batch is gone before it is read"
        " or removed (received by another, purged, moved). With `false` the others are read. An "
        "expired message is only logged.",
    ),
    SparkOption(
        "skipFinished", "`true` or `false`", "false",
        "Streams that receive only: a batch that this query has removed, and Spark asks for "
        "again, is empty and does not end the query. Only for a sink that knows batches by "
        "number, as `onceq spark land` does; one that overwrites would lose rows.",
    ),
    SparkOption(
        "readMode", "`receive` or `peek`", "receive (batch: peek)",
        "Whether messages are removed from the queue once Spark has committed the batch that read "
        "them. A batch read can only peek.",
    ),
    SparkOption(
        "afterRead", "`delete` or `journal`", "delete",
        "Streams that receive only: with `journal` a copy of each removed message goes to the "
        "queue's journal (`private$\\orders;journal`), even if the queue keeps none. Without room "
        "nothing is removed and the query ends.",
    ),
    SparkOption(
        "subscription", "text", "(empty)",
        "A name for this reader, of up to 1,000 characters, shown to those whom it keeps from "
        "receiving. A *new* query is refused where one of the same name has read before "
        "(`read-before`).",
    ),
    SparkOption(
        "retryTimeout", "a time such as `60s`, `5m`, `500ms`", "60s",
        "How long a request is repeated when a queue manager does not answer or its connection "
        "breaks. Then the query ends. `0s`: at once.",
    ),
    SparkOption(
        "numRetries", "whole number, 0 or more", "(none)",
        "In place of `retryTimeout`: how often a request is repeated.",
    ),
    SparkOption(
        "retryIntervalMs", "milliseconds", "grows; with `numRetries` 1000",
        "How long to wait before each repetition.",
    ),
    SparkOption(
        "timeoutMs", "milliseconds, 1 or more", "10000",
        "How long to wait for a connection, and for each answer.",
    ),
    *CREDENTIALS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options that were checked.

    Attributes:
        targets: The queues; none if they are found by a pattern.
        starting, ending: By key of a queue: a lookup identifier, EARLIEST or LATEST.
        since: Second of the first message, in place of ``starting``; NEVER: that one counts.
        messages_max, bytes_max: 0: no limit.
        told: Whether places are given where a new query begins.
        keep: Whether what is removed is kept in journals.
        messages_min, delay_s: Fewest messages of a batch, and how long it waits for these.
    """

    targets: tuple[SourceTarget, ...]
    pattern: QueueSearch | None
    starting: Mapping[str, int]
    since: int
    ending: Mapping[str, int]
    messages_min: int
    delay_s: float
    messages_max: int
    bytes_max: int
    partitions_min: int
    fail_on_data_loss: bool
    skip_finished: bool
    receive: bool
    told: bool
    keep: bool
    subscription: str
    patience: Patience
    credentials: CredentialFiles


def parse(given: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """Check the options of one reader.

    Args:
        given: As Spark has them; names in any case.
        stream: Whether it is for ``readStream``.

    Raises:
        ConfigurationError: One is unknown, missing or has a value that makes no sense.
    """
    values = named(given, (option.name for option in OPTIONS))
    _not_both(values)
    where = values.get("queueManager", ""), values.get("executorQueueManager", "")
    pattern: QueueSearch | None = None
    targets: tuple[SourceTarget, ...] = ()
    if "subscribePattern" in values:
        pattern = pattern_of(*where, values["subscribePattern"])
    else:
        targets = targets_of(*where, values.get("subscribe", values.get("queue", "")))
    mode = values.get("readMode", "receive" if stream else "peek").strip().lower()
    if mode not in ("receive", "peek"):
        raise wrong(f"readMode is receive or peek, not {mode!r}")
    if not stream:
        if mode == "receive":
            raise wrong(
                "readMode is receive, but a batch read cannot know when it is safe to remove "
                "messages; use readStream with trigger(availableNow=True), or readMode peek"
            )
        for name in (
            "maxMessagesPerTrigger", "maxBytesPerTrigger", "failOnDataLoss", "skipFinished",
            "minOffsetsPerTrigger", "maxTriggerDelay", "afterRead",
        ):  # fmt: skip
            if name in values:
                raise wrong(f"{name} is for streams; a batch read takes what is there")
    elif "endingOffsets" in values:
        raise wrong("endingOffsets is for batch reads; a stream has no end")
    subscription = values.get("subscription", "")
    if len(subscription) > READER_CHARS_MAX:
        raise wrong(
            f"subscription has {len(subscription)} characters, and at most {READER_CHARS_MAX}"
        )
    starting = values.get("startingOffsets", "earliest").strip()
    ending = values.get("endingOffsets", "latest").strip()
    return SourceOptions(
        targets=targets,
        pattern=pattern,
        starting=_offsets(starting, "startingOffsets", targets, ending=False),
        since=second_of(values["startingTimestamp"], "startingTimestamp")
        if "startingTimestamp" in values
        else NEVER,
        ending=_offsets(ending, "endingOffsets", targets, ending=True),
        messages_min=number(values, "minOffsetsPerTrigger", 1, LOOKUP_MAX, least=1),
        delay_s=span_s(values.get("maxTriggerDelay", "15m"), "maxTriggerDelay"),
        messages_max=number(values, "maxMessagesPerTrigger", 0, LOOKUP_MAX, least=1),
        bytes_max=number(values, "maxBytesPerTrigger", 0, LOOKUP_MAX, least=1),
        partitions_min=number(values, "minPartitions", 1, PARTITIONS_MAX, least=1),
        fail_on_data_loss=yes_no(values, "failOnDataLoss", default=True),
        skip_finished=yes_no(values, "skipFinished", default=False),
        receive=mode == "receive",
        told=starting.startswith("{"),
        keep=_after_read(values, mode) == "journal",
        subscription=subscription,
        patience=patience_of(values),
        credentials=credential_files_of(values),
    )


def _after_read(values: Mapping[str, str], mode: str) -> str:
    """What becomes of what is removed; raises ConfigurationError."""
    after = values.get("afterRead", "delete").strip().lower()
    if after not in ("delete", "journal"):
        raise wrong(f"afterRead is delete or journal, not {values['afterRead']!r}")
    if "afterRead" in values and mode != "receive":
        raise wrong(
            "afterRead says what becomes of removed messages, and readMode peek removes none"
        )
    return after


def _offsets(
    text: str, name: str, targets: Sequence[SourceTarget], *, ending: bool
) -> Mapping[str, int]:
    if not targets:
        return word_of(text, name, ending=ending)
    return offsets_of(text, name, targets, ending=ending)


def _not_both(values: Mapping[str, str]) -> None:
    """Options that say the same, or contradict each other."""
    for one, other in (
        ("subscribe", "queue"),
        ("subscribePattern", "queue"),
        ("subscribePattern", "subscribe"),
        ("startingTimestamp", "startingOffsets"),
    ):
        if one in values and other in values:
            raise wrong(f"{one} and {other} both say it; give one of them")
    if "maxTriggerDelay" in values and "minOffsetsPerTrigger" not in values:
        raise wrong("maxTriggerDelay says how long minOffsetsPerTrigger waits; give both")
    least = number(values, "minOffsetsPerTrigger", 1, LOOKUP_MAX, least=1)
    most = number(values, "maxMessagesPerTrigger", BATCH_MESSAGES, LOOKUP_MAX, least=1)
    if least > 1 and "maxBytesPerTrigger" in values:
        raise wrong("minOffsetsPerTrigger counts messages, maxBytesPerTrigger bytes; give one")
    if least > min(most, BATCH_MESSAGES):
        raise wrong(
            f"minOffsetsPerTrigger is {least}, and a batch has at most {min(most, BATCH_MESSAGES)}"
        )


USUAL: Final = {
    "body": "binary",
    "label": "string",
    "queueManager": "string",
    "queue": "string",
    "lookupId": "bigint",
    "messageId": "binary",
    "correlationId": "binary",
    "sentTime": "timestamp",
    "arrivedTime": "timestamp",
    "class": "int",
    "className": "string",
    "priority": "int",
    "bodyType": "int",
    "appSpecific": "bigint",
    "extension": "binary",
    "streamId": "string",
    "seqNumber": "bigint",
    "prevNumber": "bigint",
    "xactId": "binary",
    "firstInXact": "boolean",
    "lastInXact": "boolean",
    "sourceMachine": "string",
    "destination": "string",
    "responseQueue": "string",
    "adminQueue": "string",
    "abortCount": "int",
    "moveCount": "int",
}
"""Columns and their SQL types, in the order of ``SELECT *``."""

COLUMNS: Final = {
    **USUAL,
    "transactional": "boolean",
    "timeToReachQueue": "bigint",
    "timeToBeReceived": "bigint",
    "acknowledge": "int",
    "journal": "int",
    "encrypted": "boolean",
    "packetBytes": "bigint",
    "bodyCrc": "bigint",
}
"""Every column that there is."""
SUM: Final = "bodyCrc"
"""Is made of another column, so nobody gets it who does not name it."""
_BY_LETTERS: Final = {name.lower(): name for name in COLUMNS}

OPTION: Final = "columns"
EVERY: Final = "all"


def ddl(names: Any) -> str:
    """The schema of some columns, as Spark understands it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in names)


def asked(given: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the columns that the option ``columns`` asks for; without it the usual ones.

    Args:
        given: Options as Spark has them; names in any case.

    Raises:
        ConfigurationError: There is no such column, or it stands there twice.
    """
    text = next((value for name, value in given.items() if name.lower() == OPTION), None)
    if text is None:
        return tuple(USUAL)
    if text.strip().lower() == EVERY:
        return tuple(name for name in COLUMNS if name != SUM)
    names = [known(name.strip()) for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise wrong(f"{OPTION} is {EVERY}, or names of columns, each once, not {text!r}")
    return tuple(names)


def wanted(schema: Any, given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the columns that a reader shall give. Its schema names them: the one of
    the option ``columns``, or one that the user has set. The capitals are those of the schema,
    because Spark wants its columns back by the names that it has given.

    Raises:
        ConfigurationError: There is no such column, it has another type, or schema and option
            contradict each other.
    """
    names = []
    for item in schema.fields:
        kind = COLUMNS[known(item.name)]
        if item.dataType.simpleString() != kind:
            there = item.dataType.simpleString()
            raise wrong(f"column {item.name} is {kind}, not {there}; cast it after reading")
        names.append(item.name)
    option = any(name.lower() == OPTION for name in given)
    if option and list(asked(given)) != [known(name) for name in names]:
        raise wrong(
            f".schema(...) and the option {OPTION} name different columns; give one of them"
        )
    return tuple(names)


def known(name: str) -> str:
    """Return a column's own name for any capitals; raises ConfigurationError if there is none."""
    found = _BY_LETTERS.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name, COLUMNS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COLUMNS)}"
        raise wrong(f"there is no column {name!r}; {hint}")
    return found
