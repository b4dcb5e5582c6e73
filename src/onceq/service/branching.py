"""What applications and coordinators ask of external transactions, as inputs of the core.

Upholds: I24 (no value from outside makes the core fail).
"""

from __future__ import annotations

from typing import Final

from onceq.core.inputs import inputs, xa
from onceq.errors import InvalidParameter
from onceq.model.branch import Join, Leave
from onceq.model.limits import (
    GROUP_APP_CHARS_MAX,
    GTRID_BYTES_MAX,
    PARTNER_CHARS_MAX,
    PREPARED_MAX,
)
from onceq.model.xid import ONCEQ_FORMAT, Xid
from onceq.wire.app import frames

VERSION_MAX: Final = (1 << 63) - 1
"""Of a group: 64 bits with a sign, as batches have them."""


def branch_input(owner: int, request: int, head: frames.BranchHead) -> inputs.Input:
    """A verb of XA; raises InvalidParameter."""
    xid = Xid(head.format_id, head.gtrid, head.bqual)
    verb, number = head.verb, head.transaction
    try:
        if verb == "start":
            return xa.StartBranch(owner, request, number, xid, Join(head.how))
        if verb == "end":
            return xa.EndBranch(owner, request, number, xid, Leave(head.how))
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
    if verb == "commit":
        return xa.CommitBranch(owner, request, xid, bool(head.how), head.by_hand)
    if verb == "rollback":
        return xa.RollbackBranch(owner, request, xid, head.by_hand)
    if verb == "forget":
        return xa.ForgetBranch(owner, request, xid)
    raise InvalidParameter(f"there is no verb {verb[:20]!r} of branches")


def decide_input(owner: int, request: int, head: frames.DecideHead) -> inputs.Input:
    """A transaction that decides for partners; raises InvalidParameter."""
    gtrid = head.gtrid
    if not 0 < len(gtrid) <= GTRID_BYTES_MAX:
        raise InvalidParameter(
            f"a global transaction identifier has 1 to {GTRID_BYTES_MAX} bytes, not {len(gtrid)}"
        )
    if head.verb == "enlist":
        partner = head.partner
        if not 0 < len(partner) <= PARTNER_CHARS_MAX or not partner.isprintable():
            raise InvalidParameter(
                f"a partner's name has 1 to {PARTNER_CHARS_MAX} printable characters"
            )
        return xa.Enlist(owner, request, head.transaction, gtrid, partner)
    if head.verb == "ask":
        return xa.AskDecision(owner, request, gtrid)
    if head.verb == "leave":
        return xa.LeaveDecision(owner, request, gtrid)
    if head.verb == "done":
        return xa.DecisionDone(owner, request, gtrid)
    raise InvalidParameter(f"there is no verb {head.verb[:20]!r} of decisions")


def group_input(owner: int, request: int, head: frames.GroupHead) -> inputs.Input:
    """A group of branches; raises InvalidParameter."""
    if head.verb in ("rollback", "close"):
        return xa.RollbackGroup(owner, request, head.prefix, head.verb == "close")
    _check_name(head.app, "an application", least=1)
    if head.verb == "forget":
        return xa.ForgetGroup(owner, request, head.app)
    if head.verb != "commit":
        raise InvalidParameter(f"there is no verb {head.verb[:20]!r} of groups")
    _check_name(head.query, "a query", least=0)
    if not 0 <= head.version <= VERSION_MAX:
        raise InvalidParameter(f"a version is 0 to {VERSION_MAX}, not {head.version}")
    if len(head.branches) > PREPARED_MAX:
        raise InvalidParameter(f"{len(head.branches)} branches; a group has at most {PREPARED_MAX}")
    return xa.CommitGroup(
        owner, request, head.app, head.query, head.version, head.prefix,
        tuple([Xid(ONCEQ_FORMAT, gtrid, bqual) for gtrid, bqual in head.branches]),
    )  # fmt: skip


def _check_name(name: str, whose: str, *, least: int) -> None:
    if not least <= len(name) <= GROUP_APP_CHARS_MAX or not name.isprintable():
        raise InvalidParameter(
            f"the name of {whose} has {least} to {GROUP_APP_CHARS_MAX} printable characters"
        )
