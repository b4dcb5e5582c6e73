"""Names of queues as people type them: what cannot be meant, and what to type instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from onceq import errors
from onceq.cli.common import Argument, Option
from onceq.cli.out import note
from onceq.model.limits import QUEUE_NAME_CHARS_MAX
from onceq.model.queue import name_fault
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.message import Message


# ---- names ---------------------------------------------------------------------------------------


def check_dollar(destination: str) -> None:
    """Refuse a name from which the shell has taken ``$``, as it does outside single quotes.

    It would mean another computer, or a public queue, and messages would wait for it for days.

    Raises:
        UsageError: It is one.
    """
    for element in destination.replace("\\", "/").split(","):
        kind, _, named = element.strip().rpartition(":")
        if kind and kind.casefold() not in ("direct=os", "direct=tcp"):
            continue
        first, _, rest = named.casefold().partition("/")
        if first == "private" or (first != "private$" and rest.partition("/")[0] == "private"):
            raise errors.UsageError(
                f"{destination} names no private queue: there is no $ in it. A shell takes $ away "
                "with what follows, but for single quotes: 'private$/orders'"
            )


def proposed(name: str) -> str:
    """What to write for a private queue instead of a name that somebody typed, if that is clear."""
    last = name.replace("\\", "/").rpartition("/")[2]
    if not last.casefold().startswith("private$"):
        wanted = last
    else:
        wanted = last[len("private$") :]
    if not wanted or name_fault(wanted, what="queue", chars_max=QUEUE_NAME_CHARS_MAX):
        return "a private one is written private$/NAME; "
    return f"write private$/{wanted}, "


def meant(qm: QueueManager, destination: str) -> str:
    """A destination; the name of a distribution list alone is its format name."""
    from onceq.client.plans.plan import look_at
    from onceq.model.views import looks

    if set(destination) & set("=\\/"):
        return destination
    try:
        return qm._run(look_at(looks.LIST, destination)).format_name
    except (errors.QueueNotFound, errors.UnsupportedOperation, errors.NoDirectory):
        return destination  # a public queue of this queue manager, or none: the send says so


# ---- options -------------------------------------------------------------------------------------
#
# The options of `onceq send`: how a message's properties are said on a command line.


Target = Annotated[
    str,
    Argument(
        metavar="DEST",
        help="A path name or format name: private$/orders, DIRECT=OS:BETA/private$/stock.",
    ),
]
Texts = Annotated[
    list[str] | None,
    Argument(metavar="TEXT...", help="Messages; without any, lines of the input."),
]
File = Annotated[
    str | None,
    Option("--file", "-f", metavar="FILE", help="This whole file is one message."),
]
NulInput = Annotated[
    bool, Option("--nul", "-0", help="Messages in the input end with NUL, not newline.")
]
JsonBodies = Annotated[
    bool,
    Option("--json-body", help="Each message is JSON: checked before it goes, and marked as JSON."),
]
SendBatch = Annotated[
    int,
    Option("--batch", "-b", metavar="N", min=1, max=100_000, help="Messages of a transaction."),
]
Transactional = Annotated[
    bool, Option("--transactional", help="In transactions, once and in order.")
]
Recoverable = Annotated[
    bool, Option("--recoverable", help="Without transactions; survives a restart.")
]
Express = Annotated[bool, Option("--express", help="Without transactions; kept in memory only.")]
Label = Annotated[str, Option("--label", metavar="TEXT", help="Label.", show_default=False)]
Priority = Annotated[
    int | None, Option("--priority", metavar="N", help="0 to 7; not in transactions.")
]
AppSpecific = Annotated[
    int | None, Option("--app-specific", metavar="N", help="A number of your own.")
]
CorrelationId = Annotated[
    str, Option("--correlation-id", metavar="HEX", help="20 bytes.", show_default=False)
]
ResponseQueue = Annotated[
    str,
    Option("--response-queue", metavar="NAME", help="Where answers go.", show_default=False),
]
AdminQueue = Annotated[
    str,
    Option("--admin-queue", metavar="NAME", help="Where acknowledgments go.", show_default=False),
]
TimeToReachQueue = Annotated[
    int | None,
    Option(
        "--time-to-reach-queue", metavar="SECONDS", min=0, help="Until it counts as undeliverable."
    ),
]
TimeToBeReceived = Annotated[
    int | None,
    Option("--time-to-be-received", metavar="SECONDS", min=0, help="Until it expires unreceived."),
]
Delay = Annotated[
    str,
    Option("--delay", metavar="TIME", help="It is received not before: 30, 10m, 2h, 1d."),
]
At = Annotated[
    str,
    Option("--at", metavar="WHEN", help="Or not before then: 2026-12-01T08:00, local time."),
]
Trace = Annotated[
    bool,
    Option("--trace", help="Every manager on the way reports it to its report queue."),
]
TraceParent = Annotated[
    str,
    Option(
        "--traceparent", metavar="VALUE", show_default=False,
        help="Its trace, as in W3C Trace Context: 00-TRACE-SPAN-FLAGS, hexadecimal.",
    ),
]  # fmt: skip
ACKNOWLEDGE = {
    "pos-arrival": 1, "pos-receive": 2, "neg-arrival": 4, "neg-receive": 8,
    "nack-reach-queue": 4, "full-reach-queue": 5, "nack-receive": 12, "full-receive": 14,
}  # fmt: skip
"""Levels of acknowledgment by the names of MQMSG_ACKNOWLEDGMENT_..., with their bits."""

AcknowledgeLevel = Annotated[
    str,
    Option(
        "--acknowledge", metavar="LEVEL", show_default=False,
        help="With --admin-queue: full-reach-queue, full-receive, nack-reach-queue, nack-receive, "
        "or several of pos-arrival, pos-receive, neg-arrival, neg-receive with commas.",
    ),
]  # fmt: skip
Journaled = Annotated[
    bool, Option("--journal", help="A copy in this computer's journal once delivered.")
]
Track = Annotated[
    bool,
    Option("--track", help="'onceq outcome' can then tell what became of each copy."),
]
DeadLetterQueue = Annotated[
    str,
    Option(
        "--dead-letter-queue", metavar="NAME", show_default=False,
        help="Transactional queue here for its dead letters; implies --dead-letter.",
    ),
]  # fmt: skip
DeadLetter = Annotated[
    bool, Option("--dead-letter", help="Keep it in a dead-letter queue if it fails.")
]


# ---- choosing ------------------------------------------------------------------------------------
#
# Options of `receive` and `peek` that take one certain message, and what is done with it.


LookupId = Annotated[
    int,
    Option("--lookup", metavar="LOOKUP_ID", min=0, help="The message at that place."),
]
SeekWord = Annotated[
    str,
    Option(
        "--seek", metavar="WHICH",
        help="From --lookup on: next or previous; or first, or last.",
    ),
]  # fmt: skip
Correlation = Annotated[
    str | None,
    Option(
        "--correlation", metavar="HEX", show_default=False,
        help="The first message with this correlation identifier (40 digits).",
    ),
]  # fmt: skip
MessageIdText = Annotated[
    str | None,
    Option(
        "--message-id", metavar="ID", show_default=False,
        help="The message with this identifier, GUID\\\\number.",
    ),
]  # fmt: skip


def choice_of(
    lookup: int, seek: str, correlation: str | None, message_id: str | None
) -> dict[str, Any]:
    """The options as ``QueueManager.receive`` takes them; only what was said."""
    choice: dict[str, Any] = {}
    if lookup:
        choice["lookup_id"] = lookup
    if seek != "current":
        choice["seek"] = seek
    if correlation is not None:
        try:
            choice["correlation_id"] = bytes.fromhex(correlation)
        except ValueError:
            raise errors.ConfigurationError(
                f"--correlation {correlation} is not hexadecimal"
            ) from None
    if message_id is not None:
        choice["message_id"] = message_id
    return choice


def take_some(
    qm: QueueManager, queue: str, choice: dict[str, Any], count: int, timeout: float,
    write: Callable[[list[Message]], None], *, reject: bool, move_to: str | None,
) -> None:  # fmt: skip
    """Take messages and put them out; then remove, refuse or move them.

    Raises:
        ReceiveTimeout: Fewer than ``count`` came in time; with those everything was done.
    """
    if reject and move_to is not None:
        raise errors.ConfigurationError("say one of --reject and --move-to")
    if not qm.queue(queue).transactional and not reject and move_to is None:
        for done in range(count):
            try:
                _take_one(qm, queue, choice, timeout, write)
            except (errors.OnceqError, KeyboardInterrupt, BrokenPipeError):
                note(f"{plural(done, 'message')} received before this")
                raise
        return
    taken: list[Message] = []
    with qm.transaction() as tx:
        while len(taken) < count:
            try:
                message = tx.receive(queue, timeout=timeout, **choice)
            except errors.ReceiveTimeout:
                break
            taken.append(message)
            if reject:
                tx.reject(message)
            elif move_to is not None:
                tx.move(message, move_to)
        write(taken)
    if len(taken) < count:
        raise errors.ReceiveTimeout(f"{queue}: {len(taken)} of {count} messages came in time")


def _take_one(
    qm: QueueManager, queue: str, choice: dict[str, Any], timeout: float,
    write: Callable[[list[Message]], None],
) -> None:  # fmt: skip
    """Take one message out of a queue that is not transactional, and put it out."""
    from onceq.client.plans.selection import which

    if choice.keys() != {"lookup_id"}:
        with qm.transaction() as tx:
            write(list(tx._hold(queue, 1, timeout=timeout, wanted=which(**choice))))
        return
    # A pause of the queue does not keep a message that is named, but from those that hold it.
    message = qm.receive(queue, timeout=timeout, **choice)
    try:
        write([message])
    except BaseException:
        note(
            f"message {message.id} ({plural(len(message.body), 'byte')}, label "
            f"{message.label!r}) is not in {queue} any more, and may not be in the output"
        )
        raise
