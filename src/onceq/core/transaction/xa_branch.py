"""Branches of external transactions: this manager as a resource manager, with XA's verbs.

A transaction over a queue manager and a database has one outcome only if a coordinator asks each of
them for a promise before anything is decided, and each can keep it in all circumstances. So work is
done in a branch as in any transaction, and its end has two phases (XTX-3):

1. *Prepare* writes one record with all that the commit needs: what is sent, resolved to its
   destinations, and what was received, which stays locked. From then on neither a crash, nor a full
   queue, nor an unreachable directory can keep the branch from being committed, or from being
   rolled back (I20). Room for it is promised, and given to no other work.
2. *Commit or rollback*, at the coordinator's request, is one more record
   (``core/transaction/second_phase.py``). Until then this manager decides nothing by itself,
   however long that takes (XTX-4): to guess would be to have two outcomes (I21).

Before the prepare nothing was promised, so a lost application or a crash rolls the branch back
(presumed abort). For the same reason no record is an answer: a coordinator that has no record of a
decision has decided to roll back. An operator may decide in place of one that never comes back;
that is kept until a request forgets it, and a request for the other outcome reports it (XTX-8).
``core/transaction/unit_of_work.py`` says which verb is allowed when.

The commit of an ordinary transaction may decide for partners (``enlist``): its record is then the
decision, and can be asked for until all partners have carried it out (XTX-12).

Also here:

* A checked batch as JSON and back, so that a prepared branch survives a restart (I20).
* A transaction whose outcome is a row in a database, which commits after this manager.

Upholds: I20 (a promise is kept), I21 (one outcome: a decision is a record, and no record is an
abort), I2, I3.
"""

from __future__ import annotations

from dataclasses import astuple
from operator import attrgetter
from typing import Any

from onceq import errors
from onceq.core.decision import Notice
from onceq.core.names import one_name
from onceq.core.send import check_all_sends, store_packets
from onceq.core.state import setups
from onceq.core.state.branch_table import PreparedBranch
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import Queue
from onceq.core.step.connections import CheckedBatch, Deadlines, StoredBatch, Target
from onceq.core.step.step import Step, refusal, rule_for
from onceq.core.step.units import HeldRange, OpenTransaction
from onceq.core.transaction import second_phase
from onceq.core.transaction.second_phase import carry_out, undo_promised
from onceq.core.transaction.unit_of_work import (
    Verb,
    after,
    into,
    last_sends,
    open_unit,
    release,
    undo,
)
from onceq.model import requests
from onceq.model.branches import (
    DecisionState,
    Join,
    Leave,
    Phase,
    Vote,
    Xid,
    agent_of,
    anchored,
    group_of,
    is_attempt_for,
    is_group_prefix,
    make_gtrid,
)
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.record import names
from onceq.model.requests.xa import ROWS_ACCEPTED, ROWS_MISSING
from onceq.model.results import Promised
from onceq.model.run import Run
from onceq.model.shares import Thing
from onceq.model.views.looks import RowsView
from onceq.packet.encode import Template, one_rest
from onceq.packet.own import joined, parted

# ---- prepared codec ------------------------------------------------------------------------------


_KINDS: dict[str, Any] = {
    "delivery": Delivery,
    "acknowledge": Acknowledge,
    "journal": Journal,
    "correlation_id": bytes.fromhex,
    "extension": bytes.fromhex,
}
_NAMES = names(Properties)
_values_of = attrgetter(*_NAMES)
_DEFAULTS = _values_of(PLAIN)


def messages_of(p: CheckedBatch) -> Run:
    """Return what must be kept of its messages: their own headers, if they have any, and bodies.

    Nothing is checked or resolved a second time: the record holds what was promised. A queue that
    was deleted meanwhile remains a destination; the commit finds it gone (Q-43).
    """
    return joined(p.item.own, p.item.bodies)


