"""Which rights each request needs, and where.

The class of a request says it (``Request.needs``); here it is looked up for the request's queues,
and the rules are kept of requests whose needs depend on the state. An owner's own things (its
transactions, handles, cursors) need no right except to be present.

A unit of work is judged when it is decided: by then everything that it has taken and will send must
still be allowed. A promise (a prepared branch) is judged once, when it is made: the actor that made
it decides it, even if rights were taken away since. Another actor needs the rights to do all of its
work, and an operator needs none.

Where a send goes elsewhere, the name counts that the sender has used. Names of one place share an
outgoing queue, which has the name that came first, perhaps from another sender.

Also here:

* What the names in a request mean for rights: queues here with their names, and all others.
* Whether an actor may have what its request asks for: checked before the rule for the request.

Upholds: I28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from itertools import chain
from typing import Any, Final

from onceq.core.names import is_local, local_queue, members
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.queue_tables import JOURNAL_BIT, queue_key_of
from onceq.core.state.queues import AnyQueue, Queue, QueueHandle
from onceq.core.step.connections import CheckedBatch
from onceq.core.step.step import Step
from onceq.core.step.units import OpenTransaction
from onceq.errors import AccessDenied, OnceqError, QueueNotFound, SendFailed
from onceq.hidden import quote_word
from onceq.model import requests
from onceq.model.branches import agent_of, group_of, is_group_prefix
from onceq.model.identity import guid_text
from onceq.model.letters import JobAction, Order
from onceq.model.names import FormatName, Kind, elements_of, parse_any, queue_key
from onceq.model.patterns import ROWS, ActorPattern, QueueName, QueuePattern, Where, queue_name
from onceq.model.policy import MANAGER, Policy
from onceq.model.record import Record
from onceq.model.requests.request import Needs
from onceq.model.requests.xa import ROWS_ACCEPTED
from onceq.model.results import dooms
from onceq.model.rights import UNPROVEN, WHOLE, Actor, ActorKind, Right, means_unproven
from onceq.model.views.queues import RangeAsked

# ---- places --------------------------------------------------------------------------------------


class PlaceKind(Enum):
    """The kind of a place.

    Nothing is made here: no outgoing queue, no subqueue. A name that leads nowhere is a place, too;
    otherwise refusals would reveal which queues exist.
    """

    QUEUE = "queue"
    JOURNAL = "journal"
    SYSTEM = "system"
    OUTGOING = "outgoing"


class Place(Record, frozen=True):
    """The target of an operation, for rights.

    Attributes:
        queue: Name that rights are asked for at, case-folded: of a queue here its path
            (``private$\\orders``), of a journal its queue's, of any other the format name.
        said: The name that the actor used; "": the same name.
    """

    queue: QueueName
    kind: PlaceKind = PlaceKind.QUEUE
    said: str = ""


def place_of(queue: AnyQueue) -> Place:
    """Return the place of a queue."""
    if isinstance(queue, OutgoingQueue):
        return _elsewhere(queue.name)
    if not isinstance(queue, Queue):
        return Place(MANAGER, PlaceKind.SYSTEM)
    if queue.parent is not None:
        return place_of(queue.parent)
    key = QueueName(queue_key_of(queue.properties))
    if not queue.system:
        return Place(key)
    # A journal has the properties of its queue.
    return Place(key, PlaceKind.JOURNAL if queue.number & JOURNAL_BIT else PlaceKind.SYSTEM)


def place_sent_to(queue: AnyQueue, said: FormatName) -> Place:
    """Return the place that a send goes to. Elsewhere it is the name that the sender used: other
    sends to the same place, under other names, do not affect its rights."""
    return _elsewhere(said) if isinstance(queue, OutgoingQueue) else place_of(queue)


def _elsewhere(name: FormatName) -> Place:
    return Place(QueueName(str(name).casefold()), PlaceKind.OUTGOING)


def places(step: Step, text: str, *, sending: bool = False) -> Iterator[Place]:
    """Yield the places that a name means; for a send one for each of its destinations.

    Raises:
        OnceqError: The name is invalid, or it needs a directory that is not there.
    """
    for name in members(step, elements_of(text)) if sending else parse_any(text):
        yield _place(step, name)


def _place(step: Step, name: FormatName) -> Place:
    if not is_local(step, name):
        return _elsewhere(name)
    said = "" if name.kind is Kind.DIRECT else str(name)
    try:
        return replace(place_of(local_queue(step, name)), said=said)
    except QueueNotFound:
        key = queue_key(name.private, name.queue) if name.queue else str(name).casefold()
        return Place(QueueName(key), said=said)


# ---- demands -------------------------------------------------------------------------------------


class Demand(Record, frozen=True):
    """The need for one of these rights at a queue, at all those of a pattern, or over the whole
    queue manager (``MANAGER``).

    Attributes:
        said: The name that the actor used for the queue; "": its own name.
        somewhere: At any queue at all.
    """

    rights: tuple[Right, ...]
    queue: Where = MANAGER
    said: str = ""
    somewhere: bool = False


NAMED: Final = Demand(())
"""Only that the actor is known."""
_OPERATE: Final = Demand((Right.OPERATE,))
MONITOR: Final = Demand((Right.MONITOR,))
_ADMINISTER: Final = Demand((Right.ADMINISTER,))
_TAKES_PART: Final = Demand((Right.SEND, Right.RECEIVE, Right.JOURNAL), somewhere=True)
"""For transactions of actors without a name: something that can be done in one."""

Demands = Iterable[Demand]


def demands(step: Step, item: requests.Request) -> Demands:
    """Return what a request needs; raises OnceqError for an invalid name."""
    found = TABLE.get(type(item))
    if found is not None:
        return found(step, item)
    # What the class says of its request; without its rule only administrators may make it.
    asked: Any = item
    needs: Right | Needs = asked.needs
    if needs is Needs.NOTHING:
        return ()
    if needs is Needs.NAME:
        return (NAMED,)
    if needs is Needs.STATE:
        return (_ADMINISTER,)
    if needs in WHOLE:
        return (Demand((needs,)),)
    if needs is Right.RECEIVE:
        return _takes(step, asked)
    return [_at(place, needs) for place in places(step, asked.name)]


# ---- queues ----------------------------------------------------------------------------------


def _to_send(step: Step, name: str) -> Iterator[Demand]:
    for place in places(step, name, sending=True):
        yield _sent_to(place)


def _sent_to(place: Place) -> Demand:
    return Demand((Right.SEND,), place.queue, place.said)


def _to_take(place: Place) -> Demand:
    """Return the need for taking messages out, or ending them there."""
    if place.kind is PlaceKind.QUEUE:
        return Demand((Right.RECEIVE,), place.queue, place.said)
    if place.kind is PlaceKind.JOURNAL:
        return Demand((Right.JOURNAL,), place.queue, place.said)
    return _OPERATE


def _to_see(place: Place, *, bodies: bool) -> Demand:
    """Return the need for peeking at messages."""
    if place.kind is PlaceKind.QUEUE:
        return Demand((Right.PEEK_BODY if bodies else Right.PEEK,), place.queue, place.said)
    if place.kind is PlaceKind.JOURNAL:
        return Demand((Right.JOURNAL,), place.queue, place.said)
    return _OPERATE if bodies else MONITOR


def to_hold(place: Place) -> Demand:
    """Return the need for blocking receivers there, which operators may do."""
    needed = _to_take(place)
    if needed is _OPERATE:
        return needed
    return Demand((*needed.rights, Right.OPERATE), place.queue, place.said)


def _takes(step: Step, item: Any) -> Demands:
    return map(_to_take, places(step, item.queue))


def _receives(step: Step, item: requests.Receive) -> Demands:
    if not item.peek:
        return _takes(step, item)
    bodies = item.pick not in (requests.PickBy.HEADS, requests.PickBy.BODILESS)
    return [_to_see(place, bodies=bodies) for place in places(step, item.queue)]


def _open_at(place: Place, access: requests.Access, share: requests.Share) -> Demand:
    """Return the need for opening a queue; excluding receivers there needs the right to receive."""
    if access is requests.Access.PEEK:
        if share is requests.Share.DENY_RECEIVE:
            return to_hold(place)
        return _to_see(place, bodies=False)
    return _to_take(place)


def held(step: Step, handle: QueueHandle) -> Demands:
    """Return the continuing needs of an open queue; for several, each send is checked."""
    queue = step.state.all_queues.get(handle.queue)
    if queue is None:
        return ()
    if handle.said is not None:
        return (_sent_to(place_sent_to(queue, handle.said)),)
    return (_open_at(place_of(queue), handle.access, handle.share),)


def _moves(step: Step, item: requests.MoveMessage) -> Demands:
    """Yield needs between a queue and its subqueues; the target is opened before, or is named."""
    yield from map(_to_take, places(step, item.queue))
    if item.to:
        yield from map(_to_take, places(step, item.to))


def _at(place: Place, right: Right) -> Demand:
    """Return a right at a queue of this manager; other places are the operator's matter."""
    return Demand((right,), place.queue, place.said) if place.kind is PlaceKind.QUEUE else _OPERATE


