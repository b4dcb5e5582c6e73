"""The options of ``format("onceq")``: names, types, defaults, and what is wrong with a value.

One table says all of it; ``docs/reference/spark-options.md`` is compared with it by a test. Spark
hands options over as text under names in any case. Every fault is found when the reader is made,
on the driver, before any task runs; and because Spark keeps nothing of a Python error but its
text, each text begins with the error's code.

Upholds: I24 (every limit has one of its own).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceq.errors import ConfigurationError

EARLIEST: Final = -2
LATEST: Final = -1
LOOKUP_MAX: Final = (1 << 63) - 1
QUEUES_MAX: Final = 256
PARTITIONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Option:
    """One option, as the reference page shows it. ``kind``: text, number, yes/no, ..."""

    name: str
    kind: str
    default: str
    meaning: str


OPTIONS: Final = (
    Option(
        "queueManager", "address", "(required)",
        "Where the queue manager accepts applications: `host:port`, `onceq://host:port`, "
        "`unix:///path/onceq.sock`, or its data directory. Driver and executors connect to it.",
    ),
    Option(
        "queue", "queue names", "(required)",
        "The queue, or several separated by commas, on that manager. `load(\"...\")` means the "
        "same.",
    ),
    Option(
        "startingOffsets", "`earliest`, `latest` or JSON", "earliest",
        "Where a *new* query begins: with the first message, behind the last, or for each queue "
        "with a lookup identifier, as in `{\"private$\\\\orders\": 504403158265495553}`; -2 is "
        "earliest, -1 latest. A query with a checkpoint goes on where it was.",
    ),
    Option(
        "endingOffsets", "`latest` or JSON", "latest",
        "Batch reads only: the last message to read, for each queue, as a lookup identifier.",
    ),
    Option(
        "maxMessagesPerTrigger", "whole number, 1 or more", "no limit",
        "Streams only: most messages of one micro-batch, over all queues.",
    ),
    Option(
        "maxBytesPerTrigger", "bytes, 1 or more", "no limit",
        "Streams only: most bytes of packets of one micro-batch, over all queues; one message is "
        "taken even if it is larger.",
    ),
    Option(
        "minPartitions", "whole number, 1 or more", "1",
        "Fewest tasks for each queue in a batch. There is one for every 65,536 messages anyway.",
    ),
    Option(
        "failOnDataLoss", "`true` or `false`", "true",
        "Streams only: whether a message that should be in the queue and is not (received by "
        "somebody else, expired, purged) ends the query. With `false` the others are read.",
    ),
    Option(
        "readMode", "`receive` or `peek`", "receive (batch: peek)",
        "Whether messages are removed from the queue once Spark has committed the batch that "
        "read them. A batch read can only peek.",
    ),
    Option(
        "subscription", "text", "(empty)",
        "A name for this reader. It stands in the checkpoint, which then serves no reader of "
        "another name.",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options that were checked.

    Attributes:
        starting, ending: By queue: a lookup identifier, EARLIEST or LATEST.
        messages_max, bytes_max: 0: no limit.
    """

    manager: str
    queues: tuple[str, ...]
    starting: Mapping[str, int]
    ending: Mapping[str, int]
    messages_max: int
    bytes_max: int
    partitions_min: int
    fail_on_data_loss: bool
    receive: bool
    subscription: str


def wrong(text: str) -> ConfigurationError:
    """An error whose text keeps its code when Spark passes on the text alone."""
    return ConfigurationError(f"[{ConfigurationError.code}] {text}")


