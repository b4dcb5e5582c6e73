"""Which letters a command means: several identifiers, each whole or as a narrow table shows it.

A table of 80 columns has no room for 40 of an identifier beside what tells a person which letter it
is. So it shows the beginning of the GUID, and commands take that; where two messages begin alike
nothing is done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Final

from onceq.cli import out
from onceq.cli.common import COMPLETION_S_MAX, TOP, where
from onceq.errors import InvalidParameter, OnceqError, ReceiveTimeout
from onceq.model.identity import MessageId, guid_text
from onceq.model.letters import DEAD, DEAD_XACT, JOURNAL, REASONS, Filter, Letter, filter_of

OFFERED_MAX: Final = 200
"""Identifiers of each queue that a shell is told of."""
SHORT: Final = 8
"""Digits of the GUID in the short form."""
_WRITTEN: Final = re.compile(r"\{?([0-9a-f]{8}[0-9a-f-]{0,28})\}?[/\\]([0-9]{1,10})", re.IGNORECASE)


def short(id: MessageId) -> str:
    """The short form of an identifier."""
    return f"{guid_text(id.source)[:SHORT]}/{id.number}"


@dataclass(frozen=True, slots=True)
class Chosen(Filter):
    """Letters that are named, and fit what else was said.

    Attributes:
        names: Each the beginning of a GUID, and a number.
        found: The message that each has turned out to be.
    """

    names: tuple[tuple[str, int], ...] = ()
    found: dict[tuple[str, int], MessageId] = field(default_factory=dict, compare=False)

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
    values = {one.name: getattr(rest, one.name) for one in fields(Filter)}
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
