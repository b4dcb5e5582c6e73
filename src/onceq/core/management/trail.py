"""The audit trail: what is noted of an act of administration, and in which words.

Acts are noted when they are decided: one that takes a while (a purge of very many messages) stands
there when it begins. What only looks, and what an application does with its own messages, is no act
of administration; that stands in the history, where one is written. Nor is what the process does to
itself that a queue manager is embedded in.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from onceq.core.inputs.inputs import Witnessed
from onceq.core.state.setups import Noted
from onceq.core.step.step import Step
from onceq.errors import InvalidParameter, OnceqError
from onceq.model import requests
from onceq.model.limits import TRAIL_CHARS_MAX, VIEWS_AT_ONCE
from onceq.model.requests import Grip, Request
from onceq.model.rights import ActorKind, words_of
from onceq.model.views.trail import ActView

Told = tuple[str, str]
"""What was done, and about what; ("", ""): nothing that is noted."""
_NOTHING: Final[Told] = ("", "")


def note(step: Step, item: Any, error: OnceqError | None) -> None:
    """An act of administration was decided, or refused."""
    actor = step.actors.get(item.owner)
    if actor is None or getattr(item, "dry_run", False):
        return
    what, about = TABLE[type(item)](item)
    if not what or (error is not None and not _worth(step, item, error)):
        return
    result = "" if error is None else error.code
    # What was refused has changed nothing, and is not worth a sync of its own.
    where = step.places.get(item.owner, "")
    _write(step, str(actor), where, what, about, result, forced=error is None)


def _worth(step: Step, item: Request, error: OnceqError) -> bool:
    """Whether a refusal is noted: for want of a right, of somebody with a name, once an hour."""
    actor = step.actors[item.owner]
    if error.code != "access-denied" or actor.kind is ActorKind.NOBODY:
        return False
    return step.first_time("an act was refused", f"{actor} {type(item).__name__}")


def witnessed(step: Step, item: Witnessed) -> None:
    """Something was done that the core has no part in."""
    _write(step, item.who, item.where, item.what, item.about, item.result)


def _write(
    step: Step, who: str, where: str, what: str, about: str, result: str, *, forced: bool = True
) -> None:  # fmt: skip
    step.setup(
        Noted(
            step.state.trail.next, step.now.wall_s, who, where, what, about[:TRAIL_CHARS_MAX],
            result,
        ),
        forced=forced,
    )  # fmt: skip


def acts(step: Step, after: str) -> list[ActView]:
    """The next acts behind a number."""
    if after and not (after.isdecimal() and after.isascii()):
        raise InvalidParameter(f"{after[:40]!r} is not the number of an act")
    return [ActView(*act) for act in step.state.trail.behind(int(after or 0), VIEWS_AT_ONCE)]


# ---- in which words ----------------------------------------------------------------------------


def _created(item: requests.CreateQueue) -> Told:
    made = item.properties
    assert made is not None, "the request was checked"
    return "create queue", f"private$\\{made.name}" if made.private else made.name


def _rights(item: requests.SetRights) -> Told:
    at = f" at {item.pattern}" if item.pattern else ""
    return "revoke" if item.take else "grant", f"{item.who} {','.join(words_of(item.rights))}{at}"


def _steered(item: requests.SteerOutgoing) -> Told:
    action = item.action if isinstance(item.action, str) else item.action.value
    return action.replace("-", " "), item.destination or "(queue manager)"


def _decided(item: requests.CommitBranch | requests.RollbackBranch) -> Told:
    verb = "commit" if isinstance(item, requests.CommitBranch) else "roll back"
    return (f"{verb} branch by hand", str(item.xid)) if item.by_hand else _NOTHING


def _held(item: requests.HoldLog) -> Told:
    return ("begin backup", "") if item.verb is Grip.BEGIN else _NOTHING


TABLE: Final[dict[type[Request], Callable[[Any], Told]]] = {
    requests.AcceptClock: lambda item: ("accept clock", f"{item.source}: {item.reason}"),
    requests.CommitBranch: _decided,
    requests.CreateQueue: _created,
    requests.CreateToken: lambda item: ("create token", item.name),
    requests.DeleteQueue: lambda item: ("delete queue", item.name),
    requests.EditDirectory: lambda item: (f"{item.what} list", item.name),
    requests.ForgetBranch: lambda item: ("forget branch", str(item.xid)),
    requests.ForgetGroup: lambda item: ("forget group", item.app),
    requests.ForgetPeer: lambda item: ("forget peer", item.name),
    requests.ForgetReader: lambda item: ("forget reader", f"{item.reader or '-'} of {item.queue}"),
    requests.HoldLog: _held,
    requests.PurgeQueue: lambda item: ("purge", item.name),
    requests.ResetStream: lambda item: (
        "reset stream", f"{item.source} at {item.queue}: {item.reason}"
    ),
    requests.RevokeToken: lambda item: ("revoke token", item.name),
    requests.RollbackBranch: _decided,
    requests.SetQueue: lambda item: ("set properties", f"{item.name}: {', '.join(item.values)}"),
    requests.SetRights: _rights,
    requests.SteerOutgoing: _steered,
}  # fmt: skip
"""What is noted of each request."""
