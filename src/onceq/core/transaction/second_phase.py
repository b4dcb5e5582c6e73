"""The end of a promise: a prepared branch takes effect, or is undone, in one record.

Every decision is carried out here: a coordinator's through the verbs of XA, an operator's, a
group's, or one by time. By then nothing may be refused any more, so nothing is checked again:
names, quotas and properties are those of the prepare (I20). What has changed since (its queue was
deleted, for example) is not a refusal but an end of the message, with a dead letter where one was
asked for (``core/ending/table.py``). One record holds the mark that the branch is over and its
effects, so a crash leaves the branch prepared, or done, and a repeated verb finds which.

Where a row in a database decides, no caller waits for the commit, and that row restores what a
crash loses of it. So its record is not synced by itself, but before the next answer to anyone
(``held``, in ``core/decision.py``).

Also here:

* Prepared branches that this very manager has to decide, and that it is never asked to decide.
* Commit many prepared branches as one, and each version of an application once.

**Groups.** A job with many tasks prepares a branch in each, and more than one where a task sends
much; its driver then commits them together. The decision is one record: the application, the
version, and the numbers of the branches in their order. It comes first; the changes that carry the
branches out follow it in the same decision, so a log that is cut between them still says what is to
be done, and ``finish`` does it before any request is answered. The version is remembered: a driver
that commits it again, because an answer was lost or a batch is repeated after a crash, sends
nothing twice.

Attempts that failed, or ran beside the one that counts, leave prepared branches that no commit
lists. All attempts at a batch share a prefix, so these are found and rolled back with it; an
attempt that prepares even later goes with the next version, or by time (``on_timer``).

A group may have parts at other managers: branches there that are named like this one's, so that
they wait for its decision. Each attempt that has such parts has prepared an *anchor* here before, a
branch with nothing in it. The record that commits the anchor is the decision, and answers questions
until all parts are carried out; where the anchor is gone, by an abort or by time, and no decision
was made, none ever will be (presumed abort).

The prefix follows from names, which others can guess. A branch prepared under the prefix of another
owner's batch is no part of it: each commit and each roll-back undoes what its own owner has
prepared, and passes over the rest, which goes by time; so no other owner can prevent a commit of a
batch, or undo one. An attempt has an identifier that this manager makes for one application, and no
other owner can begin a branch under it, even when it is over: parts elsewhere may still wait for
its decision. The name, with the versions under it, belongs to the owner that committed first, and
others are refused. Each could have had its own versions under the same name instead; but then an
application that continues under another account or token would find no version, and write its last
batch twice. A refused application gets the reason, and an operator, or the owner, forgets the name.
An operator of the manager is not kept apart: what it commits or gives up, it does for all.

Two writes under one name and version are no repetition. What an application says of destination and
content is remembered with the version, and a different one is refused instead of being taken for
done.

Upholds: I2, I20 (nothing is checked again: the record holds what was promised), I21 (only where
there is no decision, and none can come), I24, I4 (a version takes effect once), I5 (branches take
effect in the order of the list).
"""

from __future__ import annotations

from collections.abc import Sequence

from onceq import errors
from onceq.core.receive.poison import apply_poison_policy
from onceq.core.state.branch_table import Group, Marks
from onceq.core.state.queues import Queue
from onceq.core.state.records import Change
from onceq.core.state.setups import GroupCommitted, GroupForgotten
from onceq.core.step.step import ChangeBuilder, Step, Timer, refusal, rule_for
from onceq.core.step.units import GroupOver, OpenTransaction
from onceq.core.transaction.unit_of_work import PHASES, Verb, release, take_effect, unlock_received
from onceq.model.branches import (
    Phase,
    Xid,
    agent_of,
    anchored,
    attempt_of,
    decider_of,
    group_of,
    is_group_prefix,
)
from onceq.model.limits import GROUP_AGE_S
from onceq.model.marks import SECOND_US
from onceq.model.requests import BeginAttempt, CommitGroup, ForgetGroup, RollbackGroup
from onceq.model.results import Sent
from onceq.model.shares import Thing
from onceq.model.views.looks import GroupResult

# ---- second phase --------------------------------------------------------------------------------


def carry_out(step: Step, tx: OpenTransaction, *, by_hand: Phase | None = None) -> Sent:
    """Carry out all of a branch, in one record with its end.

    Args:
        by_hand: The phase in which it stays, decided by an operator; None: it is over.
    """
    release(step, tx)
    build = ChangeBuilder(step)
    # No matter who reports it: the decision for others belongs to the owner that has promised it.
    by = step.state.branches.numbered(tx.branch).by if tx.gtrid and tx.branch else ""
    result = take_effect(build, tx.sends, tx.receives)
    agent = agent_of(tx.xid) if tx.xid is not None else ""
    if tx.branch:
        by_row = (agent,) if agent else ()
        partners = tx.partners or by_row
        build.change.marks = Marks(tx.branch, by_hand, tx.gtrid, partners, by=by)
    decided = bool(agent) and by_hand is None and _numbered(tx)
    held = decided and _stays_here(step, build.change)
    step.record(build.change, forced=not held, held=held)
    return result