def parse(given: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """Check the options of one reader.

    Args:
        given: As Spark has them; names in any case.
        stream: Whether it is for ``readStream``.

    Raises:
        ConfigurationError: One is unknown, missing or has a value that makes no sense.
    """
    values = _known(given)
    manager = values.get("queueManager", "").strip()
    if not manager:
        raise wrong('say where the queue manager is: .option("queueManager", "host:port")')
    queues = _queues(values)
    mode = values.get("readMode", "receive" if stream else "peek").strip().lower()
    if mode not in ("receive", "peek"):
        raise wrong(f"readMode is receive or peek, not {mode!r}")
    if not stream:
        _only_for_streams(values, mode)
    elif "endingOffsets" in values:
        raise wrong("endingOffsets is for batch reads; a stream has no end")
    return SourceOptions(
        manager=manager,
        queues=queues,
        starting=_offsets(values, "startingOffsets", queues, "earliest"),
        ending=_offsets(values, "endingOffsets", queues, "latest"),
        messages_max=_number(values, "maxMessagesPerTrigger", 0, LOOKUP_MAX),
        bytes_max=_number(values, "maxBytesPerTrigger", 0, LOOKUP_MAX),
        partitions_min=_number(values, "minPartitions", 1, PARTITIONS_MAX),
        fail_on_data_loss=_yes_no(values, "failOnDataLoss", default=True),
        receive=mode == "receive",
        subscription=values.get("subscription", ""),
    )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """Values under the names of the table; "path" is what ``load`` was given."""
    names = {option.name.lower(): option.name for option in OPTIONS}
    values: dict[str, str] = {}
    for key, value in given.items():
        lower = key.lower()
        if lower == "path":
            values.setdefault("queue", value)
            continue
        if lower not in names:
            near = difflib.get_close_matches(lower, sorted(names), 1)
            hint = f"; did you mean {names[near[0]]}?" if near else ""
            raise wrong(f"there is no option {key!r}{hint}")
        values[names[lower]] = value
    return values


def _queues(values: Mapping[str, str]) -> tuple[str, ...]:
    queues = tuple(name.strip() for name in values.get("queue", "").split(",") if name.strip())
    if not queues:
        raise wrong(r'say which queue to read: .option("queue", r"private$\orders")')
    if len({name.casefold().replace("/", "\\") for name in queues}) != len(queues):
        raise wrong(f"a queue is named twice in {values['queue']!r}")
    if len(queues) > QUEUES_MAX:
        raise wrong(f"{len(queues)} queues; one reader takes at most {QUEUES_MAX}")
    return queues


def _only_for_streams(values: Mapping[str, str], mode: str) -> None:
    if mode == "receive":
        raise wrong(
            "readMode is receive, but a batch read cannot know when it is safe to remove "
            "messages; use readStream with trigger(availableNow=True), or readMode peek"
        )
    for name in ("maxMessagesPerTrigger", "maxBytesPerTrigger", "failOnDataLoss"):
        if name in values:
            raise wrong(f"{name} is for streams; a batch read takes what is there")


def _number(values: Mapping[str, str], name: str, default: int, most: int) -> int:
    if name not in values:
        return default
    text = values[name].strip()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise wrong(f"{name} is a whole number from 1 to {most}, not {values[name]!r}")
    return int(text)


def _yes_no(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = values.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise wrong(f"{name} is true or false, not {values[name]!r}")
    return text == "true"


def _offsets(
    values: Mapping[str, str], name: str, queues: tuple[str, ...], default: str
) -> dict[str, int]:
    text = values.get(name, default).strip()
    special = {"earliest": EARLIEST, "latest": LATEST}
    if name == "endingOffsets":
        del special["earliest"]
    if text.lower() in special:
        return dict.fromkeys(queues, special[text.lower()])
    words = " or ".join([*special, 'JSON such as {"private$\\\\orders": 17}'])
    try:
        found: Any = json.loads(text)
    except ValueError:
        raise wrong(f"{name} is {words}, not {text!r}") from None
    if not isinstance(found, dict) or set(found) != set(queues):
        raise wrong(f"{name} names exactly the queues that are read: {', '.join(queues)}")
    for queue, lookup in found.items():
        good = isinstance(lookup, int) and not isinstance(lookup, bool)
        if not good or not (lookup in special.values() or 0 <= lookup <= LOOKUP_MAX):
            raise wrong(f"{name} of {queue} cannot be {lookup!r}")
    return {queue: int(found[queue]) for queue in queues}