def _purges(step: Step, item: requests.PurgeQueue) -> Demands:
    return map(to_hold, places(step, item.name))


# ---- units of work ----------------------------------------------------------------------------


def sends(step: Step, items: Iterable[requests.SendItem]) -> Iterator[Demand]:
    for item in items:
        yield from _to_send(step, item.destination)
        yield from _answered(step, item)


def _answered(step: Step, item: requests.SendItem) -> Iterator[Demand]:
    """Yield needs for acknowledgments and dead letters: they are messages, too, and may have the
    body of this one. Naming a queue for them needs the right to send there: otherwise the queue
    manager would write for the sender where that may not."""
    wanted = item.properties
    if wanted.admin_queue and wanted.acknowledge:
        yield from _to_send(step, wanted.admin_queue)
    if wanted.dead_letter_queue:
        yield from _to_send(step, wanted.dead_letter_queue)


def work_of(step: Step, tx: OpenTransaction | None) -> Iterator[Demand]:
    """Yield what a unit of work needs for everything that it has taken and will send."""
    if tx is None:
        return
    for batch in tx.sends:
        yield from _batch(step, batch)
    for held in tx.receives:
        queue = step.state.all_queues.get(held.queue)
        if isinstance(queue, Queue):
            yield _to_take(place_of(queue))


