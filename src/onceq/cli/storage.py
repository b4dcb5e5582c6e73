"""The store: backups and restores, scrubs, and messages whose stored bytes are damaged."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import (
    Argument,
    DryRun,
    Json,
    Option,
    Where,
    Yes,
    agreed,
    connected,
    dumped,
    manager,
    where,
)
from onceq.client.address import is_data_directory
from onceq.client.stopping import pause
from onceq.errors import DamagedRecord, InvalidParameter, ServiceNotAvailable
from onceq.hidden import quote_word
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.results import BackupReport, RestoreReport

STEP_BYTES = 256 << 20
"""Bytes between two lines of progress."""

Target = Annotated[str, Argument(metavar="DIR", help="A directory that is empty or not there.")]
Source = Annotated[str, Argument(metavar="BACKUP", help="Directory of a backup.")]
To = Annotated[str, Option("--to", metavar="DIR", help="Data directory to make.")]
Replace = Annotated[
    bool,
    Option("--replace", help="Replace the queue manager there; its files are kept aside."),
]
NewIdentity = Annotated[
    bool,
    Option(
        "--new-identity",
        help="Make another queue manager beside the original; what waits for others becomes dead "
        "letters.",
    ),
]
Name = Annotated[
    str,
    Option("--name", metavar="NAME", help="Its name, with --new-identity [the same].",
                 show_default=False),
]  # fmt: skip
Trust = Annotated[
    str,
    Option("--trust", metavar="FILE", show_default=False,
           help="Certificates (PEM) of the queue manager or its authority [those of the identity "
           "in DIR]."),
]  # fmt: skip
Unsigned = Annotated[
    bool,
    Option("--unsigned", help="Do not verify who made the backup."),
]
WithoutConfiguration = Annotated[
    bool,
    Option("--without-configuration",
           help="Leave out onceq.toml, in which passwords of databases may stand."),
]  # fmt: skip


class _Progress:
    """How far it is, on a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = STEP_BYTES

    def __call__(self, done: int, total: int) -> None:
        if done >= self._next and sys.stderr.isatty():
            self._next += STEP_BYTES
            out.note(f"{self._what}: {out.size(done)} of {out.size(total)}")


