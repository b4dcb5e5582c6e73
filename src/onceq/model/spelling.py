"""One spelling for each name of a queue: what is written down, and what is compared.

People write ``private$/orders``, ``PRIVATE$\\Orders`` or ``DIRECT=OS:hub\\private$\\orders``, and
mean one queue. Where a name enters that is kept for long, in an offset, a plan or a row, it is
written in the usual way (``usual``). A comparison takes what all names of the queue have
in common (``folded``, and ``local`` where all are names at one queue manager).

Upholds: FN-1; nothing is raised for what is no name at all: it is equal to itself alone.
"""

from __future__ import annotations

import re
from typing import Final

_DIRECT: Final = re.compile(r"direct=(?:os|tcp|https?):(?:\\\\)?")
_URL: Final = re.compile(r"\s*direct=https?:", re.IGNORECASE)
_MSMQ: Final = "msmq\\"
_PRIVATE: Final = "private$\\"
_SYSTEM: Final = "system$"


def usual(name: str) -> str:
    """A name with ``\\``, however it was typed; capitals stay, and so does a URL."""
    return name if _URL.match(name) else name.replace("/", "\\")


def folded(name: str) -> str:
    """A name without what does not count in any: capitals, and which way its strokes lean."""
    return name.casefold().replace("/", "\\")


def local(name: str) -> str:
    """What all names of a queue have in common at its own queue manager, which they may name.

    Those that tell a queue by a number (``PRIVATE=``, ``PUBLIC=``) have only themselves in common.
    """
    text = folded(name.strip())
    direct = _DIRECT.match(text)
    path = text[direct.end() :] if direct else text
    host, stroke, rest = path.partition("\\")
    if stroke and host + stroke != _PRIVATE and "=" not in host:
        path = rest.removeprefix(_MSMQ) if direct and "http" in direct[0] else rest
    # Queues of the system are the same with it and without.
    return path.removeprefix(_PRIVATE) if _SYSTEM in path else path