def _batch(step: Step, batch: CheckedBatch) -> Iterator[Demand]:
    for target in batch.targets:
        yield _sent_to(place_sent_to(target.queue, target.said))
    if batch.written is None:  # a promised one has only its packets left, which were judged
        yield from _answered(step, batch.item)


def _begins(step: Step, item: requests.Begin | requests.Commit) -> Demands:
    """Allow every actor with a name to open a transaction."""
    actor = step.limited.get(item.owner)
    return (_TAKES_PART,) if actor is not None and actor.kind in UNPROVEN else ()


def _commits(step: Step, item: requests.Commit) -> Demands:
    if item.then:
        yield from _begins(step, item)
    yield from sends(step, item.items)
    yield from work_of(step, step.units.transactions.get((item.owner, item.transaction)))


def _takes_part(step: Step, item: requests.StartBranch | requests.EndBranch) -> Demands:
    """Require the right to decide a branch from an actor that takes part in it, because it can undo
    it, and from one that ends it: also a suspended one of any application, perhaps as failed."""
    yield NAMED
    yield from to_decide(step, item.owner, step.units.open_branches.get(item.xid))


def to_decide(step: Step, owner: int, tx: OpenTransaction | None) -> Demands:
    """Yield what an actor needs to decide a branch: nothing, if it has promised it, because others
    rely on it; else the rights to do its work. Where the branch has no work, or decides for
    partners as well, no right describes what is at stake: then the actor must have promised it. The
    same holds for a branch of a group that this manager decides: its only coordinator is the actor
    that commits the group."""
    if tx is None or (tx.branch and whose(step, tx) == step.known_by(owner)):
        return
    yield from work_of(step, tx)
    # Whether the branch belongs to a group that is committed here.
    grouped = tx.xid is not None and is_group_prefix(group_of(tx.xid), step.identity.guid)
    judged = (tx.sends or tx.receives) and not tx.gtrid and not grouped
    if not judged and whose(step, tx) != step.known_by(owner):
        yield _OPERATE


def whose(step: Step, tx: OpenTransaction) -> str:
    """Return the actor that has promised a branch, or is at work in it, as ``Step.known_by``."""
    return step.state.branches.numbered(tx.branch).by if tx.branch else step.known_by(tx.owner)


def _to_use_rows(step: Step, owner: int, agent: str) -> Iterator[Demand]:
    """Yield the needs for deciding by a database's rows that other actors use, too. A promise adds
    to the rows that must be there, so an actor that has it committed without a row makes the
    database look as if it had been restored; so does one that claims a note that is not there."""
    if agent and _whose_rows(step, agent) not in (None, step.known_by(owner)):
        name = f"{ROWS}{agent}"
        yield Demand((Right.SEND, Right.OPERATE), QueueName(name.casefold()), name)