def _numbered(tx: OpenTransaction) -> bool:
    """Return whether its messages have their numbers since the promise."""
    for batch in tx.sends:  # noqa: SIM110 - a generator costs more calls
        if batch.written is None:
            return False
    return True


def _stays_here(step: Step, change: Change) -> bool:
    """Return whether nothing in a change leaves this manager under a number that it gets now."""
    queues = step.state.all_queues
    for put in change.puts:
        if not isinstance(queues[put.queue], Queue):
            return False
    for move in change.moves:
        for number in (move.to, *(copy[0] for copy in move.copies_to)):
            if number and not isinstance(queues[number], Queue):
                return False
    return True


def undo_promised(step: Step, tx: OpenTransaction, *, by_hand: Phase | None = None) -> None:
    """Undo a prepared branch, on record; ``by_hand`` as in ``carry_out``."""
    assert tx.branch, "only what is prepared is undone by a record of its own"
    release(step, tx)
    build = ChangeBuilder(step)
    back = unlock_received(build, tx.receives)
    build.change.marks = Marks(tx.branch, by_hand)
    step.record(build.change)
    apply_poison_policy(step, back)


# ---- abandoned branches --------------------------------------------------------------------------


LOOKS = 8
"""Checks of all such branches within the allowed time."""


def watch(step: Step, tx: OpenTransaction) -> None:
    """Limit the wait of a newly prepared branch, if this manager decides it.

    Their coordinator prepares branches here and dies, or abandons an attempt, before it asks for
    the commit. No other recovery will ever come: the manager to ask is this one, and it has no
    decision. So after a while they are undone (presumed abort). A later request for the commit gets
    the answer that the branch is not there.

    The time is counted while this manager runs, and starts again after a restart: a wall clock that
    is set could make promises look old.

    Branches that another manager, or any foreign coordinator, decides stay permanently (XTX-4).
    """
    set_already = Timer.UNDECIDED in step.watching
    if set_already or not step.settings.undecided_s or not _ours(step, tx):
        return
    step.watching.add(Timer.UNDECIDED)
    wait_us = step.settings.undecided_s * SECOND_US // LOOKS
    step.timer(step.now.mono_us + wait_us, Timer.UNDECIDED, None)


def _ours(step: Step, tx: OpenTransaction) -> bool:
    if tx.phase not in PHASES[Verb.TIME_OUT] or tx.xid is None:
        return False
    return decider_of(tx.xid.gtrid) == step.identity.guid


def on_timer(step: Step, nobody: object) -> None:
    """Undo branches that were prepared too long ago and that have no decision."""
    step.watching.discard(Timer.UNDECIDED)
    if not step.settings.undecided_s:
        return  # switched off meanwhile
    for tx in [tx for tx in step.units.open_branches.values() if _ours(step, tx)]:
        assert tx.xid is not None
        gtrid = tx.xid.gtrid
        decided = gtrid in step.state.branches.decisions
        at_work = gtrid in step.units.deciding or gtrid in step.units.telling
        over_us = tx.used_us + step.settings.undecided_s * SECOND_US
        if decided or at_work or step.now.mono_us < over_us:
            watch(step, tx)
        else:
            _undo(step, tx)


def _undo(step: Step, tx: OpenTransaction) -> None:
    text = (
        f"nobody had asked to commit it within {step.settings.undecided_s} s (setting undecided_s)"
    )
    assert tx.xid is not None
    why = errors.RolledBackByTime(f"branch {tx.xid} was rolled back: {text}")
    step.units.refuse_from_now_on(tx.xid, why)
    undo_promised(step, tx)
    step.notice(
        "a branch that nobody decided was rolled back", "", branch=str(tx.xid), sent=tx.messages
    )


# ---- groups --------------------------------------------------------------------------------------


@rule_for(BeginAttempt)
def begin(step: Step, item: BeginAttempt) -> None:
    """Answer the identifier of a new attempt."""
    _check(step, item.prefix, ())
    made = attempt_of(item.prefix, item.drawn, step.known_by(item.owner), step.units.key)
    step.answer(item.owner, item.request, made)


