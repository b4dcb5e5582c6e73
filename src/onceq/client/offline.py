"""What is done to a data directory while nobody talks to its queue manager: make, run, check.

The command line may import the client only, so what it needs of the service and of the store
passes through here (the exception is this module and ``client/embedding.py``). It is imported
where it is used: most commands need nothing of it, and would take twice as long to start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onceq.client.reports import BackupReport, Progress, RestoreReport
from onceq.errors import ConfigurationError, StoreExists, UnsupportedOperation
from onceq.model.identity import guid_text
from onceq.permission import there
from onceq.store.identification import STORE_FILE
from onceq.version import __version__

if TYPE_CHECKING:
    from onceq.model.views.managers import Cut
    from onceq.store.backup import Backup


def is_data_directory(path: str) -> bool:
    """Whether a queue manager lives in this directory."""
    return there(os.path.join(path, STORE_FILE))


def check_endpoint(text: str, *, option: str) -> str:
    """A "host:port" as it stands, or "" for none; raises ConfigurationError."""
    if not text:
        return text
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(
            f"{option} {text!r}: write a host and a port, such as 127.0.0.1:1801"
        )
    return text


def parse_peers(texts: list[str]) -> dict[str, str]:
    """``NAME=host:port`` of the command line as an address book; raises ConfigurationError."""
    peers: dict[str, str] = {}
    for text in texts:
        name, separator, where = text.partition("=")
        if not separator or not name or not where:
            raise ConfigurationError(f"--peer {text!r}: write NAME=host:port")
        peers[name] = check_endpoint(where, option="--peer")
    return peers


def init(
    path: str,
    *,
    name: str = "",
    listen: str | None = None,
    client_listen: str | None = None,
    peers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make a queue manager: its directory, its identity and its ``onceq.toml``.

    Returns:
        name, id, path, listen and the name of the configuration file.

    Raises:
        StoreExists, ConfigurationError: The directory or an option cannot be used.
    """
    from onceq.model.manager_identity import Identity
    from onceq.service import config, directory

    path = os.path.abspath(path)
    if is_data_directory(path):
        raise StoreExists(f"{path} holds a queue manager already; choose another directory")
    if os.path.exists(path) and not os.path.isdir(path):
        raise ConfigurationError(f"{path} is a file; choose a new directory")
    if os.path.isdir(path) and os.listdir(path):
        raise ConfigurationError(f"{path} is not empty; choose a new or an empty directory")
    name = directory.check_name(name or directory.default_name())
    listen = config.Configuration().listen if listen is None else listen
    text = _toml(name, listen, client_listen or "", peers or {})
    store = directory.init(path, name=name, configuration=text)
    identity = Identity.unpack(store.identity)
    store.close()
    return {
        "name": identity.name,
        "id": guid_text(identity.guid),
        "path": path,
        "listen": config.load(path).listen,
        "configuration": os.path.join(path, config.FILE),
    }


def _toml(name: str, listen: str, client_listen: str, peers: Mapping[str, str]) -> str:
    """A configuration file with what was asked for, and the rest as comments."""
    lines = [
        "# Configuration of a onceq queue manager: docs/reference/configuration.md",
        f"name = {json.dumps(name)}",
        f"listen = {json.dumps(listen)}  # other queue managers; empty: none may connect",
        f"client_listen = {json.dumps(client_listen)}  # applications over TCP; empty: none",
        "",
        '[peers]  # where other queue managers are: NAME = "host:port"; else DNS and port 1801',
        *(
            f"{peer if re.fullmatch(r'[A-Za-z0-9_-]+', peer) else json.dumps(peer)} = "
            f"{json.dumps(where)}"
            for peer, where in peers.items()
        ),
        "",
        "[settings]  # docs/reference/settings.md",
        "",
    ]
    return "\n".join(lines)


def run(
    path: str,
    *,
    listen: str | None = None,
    client_listen: str | None = None,
    peers: Mapping[str, str] | None = None,
) -> None:
    """Run the queue manager of a directory in this process until a signal stops it.

    Raises:
        NotAStore, StoreLocked, PortInUse, ConfigurationError: It cannot start.
        StorageFailure: The disk failed.
    """
    from onceq.service.main import serve

    serve(path, listen=listen, client_listen=client_listen, peers=dict(peers or {}))


def backup_of_cut(target: str, cut: Cut, id: str) -> Backup:
    """A backup of what a queue manager that runs holds for it; raises UnsupportedOperation.

    Args:
        cut: As it has answered.
        id: GUID of the queue manager that is talked to.
    """
    from onceq.model.manager_identity import Identity
    from onceq.service.config import FILE
    from onceq.store.backup import Backup
    from onceq.store.files import RealFiles
    from onceq.store.identification import read_identification

    path, files = cut.path, RealFiles()
    who = read_identification(files, path).identity if is_data_directory(path) else b""
    if not who or guid_text(Identity.unpack(who).guid) != id:
        raise UnsupportedOperation(
            f"the data directory {path} cannot be read from here, and a backup is copied out of "
            "it; make it where the queue manager runs"
        )
    return Backup(files, cut, target, beside=(FILE,))


def finish_backup(backup: Backup, *, name: str, id: str, taken_s: int) -> BackupReport:
    """Make a backup of what was copied; see ``store.backup.Backup.finish``."""
    made = backup.finish(manager=name, id=id, taken_s=taken_s, made_by=__version__)
    return BackupReport(
        backup.target, name, id, made.position, taken_s, len(made.files), made.bytes
    )


def backup(path: str, target: str, *, progress: Progress | None = None) -> BackupReport:
    """Make a backup of a queue manager that does not run.

    Raises:
        StoreLocked: It runs: connect to it instead.
        NotAStore, DamagedRecord: It cannot be read.
        ConfigurationError, NoSpace: The target cannot be used.
    """
    from onceq.model.manager_identity import Identity
    from onceq.service.clock import SystemClock
    from onceq.service.config import FILE
    from onceq.store.backup import Backup, cut_of_stopped
    from onceq.store.files import RealFiles
    from onceq.store.identification import read_identification
    from onceq.store.log import LOCK_FILE

    path, files = os.path.abspath(path), RealFiles()
    who = Identity.unpack(read_identification(files, path).identity)
    lock = files.lock(os.path.join(path, LOCK_FILE))
    try:
        making = Backup(files, cut_of_stopped(files, path), target, beside=(FILE,))
        while making.step():
            if progress is not None:
                progress(making.done, making.bytes)
    finally:
        files.close(lock)
    now_s = SystemClock().read().wall_s
    return finish_backup(making, name=who.name, id=guid_text(who.guid), taken_s=now_s)


def restore(
    backup: str, to: str, *, replace: bool, new_identity: bool, name: str, dry_run: bool,
    progress: Progress | None,
) -> RestoreReport:  # fmt: skip
    """See ``onceq.restore``."""
    from onceq.service.restoring import Restore

    if name and not new_identity:
        raise ConfigurationError(
            "a queue manager keeps its name; another name needs a new identity (--new-identity)"
        )
    return RestoreReport(
        **Restore(backup, to, new_identity=new_identity, name=name).run(
            replace=replace, dry_run=dry_run, progress=progress
        )
    )


def check(path: str) -> dict[str, Any]:
    """Read a whole store and say what is in it; ``problem`` is "" if nothing is wrong.

    Raises:
        NotAStore, NewerFormat: It is no store, or one of a newer onceq.
    """
    from onceq.store.check import check as check_store
    from onceq.store.files import RealFiles

    return asdict(check_store(os.path.abspath(path), RealFiles()))