def _whose_rows(step: Step, agent: str) -> str | None:
    """Return the owner of a database's rows: the actor that has first committed by one of them, or
    the first that will; None: there is none."""
    known = step.state.branches.rows.owner(agent)
    if known is not None:
        return known
    return next((one.by for one in step.state.branches if agent_of(one.xid) == agent), None)


def _looks_for_rows(step: Step, item: requests.AskRows) -> Demands:
    """Yield the needs of a search for rows, which has effects: what is searched for counts as seen,
    and may be removed. Accepting a database in its present state ends the watch over it."""
    yield NAMED
    if item.found != ROWS_ACCEPTED:
        yield from _to_use_rows(step, item.owner, item.agent)
    elif _whose_rows(step, item.agent) != step.known_by(item.owner):
        yield _OPERATE


def _promises(step: Step, item: requests.PrepareBranch | requests.Promise) -> Demands:
    yield from _to_use_rows(step, item.owner, agent_of(item.xid))
    yield from sends(step, item.items)
    yield from work_of(step, step.units.transactions.get((item.owner, item.transaction)))
    yield from to_decide(step, item.owner, step.units.open_branches.get(item.xid))


def _decides(step: Step, item: requests.CommitBranch | requests.RollbackBranch) -> Demands:
    if item.by_hand:
        # An operator need not have the rights of the actors whose work it is.
        yield _OPERATE
        return
    yield NAMED
    tx = step.units.open_branches.get(item.xid)
    undoes = isinstance(item, requests.RollbackBranch)
    if tx is not None and undoes and whose(step, tx) == step.known_by(item.owner):
        return  # To undo one's own work needs no right to do it.
    yield from to_decide(step, item.owner, tx)


def _tells(step: Step, item: requests.DecisionDone | requests.LeaveDecision) -> Demands:
    """Yield the needs for marking a decision as carried out, or as released: only the actor that
    has decided may, because a decision that is not on record any more counts as aborted."""
    yield NAMED
    made, teller = step.state.branches.decisions.get(item.gtrid), step.units.telling.get(item.gtrid)
    known = {made.by} if made is not None else set()
    if teller is not None:
        known.add(step.known_by(teller))
    if known - {step.known_by(item.owner)}:
        yield _OPERATE


def _of_application(step: Step, item: requests.CommitGroup | requests.ForgetGroup) -> Demands:
    """Require the owner of an application's name: versions that another one commits under it would
    be taken for the owner's; and if the remembered ones were forgotten, the owner's last batch
    would be written twice."""
    yield NAMED
    known = step.state.groups.get(item.app)
    if known is not None and known.by != step.known_by(item.owner):
        yield _OPERATE


# ---- looks and operators -----------------------------------------------------------------------


def _decides_group(step: Step, item: requests.CommitGroup) -> Demands:
    yield from _of_application(step, item)
    for xid in item.xids:
        yield from to_decide(step, item.owner, step.units.open_branches.get(xid))


def _looks(step: Step, item: requests.Look) -> Demands:
    what = item.what.lower()
    if what in _OPEN_LOOKS:
        return (NAMED,)
    if what == "tokens":
        return (_ADMINISTER,)
    if what in ("queue", "readers", "consumers") and item.name:
        return map(to_see_properties, places(step, item.name))
    if what == "range":
        queue = RangeAsked.of(item.name).queue
        return [_to_see(place, bodies=False) for place in places(step, queue)]
    if what == "rights":
        return (to_see_rights(queue_name(item.name)),) if item.name else (NAMED,)
    return (MONITOR,)


_OPEN_LOOKS: Final = frozenset(
    ("explain-name", "list", "lists", "copies", "branches", "decisions", "groups", "transactions",
     "queues", "jobs", "job")
)  # fmt: skip
"""Requests for every actor with a name. They read the directory; and open transactions, branches,
groups, decisions and jobs, because an actor that may end one has to find it after a crash: each
sees its own (``core/management/work_views.py``, ``core/management/jobs.py``). Of queues each sees
those that it may look at."""


def to_see_properties(place: Place) -> Demand:
    """Return the need for reading a queue's properties, and how much is in it."""
    if place.kind is PlaceKind.QUEUE:
        return Demand((Right.GET_PROPERTIES, Right.MONITOR), place.queue, place.said)
    return MONITOR