def note_of(p: CheckedBatch) -> dict[str, Any]:
    """Return what must be kept of a batch, without its messages."""
    properties: dict[str, Any] = {}
    if p.item.properties is not PLAIN:
        values = _values_of(p.item.properties)
        properties = {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value, default in zip(_NAMES, values, _DEFAULTS, strict=True)
            if value != default
        }
    note = {
        "to": p.item.destination,
        "properties": properties,
        "targets": [[t.queue.number, t.text] for t in p.targets],
        "templates": [
            [m.head.hex(), m.transaction, m.properties, m.flags, m.tail.hex()] for m in p.templates
        ],
        "times": [p.deadlines.expires, p.deadlines.receive_by, p.deadlines.confirm_by],
        "size": p.size,
        "grave": p.dead_letter_queue,
        "once": p.deadlines.once,
        "own": p.item.own is not None,
    }
    for t in p.targets:
        if t.said is not t.name and t.said != t.name:
            note["said"] = [str(t.said) for t in p.targets]
            break
    if p.written is not None:
        note["written"] = [p.written.message, p.written.transaction, p.written.bytes]
    return note


def batches_of(step: Step, branch: PreparedBranch) -> list[CheckedBatch]:
    """Rebuild the batches of a branch."""
    if not branch.laid:
        notes = zip(branch.sends, branch.bodies, strict=True)
        return [_batch_of(step, note, messages) for note, messages in notes]
    laid = iter(branch.laid)
    made: list[CheckedBatch] = []
    for note in branch.sends:
        runs = tuple(next(laid) for _ in note["targets"])
        p = _batch_of(step, note, Run(b"", runs[0].lengths))
        message, transaction, size = note["written"]
        p.written = StoredBatch(message, transaction, size, runs)
        made.append(p)
    return made


def _batch_of(step: Step, note: dict[str, Any], messages: Run) -> CheckedBatch:
    # A record from before messages could have their own headers does not say it.
    own, bodies = parted(messages) if note.get("own") else (None, messages)
    values = {
        name: _KINDS[name](value) if name in _KINDS else value
        for name, value in note["properties"].items()
    }
    item = requests.SendItem(note["to"], Properties(**values), bodies, own=own)
    names = [one_name(text)[0] for _, text in note["targets"]]
    # Older versions have not kept the name that the sender used.
    said = [one_name(text)[0] for text in note["said"]] if "said" in note else names
    targets = tuple(
        Target(_holder(step, number), *called)
        for (number, _), *called in zip(note["targets"], names, said, strict=True)
    )
    templates = tuple(
        Template(bytes.fromhex(head), transaction, properties, flags, bytes.fromhex(tail))
        for head, transaction, properties, flags, tail in note["templates"]
    )
    expires, receive_by, confirm_by = note["times"]
    deadlines = Deadlines(expires, receive_by, confirm_by, once=note["once"])
    return CheckedBatch(
        item, targets, templates, deadlines, note["size"], note["grave"],
        one_rest=one_rest(templates),
    )  # fmt: skip


def _holder(step: Step, number: int) -> Queue | OutgoingQueue:
    queue = step.state.all_queues.get(number)
    if queue is None:
        # Numbers are never assigned again: this one cannot be taken for another queue.
        gone = QueueProperties(name="deleted", number=number, transactional=True)
        return Queue(number, step.state.space, gone)
    assert isinstance(queue, (Queue, OutgoingQueue))
    return queue


# ---- xa branch -----------------------------------------------------------------------------------


# ---- work --------------------------------------------------------------------------------


@rule_for(requests.StartBranch)
def start(step: Step, item: requests.StartBranch) -> None:
    """Associate a transaction number with a branch."""
    admitted(step)
    if item.how is Join.NEW:
        if item.xid in step.units.open_branches or step.state.branches.get(item.xid) is not None:
            raise errors.DuplicateBranch(f"there is a branch {item.xid} already")
        # Under another owner's attempt, which may be rolled back by now, it is refused: the
        # attempt's parts elsewhere follow the decision that is made here under its identifier.
        attempt = is_group_prefix(group_of(item.xid), step.identity.guid)
        by = step.known_by(item.owner)
        if attempt and not is_attempt_for(item.xid.gtrid, by, step.units.key):
            raise errors.RolledBack(
                f"branch {item.xid} was not begun: its attempt is of somebody else, or of before "
                "the key of this queue manager was lost; begin another one"
            )
        step.units.refused.pop(item.xid, None)
        tx = open_unit(step, item.owner, item.transaction)
        tx.xid = item.xid
        step.units.open_branches[item.xid] = tx
    else:
        tx = _known(step, item.xid)
        verb = Verb.RESUME if item.how is Join.RESUME else Verb.JOIN
        phase = into(verb, item.xid, tx.phase)
        key = (item.owner, item.transaction)
        if item.transaction <= 0 or key in step.units.transactions:
            raise errors.UsageError(f"transaction number {item.transaction} is in use")
        tx.owner, tx.number, tx.used_us = *key, step.now.mono_us
        tx.phase = phase
        step.units.transactions[key] = tx
    step.answer(item.owner, item.request, None)


