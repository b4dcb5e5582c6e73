"""``onceq peek``: what is in a queue, whole or without bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from onceq.cli import out
from onceq.cli.choosing import Correlation, LookupId, MessageIdText, SeekWord, choice_of
from onceq.cli.common import Json, Option, QueueName, Where, as_json, manager
from onceq.cli.receiving import Count, Nul, Raw, Timeout, Writer, as_map
from onceq.errors import ConfigurationError, ReceiveTimeout
from onceq.model.classes import class_name
from onceq.model.message import Message

if TYPE_CHECKING:
    from onceq import Batch
    from onceq.model.message import Message, MessageHeaders

PAGE: Final = 1_000
"""Messages of one look."""
TEXT_CHARS: Final = 48
"""Of a body in a table."""
GIVE: Final = ("body", "class", "number", "arrived", "label")
"""Columns that leave where there is no room, in that order."""
COLUMNS: Final = ("lookup id", "arrived", "class", "number", "label", "bytes")

Page = TypeVar("Page", "Batch", "list[MessageHeaders]")


def peek(
    queue: QueueName,
    count: Count = None,
    timeout: Timeout = 0.0,
    after: Annotated[
        int, Option("--after", metavar="LOOKUP_ID", min=0, help="Only what stands behind it.")
    ] = 0,
    lookup: LookupId = 0,
    seek: SeekWord = "current",
    correlation: Correlation = None,
    message_id: MessageIdText = None,
    table: Annotated[
        bool, Option("--table", help="A row for each message: identifiers, label, size.")
    ] = False,
    headers: Annotated[
        bool,
        Option(
            "--headers",
            help="Rows, or JSON, without what the messages say: the right peek is enough for that.",
        ),
    ] = False,
    raw: Raw = False,
    nul: Nul = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Print what is in a queue, as receive does, and leave it there.

    An outgoing queue can be peeked by its destination. Exit code 4: with --count or --timeout,
    nothing was there in time.
    """
    writer = Writer(as_json=as_json(json), raw=raw, nul=nul)
    choice = choice_of(lookup, seek, correlation, message_id)
    if headers and (choice or raw or nul):
        raise ConfigurationError(
            "--headers is for rows or --json of all messages, or of those behind --after"
        )
    with manager(qm, name=queue) as connection:
        if choice:
            writer.write([connection.peek(queue, timeout=timeout, **choice)])
            return
        if headers:
            found = _pages(partial(connection.peek_headers, queue), count, after, timeout)
            done = _without_bodies(found, as_lines=as_json(json))
        else:
            done = _whole(_pages(partial(connection.peek_many, queue), count, after, timeout),
                          writer, table=table)  # fmt: skip
    if not done and (count is not None or timeout):
        raise ReceiveTimeout(f"{queue}: nothing was there in time")


def _pages(
    look: Callable[..., Page], count: int | None, after: int, timeout: float
) -> Iterator[Page]:
    """Look further and further, until nothing comes; the first time it is waited for."""
    from onceq.model.message import MessageHeaders

    done = 0
    while count is None or done < count:
        want = PAGE if count is None else min(PAGE, count - done)
        try:
            page = look(want, after=after, timeout=timeout)
        except ReceiveTimeout:
            return
        yield page
        done, timeout = done + len(page), 0.0
        last = page[-1]
        after = last.message.lookup_id if isinstance(last, MessageHeaders) else last.lookup_id


def _whole(pages: Iterator[Batch], writer: Writer, *, table: bool) -> int:
    done, rows = 0, []
    for page in pages:
        done += len(page)
        if table:
            rows += [(*_cells(message, len(message.body)), _beginning(message)) for message in page]
        else:
            writer.write(page)
    if table:
        out.table((*COLUMNS, "body"), rows, texts=("body", "label"), give=GIVE)
    return done


def _without_bodies(pages: Iterator[Sequence[MessageHeaders]], *, as_lines: bool) -> int:
    done, rows = 0, []
    for page in pages:
        done += len(page)
        if not as_lines:
            rows += [_cells(seen.message, seen.body_bytes) for seen in page]
            continue
        for seen in page:
            shown = {**as_map(seen.message), "body_bytes": seen.body_bytes}
            del shown["body"]
            print(out.render_json(shown))
    if not as_lines:
        out.table(COLUMNS, rows, texts=("label",), give=GIVE[1:])
    return done


def _cells(message: Message, size: int) -> tuple[object, ...]:
    return (
        str(message.lookup_id), out.when(message.arrived_time), class_name(message.message_class),
        str(message.number or "-"), message.label, size,
    )  # fmt: skip


def _beginning(message: Message) -> str:
    return message.body[: 4 * TEXT_CHARS].decode("utf-8", "replace")[:TEXT_CHARS]
