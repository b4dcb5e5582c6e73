"""The data directory of a queue manager, which one process at a time opens; and the directory of
names from its configuration (DL-14).

A data directory is made without the core and its readers: only a process that runs a queue manager
loads those.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from onceq import errors
from onceq.file_access import CONFIGURATION_FILE, STORE_FILE, check_own, denied, there
from onceq.model.addresses import means_itself
from onceq.model.identity import Identity, guid_bytes
from onceq.model.limits import COMPUTER_NAME_CHARS_MAX
from onceq.model.settings import Settings
from onceq.service.clock import SystemClock
from onceq.service.config import Configuration, check_segment_bytes
from onceq.store.files import SPARES, RealFiles
from onceq.store.log import LogStore

if TYPE_CHECKING:
    from onceq.core.manager import Manager
    from onceq.directory.file import FileDirectory


SOCKET_PATH_BYTES_MAX: Final = 107
"""The system's limit for the path of a Unix socket."""


def default_name() -> str:
    """Return the computer's name, as far as a format name can hold it.

    Raises:
        ConfigurationError: It is a name that every computer gives itself.
    """
    host = socket.gethostname()
    if means_itself(host):
        raise errors.ConfigurationError(
            f"this computer is called {host}, as each computer calls itself, so its queue manager "
            f"needs a name of its own: {_GIVE_NAME}"
        )
    return re.sub(r"[^A-Za-z0-9-]", "-", host.split(".")[0]).upper() or "LOCAL"


_GIVE_NAME = '--name NAME on the command line, name="NAME" in Python'


def check_socket(path: str) -> None:
    """Raise ConfigurationError if a path is too long for the socket of a daemon."""
    if (size := len(os.fsencode(path))) > SOCKET_PATH_BYTES_MAX:
        raise errors.ConfigurationError(
            f"{path} has {size} bytes, and the system allows {SOCKET_PATH_BYTES_MAX} for the path "
            "of a socket: take a data directory with a shorter path"
        )


def check_name(name: str) -> str:
    """Return a computer name that format names can hold and others can answer to; raises
    ConfigurationError."""
    if means_itself(name):
        raise errors.ConfigurationError(
            f"{name!r} cannot be the name of a queue manager: each computer calls itself so, and "
            f"replies to it stay with their sender; give it another one: {_GIVE_NAME}"
        )
    if not re.fullmatch(rf"[\x21-\x7e]{{1,{COMPUTER_NAME_CHARS_MAX}}}", name) or re.search(
        r'[\\/;,+="]', name
    ):
        raise errors.ConfigurationError(
            f"{name!r} cannot be the name of a queue manager: use letters, digits, - and ."
        )
    return name


def init(
    path: str, *, name: str = "", configuration: str = "", settings: Settings | None = None
) -> LogStore:
    """Make a new queue manager in a directory; its GUID is made here and never changes.

    Args:
        configuration: Text for ``onceq.toml``; none is written if "".
        settings: Give the size of log segments.

    Returns:
        Its store, open.

    Raises:
        StoreExists, ConfigurationError, AccessDenied: Directory or name cannot be used, or others
            could write there.
    """
    now_s = SystemClock().read().wall_s
    identity = Identity(uuid.uuid4().bytes_le, check_name(name or default_name()), now_s)
    segment_bytes = check_segment_bytes((settings or Settings()).log_segment_bytes)
    if there(os.path.join(path, STORE_FILE)):
        raise errors.StoreExists(f"{path} holds a queue manager already; choose another directory")
    check_own(path)
    SPARES.refill()
    files = RealFiles()
    with _permitted(path):
        files.make_directory(path)
    if configuration:
        _write_configuration(os.path.join(path, CONFIGURATION_FILE), configuration)
    with _permitted(path):
        store = LogStore.create(
            path,
            files,
            store_id=uuid.uuid4().bytes,
            identity=identity.pack(),
            created_s=now_s,
            segment_bytes=segment_bytes,
            aside=True,
        )
    store.prepare()
    return store


def _write_configuration(name: str, text: str) -> None:
    """Write a configuration where there is none, or the same (an init that a crash cut short)."""
    try:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except PermissionError:
        raise denied(name) from None
    except FileExistsError:
        with open(name, encoding="utf-8") as found:
            if found.read() == text:
                return
        raise errors.ConfigurationError(
            f"{name} is there already and says something else; remove it, or keep it and make "
            "the queue manager without one"
        ) from None
    with open(file, "w", encoding="utf-8") as new:
        new.write(text)
        new.flush()
        os.fsync(new.fileno())


def open_store(path: str, settings: Settings | None = None) -> LogStore:
    """Open the store of a directory.

    Args:
        settings: Give the size of log segments from now on.

    Raises:
        NotAStore, StoreLocked, DamagedRecord, NewerFormat, ConfigurationError: It is not opened.
    """
    segment_bytes = check_segment_bytes((settings or Settings()).log_segment_bytes)
    SPARES.refill()
    if there(os.path.join(path, STORE_FILE)):
        check_own(path)
    with _permitted(path):
        return LogStore.open(path, RealFiles(), segment_bytes=segment_bytes, aside=True)


@contextlib.contextmanager
def _permitted(path: str) -> Iterator[None]:
    """Turn refusals by the system into AccessDenied: they are no failure of the disk."""
    try:
        yield
    except errors.StorageFailure as error:
        if isinstance(error.__cause__, PermissionError):
            raise denied(path) from error
        raise


def manager_of(store: LogStore, configuration: Configuration) -> Manager:
    """Return the manager of a store, not recovered yet."""
    from onceq.core.manager import Manager

    identity = Identity.unpack(store.identity)
    if configuration.name and configuration.name.casefold() != identity.name.casefold():
        raise errors.ConfigurationError(
            f"the directory belongs to queue manager {identity.name}, the configuration says "
            f"{configuration.name}; a queue manager keeps its name"
        )
    return Manager(
        identity,
        configuration.settings,
        addresses=frozenset(configuration.addresses),
        routes={guid_bytes(guid): via for guid, via in configuration.routes.items()},
        peers=configuration.peers,
    )


def directory_of(path: str, configuration: Configuration) -> FileDirectory | None:
    """Return the directory of names that a configuration names; None for workgroup mode.

    Args:
        path: The data directory, the base of a relative name.
    """
    if not configuration.directory:
        return None
    from onceq.directory.file import FileDirectory

    return FileDirectory(os.path.join(path, configuration.directory))
