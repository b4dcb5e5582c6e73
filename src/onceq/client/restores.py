"""``onceq.restore``: make a data directory of a backup."""

from __future__ import annotations

from onceq.client.reports import Progress, RestoreReport


def restore(
    backup: str,
    to: str,
    *,
    replace: bool = False,
    new_identity: bool = False,
    name: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RestoreReport:
    """Make a data directory of a backup; no queue manager may run there.

    With the same identity it *is* the queue manager that the backup is of, at an earlier time:
    see to it that the original never starts again.

    Args:
        backup: Directory that ``backup`` has made.
        to: The data directory.
        replace: A queue manager that is there may be replaced; its files are kept aside.
        new_identity: Make another queue manager of it, with a GUID of its own, that may live beside
            the original: what waited for others is set aside.
        name: Its computer name (only with ``new_identity``); the same by default.
        dry_run: Compare every file with the manifest, look at the target, and change nothing.
        progress: Called now and then with the bytes that are copied, and those of all.

    Raises:
        NotABackup, NewerFormat: It is no backup, or one of a newer onceq.
        DamagedRecord: A file of it is damaged, and named.
        StoreExists: There is a queue manager in the target.
        StoreLocked: It runs.
        ConfigurationError: The target or the name cannot be used.
        NoSpace: There is no room.
    """
    from onceq.client import offline

    return offline.restore(
        backup, to, replace=replace, new_identity=new_identity, name=name, dry_run=dry_run,
        progress=progress,
    )  # fmt: skip
