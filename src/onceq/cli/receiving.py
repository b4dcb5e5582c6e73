"""``onceq receive``: print messages, and remove them only after their output was taken.

Messages are received in transactions that commit after their output was taken: by a file, or by the
reader of the pipe. A failure before that puts them back in their places. Into a pipe they go one by
one: its unread content is lost when its reader goes, as ``head`` does.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from onceq import errors
from onceq.cli import out
from onceq.cli.arguments import Correlation, LookupId, MessageIdText, SeekWord, choice_of, take_some
from onceq.cli.common import Exit, Json, Option, QueueName, Where, as_json, manager
from onceq.cli.terminal import Drain, Interruptible, in_doubt, write_some
from onceq.hidden import show_hidden
from onceq.model.identity import NO_GUID
from onceq.model.message import NO_CORRELATION, Message
from onceq.model.record import names
from onceq.model.resultcodes import class_name
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq import Batch
    from onceq.client.threads.manager import QueueManager
    from onceq.client.threads.transaction import Transaction
    from onceq.model.message import MessageHeaders


# ---- receiving -----------------------------------------------------------------------------------


BATCH = 1_000
"""Messages of a transaction whose output goes into a file."""

Count = Annotated[
    int | None, Option("--count", "-n", metavar="N", min=1, help="Stop after N messages.")
]
BatchSize = Annotated[
    int | None,
    Option(
        "--batch", "-b", metavar="N", min=1, max=10_000, show_default=False,
        help="Messages of a transaction [1 into a pipe or a terminal, 1000 into a file]; more "
        "than 1 is quicker, but may lose what a pipe's reader leaves unread.",
    ),
]  # fmt: skip
Timeout = Annotated[
    float, Option("--timeout", "-t", metavar="SECONDS", min=0.0, help="Seconds to wait for each.")
]
Raw = Annotated[bool, Option("--raw", help="Bodies as they are, with nothing between them.")]
Nul = Annotated[bool, Option("--nul", "-0", help="A NUL behind each body, not a newline.")]


class Writer:
    """Puts messages out in one of the forms."""

    def __init__(self, *, as_json: bool, raw: bool, nul: bool) -> None:
        if as_json + raw + nul > 1:
            raise errors.ConfigurationError("say one of --json, --raw and --nul")
        self._json = as_json
        self._end = b"" if raw else b"\0" if nul else b"\n"
        self._safe = not sys.stdout.isatty()
        self._drain = Drain(sys.stdout.fileno())
        self.batch = BATCH if self._drain.takes_all else 1
        """Messages that can be put out together without any of them being lost unread."""

    def write(self, batch: Batch | list[Message]) -> None:
        """Put messages out, as far as the system that reads our output; raises BrokenPipeError and
        OutputLost."""
        if self._json:
            lines = (out.render_json(as_map(message)) for message in batch)
            data = "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
        elif self._safe:
            data = b"".join(body + self._end for body in _bodies(batch))
        else:
            bodies = (show_hidden(body.decode("utf-8", "replace")) for body in _bodies(batch))
            text = "".join(body + "\n" for body in bodies)
            data = text.encode(sys.stdout.encoding, sys.stdout.errors or "strict")
        sys.stdout.flush()
        view = memoryview(data)
        while view:
            view = view[write_some(sys.stdout.fileno(), view) :]
        self._drain.wait()


def _bodies(batch: Batch | list[Message]) -> list[bytes]:
    return [message.body for message in batch] if isinstance(batch, list) else batch.bodies()


class Receiver:
    """Takes messages out of one queue, batch by batch."""

    def __init__(self, qm: QueueManager, queue: str, writer: Writer, guard: Interruptible) -> None:
        self._qm = qm
        self._queue = queue
        self._writer = writer
        self._guard = guard
        self.taken = 0
        self.given_back = 0
        self.in_doubt = 0

    def take(self, count: int, timeout: float | None) -> int:
        """Receive up to ``count`` messages, put them out, and only then remove them.

        Returns:
            How many; 0 if none came in time.
        """
        tx = self._qm.transaction()
        held = 0
        try:
            batch = tx._hold(self._queue, count, timeout=timeout)
            held = len(batch)
            self._writer.write(batch)
            with self._guard.step():
                try:
                    tx.commit()
                except errors.InDoubt as error:
                    self._settle(error, held)
                except KeyboardInterrupt:  # the second one: nobody waits for the answer
                    raise in_doubt(tx.id) from None
                taken, held = held, 0
                self.taken += taken
        except errors.ReceiveTimeout:
            _undo(tx)
            return 0
        except errors.InDoubt:
            self.in_doubt = held
            raise
        except BaseException:
            self.given_back = held
            _undo(tx)
            raise
        return taken

    def _settle(self, error: errors.InDoubt, held: int) -> None:
        """The answer to the commit was lost: find out what became of it."""
        try:
            outcome = self._qm.outcome(error.transaction)
        except errors.ServiceNotAvailable:
            outcome = "unknown"
        if outcome == "aborted":
            raise errors.ManagerAway(
                f"the connection was lost before the commit: the last {held} messages that were "
                "printed are still in the queue and will come again"
            ) from error
        if outcome != "committed":
            raise error


def _undo(tx: Transaction) -> None:
    """Abort what is left of a transaction: it may be over by itself, or with its connection."""
    with suppress(errors.OnceqError):
        tx.abort()


def receive(
    queue: QueueName,
    count: Count = None,
    timeout: Timeout = 0.0,
    follow: Annotated[
        bool, Option("--follow", "-F", help="Go on until Ctrl-C, waiting for more.")
    ] = False,
    batch: BatchSize = None,
    lookup: LookupId = 0,
    seek: SeekWord = "current",
    correlation: Correlation = None,
    message_id: MessageIdText = None,
    reject: Annotated[
        bool, Option("--reject", help="Refuse what was taken: its sender is told 0xC004.")
    ] = False,
    move_to: Annotated[
        str | None,
        Option(
            "--move-to", metavar="SUBQUEUE", show_default=False,
            help="Move what was taken, such as to ;retry, instead of removing it.",
        ),
    ] = None,
    raw: Raw = False,
    nul: Nul = False,
    qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Take messages out of a queue and print their bodies, a line each: all that are there.

    A message is removed once its output was taken; Ctrl-C or a closed pipe leaves the others in the
    queue. --lookup, --seek, --correlation and --message-id take one certain message; --reject and
    --move-to take one, or --count, in a transaction. Exit code 4: with --count or --timeout, fewer
    came than asked for (none, without --count).
    """
    writer = Writer(as_json=as_json(json), raw=raw, nul=nul)
    choice = choice_of(lookup, seek, correlation, message_id)
    if choice or reject or move_to is not None:
        with manager(qm, name=queue) as connection:
            take_some(connection, queue, choice, count or 1, timeout, writer.write,
                      reject=reject, move_to=move_to)  # fmt: skip
        return
    with manager(qm, name=queue) as connection, Interruptible() as guard:
        receiver = Receiver(connection, queue, writer, guard)
        try:
            while count is None or receiver.taken < count:
                want = batch or writer.batch
                if count is not None:
                    want = min(want, count - receiver.taken)
                if not receiver.take(want, None if follow else timeout):
                    break
        except KeyboardInterrupt:
            _say(receiver, "interrupted")
            raise Exit(130) from None
        except BrokenPipeError:
            _say(receiver, "nobody reads the output any more")
            raise
        except errors.OutputLost:
            _say(receiver, "the output takes no more", ", where a part of them may be")
            raise
        except errors.OnceqError:
            if receiver.taken or receiver.given_back or receiver.in_doubt:
                _say(receiver, "it ends with an error", ", and are in the output")
            raise
    wanted = count if count is not None else 1 if timeout else 0
    if receiver.taken < wanted:
        raise errors.ReceiveTimeout(
            f"{queue}: {plural(receiver.taken, 'message')} came in time"
            + (f", {count} were asked for" if count is not None else "")
        )


