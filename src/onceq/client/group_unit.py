"""Groups of branches from the application's side: what both kinds of client ask, and how.

A job with many tasks has each of them prepare branches, on connections of their own, and then
commits all of them as one (``core/transaction/groups.py``). What the tasks and the one who commits
have in common is the application's name and the number of the batch: everything else follows from
these.

Upholds: I2, I4 (asked again, a version is not committed again).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from onceq.client.plans import Plan, ask
from onceq.client.session import Session
from onceq.model.xid import TAG_BYTES, Xid, group_prefix, group_xid
from onceq.wire.app import frames
from onceq.wire.app.frames import Code


def prefix_of(session: Session, app: str, version: int) -> bytes:
    """What all branches of a batch begin with."""
    digest = hashlib.sha256(f"{version}\0{app}".encode()).digest()
    return group_prefix(session.source, digest[:TAG_BYTES])


def attempt(session: Session, app: str, version: int) -> tuple[bytes, bytes]:
    """Prefix and token of a new attempt at a batch, or at a part of it."""
    return prefix_of(session, app, version), session.token(TAG_BYTES)


def branch(made: tuple[bytes, bytes], name: str) -> Xid:
    """One branch of an attempt."""
    return group_xid(*made, name)


def commit(session: Session, app: str, query: str, version: int, xids: Sequence[Xid]) -> Plan:
    """Commit a group; returns a GroupResult."""
    head = frames.GroupHead(
        "commit", app, query, version, prefix_of(session, app, version),
        [(xid.gtrid, xid.bqual) for xid in xids],
    )  # fmt: skip
    return (yield from ask(Code.GROUP, head))


def rollback(session: Session, app: str, version: int, *, final: bool) -> Plan:
    """Give a batch up; returns how many branches were rolled back."""
    verb = "close" if final else "rollback"
    head = frames.GroupHead(verb, app, "", version, prefix_of(session, app, version), [])
    return (yield from ask(Code.GROUP, head))


def forget(app: str) -> Plan:
    """Forget what an application has committed last."""
    yield from ask(Code.GROUP, frames.GroupHead("forget", app, "", 0, b"", []))
