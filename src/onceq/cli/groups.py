"""``onceq tx groups``: who commits groups of branches here, and up to which version.

A streaming query of Spark that writes to queues is such a one. What is remembered keeps a batch
that is written twice from being sent twice, so to forget it is asked twice.
"""

from __future__ import annotations

from typing import Annotated

from onceq.cli import out
from onceq.cli.common import DryRun, Where, Yes, agreed, manager
from onceq.cli.parameters import Argument
from onceq.errors import UsageError

App = Annotated[str, Argument(metavar="APP", help="As the list shows it: txnAppId, or query:...")]


def forget_group(app: App, dry_run: DryRun = False, yes: Yes = False, qm: Where = None) -> None:
    """Forget the last version of an application: its next batch is sent, whatever its version."""
    with manager(qm) as connection:
        group = next((g for g in connection.groups.list() if g.app == app), None)
        if group is None:
            raise UsageError(f"no version is remembered of {app!r}; 'tx groups' shows the others")
        said = f"version {group.version} of {app}"
        if dry_run:
            out.line(f"would be forgotten: {said}")
            return
        if not yes:
            out.note(
                "if it is still at work, or is started again with its old checkpoint, a batch that "
                "was sent may be sent a second time."
            )
        agreed(f"forget {said}?", yes=yes)
        connection.groups.forget(app)
    out.line(f"forgotten: {said}")
