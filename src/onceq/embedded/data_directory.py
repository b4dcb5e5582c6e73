"""Operations on a data directory without a connection to its queue manager: make, run, back up,
restore, check.

It also rotates the authority of TLS, so that no member is cut off.

The service and the store are imported where they are used: most commands and applications need
nothing of them, and would take twice as long to start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from onceq.client.address import is_data_directory
from onceq.client.results import BackupReport, Progress, RestoreReport
from onceq.embedded import trusting
from onceq.embedded.results import MadeManager, ShownIdentity
from onceq.errors import ConfigurationError, StoreExists
from onceq.file_access import CONFIGURATION_FILE, SOCKET_FILE
from onceq.model.identity import Identity, guid_text
from onceq.tls import authority, folder, own

if TYPE_CHECKING:
    from onceq.store.recovery import CheckReport


# ---- data directory ------------------------------------------------------------------------------


def init(
    path: str,
    *,
    name: str = "",
    listen: str | None = None,
    client_listen: str | None = None,
    peers: Mapping[str, str] | None = None,
) -> MadeManager:
    """Make a queue manager: its directory, its identity and its ``onceq.toml``.

    Raises:
        StoreExists, ConfigurationError: The directory or an option cannot be used.
    """
    from onceq.service import config, data_directory

    path = os.path.abspath(path)
    if is_data_directory(path):
        raise StoreExists(f"{path} holds a queue manager already; choose another directory")
    if os.path.exists(path) and not os.path.isdir(path):
        raise ConfigurationError(f"{path} is a file; choose a new directory")
    if os.path.isdir(path) and os.listdir(path):
        raise ConfigurationError(f"{path} is not empty; choose a new or an empty directory")
    data_directory.check_socket(os.path.join(path, SOCKET_FILE))
    name = data_directory.check_name(name or data_directory.default_name())
    config.check_peers(peers or {})
    listen = config.Configuration().listen if listen is None else listen
    # The options that were given, and the rest as comments.
    lines = [
        "# Configuration of a onceq queue manager: docs/reference/configuration.md",
        f"name = {json.dumps(name)}",
        f"listen = {json.dumps(listen)}  # other queue managers; empty: none may connect",
        f"client_listen = {json.dumps(client_listen or '')}  # applications over TCP; empty: none",
        "",
        '[peers]  # where other queue managers are: NAME = "host:port"; else DNS and port 1801',
        *(
            f"{peer if re.fullmatch(r'[A-Za-z0-9_-]+', peer) else json.dumps(peer)} = "
            f"{json.dumps(where)}"
            for peer, where in (peers or {}).items()
        ),
        "",
        "[settings]  # docs/reference/settings.md",
        "",
    ]
    text = "\n".join(lines)
    store = data_directory.init(path, name=name, configuration=text)
    identity = Identity.unpack(store.identity)
    store.close()
    return MadeManager(
        name=identity.name,
        id=guid_text(identity.guid),
        path=path,
        listen=config.load(path).listen,
        configuration=os.path.join(path, CONFIGURATION_FILE),
    )


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


def backup(
    path: str, target: str, *, configuration: bool = True, progress: Progress | None = None
) -> BackupReport:
    """Make a backup of a queue manager that does not run.

    Args:
        configuration: Copy ``onceq.toml``, too, which may contain passwords of databases.

    Raises:
        StoreLocked: It runs: connect to it instead.
        NotAStore, DamagedRecord: It cannot be read.
        AccessDenied: The private key of its identity cannot be read.
        ConfigurationError, NoSpace: The target cannot be used.
    """
    from onceq.client import backups
    from onceq.service.clock import SystemClock
    from onceq.store.backup import Backup, cut_of_stopped
    from onceq.store.files import RealFiles
    from onceq.store.identification import read_identification
    from onceq.store.log import LOCK_FILE
    from onceq.tls.signing import signer_of

    path, files = os.path.abspath(path), RealFiles()
    who = Identity.unpack(read_identification(files, path).identity)
    lock = files.lock(os.path.join(path, LOCK_FILE))
    try:
        signer = signer_of(path)
        beside = (CONFIGURATION_FILE,) if configuration else ()
        making = Backup(files, cut_of_stopped(files, path), target, beside=beside)
        while making.step():
            if progress is not None:
                progress(making.done, making.bytes)
    finally:
        files.close(lock)
    now_s = SystemClock().read().wall_s
    return backups.finish(making, signer, name=who.name, id=guid_text(who.guid), taken_s=now_s)


def restore(
    backup: str,
    to: str,
    *,
    replace: bool = False,
    new_identity: bool = False,
    name: str = "",
    trust: str = "",
    unsigned: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RestoreReport:
    """Make a data directory from a backup; no queue manager may run there.

    With the same identity it *is* the queue manager of the backup, at an earlier time: make sure
    that the original never starts again.

    Args:
        backup: Directory that ``backup`` has made.
        to: The data directory.
        replace: A queue manager that is there may be replaced; its files are kept aside.
        new_identity: Make another queue manager of it, with a GUID of its own, that may live beside
            the original: messages that waited for others are set aside.
        name: Its computer name (only with ``new_identity``); the same by default.
        trust: File with certificates, PEM, of queue managers or authorities: one of them must have
            signed the backup. "": those that the identity in the target trusts.
        unsigned: Accept an unsigned backup: everybody who can write to it is trusted.
        dry_run: Compare every file with the manifest, check the target, and change nothing.
        progress: Called now and then with the bytes that are copied, and the total.

    Raises:
        NotABackup, NewerFormat: It is no backup, or one of a newer onceq.
        DamagedRecord: A file of it is damaged, and named.
        UntrustedBackup: It has no signature of a trusted signer.
        StoreExists: There is a queue manager in the target.
        StoreLocked: It runs.
        ConfigurationError: The target, the name or the certificates cannot be used.
        NoSpace: There is no room.
    """
    from onceq.service.restoring import Restore

    if name and not new_identity:
        raise ConfigurationError(
            "a queue manager keeps its name; another name needs a new identity (--new-identity)"
        )
    if trust and unsigned:
        raise ConfigurationError("trust and unsigned exclude each other: name one of them")
    return RestoreReport(
        **Restore(
            backup, to, new_identity=new_identity, name=name, trust=trust, unsigned=unsigned
        ).run(replace=replace, dry_run=dry_run, progress=progress)
    )


def check(path: str) -> CheckReport:
    """Read a whole store and report on it; ``problem`` is "" if nothing is wrong.

    Raises:
        NotAStore, NewerFormat: It is no store, or one of a newer onceq.
    """
    from onceq.store.files import RealFiles
    from onceq.store.recovery import check as check_store

    return check_store(os.path.abspath(path), RealFiles())


# ---- rotating ------------------------------------------------------------------------------------
#
# `onceq tls rotate`: another authority takes the place of one, and no member is cut off.


_STEPS: Final = {
    "": "begun", "begun": "the next one signs", "signing": "the old one is forgotten",
}  # fmt: skip
"""The description of each step, by the stage."""
_LACK: Final = {
    "begun": "do not believe the next authority yet; each does once it has asked (at its start, "
    "and once a minute)",
    "signing": "have a certificate of the old authority: onceq tls renew there, then onceq qm "
    "reload",
}
"""What keeps members from the next step."""


def rotate(path: str, *, anyway: bool = False) -> ShownIdentity:
    """Take the next step.

    Args:
        anyway: Also if members are behind; they have to join again.

    Raises:
        ConfigurationError: There is no authority here, or members are behind; they are named.
        AccessDenied: The directory cannot be used.
    """
    here = trusting.here_of(path)
    trusting.check_ours(here)
    if not here.has(folder.AUTHORITY):
        raise ConfigurationError(
            f"{here.identity.name} has no authority of its own: rotate where the one is that has "
            "signed for it (onceq tls show)"
        )
    if here.has(folder.NEXT) and not here.has(folder.NEXT_KEY):
        folder.rename(here.tls, folder.NEXT, folder.AUTHORITY)  # it was interrupted there
    stage = trusting.stage(here.tls)
    if stage and not anyway:
        ours = guid_text(here.identity.guid)
        late = [
            one.name
            for one in trusting.members_of(here).values()
            if one.id != ours and trusting.behind(here.tls, one)
        ]
        if late:
            raise ConfigurationError(
                f"these {_LACK[stage]}: {', '.join(sorted(late))}; remove those that will not come "
                "back (onceq tls remove), or say --anyway, and they have to join again"
            )
    own.leave(here.tls, "rotate authority", _STEPS[stage], here.now_s)
    if stage == "":
        _begin(here)
    elif stage == "begun":
        folder.write(here.file(folder.OLD), folder.read(here.file(folder.AUTHORITY)))
        folder.rename(here.tls, folder.NEXT_KEY, folder.AUTHORITY_KEY)
        folder.rename(here.tls, folder.NEXT, folder.AUTHORITY)
        trusting.sign_own(here, ())
    else:
        mine = trusting.members_of(here).get(guid_text(here.identity.guid))
        if mine is None or trusting.behind(here.tls, mine):
            trusting.sign_own(here, ())  # it was interrupted before
        old = folder.split(folder.read(here.file(folder.OLD)).decode())
        folder.believe(here.tls, [], old)
        folder.remove(here.tls, folder.OLD)
    return trusting.show(path)


def _begin(here: trusting.Here) -> None:
    made, key = authority.make_authority(here.identity.name, here.now_s)
    folder.write(here.file(folder.NEXT_KEY), key)
    folder.believe(here.tls, [made.decode()])
    folder.write(here.file(folder.NEXT), made)