@rule_for(CommitGroup)
def commit(step: Step, item: CommitGroup) -> None:
    """Commit all branches of the list, unless that version was committed before."""
    _check(step, item.prefix, item.xids)
    known = step.state.groups.get(item.app)
    if known is not None and known.query and item.query and known.query != item.query:
        raise errors.GroupOfAnotherQuery(
            f"{item.app!r} has committed up to version {known.version} for query {known.query}, "
            f"and now query {item.query} asks for version {item.version}: its versions begin "
            "again, so batches would be taken for those that were committed before"
        )
    if known is not None and item.version <= known.version:
        _same(known, item)
        rolled_back = _drop(step, item.owner, item.prefix)
        step.answer(item.owner, item.request, GroupResult(True, 0, rolled_back))
        return
    promised = [_promised(step, item, xid) for xid in item.xids]
    # There must be room for its decisions about branches elsewhere.
    table, by = step.state.branches, step.known_by(item.owner)
    anchors = sum(bool(anchored(xid)) for xid in item.xids)
    own, count = table.decided_by.of(by), len(table.decisions)
    full = anchors and refusal(step, by, Thing.DECISIONS, own, count, more=anchors)
    if full:
        raise errors.InsufficientResources(full)
    if known is None:
        _make_room(step, item)
    step.setup(
        GroupCommitted(
            app=item.app,
            query=item.query or (known.query if known else ""),
            version=item.version,
            prefix=item.prefix.decode(),
            at=step.now.wall_s,
            branches=[tx.branch for tx in promised],
            target=item.target,
            digest=item.digest,
            by=known.by if known is not None else by,
        )
    )
    messages = sum(carry_out(step, tx).messages for tx in promised)
    rolled_back = _drop(step, item.owner, item.prefix)
    if known is not None:
        # Attempts at the batch before that prepared after it was committed.
        rolled_back += _drop(step, item.owner, known.prefix)
    step.answer(item.owner, item.request, GroupResult(False, messages, rolled_back))


def finish(step: Step) -> None:
    """Carry out, after a restart, what the last group record has decided and no change has done."""
    by_number = {tx.branch: tx for tx in step.units.open_branches.values()}
    for number in list(step.state.groups.pending):
        carry_out(step, by_number[number])


@rule_for(RollbackGroup)
def rollback(step: Step, item: RollbackGroup) -> None:
    """Give a batch up permanently: undo the owner's prepared branches of all attempts, and those
    that the owner is still to prepare."""
    _check(step, item.prefix, ())
    if item.final:
        over = GroupOver(item.prefix, step.known_by(item.owner))
        why = errors.RolledBack("rolled back, because its group is over")
        step.units.refuse_from_now_on(over, why)
    step.answer(item.owner, item.request, _drop(step, item.owner, item.prefix))


@rule_for(ForgetGroup)
def forget(step: Step, item: ForgetGroup) -> None:
    """Forget an application that is gone, or starts again."""
    if step.state.groups.get(item.app) is None:
        raise errors.UsageError(f"no version is remembered of {item.app!r}")
    step.setup(GroupForgotten(app=item.app))
    step.answer(item.owner, item.request, None)


# ---- checks ------------------------------------------------------------------------------


def _check(step: Step, prefix: bytes, xids: Sequence[Xid]) -> None:
    """Accept only branches of one batch, each once, and only this manager's own."""
    if not is_group_prefix(prefix, step.identity.guid):
        raise errors.InvalidParameter(
            f"not the prefix of a group that {step.identity.name} decides"
        )
    if any(group_of(xid) != prefix for xid in xids):
        raise errors.InvalidParameter("a group has branches of one batch only")
    if len(set(xids)) != len(xids):
        raise errors.InvalidParameter("a branch is in a group once")


def _same(known: Group, item: CommitGroup) -> None:
    """Refuse a write that looks like a repetition and differs, as far as both describe it."""
    said = f"version {item.version} of {item.app!r} was committed before, "
    if known.target and item.target and known.target != item.target:
        raise errors.GroupDiffers(f"{said}and to another destination; nothing is sent now")
    both = known.digest and item.digest and item.version == known.version
    if both and known.digest != item.digest:
        raise errors.GroupDiffers(
            f"{said}with other content ({known.digest}; now {item.digest}); nothing is sent now"
        )


def _promised(step: Step, item: CommitGroup, xid: Xid) -> OpenTransaction:
    tx = step.units.open_branches.get(xid)
    if tx is not None and tx.phase is Phase.PREPARED:
        return tx
    why = step.units.refused.get(xid)
    said = why.text if why is not None else "rolled back, decided by hand, or never prepared"
    raise errors.GroupIncomplete(
        f"version {item.version} of {item.app!r} cannot be committed: branch {xid} is not "
        f"prepared here ({said}); nothing of it was sent"
    )


def _make_room(step: Step, item: CommitGroup) -> None:
    """Forget very old applications to make room for new ones; their number is limited."""
    groups, by = step.state.groups, step.known_by(item.owner)
    own, count = groups.named_by.of(by), len(groups)
    full = refusal(step, by, Thing.GROUPS, own, count)
    if not full:
        return
    oldest: tuple[str, Group] | None = groups.oldest()
    assert oldest is not None
    app, group = oldest
    own -= group.by == by
    late = step.now.wall_s - group.at_s >= GROUP_AGE_S
    if not late or refusal(step, by, Thing.GROUPS, own, count - 1):
        raise errors.InsufficientResources(full)
    step.setup(GroupForgotten(app=app))


def _drop(step: Step, owner: int, prefix: bytes) -> int:
    """Roll back what an owner has prepared of a batch; return how many branches."""
    own = step.known_by(owner)
    left = [one for one in step.state.branches.of_group(prefix) if not own or one.by == own]
    for branch in left:
        undo_promised(step, step.units.open_branches[branch.xid])
    return len(left)
