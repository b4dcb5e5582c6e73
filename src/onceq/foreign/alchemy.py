"""A queue manager as a participant of SQLAlchemy's two-phase sessions.

    session = Session(twophase=True, binds={...})
    queues = join(session, qm)
    queues.send(r"private$\\orders", "17")
    session.commit()

A session in two-phase mode prepares all its connections, and then commits them. The manager hears
of that by the session's own events: it votes before the connections do (``before_commit``, when
everything can still be undone), commits after they have, and rolls back with them.
"""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from onceq.client.threads.manager import QueueManager
from onceq.client.threads.transaction import Branch
from onceq.errors import EnlistRefused
from onceq.model.branches import Vote, Xid

FORMAT = 0x73716C61
"""Format of branch identifiers made here: the letters ``sqla``."""
_KEY = "onceq"


def join(session: Session, qm: QueueManager) -> Branch:
    """Where to send and receive with the session's current transaction.

    Raises:
        EnlistRefused: The session is not in two-phase mode: its database could commit before the
            queue manager has promised. Then let that decide: ``tx.enlist(session)``.
    """
    if not session.twophase:
        raise EnlistRefused(
            "this Session commits in one phase; make it with twophase=True, or let the queue "
            "manager decide: tx.enlist(session)"
        )
    known: dict[str, _Participant] | None = session.info.get(_KEY)
    if known is None:
        known = session.info[_KEY] = {}
        for name, listener in _LISTENERS.items():
            event.listen(session, name, listener)
    if qm.id not in known:
        known[qm.id] = _Participant(qm)
    return known[qm.id].branch


class _Participant:
    """A branch of a queue manager in a session's transaction."""

    def __init__(self, qm: QueueManager) -> None:
        self._manager = qm
        self.xid = Xid(FORMAT, f"sqla-{uuid.uuid4().hex}".encode(), qm.id.encode())
        self.branch = qm.branch(self.xid)
        self._vote: Vote | None = None

    def prepare(self) -> None:
        if self._vote is None:
            self._vote = self.branch.prepare()

    def commit(self) -> None:
        if self._vote is Vote.PREPARED:
            self._manager.xa.commit(self.xid)

    def rollback(self) -> None:
        if self._vote is not Vote.READ_ONLY:
            self.branch.abort()


def _before_commit(session: Session) -> None:
    """What the session has in mind is written first; an error here undoes everything."""
    if session.info[_KEY]:
        session.flush()
        for participant in session.info[_KEY].values():
            participant.prepare()


def _after_commit(session: Session) -> None:
    for participant in _taken(session):
        participant.commit()


def _after_rollback(session: Session) -> None:
    for participant in _taken(session):
        participant.rollback()


def _taken(session: Session) -> list[_Participant]:
    found = list(session.info[_KEY].values())
    session.info[_KEY].clear()
    return found


_LISTENERS: dict[str, Any] = {
    "before_commit": _before_commit,
    "after_commit": _after_commit,
    "after_rollback": _after_rollback,
}