def to_see_rights(queue: QueueName) -> Demand:
    """Return the need for reading the rights at a queue; with ``MANAGER`` at all of them."""
    return Demand((Right.GET_RIGHTS, Right.MONITOR), queue) if queue else MONITOR


def _sets_rights(step: Step, item: requests.SetRights) -> Demands:
    """Yield the needs for granting rights: an actor that may grant can grant what it has. Only
    administrators grant what concerns the whole manager, what holds at others, and what admits
    unproven actors: they would come in by the same way, no matter where the right is."""
    rights, where = item.grant.rights, item.grant.pattern
    opens = not item.take and means_unproven(item.grant.who)
    if item.everywhere or rights & WHOLE or Right.CREATE in rights or opens:
        return (_ADMINISTER,)
    wanted = [Demand((Right.SET_RIGHTS,), where)]
    if not item.take:
        wanted += [Demand((right,), where) for right in rights]
    return wanted


def of_job(step: Step, order: Order, queues: Iterable[str]) -> Demands:
    """Yield what a job needs at its queues, and at the destination of all messages: what the actor
    that started it would need to do the same by hand. Where messages return, each send is
    judged."""
    for name in queues:
        if order.action is JobAction.SEND_AS_NEW:
            yield from (_to_see(place, bodies=True) for place in places(step, name))
        elif order.action is JobAction.PURGE:
            yield from _purges(step, requests.PurgeQueue(name))
        else:
            yield from map(_to_take, places(step, name))
    if order.to:
        yield from _to_send(step, order.to)


def _cancels_job(step: Step, item: requests.CancelJob) -> Demands:
    """Yield the needs for cancelling a job: one's own, or any as an operator."""
    yield NAMED
    job = step.state.jobs.get(item.number)
    if job is None or job.who != step.known_by(item.owner):
        yield _OPERATE


TABLE: Final[dict[type[requests.Request], Callable[[Step, Any], Demands]]] = {
    requests.AskRows: _looks_for_rows,
    requests.Begin: _begins,
    requests.CancelJob: _cancels_job,
    requests.Commit: _commits,
    requests.CommitBranch: _decides,
    requests.CommitGroup: _decides_group,
    requests.CreateQueue: lambda step, item: (
        Demand((Right.CREATE,), QueueName(queue_key_of(item.properties))),
    ),
    requests.DecisionDone: _tells,
    requests.EndBranch: _takes_part,
    # Every actor may ask about itself, also by its name.
    requests.ExplainRight: lambda step, item: (
        (NAMED,) if not item.who or item.who == str(step.actors.get(item.owner, "")) else (MONITOR,)
    ),
    requests.ForgetGroup: _of_application,
    requests.LeaveDecision: _tells,
    requests.Look: _looks,
    requests.MoveMessage: _moves,
    requests.OpenQueue: lambda step, item: (
        _to_send(step, item.name)
        if item.access is requests.Access.SEND
        else [_open_at(place, item.access, item.share) for place in places(step, item.name)]
    ),
    requests.PrepareBranch: _promises,
    requests.Promise: _promises,
    requests.PurgeQueue: _purges,
    requests.Receive: _receives,
    requests.RollbackBranch: _decides,
    requests.Send: lambda step, item: sends(step, item.items),
    requests.SetRights: _sets_rights,
    requests.StartBranch: _takes_part,
    requests.StartJob: lambda step, item: chain((NAMED,), of_job(step, item.order, item.queues)),
}
"""The rules for requests whose class says ``Needs.STATE``."""


# ---- judge ---------------------------------------------------------------------------------------


def judge(step: Step, actor: Actor, item: requests.Request) -> None:
    """Refuse what an actor has no right to. A send that is refused so dooms its transaction, as any
    other refusal does (S0); a forbidden end of a transaction is left to its rule, which undoes it
    and reports the reason.

    An owner that was never introduced is this process itself, which may do everything. A refused
    request has no effect. An actor that may not know whether a queue exists gets the same answer
    whether it does or not.

    Raises:
        AccessDenied: A right is missing; the text says which, and how it is granted.
        OnceqError: A name in the request makes no sense.
    """
    try:
        check(step, actor, item)
    except OnceqError as error:
        tx = _unit_of(step, item)
        if tx is None or not dooms(error):
            raise
        if tx.doomed is None:
            tx.doomed = SendFailed(
                f"nothing of this transaction happened ({error.code}): {error.text}"
            )
        if isinstance(item, requests.Send):
            raise