@rule_for(requests.EndBranch)
def end(step: Step, item: requests.EndBranch) -> None:
    """Dissociate a transaction number; a suspended branch may be ended from where it was."""
    tx = _known(step, item.xid)
    verb = Verb.SUSPEND if item.how is Leave.SUSPEND else Verb.END
    phase = into(verb, item.xid, tx.phase)
    if _at_work(tx, item):
        del step.units.transactions[tx.owner, tx.number]
    tx.used_us = step.now.mono_us
    tx.phase = phase
    tx.failed = tx.failed or item.how is Leave.FAIL
    step.answer(item.owner, item.request, None)


def _at_work(tx: OpenTransaction, item: requests.EndBranch | requests.PrepareBranch) -> bool:
    """Return whether the asking application is at work in it; raises BranchState if another is."""
    if tx.phase is Phase.ACTIVE and (tx.owner, tx.number) != (item.owner, item.transaction):
        raise errors.BranchState(
            f"branch {item.xid} is active in another transaction than this one"
        )
    return tx.phase is Phase.ACTIVE


def admitted(step: Step) -> None:
    """Raise NoCoordinator if this manager takes no part in external transactions."""
    if not step.settings.external_transactions:
        raise errors.NoCoordinator(
            f"{step.identity.name} takes no part in external transactions: its setting "
            "external_transactions is false"
        )


def _known(step: Step, xid: Xid) -> OpenTransaction:
    """Return a branch, prepared or not; raise what XA says of others."""
    tx = step.units.open_branches.get(xid)
    if tx is None:
        raise _unknown(step, xid)
    return tx


def _unknown(step: Step, xid: Xid) -> Exception:
    branch = step.state.branches.get(xid)
    if branch is None:
        return step.units.refused.get(xid) or errors.UnknownBranch(f"there is no branch {xid}")
    at = f"branch {xid}, prepared at {branch.prepared_s} (seconds since 1970), was"
    if branch.by_hand is Phase.COMMITTED:
        return errors.CommittedByHand(f"{at} committed by an operator")
    return errors.RolledBackByHand(f"{at} rolled back by an operator")


# ---- the first phase ---------------------------------------------------------------------


@rule_for(requests.PrepareBranch)
def prepare(step: Step, item: requests.PrepareBranch) -> None:
    """Promise both outcomes, in one record (XTX-3)."""
    tx = _known(step, item.xid)
    into(Verb.PREPARE, item.xid, tx.phase)
    at_work = _at_work(tx, item)
    if item.items:
        if not at_work:
            raise errors.BranchState(
                f"branch {item.xid} is {tx.phase.value}; it sends nothing more"
            )
        before = tx.bytes
        try:
            tx.sends += check_all_sends(step, item.items, tx, step.known_by(item.owner))
        except errors.OnceqError:
            # The vote reports a refusal that dooms the branch.
            if tx.doomed is None:
                raise
        step.units.open_bytes += tx.bytes - before
    if at_work:
        del step.units.transactions[tx.owner, tx.number]
        tx.phase = Phase.ENDED
    if tx.doomed is not None:
        undo(step, tx)
        raise tx.doomed
    if tx.failed:
        undo(step, tx)
        raise errors.RolledBack(f"branch {item.xid} had failed, and was rolled back")
    # XA_RDONLY: no second phase will come, so nothing of it may remain here.
    # An anchor represents branches elsewhere, for which this manager decides.
    anchor = anchored(item.xid) and is_group_prefix(group_of(item.xid), step.identity.guid)
    if not (tx.sends or tx.receives or anchor):
        release(step, tx)
        step.answer(item.owner, item.request, Vote.READ_ONLY)
        return
    # A late attempt for a batch that was given up permanently (``second_phase.rollback``).
    by = step.known_by(item.owner)
    over = step.units.group_over(group_of(item.xid), by)
    if over is not None:
        undo(step, tx)
        raise over
    put_on_record(step, tx, by)
    step.answer(item.owner, item.request, Vote.PREPARED)


