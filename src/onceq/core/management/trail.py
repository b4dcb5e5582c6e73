"""The audit trail: what is recorded of an act of administration, and in which words.

Acts are recorded when they are decided: a long one (a purge of very many messages) is there when it
begins. An act that changes nothing is counted with the same act of a short time before. Views, and
what an application does with its own messages, are no acts of administration; those are in the
history, where one is written. Nor is what a process does to its own embedded queue manager.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from onceq.core.decision import Answer
from onceq.core.inputs import Witnessed
from onceq.core.names import find_source
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.step.step import NO_ENTRY, WHOLE, AuditEntry, Step, note_act, record_act, rule_for
from onceq.errors import InvalidParameter, OnceqError
from onceq.model import requests
from onceq.model.identity import guid_text, read_number
from onceq.model.limits import VIEWS_AT_ONCE
from onceq.model.requests import Grip, Request
from onceq.model.requests.xa import ROWS_ACCEPTED
from onceq.model.rights import ActorKind, words_of
from onceq.model.views.managers import ActView, HeadView, TrailView
from onceq.model.views.view import copy_by_name


def note(step: Step, item: Any, error: OnceqError | None) -> None:
    """Record an act of administration that was decided, or refused."""
    if item.owner not in step.actors or getattr(item, "dry_run", False):
        return
    deed = TABLE[type(item)](step, item)
    if not deed.what:
        return
    if error is not None:
        # A refusal is recorded for a missing right, of a named actor, once an hour.
        actor = step.actors[item.owner]
        if error.code != "access-denied" or actor.kind is ActorKind.NOBODY:
            return
        if not step.first_time("an act was refused", f"{actor} {type(item).__name__}"):
            return
    # Whether the step only answers the request, and does nothing else.
    actions = step.decision.actions
    idle = (
        error is None and not step.decision.records
        and bool(actions) and all(isinstance(action, Answer) for action in actions)
    )  # fmt: skip
    note_act(step, item.owner, deed, "" if error is None else error.code, idle=idle)


@rule_for(Witnessed)
def witnessed(step: Step, item: Witnessed) -> None:
    """Record an act in which the core has no part."""
    record_act(step, item.who, item.where, AuditEntry(item.what, item.about), item.result)
    step.answer(item.owner, item.request, None)


def acts(step: Step, after: str) -> list[ActView]:
    """Return the next acts behind a number."""
    behind = read_number(after or "0")
    if behind is None:
        raise InvalidParameter(f"{after[:40]!r} is not the number of an act")
    found = step.state.trail.behind(behind, VIEWS_AT_ONCE)
    return [
        copy_by_name(ActView, act, before=act.before.hex(), digest=act.digest.hex())
        for act in found
    ]


def end(step: Step) -> TrailView:
    """Return the end of the trail, and what is kept of others' trails."""
    state = step.state
    return TrailView(
        guid_text(step.identity.guid), state.trail.next - 1, state.trail.head.hex(),
        state.trail.broken,
        tuple(
            copy_by_name(
                HeadView, head, peer=guid_text(guid), name=step.name_of(guid),
                digest=head.digest.hex(),
            )
            for guid, heads in state.heads for head in heads
        ),
    )  # fmt: skip


# ---- wording -----------------------------------------------------------------------------------


def _rights(step: Step, item: requests.SetRights) -> AuditEntry:
    at = f" at {item.pattern}" if item.pattern else ""
    verb, where = "revoke" if item.take else "grant", " everywhere" if item.everywhere else ""
    return AuditEntry(f"{verb}{where}", f"{item.who} {','.join(words_of(item.grant.rights))}{at}")


def _decided(step: Step, item: requests.CommitBranch | requests.RollbackBranch) -> AuditEntry:
    verb = "commit" if isinstance(item, requests.CommitBranch) else "roll back"
    return AuditEntry(f"{verb} branch by hand", str(item.xid)) if item.by_hand else NO_ENTRY


def _accepted(step: Step, item: requests.AskRows) -> AuditEntry:
    return AuditEntry("accept database", item.agent) if item.found == ROWS_ACCEPTED else NO_ENTRY


def _held(step: Step, item: requests.HoldLog) -> AuditEntry:
    return AuditEntry("begin backup") if item.verb is Grip.BEGIN else NO_ENTRY


def _taken_out(step: Step, item: requests.Remove) -> AuditEntry:
    """Applications remove what they have received; from an outgoing queue an operator does."""
    try:
        outgoing = isinstance(find_source(step, item.queue), OutgoingQueue)
    except OnceqError:
        return NO_ENTRY
    return AuditEntry("take out", item.queue) if outgoing else NO_ENTRY


