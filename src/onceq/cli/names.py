"""Names of queues as people type them: what cannot be meant, and what to type instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceq.errors import NoDirectory, QueueNotFound, UnsupportedOperation, UsageError
from onceq.model.limits import QUEUE_NAME_CHARS_MAX
from onceq.model.queue import name_fault

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager


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
            raise UsageError(
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
    from onceq.client.plans.plan import look
    from onceq.model.views import looks

    if set(destination) & set("=\\/"):
        return destination
    try:
        return qm._run(look(looks.LIST, destination)).format_name
    except (QueueNotFound, UnsupportedOperation, NoDirectory):
        return destination  # a public queue of this queue manager, or none: the send says so