def put_on_record(step: Step, tx: OpenTransaction, by: str) -> PreparedBranch:
    """Promise both outcomes of a unit of work that is a branch, in one record.

    Args:
        by: Who promises (``Step.known_by``).

    Raises:
        RolledBack: There are too many promises.
    """
    assert tx.xid is not None
    table = step.state.branches
    full = refusal(step, by, Thing.BRANCHES, table.held_by.of(by), len(table))
    if full:
        undo(step, tx)
        raise errors.RolledBack(f"{full}; this one was rolled back")
    laid, message, transaction = store_packets(step, tx)
    branch = PreparedBranch(
        step.state.next_number, tx.xid, step.now.wall_s, list(map(note_of, tx.sends)),
        list(map(list, map(astuple, tx.receives))),
        [] if laid else list(map(messages_of, tx.sends)), laid, message, transaction,
        decides=tx.gtrid, partners=tx.partners, by=by,
    )  # fmt: skip
    step.prepared(branch)
    step.units.closed(tx)
    tx.phase, tx.branch, tx.used_us = Phase.PREPARED, branch.number, step.now.mono_us
    second_phase.watch(step, tx)
    return branch


def restore(step: Step, key: bytes) -> None:
    """Restore prepared branches after a restart, with their locks.

    Args:
        key: Marks attempts.
    """
    step.units.key = key
    for branch in step.state.branches:
        if branch.by_hand is not None:
            continue
        # No application is at work in it: owners have numbers from 1 on, and so have transactions.
        tx = OpenTransaction(0, -branch.number, branch.prepared_s, used_us=step.now.mono_us)
        tx.sends = batches_of(step, branch)
        tx.receives = [_held(values) for values in branch.receives]
        tx.targets = {held.to for held in tx.receives if held.to}
        tx.bytes = 0 if branch.laid else sum(p.size for p in tx.sends)
        tx.messages = sum(len(p.item.bodies) for p in tx.sends)
        tx.xid, tx.phase, tx.branch = branch.xid, Phase.PREPARED, branch.number
        step.units.open_branches[branch.xid] = tx
        if branch.decides:
            tx.gtrid, tx.partners = branch.decides, branch.partners
            step.units.deciding[tx.gtrid] = tx
        step.units.open_bytes += tx.bytes
        step.units.reserve(tx.sends, 1)
        second_phase.watch(step, tx)


def _held(values: list[Any]) -> HeldRange:
    # Between the copies and the last one are the fields that later versions have added to a move.
    op, queue, lane, first, count, reason, to, to_lane, copies_to = values[:9]
    return HeldRange(
        op, queue, lane, first, count, reason, to, to_lane, tuple(copies_to), keep=values[-1]
    )  # fmt: skip


# ---- the second phase --------------------------------------------------------------------


@rule_for(requests.CommitBranch)
def commit(step: Step, item: requests.CommitBranch) -> None:
    """Carry out all of a branch, in one record with its end."""
    tx = _known(step, item.xid)
    verb = Verb.COMMIT_BY_HAND if item.by_hand else Verb.COMMIT
    by_hand = after(Verb.COMMIT_ONE_PHASE if item.one_phase else verb, item.xid, tx.phase)
    if tx.phase is Phase.ENDED:
        if tx.doomed is not None:
            undo(step, tx)
            raise tx.doomed
        if tx.failed:
            undo(step, tx)
            raise errors.RolledBack(f"branch {item.xid} had failed, and was rolled back")
    result = carry_out(step, tx, by_hand=by_hand)
    _end_telling(step, item.xid)
    if item.by_hand:
        _decided_by_hand(step, item.xid, "committed")
    step.answer(item.owner, item.request, result)


