"""Which letters a command means: several identifiers, each whole or as a narrow table shows it.

A table of 80 columns has no room for 40 of an identifier beside what tells a person which letter it
is. So it shows the beginning of the GUID, and commands take that; where two messages begin alike
nothing is done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, Protocol

from onceq.cli import out
from onceq.cli.common import COMPLETION_S_MAX, TOP, age, where
from onceq.cli.parameters import Argument, Option
from onceq.errors import InvalidParameter, OnceqError, ReceiveTimeout
from onceq.model.identity import MessageId, guid_text
from onceq.model.letters import (
    DEAD,
    DEAD_XACT,
    JOURNAL,
    REASONS,
    Filter,
    Letter,
    filter_of,
)
from onceq.model.record import field
from onceq.model.record import names as field_names

if TYPE_CHECKING:
    from onceq.model.views.queues import QueueView

OFFERED_MAX: Final = 200
"""Identifiers of each queue that a shell is told of."""
SHORT: Final = 8
"""Digits of the GUID in the short form."""
_WRITTEN: Final = re.compile(r"\{?([0-9a-f]{8}[0-9a-f-]{0,28})\}?[/\\]([0-9]{1,10})", re.IGNORECASE)


def short(id: MessageId) -> str:
    """The short form of an identifier."""
    return f"{guid_text(id.source)[:SHORT]}/{id.number}"


class Chosen(Filter, frozen=True):
    """Letters that are named, and fit what else was said.

    Attributes:
        names: Each the beginning of a GUID, and a number.
        found: The message that each has turned out to be.
    """

    names: tuple[tuple[str, int], ...] = ()
    found: dict[tuple[str, int], MessageId] = field(default_factory=dict)

    def fits(self, letter: Letter, now_s: int) -> bool:
        """See Filter; raises InvalidParameter if one name is that of two messages."""
        id = letter.message.id
        guid = guid_text(id.source)
        for name in self.names:
            if id.number == name[1] and guid.startswith(name[0]):
                if self.found.setdefault(name, id) != id:
                    raise InvalidParameter(
                        f"{name[0]}/{name[1]} is the beginning of {id} and of {self.found[name]}: "
                        "say which one, whole; nothing was changed"
                    )
                return Filter.fits(self, letter, now_s)
        return False


def chosen(ids: Sequence[str], rest: Filter) -> Filter:
    """A filter with these identifiers; without any it is the one that was given.

    Raises:
        InvalidParameter: One of them is none.
    """
    if not ids:
        return rest
    names = []
    for text in ids:
        written = _WRITTEN.fullmatch(text.strip())
        if written is None:
            filter_of(id=text)  # says what one looks like
            raise InvalidParameter(f"{text!r} is no identifier of a message")
        names.append((written[1].casefold(), int(written[2])))
    values = {name: getattr(rest, name) for name in field_names(Filter)}
    return Chosen(**values, names=tuple(names))


def missing(which: Filter) -> list[str]:
    """The names under which nothing was found."""
    if not isinstance(which, Chosen):
        return []
    return [f"{guid}/{number}" for guid, number in which.names if (guid, number) not in which.found]


# ---- what the shell offers -----------------------------------------------------------------------


def complete_reason(incomplete: str) -> list[str]:
    """Words for a reason; shells break them at spaces."""
    words = (word.replace(" ", "-") for word in REASONS)
    return [word for word in words if word.startswith(incomplete.casefold())]


def complete_dead(incomplete: str) -> list[str]:
    """Identifiers of dead letters; nothing if no manager answers."""
    return _complete(incomplete, (DEAD_XACT, DEAD))


def complete_journal(incomplete: str) -> list[str]:
    """Identifiers of copies in the journal of the computer; nothing if no manager answers."""
    return _complete(incomplete, (JOURNAL,))


def _complete(incomplete: str, queues: Sequence[str]) -> list[str]:
    """In the short form, unless a whole one was begun: shells take braces for their own."""
    from onceq.client.credentials import Credentials
    from onceq.client.opening import connect_for_job

    found: dict[str, None] = {}
    whole = incomplete.startswith("{")
    try:
        place, shown = where(None), Credentials(token_file=TOP.token_file)
        with connect_for_job(place, timeout=COMPLETION_S_MAX, credentials=shown) as qm:
            for queue in queues:
                with suppress(ReceiveTimeout):
                    for one in qm.peek_headers(queue, OFFERED_MAX):
                        id = one.message.id
                        found[out.name(str(id)) if whole else short(id)] = None
    except (OnceqError, OSError):
        return []
    begun = out.name(incomplete).casefold()
    return [name for name in found if name.startswith(begun)]


# ---- what commands take --------------------------------------------------------------------------

Queue = Annotated[
    str,
    Option(
        "--queue", metavar="QUEUE", show_default=False,
        help="A dead-letter queue of one's own [else both of the system's].",
    ),
]  # fmt: skip
JournalOf = Annotated[
    str,
    Argument(
        metavar="[QUEUE]", show_default=False,
        help="Journal of this queue [else of the computer].",
    ),
]  # fmt: skip
Reason = Annotated[
    str,
    Option(
        "--reason", metavar="REASON", show_default=False, autocompletion=complete_reason,
        help=f"{', '.join(REASONS)}, or a class such as 8003 or nack-queue-exceed-quota.",
    ),
]  # fmt: skip
Destination = Annotated[
    str,
    Option("--destination", metavar="TEXT", show_default=False, help="Part of the name."),
]
Label = Annotated[
    str, Option("--label", metavar="TEXT", show_default=False, help="Part of the label.")
]
Origin = Annotated[
    str,
    Option("--origin", metavar="GUID", show_default=False, help="Sent by this manager."),
]
Older = Annotated[
    str,
    Option("--older-than", metavar="AGE", show_default=False, help="Such as 30s, 5m, 2h or 1d."),
]
Younger = Annotated[
    str, Option("--younger-than", metavar="AGE", show_default=False, help="Likewise.")
]
Ids = Annotated[
    list[str] | None,
    Option("--id", metavar="MESSAGE-ID", show_default=False,
           help="These messages only; it may be given several times.",
           autocompletion=complete_dead),
]  # fmt: skip
Copies = Annotated[
    list[str] | None,
    Option("--id", metavar="MESSAGE-ID", show_default=False,
           help="These messages only; it may be given several times.",
           autocompletion=complete_journal),
]  # fmt: skip
DeadId = Annotated[
    str,
    Argument(metavar="MESSAGE-ID", help="As the list shows it.", autocompletion=complete_dead),
]
CopyId = Annotated[
    str,
    Argument(metavar="MESSAGE-ID", help="As the list shows it.", autocompletion=complete_journal),
]
To = Annotated[
    str,
    Option("--to", metavar="NAME", show_default=False, help="Another destination for all."),
]
Limit = Annotated[int, Option("--limit", "-n", metavar="N", min=1, help="At most N letters.")]


class Looked(Protocol):
    """A queue manager as far as it is looked at here."""

    def queues(self, *, only: str = "", part: str = "") -> list[QueueView]: ...


def dead_queues(connection: Looked, queue: str) -> list[str]:
    """Where dead letters are looked for: a queue that is named, else both of the system's, and what
    policies have moved aside."""
    if queue:
        return [queue]
    return [DEAD_XACT, DEAD, *(one.path for one in connection.queues(only="poison"))]


def journal_queues(queue: str) -> list[str]:
    """The journal of a queue that is named, else the one of the computer."""
    return [f"{queue};JOURNAL"] if queue else [JOURNAL]


def filter_from(
    reason: str = "", destination: str = "", label: str = "", origin: str = "", older: str = "",
    younger: str = "", ids: Sequence[str] | None = None,
) -> Filter:  # fmt: skip
    """What the options of a command mean; raises InvalidParameter."""
    return chosen(ids or (), filter_of(
        reason=reason, destination=destination, label=label, origin=origin, older_s=age(older),
        younger_s=age(younger),
    ))  # fmt: skip