def _job(step: Step, item: requests.StartJob) -> AuditEntry:
    action = item.action if isinstance(item.action, str) else item.action.value
    to = f" to {item.to}" if item.to else ""
    number = f"{item.number}: " if item.number else ""
    return AuditEntry("start job", f"{number}{action} {', '.join(item.queues)}{to}")


def _named(what: str) -> Callable[[Step, Any], AuditEntry]:
    return lambda step, item: AuditEntry(what, item.name)


TABLE: Final[dict[type[Request], Callable[[Step, Any], AuditEntry]]] = {
    requests.AcceptClock: lambda step, item: AuditEntry(
        "accept clock", f"{item.source}: {item.reason}"
    ),
    requests.AskRows: _accepted,
    requests.CancelJob: lambda step, item: AuditEntry("cancel job", str(item.number)),
    requests.CommitBranch: _decided,
    requests.CreateQueue: lambda step, item: AuditEntry(
        "create queue", ("private$\\" if item.properties.private else "") + item.properties.name
    ),
    requests.CreateToken: _named("create token"),
    requests.DeleteQueue: _named("delete queue"),
    requests.EditDirectory: lambda step, item: AuditEntry(f"{item.what} list", item.name),
    requests.ForgetBranch: lambda step, item: AuditEntry("forget branch", str(item.xid)),
    requests.ForgetGroup: lambda step, item: AuditEntry("forget group", item.app),
    requests.ForgetPeer: lambda step, item: AuditEntry(
        "forget peer", f"{item.name} to {item.to}" if item.to else item.name
    ),
    requests.ForgetReader: lambda step, item: AuditEntry(
        "forget reader", f"{item.reader or '-'} of {item.queue}"
    ),
    requests.HoldLog: _held,
    requests.PurgeQueue: _named("purge"),
    requests.Remove: _taken_out,
    requests.ResetStream: lambda step, item: AuditEntry(
        "reset stream", f"{item.source} at {item.queue}: {item.reason}"
    ),
    requests.RevokeToken: _named("revoke token"),
    requests.RollbackBranch: _decided,
    requests.SetQueue: lambda step, item: AuditEntry(
        "set properties", f"{item.name}: {', '.join(item.values)}"
    ),
    requests.SetRights: _rights,
    requests.StartJob: _job,
    requests.SteerOutgoing: lambda step, item: AuditEntry(
        (item.action if isinstance(item.action, str) else item.action.value).replace("-", " "),
        item.destination or WHOLE,
    ),
}
"""What is recorded of each request."""

_OWN: Final = "it is about a unit of work, or something held open, of the requester"
_DECIDES: Final = "a coordinator decides what it has been promised; by hand it is an act"
_LOOKS: Final = "it only looks"
_MESSAGES: Final = "the history records how messages end"

UNNOTED: Final[dict[type[Request], str]] = {
    requests.Abort: _OWN,
    requests.AskDecision: _LOOKS,
    requests.AskOutcome: _LOOKS,
    requests.Begin: _OWN,
    requests.BeginAttempt: _OWN,
    requests.CancelReceive: _OWN,
    requests.Claim: _MESSAGES,
    requests.CloseCursor: _OWN,
    requests.CloseQueue: _OWN,
    requests.Commit: f"{_MESSAGES}; the return of dead letters is noted where it commits",
    requests.CommitGroup: _DECIDES,
    requests.DecisionDone: _DECIDES,
    requests.EndBranch: _OWN,
    requests.Enlist: _OWN,
    requests.ExplainRight: _LOOKS,
    requests.Fetch: _MESSAGES,
    requests.LeaveDecision: _DECIDES,
    requests.Look: _LOOKS,
    requests.MoveMessage: _MESSAGES,
    requests.OpenCursor: _OWN,
    requests.OpenQueue: _OWN,
    requests.PrepareBranch: _OWN,
    requests.Promise: _OWN,
    requests.Receive: _MESSAGES,
    requests.Reject: _MESSAGES,
    requests.RenewHold: _OWN,
    requests.RollbackGroup: _DECIDES,
    requests.Send: f"{_MESSAGES}; the return of dead letters is noted where it takes effect",
    requests.StartBranch: _OWN,
    requests.TakeRead: _MESSAGES,
}
"""Requests that are no acts of administration, and why."""