def _say(receiver: Receiver, what: str, where: str = "") -> None:
    back = receiver.given_back
    more = f", {back:,} given back to the queue{where}" if back else ""
    if receiver.in_doubt:
        more = f", {receiver.in_doubt:,} in doubt, which are in the output"
    out.note(f"{what}: {plural(receiver.taken, 'message')} received{more}")


def as_map(message: Message) -> dict[str, Any]:
    """A message for JSON: its body as text, or in base64 if it is none; ``json`` is its value, if
    its sender says that it has one."""
    found: dict[str, Any] = {}
    for name in names(Message):
        value = getattr(message, name)
        if name == "body":
            try:
                found["body"] = value.decode()
            except UnicodeDecodeError:
                found["body_base64"] = base64.b64encode(value).decode()
        elif name == "id":
            found["id"] = str(value) if value.source != NO_GUID else ""
        elif name == "correlation_id":
            found[name] = value.hex() if value != NO_CORRELATION else ""
        elif isinstance(value, bytes):
            found[name] = value.hex()
        elif name == "delivery":
            found[name] = value.name.lower()
        elif isinstance(value, Enum):
            found[name] = int(value.value)
        else:
            found[name] = value
    found["class"] = class_name(message.message_class)
    if message.is_json:
        with suppress(errors.BodyNotJson):
            found["json"] = message.json()
    return found


# ---- peeking -------------------------------------------------------------------------------------
#
# `onceq peek`: what is in a queue, whole or without bodies.


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
            help="Rows, or JSON, without bodies; needs only the right peek.",
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
        raise errors.ConfigurationError(
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
        raise errors.ReceiveTimeout(f"{queue}: nothing was there in time")


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
        except errors.ReceiveTimeout:
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
            for message in page:
                beginning = message.body[: 4 * TEXT_CHARS].decode("utf-8", "replace")[:TEXT_CHARS]
                rows.append((*_cells(message, len(message.body)), beginning))
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
