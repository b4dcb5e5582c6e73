"""What to say when the system does not let this process use something."""

from __future__ import annotations

import os
import pwd

from onceq.errors import AccessDenied


def denied(path: str, *, instead: str = "") -> AccessDenied:
    """The error for a path that may not be used: who asked, whose it is, and what to do.

    Args:
        instead: What else may help, as a further sentence.
    """
    text = f"permission denied: account {_account(os.geteuid())} may not use {path}"
    owner = _owner(path)
    if owner is not None and owner != os.geteuid():
        text += f", which belongs to {_account(owner)}: run this as {_account(owner)}"
    else:
        text += ": run this as the account of the queue manager, or have its rights changed"
    return AccessDenied(f"{text}; {instead}" if instead else text)


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


def _account(uid: int) -> str:
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
