"""A manager follows the rights in its directory, and keeps what it has read.

What was read is durable: a directory that is away, or damaged, neither opens nor shuts anything,
even over restarts, and the operator is notified. A copy older than what was read before is not
followed; otherwise what was taken away since would come back. Without a directory there are none.

Upholds: I28.
"""

from __future__ import annotations

from onceq.core.inputs.inputs import RightsRead
from onceq.core.management.rights import look_again
from onceq.core.state.setups import RightsShared
from onceq.core.step.audit_entries import AuditEntry, record_act
from onceq.core.step.step import Step
from onceq.model.rights import Grant, SharedRights
from onceq.model.shared_rights import believed, described, difference, dump_grants

_DIRECTORY = "directory"
"""The actor in the trail: the trail of the queue manager that was asked to change the directory
names the one that has changed it."""


def read(step: Step, item: RightsRead) -> None:
    """Apply rights in the directory that were read, or that cannot be read."""
    known = step.state.policy.shared
    trouble = item.trouble or _doubt(item.book, known)
    if trouble and trouble != step.names.rights_trouble:
        step.act_notice("rights of the directory are not followed", reason=trouble,
                        goes_on_with=f"what was read before (change {known.number})")  # fmt: skip
    step.names.rights_trouble = trouble
    if not trouble and item.book is not None:
        _follow(step, item.book, known)


def _doubt(book: SharedRights | None, known: SharedRights) -> str:
    """Return why what was read is not followed; "" if it is."""
    if book is None:
        return (
            "they are gone; put their file back from a copy that has the last change, or repeat "
            "'onceq grant ... --everywhere' here, which writes it again"
            if known.id
            else ""
        )
    if book.older_than(known):
        return (
            f"they are an older copy (change {book.number} after {known.number}), which may have "
            "what was revoked since; repeat the last 'onceq grant ... --everywhere' here, which "
            "writes them again as this queue manager knows them"
        )
    return ""


def _follow(step: Step, book: SharedRights, known: SharedRights) -> None:
    grants, left = believed(book.grants)
    for what in left:
        step.notice("a right in the directory is left out", what, right=what,
                    reason="it cannot be given to all queue managers at once")  # fmt: skip
    if (book.id, book.number, grants) == (known.id, known.number, known.grants):
        return
    step.setup(RightsShared(book.id, book.number, dump_grants(grants)))
    given, taken = difference(grants, known.grants), difference(known.grants, grants)
    if given or taken:
        record_act(step, _DIRECTORY, "", AuditEntry("follow rights", _change(book, given, taken)))
    if taken:
        look_again(step)


def _change(book: SharedRights, given: list[Grant], taken: list[Grant]) -> str:
    """Return what has changed, the most important first, because room for it is limited."""
    said = [f"change {book.number}" if book.id else "no directory any more"]
    said += [f"revoked {described(one)}" for one in taken]
    said += [f"granted {described(one)}" for one in given]
    return "; ".join(said)