def backup_command(
    directory: Target, without_configuration: WithoutConfiguration = False, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Make a backup of a queue manager, while it runs or stopped, and read it back.

    Exit code 0: it is whole, and has all that was committed before it began.
    """
    made = _make(directory, where(qm), configuration=not without_configuration)
    if dumped(asdict(made), json):
        return
    out.line(
        f"backup of {made.queue_manager} in {made.path}: {plural(made.files, 'file')}, "
        f"{out.size(made.bytes)}, log position {made.position}; read back and found whole"
    )
    if made.signed_by:
        out.line(f"it is signed with the certificate {made.signed_by}")
    else:
        out.line("it is not signed: the queue manager has no identity, or the library for it is "
                 "missing (onceq tls init; pip install 'onceq[tls]')")  # fmt: skip


def _make(directory: str, qm: str, *, configuration: bool) -> BackupReport:
    told = _Progress("copied")
    try:
        with connected(qm) as connection:
            return connection.admin.backup(directory, configuration=configuration, progress=told)
    except ServiceNotAvailable:
        if not is_data_directory(qm):
            raise
    from onceq.embedded import data_directory

    return data_directory.backup(qm, directory, configuration=configuration, progress=told)


def restore_command(
    backup: Source, to: To, replace: Replace = False, new_identity: NewIdentity = False,
    name: Name = "", trust: Trust = "", unsigned: Unsigned = False,
    dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Make a data directory of a backup. What was done after the backup is undone there.

    The backup must be signed by its queue manager (--trust, --unsigned). With the same identity,
    never start the original again.
    """
    from onceq.embedded import data_directory

    done = data_directory.restore(
        backup, to, replace=replace, new_identity=new_identity, name=name, trust=trust,
        unsigned=unsigned, dry_run=dry_run, progress=_Progress("read" if dry_run else "copied"),
    )  # fmt: skip
    if dumped(asdict(done), json):
        return
    for text in _describe(done):
        out.line(text)


def _describe(done: RestoreReport) -> list[str]:
    when, files = out.when(done.taken_at), plural(done.files, "file")
    if done.dry_run:
        return [
            f"the backup is whole: {files}, {out.size(done.bytes)}; {done.queue_manager} would be "
            f"put back to {when} in {done.path}; nothing was changed"
        ]
    said = [f"{done.queue_manager} was put back to {when} (log position {done.position})"]
    if done.previous:
        said.append(f"it is another queue manager now: {done.id}; it was {done.previous}")
        if done.set_aside:
            said.append(
                f"{plural(done.set_aside, 'message')} that waited for other queue managers "
                "are dead letters here; the original sends them"
            )
        said.append("jobs, promises and tokens of the original have ended here: 'onceq qm status' "
                    "says how many")  # fmt: skip
    else:
        said.append(f"it is the same queue manager, {done.id}: never start the original again")
    if done.replaced:
        said.append(f"what was there is kept in {done.replaced}; remove it when all is well")
    if done.configuration == "kept":
        said.append("onceq.toml was there already and is unchanged")
    said.append(f"start it with: onceq qm run {quote_word(os.path.relpath(done.path))}")
    return said


POLL_S = 0.2
"""How often a scrub is asked how far it has come."""

Number = Annotated[int | None, Argument(metavar="NUMBER", help="Of the entry.", show_default=False)]
All = Annotated[bool, Option("--all", help="All entries.")]
Rate = Annotated[
    int, Option("--rate", metavar="MIB", help="Mebibytes a second [8].", show_default=False)
]
Stop = Annotated[bool, Option("--stop", help="Stop the one that runs.")]
NoWait = Annotated[bool, Option("--no-wait", help="Begin it, and do not wait for its end.")]


def drop_damaged(
    number: Number = None, every: All = False, yes: Yes = False, dry_run: DryRun = False,
    qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Forget an entry, or all; its messages are gone for good then. It asks first."""
    if (number is None) is not every:
        raise InvalidParameter("say the number of an entry, or --all")
    with manager(qm) as connection:
        found = [d for d in connection.admin.damages() if every or d.number == number]
        count = sum(d.count for d in found)
        if count and not dry_run:
            agreed(f"forget {plural(count, 'damaged message')} for good?", yes=yes)
        if not dry_run:
            count = connection.admin.drop_damaged(number)
    if dumped({"dropped": count, "dry_run": dry_run}, json):
        return
    would = "would be forgotten" if dry_run else "forgotten"
    out.line(f"{plural(count, 'damaged message')} {would}")


def scrub_command(
    rate: Rate = 0, stop: Stop = False, no_wait: NoWait = False, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Read every stored byte of a running queue manager, slowly, and name what is damaged.

    Damaged messages are set aside ('onceq damage list'). Exit code 7: there was damage. Ctrl-C
    leaves it running; --stop stops it.
    """
    with manager(qm) as connection:
        if stop:
            connection.admin.scrub_stop()
        else:
            connection.admin.scrub(rate << 20)
        view = connection.admin.scrub_status()
        while view.running and not (no_wait or stop):
            out.note(f"{out.size(view.bytes)} of {out.size(view.total)}")
            pause(POLL_S)
            view = connection.admin.scrub_status()
        found = connection.admin.damages()
    if not dumped({**view.as_dict(), "damages": found}, json):
        how = "looking at" if view.running else "stopped after" if view.stopped else "looked at"
        out.line(
            f"{how} {out.size(view.bytes)} of {out.size(view.total)}: "
            f"{plural(view.damaged, 'damaged place')}"
        )
    if view.damaged:
        raise DamagedRecord(
            f"{plural(view.damaged, 'place')} of the log are damaged; 'onceq damage list' "
            "names the messages that lay there"
        )