@rule_for(requests.RollbackBranch)
def rollback(step: Step, item: requests.RollbackBranch) -> None:
    """Undo a branch: nothing was sent, and what it has received is back in its place."""
    if (
        item.xid not in step.units.open_branches
        and step.units.refused.pop(item.xid, None) is not None
    ):
        step.answer(item.owner, item.request, None)  # time has done it
        return
    tx = _known(step, item.xid)
    verb = Verb.ROLLBACK_BY_HAND if item.by_hand else Verb.ROLLBACK
    by_hand = after(verb, item.xid, tx.phase)
    if not tx.branch:
        undo(step, tx)
        step.answer(item.owner, item.request, None)
        return
    undo_promised(step, tx, by_hand=by_hand)
    step.units.telling.pop(tx.gtrid, None)
    _end_telling(step, item.xid)
    if item.by_hand:
        _decided_by_hand(step, item.xid, "rolled back")
    step.answer(item.owner, item.request, None)


def _end_telling(step: Step, xid: Xid) -> None:
    """End the application's work where a row decides, when the outcome is reported here."""
    if agent_of(xid):
        step.units.telling.pop(xid.gtrid, None)


def _decided_by_hand(step: Step, xid: Xid, how: str) -> None:
    values = {"xid": str(xid), "outcome": how}
    step.act(Notice("a branch was decided by hand", values))


@rule_for(requests.ForgetBranch)
def forget(step: Step, item: requests.ForgetBranch) -> None:
    """Forget an operator's decision that the coordinator knows."""
    branch = step.state.branches.get(item.xid)
    if branch is None:
        raise errors.UnknownBranch(f"there is no branch {item.xid}")
    after(Verb.FORGET, item.xid, branch.by_hand or Phase.PREPARED)
    step.setup(setups.BranchForgotten(branch.number))
    step.answer(item.owner, item.request, None)


# ---- deciding for others -----------------------------------------------------------------


@rule_for(requests.Enlist)
def enlist(step: Step, item: requests.Enlist) -> None:
    """Let the commit of this transaction decide for a partner, too."""
    admitted(step)
    tx = step.units.find(item.owner, item.transaction, step.now)
    if tx.xid is not None:
        raise errors.EnlistRefused("a branch of an external transaction decides for nobody")
    if not tx.gtrid:
        table = step.state.branches
        gtrid = make_gtrid(step.identity.guid, int.from_bytes(item.drawn, "big"))
        if gtrid in step.units.deciding or gtrid in table.decisions:
            raise errors.DuplicateBranch("the number that was drawn for this transaction is in use")
        by = step.known_by(item.owner)
        own, count = table.decided_by.of(by), len(table.decisions)
        full = refusal(step, by, Thing.DECISIONS, own, count)
        if full:
            raise errors.EnlistRefused(full)
        step.units.deciding[gtrid] = tx
        tx.gtrid = gtrid
    if item.partner not in tx.partners:
        tx.partners = (*tx.partners, item.partner)
    step.answer(item.owner, item.request, tx.gtrid)


@rule_for(requests.AskDecision)
def decision(step: Step, item: requests.AskDecision) -> None:
    """Answer what was decided; what is neither on record nor open never will be decided."""
    at_work = item.gtrid in step.units.deciding or item.gtrid in step.units.telling
    if at_work:
        answer = DecisionState.OPEN
    elif item.gtrid in step.state.branches.decisions:
        answer = DecisionState.COMMITTED
    elif step.state.branches.attempt(item.gtrid) is not None:
        answer = DecisionState.OPEN
    else:
        answer = DecisionState.ABORTED
    step.answer(item.owner, item.request, answer)


@rule_for(requests.LeaveDecision)
def leave(step: Step, item: requests.LeaveDecision) -> None:
    """Release a decision whose application could not tell all partners: others may tell them."""
    step.units.telling.pop(item.gtrid, None)
    step.answer(item.owner, item.request, None)


@rule_for(requests.DecisionDone)
def done(step: Step, item: requests.DecisionDone) -> None:
    """Remove a decision that every partner has carried out: no question will come."""
    step.units.telling.pop(item.gtrid, None)
    if item.gtrid in step.state.branches.decisions:
        step.setup(setups.DecisionCarriedOut(gtrid=item.gtrid), forced=False)
    step.answer(item.owner, item.request, None)


# ---- last agent ----------------------------------------------------------------------------------