def _unit_of(step: Step, item: requests.Request) -> OpenTransaction | None:
    """Return the unit of work in which something is sent, or which ends."""
    if isinstance(item, (requests.Send, requests.Commit)):
        return step.units.transactions.get((item.owner, item.transaction))
    if isinstance(item, (requests.PrepareBranch, requests.Promise)):
        at_work = step.units.transactions.get((item.owner, item.transaction))
        branch = step.units.open_branches.get(item.xid)
        # An actor that may not even prepare another one's unit cannot doom it.
        own = branch is not None and whose(step, branch) == step.known_by(item.owner)
        return at_work or (branch if own else None)
    return None


def check(step: Step, actor: Actor, item: requests.Request) -> None:
    """Refuse what an actor has no right to; see ``judge``."""
    if actor.free:
        return
    try:
        for demand in demands(step, item):
            _require(step, actor, demand)
    except AccessDenied:
        raise
    except OnceqError:
        if actor.kind is ActorKind.NOBODY:
            raise _nobody() from None
        raise


def check_all(step: Step, actor: Actor, needed: Iterable[Demand]) -> None:
    """Raise AccessDenied for the first of these that an actor does not have."""
    for demand in needed:
        _require(step, actor, demand)


def _require(step: Step, actor: Actor, demand: Demand) -> None:
    if actor.kind is ActorKind.NOBODY and not granted(step, actor, demand):
        raise _nobody()
    if demand is NAMED or granted(step, actor, demand):
        return
    # The place where the right is missing, as a command names it.
    place = ""
    if isinstance(demand.queue, QueuePattern):
        place = f" {quote_word(str(demand.queue))}"
    elif called := demand.said or demand.queue:
        place = f" {quote_word(str(QueuePattern.exactly(called)))}"
    first, said = demand.rights[0], demand.said or str(demand.queue)
    judged = step.state.policy.judge(actor, first, demand.queue, said=said)
    raise AccessDenied(
        f"access denied: {judged.because}; an administrator can grant it: onceq grant "
        f"{quote_word(str(ActorPattern.exactly(str(actor))))} {first.value}"
        f"{place}"
    )


def granted(step: Step, actor: Actor, demand: Demand) -> bool:
    """Return whether the actor has one of the sufficient rights."""
    policy = step.state.policy
    if demand.somewhere:
        return any(policy.allows_somewhere(actor, right) for right in demand.rights)
    return any(policy.allows(actor, right, demand.queue) for right in demand.rights)


def may(step: Step, owner: int, needed: Iterable[Demand]) -> bool:
    """Return whether an owner has all that is needed."""
    actor = step.limited.get(owner)
    return actor is None or all(granted(step, actor, one) for one in needed)


def _nobody() -> AccessDenied:
    """Return the same error for every request of an unknown actor: it reveals nothing."""
    return AccessDenied("access denied: the requester has not said who it is, and may not do this")


def may_deliver(step: Step, peer: Peer, source: bytes, queue: QueueName) -> bool:
    """Return whether messages of a manager that come on this session may enter a queue here.

    The session's manager is proven, or is on this computer; ``passes_on`` has checked before
    whether it may bring another manager's messages. Over HTTP the message itself names its source,
    which proves nothing: the actor that has posted it counts.
    """
    return step.state.policy.allows(sender_of(peer, source), Right.SEND, queue)


def may_deliver_somewhere(step: Step, peer: Peer, source: bytes) -> bool:
    """Return whether messages of a manager on this session may enter any queue here."""
    return step.state.policy.allows_somewhere(sender_of(peer, source), Right.SEND)


def may_post(policy: Policy, actor: Actor) -> bool:
    """Return whether an actor may send to any queue here, or have messages passed on."""
    if actor.free or policy.allows_somewhere(actor, Right.SEND):
        return True
    return policy.judge(actor, Right.FORWARD).allowed


def sender_of(peer: Peer, source: bytes) -> Actor:
    """Return the actor whose rights count for a manager's messages that come on a session."""
    own = peer.actor.free or peer.http or source == peer.peer
    return peer.actor if own else Actor(ActorKind.PEER, guid_text(source))


def passes_on(step: Step, peer: Peer) -> str:
    """Return why a manager may not bring others' messages, or messages for others; "" if it may."""
    if peer.actor.free:
        return ""
    judged = step.state.policy.judge(peer.actor, Right.FORWARD)
    return "" if judged.allowed else f"it may pass nothing on: {judged.because}"
