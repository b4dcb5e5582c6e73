"""Files of a data directory that others look for, and what to say when the system refuses one."""

from __future__ import annotations

import os
import pwd
import stat
from typing import Final

from onceq.errors import AccessDenied

STORE_FILE: Final = "STORE"
"""Who lives there; a directory without it is none of a queue manager."""
CONFIGURATION_FILE: Final = "onceq.toml"
TRAIL_FOLDER: Final = "trail"
"""Where acts of administration stand beside the store (``service/trail_files.py``)."""
ATTEMPT_KEY_FILE: Final = "attempt.key"
"""Marks the attempts of applications (``service/api.py``)."""
SOCKET_FILE: Final = "onceq.sock"
"""Where a daemon takes connections of applications."""


def denied(path: str, *, instead: str = "") -> AccessDenied:
    """The error for a path that may not be used: who asked, whose it is, and what to do.

    Args:
        instead: What else may help, as a further sentence.
    """
    text = f"permission denied: account {account_name(os.geteuid())} may not use {path}"
    owner = _owner(path)
    if owner is not None and owner != os.geteuid():
        text += f", which belongs to {account_name(owner)}: run this as {account_name(owner)}"
    else:
        text += ": run this as the account of the queue manager, or have its rights changed"
    return AccessDenied(f"{text}; {instead}" if instead else text)


def check_own(folder: str) -> None:
    """Raises AccessDenied if others than this account and root could put files into a folder: such
    a user could say in ``onceq.toml`` who is believed."""
    try:
        found = os.stat(folder)
    except OSError:
        return  # the caller that uses it says why it cannot be
    if found.st_uid not in (os.geteuid(), 0):
        raise AccessDenied(
            f"{folder} belongs to {account_name(found.st_uid)}, who could change what a queue "
            f"manager there believes: run this as {account_name(found.st_uid)}, or take a folder "
            "of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise AccessDenied(
            f"others may write in {folder} (mode {stat.S_IMODE(found.st_mode):o}), and change what "
            "a queue manager there believes: chmod go-w it, or take a new folder in it"
        )


def _owner(path: str) -> int | None:
    """Whose it is, or whose the nearest directory above it is that can be looked at."""
    path = os.path.abspath(path)
    while True:
        try:
            return os.stat(path).st_uid
        except OSError:
            parent = os.path.dirname(path)
            if parent == path:
                return None
            path = parent


def account_name(uid: int) -> str:
    """Of an account; its number, if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def there(path: str, *, instead: str = "") -> bool:
    """Whether there is such a file; AccessDenied if that cannot be seen.

    Args:
        instead: See ``denied``.
    """
    try:
        os.stat(path)
    except PermissionError:
        raise denied(path, instead=instead) from None
    except OSError:
        return False
    return True