@rule_for(requests.Promise)
def promise(step: Step, item: requests.Promise) -> None:
    """Promise both outcomes of an open transaction, which a row decides.

    The database is the *last agent* (``partners/shares.py``): it keeps the decision, so it
    needs no promise, and commits once. This manager promises before that: the open transaction
    becomes a prepared branch like any other, in one record, under an identifier that says whose row
    decides it. This manager does not decide identifiers of that form, so neither time nor a
    recovery of decisions ends the branch: only the verbs commit and rollback do, from the
    application, or from a recovery that has asked the database.

    While the application is connected it is at work, and its branch belongs to it alone
    (``telling``).

    Where others take part in two phases, their branches follow this one: it is open while it is
    prepared, and its commit is the decision for them, on record like any other. So the row decides
    the branch, and the branch decides for the others.
    """
    admitted(step)
    if item.xid in step.units.open_branches or step.state.branches.get(item.xid) is not None:
        raise errors.DuplicateBranch(f"there is a branch {item.xid} already")
    set_back = step.state.branches.rows.set_back
    if set_back and agent_of(item.xid) in set_back:
        raise errors.DatabaseRestored(
            f"{agent_of(item.xid)} was found to be set back to an earlier state: compare it with "
            "this queue manager, and accept it (onceq tx accept-database)"
        )
    tx = _unit_of(step, item)
    before = tx.bytes
    tx.sends += last_sends(step, item, tx)
    step.units.open_bytes += tx.bytes - before
    if not (tx.sends or tx.receives or tx.gtrid):
        release(step, tx)
        step.answer(item.owner, item.request, None)
        return
    if item.transaction:
        del step.units.transactions[tx.owner, tx.number]
    tx.phase, tx.xid = Phase.ENDED, item.xid
    step.units.open_branches[item.xid] = tx
    branch = put_on_record(step, tx, step.known_by(item.owner))
    step.units.telling[item.xid.gtrid] = item.owner
    if tx.gtrid:
        step.units.telling[tx.gtrid] = item.owner
    count, first, transaction = 0, 0, 0
    for batch in tx.sends:
        count += len(batch.item.bodies.lengths)
    if branch.laid:
        first, transaction = branch.next_message - count, branch.next_transaction - 1
    answer = Promised(branch.number, first, count, transaction)
    step.answer(item.owner, item.request, answer)


def _unit_of(step: Step, item: requests.Promise) -> OpenTransaction:
    """Return the unit of work that is to be promised; raise why it cannot be."""
    if not item.transaction:
        return OpenTransaction(item.owner, 0, step.now.wall_s, phase=Phase.ENDED)
    tx = step.units.find(item.owner, item.transaction, step.now)
    if tx.xid is not None:
        raise errors.BranchState(
            "a branch of an external transaction is prepared by who began that"
        )
    if tx.reads:
        raise errors.BranchState("what a reader has read is not removed by a promise")
    return tx


@rule_for(requests.AskRows)
def rows(step: Step, item: requests.AskRows) -> None:
    """Answer which rows should be in a database, and record which were found."""
    name, seen = item.agent, step.state.branches.rows.get(item.agent)
    if item.found == ROWS_ACCEPTED:
        step.setup(setups.RowsForgotten(agent=name))
    elif item.found == ROWS_MISSING:
        # Durable before the answer, so that no application of another process enlists further.
        if seen.last and not seen.missing:
            step.setup(setups.RowsMissing(agent=name, missing=True))
    elif not item.found:
        # Also after an incomplete search: what was committed since may be just what is missing.
        if seen.last > max(seen.mark, seen.kept):
            step.setup(setups.RowsMarked(agent=name), forced=False)
    elif item.found == seen.mark:
        # Durable before the answer: rows are removed then, and only the note is left of them.
        step.setup(setups.RowsFound(agent=name, noted=True))
    elif not seen.mark and item.found == seen.kept and seen.missing:
        step.setup(setups.RowsMissing(agent=name, missing=False))
    seen = step.state.branches.rows.get(name)
    open_ = sorted(
        tx.branch
        for xid, tx in step.units.open_branches.items()
        if tx.branch and agent_of(xid) == name
    )
    late = tuple(sorted(seen.looked + seen.late))
    note = seen.kept if seen.noted else 0
    answer = RowsView(
        name, seen.kept, seen.mark, seen.before, tuple(open_), late, note, seen.missing
    )
    step.answer(item.owner, item.request, answer)
