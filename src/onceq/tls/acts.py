"""Acts of administration that commands do to files, and that belong into the audit trail.

The trail is in the store, which belongs to the running queue manager. So a command leaves its act
beside the files, in ``tls/acts/``, before it does anything. The queue manager takes it into the
trail at its next check or start, and removes the file when the act is durable in the trail. A crash
between the two notes an act twice, never none.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

import json
import os
import pwd
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceq.tls import folder

FOLDER: Final = "acts"
_FILE: Final = re.compile(r"[0-9]{1,16}-[0-9a-f]{16}\.json")
_TEXT_CHARS_MAX: Final = 300
ACTS_AT_ONCE: Final = 1_000
"""Acts taken in one check."""


@dataclass(frozen=True, slots=True)
class LeftAct:
    """An act that a command has left.

    Attributes:
        file: Where it waits.
        who: An actor, as text.
        what, about: In words.
    """

    file: str
    who: str
    what: str
    about: str


def leave(own: str, what: str, about: str, now_s: int) -> None:
    """Leave an act for the trail.

    Args:
        own: The ``tls/`` of a data directory.

    Raises:
        ConfigurationError, AccessDenied: It cannot be written.
    """
    try:
        who = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        who = str(os.geteuid())
    said = json.dumps({"who": f"account:{who}", "what": what, "about": about}).encode()
    name = f"{now_s}-{secrets.token_hex(8)}.json"
    folder.write(os.path.join(own, FOLDER, name), said)


def forget(file: str) -> None:
    """Remove the file of an act that is durable in the trail."""
    with suppress(OSError):
        os.unlink(file)


def left(own: str) -> list[LeftAct]:
    """Return the waiting acts, the earliest first; those that cannot be read are left out."""
    path = os.path.join(own, FOLDER)
    try:
        files = [os.path.join(path, name) for name in os.listdir(path) if _FILE.fullmatch(name)]
        files.sort(key=lambda file: os.stat(file).st_mtime_ns)
    except OSError:
        return []
    found = []
    for file in files[:ACTS_AT_ONCE]:
        with suppress(OSError, ValueError, TypeError, KeyError), open(file, "rb") as opened:
            said = json.loads(opened.read(1 << 14))
            texts = (str(said[key])[:_TEXT_CHARS_MAX] for key in ("who", "what", "about"))
            found.append(LeftAct(file, *texts))
    return found
