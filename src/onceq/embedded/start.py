"""Starting a queue manager inside this process: its data directory, its configuration, its host."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace

from onceq.directory.contract import Directory
from onceq.directory.file import FileDirectory
from onceq.embedded.host import EmbeddedHost
from onceq.errors import NotAStore
from onceq.model.settings import CONFIGURATION_FILE, STORE_FILE, Settings
from onceq.permission import there
from onceq.service import config
from onceq.service.config import Configuration
from onceq.service.data_directory import init, open_store
from onceq.store.log import LOCK_FILE
from onceq.store.promises import PROMISED_FILE

_ALLOWED = frozenset(
    (
        CONFIGURATION_FILE, config.FOLDER, LOCK_FILE, STORE_FILE + ".new", PROMISED_FILE,
        PROMISED_FILE + ".new",
    )
)  # fmt: skip
"""Files that the directory of a new queue manager may contain: prepared ones, and what a crash
has left of another attempt."""


def start(
    path: str,
    *,
    name: str | None,
    create: bool,
    listen: str | None,
    peers: Mapping[str, str] | None,
    settings: Settings | None,
    directory: str | Directory | None = None,
) -> EmbeddedHost:
    """Open (or make) the data directory and start its manager, with the arguments of
    ``onceq.open``."""
    path = os.path.abspath(path)
    config.check_peers(peers or {})

    def read() -> Configuration:
        """Return the configuration of the file, with the arguments that override it."""
        configured = os.path.exists(os.path.join(path, CONFIGURATION_FILE))
        said = config.load(path)
        if listen is not None or not configured:
            said = replace(said, listen=listen or "")
        if settings is not None:
            said = replace(said, settings=settings)
        return replace(said, peers={**said.peers, **(peers or {})})

    configuration = read()
    if there(os.path.join(path, STORE_FILE)):
        store = open_store(path, configuration.settings)
    else:
        _check_absent(path, create=create)
        store = init(path, name=name or configuration.name, settings=configuration.settings)
    try:
        where = FileDirectory(directory) if isinstance(directory, str) else directory
        return EmbeddedHost(path, store, configuration, where, read)
    except BaseException:
        store.close()
        raise


def _check_absent(path: str, *, create: bool) -> None:
    """Raise NotAStore, which says what to do, unless a queue manager may be made in a directory."""
    there = os.listdir(path) if os.path.isdir(path) else None
    if there is not None and not _ALLOWED.issuperset(there):
        raise NotAStore(
            f"{path} holds other files and is not the directory of a queue manager; name the one "
            "that is meant, or a new or empty directory and create=True"
        )
    if not create:
        missing = "there is no directory" if there is None else "there is no queue manager in"
        raise NotAStore(
            f"{missing} {path}{_near(path)}; onceq.open(..., create=True) or 'onceq qm init' "
            "makes one"
        )


def _near(path: str) -> str:
    """Return a question about the neighbouring queue manager with the most similar name."""
    parent, name = os.path.split(path)
    beside = os.listdir(parent) if os.path.isdir(parent) else []
    managers = [one for one in beside if os.path.exists(os.path.join(parent, one, STORE_FILE))]
    near = difflib.get_close_matches(name, managers, 1)
    return f" (did you mean {os.path.join(parent, near[0])}?)" if near else ""
