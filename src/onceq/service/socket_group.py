"""Other accounts of this computer at the Unix socket: the group of ``socket_group``, and no more.

Its members may pass through the data directory (mode 0710) and connect to the socket (0660). There
they may do what was granted to their accounts, which the system names (``identities.py``). Nothing
else in the directory becomes readable: files of ours are 0600. Any file with more than that, such
as a configuration that an editor has written, is restricted to its owner before the directory is
opened.

Without the key the directory is closed again (0700).
"""

from __future__ import annotations

import grp
import logging
import os
import stat
from typing import Final

from onceq.errors import AccessDenied, ConfigurationError
from onceq.model.data_directory import SOCKET_FILE
from onceq.service.logs import event

OPEN: Final = 0o710
"""Mode of a data directory that the group may pass through."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def opened(path: str, group: str) -> int | None:
    """Open a data directory to a group, or close it again if none is named ("").

    Returns:
        The group's number, for the socket; None: there is none.

    Raises:
        ConfigurationError: There is no such group, or this account is not in it.
        AccessDenied: Something in the directory is readable for others, and belongs to another
            account.
    """
    if not group:
        if stat.S_IMODE(os.stat(path).st_mode) == OPEN:
            os.chmod(path, stat.S_IRWXU)
        return None
    number = _number(group)
    _close_files(path)
    try:
        os.chown(path, -1, number)
    except PermissionError:
        raise ConfigurationError(
            f"socket_group: this account is not a member of {group}, and so cannot give it the "
            f"socket: 'usermod -aG {group} ACCOUNT' makes it one, at its next login"
        ) from None
    os.chmod(path, OPEN)
    _look_above(path, number, group)
    return number


def _number(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigurationError(
            f"socket_group: there is no group {group!r} here; 'groupadd {group}' makes it"
        ) from None


def _close_files(path: str) -> None:
    """Restrict files that others could read once they may pass through the directory."""
    with os.scandir(path) as found:
        for one in found:
            at = one.stat(follow_symlinks=False)
            if one.name == SOCKET_FILE or one.is_symlink() or not at.st_mode & _OTHERS:
                continue
            mode = stat.S_IMODE(at.st_mode)
            try:
                os.chmod(one.path, mode & ~_OTHERS)
            except PermissionError:
                raise AccessDenied(
                    f"socket_group: {one.path} (mode {mode:04o}) would be readable for the group, "
                    f"and belongs to another account: 'chmod go= {one.path}' closes it"
                ) from None
            event("closed to others", level=logging.WARNING, file=one.name, mode=f"{mode:04o}")


def _look_above(path: str, number: int, group: str) -> None:
    """Warn if the group cannot even get as far as the data directory."""
    above = os.path.abspath(path)
    while above != os.path.dirname(above):
        above = os.path.dirname(above)
        at = os.stat(above)
        through = stat.S_IXGRP if at.st_gid == number else stat.S_IXOTH
        if not at.st_mode & through:
            event(
                "the group does not reach the socket", level=logging.WARNING, socket_group=group,
                directory=above, cure=f"chmod o+x {above}, or a data directory elsewhere",
            )  # fmt: skip
