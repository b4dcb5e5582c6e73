"""What a queue manager tells of its jobs."""

from __future__ import annotations

from onceq.model.record import field
from onceq.model.views.view import View


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

    ``looked`` messages were looked at so far: ``done`` of them are done, ``kept`` says of how many
    others, and why, they are not meant to be done, ``gone`` were taken by somebody else before
    their turn, and ``failed`` could not be done. The rest of them does not fit.

    Attributes:
        number: They rise by one, for ever.
        action: return, purge, move or send-as-new.
        state: running, done, cancelled or failed.
        queues: Whose messages.
        to: Destination of all; "": each goes to its own.
        which: What was said of the messages that are meant, by name; what was not said is absent.
        limit: It ends after so many that are done; 0: none.
        who: Who started it, as ``kind:name``; "": whoever runs the queue manager.
        began, ended: Second since 1970; 0: it has not.
        total: Messages that stood there when it began.
        more: Whether there were more than ``limit``.
        failures: The first of those that failed; where many jobs are listed they are left out.
        why: Of a job that failed or was cancelled: why, or by whom.
        trouble: What a running job waits for; "" if it goes on.
        torn: Of those that are done, how many were sent without others of the transaction that had
            sent them: nobody is given them as a whole one (``receive_transaction``).
        held: Messages of its queues that transactions hold now: a job passes over what is held.
            Left out where many jobs are listed.
    """

    number: int = 0
    action: str = ""
    state: str = ""
    queues: tuple[str, ...] = ()
    to: str = ""
    which: dict[str, str | int | bool] = field(default_factory=dict)
    limit: int = 0
    who: str = ""
    began: int = 0
    ended: int = 0
    total: int = 0
    looked: int = 0
    done: int = 0
    gone: int = 0
    failed: int = 0
    kept: dict[str, int] = field(default_factory=dict)
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
