"""What a queue manager tells of its jobs."""

from __future__ import annotations

from typing import Annotated

from onceq.model.record import field
from onceq.model.views.view import Column, View


class JobFailure(View, frozen=True):
    """A message to which a job could not do what it was to do; it stands where it stood.

    Attributes:
        lookup_id: Its place in ``queue``.
        id: Message identifier.
        code, text: Of the error.
    """

    queue: str = ""
    lookup_id: int = 0
    id: str = ""
    code: str = ""
    text: str = ""


class JobView(View, frozen=True):
    """A job: what it is to do, and how far it is.

    Messages that were looked at, and are in none of ``done``, ``kept``, ``gone`` and ``failed``, do
    not fit ``which``.

    Attributes:
        number: Number of the job; each has the next one.
        action: return, purge, move or send-as-new.
        state: running, done, cancelled or failed.
        queues: Queues whose messages it looks at.
        to: Destination of all; "": each goes to its own.
        which: What was said of the messages that are meant, by name; what was not said is absent.
        limit: It ends after so many that are done; 0: none.
        who: Who started it, as ``kind:name``; "": the account that runs the queue manager.
        began: When it began (seconds since 1970).
        ended: When it ended; 0: it runs.
        total: Messages that stood there when it began.
        looked: Messages that it has looked at so far.
        done: Messages with which it has done its action.
        kept: Messages that it leaves in place, by the reason.
        gone: Messages that somebody else had taken before their turn.
        failed: Messages with which it could not do its action.
        more: Whether there were more than ``limit``.
        failures: The first of those that failed; where many jobs are listed they are left out.
        why: Of a job that failed or was cancelled: why, or by whom.
        trouble: What a running job waits for; "" if it goes on.
        torn: Of those that are done, how many were sent without others of the transaction that had
            sent them: nobody is given them as a whole one (``receive_transaction``).
        held: Messages of its queues that transactions hold now: a job passes over what is held.
            Left out where many jobs are listed.
    """

    number: Annotated[int, Column("job")] = 0
    action: Annotated[str, Column("action")] = ""
    queues: Annotated[tuple[str, ...], Column("queues", "name", leaves=5, empty="")] = ()
    state: Annotated[str, Column("state")] = ""
    looked: Annotated[int, Column("looked")] = 0
    total: Annotated[int, Column("total", leaves=3)] = 0
    done: Annotated[int, Column("done")] = 0
    kept: Annotated[dict[str, int], Column("kept", "count", leaves=4)] = field(default_factory=dict)
    failed: Annotated[int, Column("failed")] = 0
    began: Annotated[int, Column("began", "moment", leaves=2)] = 0
    who: Annotated[str, Column("by", leaves=1)] = ""
    to: str = ""
    which: dict[str, str | int | bool] = field(default_factory=dict)
    limit: int = 0
    ended: int = 0
    gone: int = 0
    more: bool = False
    failures: tuple[JobFailure, ...] = ()
    why: str = ""
    trouble: str = ""
    torn: int = 0
    held: int = 0

    @property
    def over(self) -> bool:
        """Whether nothing more is done."""
        return self.state not in ("", "running")
