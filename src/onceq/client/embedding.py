"""Starting a queue manager inside this process: where the client needs the service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from onceq.directory.contract import Directory
from onceq.directory.file import FileDirectory
from onceq.errors import NotAStore
from onceq.model.limits import Settings
from onceq.service import config
from onceq.service.directory import init, open_store
from onceq.service.embedded import EmbeddedHost
from onceq.store.identification import STORE_FILE


def host(
    path: str,
    *,
    name: str | None,
    create: bool,
    listen: str | None,
    peers: Mapping[str, str] | None,
    settings: Settings | None,
    directory: str | Directory | None = None,
) -> EmbeddedHost:
    """Open (or make) the data directory and start its manager; see ``onceq.open``."""
    path = os.path.abspath(path)
    configured = os.path.exists(os.path.join(path, config.FILE))
    configuration = config.load(path)
    if listen is not None or not configured:
        configuration = replace(configuration, listen=listen or "")
    if peers:
        configuration = replace(configuration, peers={**configuration.peers, **peers})
    if settings is not None:
        configuration = replace(configuration, settings=settings)
    if os.path.exists(os.path.join(path, STORE_FILE)):
        store = open_store(path)
    elif not create:
        raise NotAStore(f"{path} is not the directory of a queue manager")
    else:
        if os.path.isdir(path) and [n for n in os.listdir(path) if n != config.FILE]:
            raise NotAStore(
                f"{path} holds other files and is not the directory of a queue manager; choose "
                "an empty or a new one"
            )
        store = init(path, name=name or configuration.name)
    try:
        where = FileDirectory(directory) if isinstance(directory, str) else directory
        return EmbeddedHost(path, store, configuration, where)
    except BaseException:
        store.close()
        raise
