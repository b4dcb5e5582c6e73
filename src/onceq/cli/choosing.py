"""Options of ``receive`` and ``peek`` that take one certain message, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from onceq.cli.common import Option
from onceq.cli.out import note
from onceq.errors import ConfigurationError, OnceqError, ReceiveTimeout
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.message import Message

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
            raise ConfigurationError(f"--correlation {correlation} is not hexadecimal") from None
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
        raise ConfigurationError("say one of --reject and --move-to")
    if not qm.queue(queue).transactional and not reject and move_to is None:
        for done in range(count):
            try:
                _take_one(qm, queue, choice, timeout, write)
            except (OnceqError, KeyboardInterrupt, BrokenPipeError):
                note(f"{plural(done, 'message')} received before this")
                raise
        return
    taken: list[Message] = []
    with qm.transaction() as tx:
        while len(taken) < count:
            try:
                message = tx.receive(queue, timeout=timeout, **choice)
            except ReceiveTimeout:
                break
            taken.append(message)
            if reject:
                tx.reject(message)
            elif move_to is not None:
                tx.move(message, move_to)
        write(taken)
    if len(taken) < count:
        raise ReceiveTimeout(f"{queue}: {len(taken)} of {count} messages came in time")


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
