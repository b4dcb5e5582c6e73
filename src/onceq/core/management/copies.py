"""What a queue manager does by itself, and what becomes of it in a restored store.

A store that was restored with its identity is the same queue manager at an earlier time: what it
had begun continues. With another identity it is another one, beside the living original, which has
made all promises, owes all answers, and sends what waits. So a copy does none of it: it sends
nothing, reports nothing, decides nothing, continues no job, and knows no token. The messages of its
queues are its own.

``TABLE`` has a line for each of these. Each durable table of ``State``, and each kind of timer,
belongs to a line, and each line has a conformance case for either identity
(``tests/conformance/test_by_itself.py``); tests check both. So a later addition needs its line.

Also here:

* Record a restore, in the manager that was restored.

Upholds: I4 (a copy sends nothing a second time), I12, I13, I21 (the original decides), I28.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Final

from onceq.core.decision import Notice
from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.inputs import PutBack
from onceq.core.state import setups
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.state.queue_tables import ACKS_OWED, DOUBTS_KEPT, ORDER_QUEUE_NUMBER
from onceq.core.state.records import Op, RangeChange
from onceq.core.step.step import AuditEntry, ChangeBuilder, Step, Timer, record_act, rule_for
from onceq.core.transaction.second_phase import undo_promised
from onceq.model.identity import guid_text
from onceq.model.letters import JobState
from onceq.model.names import Kind
from onceq.model.record import Record
from onceq.model.resultcodes import MessageClass

# ---- copies --------------------------------------------------------------------------------------


CHANGED: Final = MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED
OF_ANOTHER: Final = "of the queue manager that this is a copy of"
"""Why a job of a copy ends."""


class ByItself(Record, frozen=True):
    """One thing that a queue manager does without a request each time.

    Attributes:
        name: For tests; one word.
        what: What it does.
        same: What becomes of it in a store that is restored with its identity.
        copy: The same for another identity.
        tables: Attributes of ``State`` that it depends on.
        timers: Timers that start it.
        end: Ends it in a copy; returns how many that concerned. None: nothing is to be ended.
    """

    name: str
    what: str
    same: str
    copy: str
    tables: tuple[str, ...] = ()
    timers: tuple[Timer, ...] = ()
    end: Callable[[Step], int] | None = None


def end_all(step: Step) -> dict[str, int]:
    """Make the restored manager a copy of the original; return each table line's count."""
    return {one.name: one.end(step) for one in TABLE if one.end is not None}


# ---- what a copy ends ------------------------------------------------------------------------


def _record_all(step: Step, made: Sequence[setups.Setup]) -> int:
    """Record each; return how many these are."""
    for each in made:
        step.setup(each)
    return len(made)


def _undo_promises(step: Step) -> int:
    """Undo promises here, because the original carries them out: what was received is in its place
    again, and nothing is sent."""
    open_ = [tx for tx in step.units.open_branches.values() if tx.branch]
    for tx in open_:
        undo_promised(step, tx)
    for branch in list(step.state.branches):  # those that an operator has decided by hand
        step.setup(setups.BranchForgotten(branch.number))
    return len(open_)


def _set_messages_aside(step: Step) -> int:
    """Take everything out of the outgoing queues; return how many messages are kept."""
    aside = 0
    build = ChangeBuilder(step)
    for outgoing in step.state.outgoing.values():
        # Whether it carries only packets between managers, and no messages.
        name = outgoing.name
        talk = name.kind is Kind.PRIVATE and name.number == ORDER_QUEUE_NUMBER
        for index, lane in outgoing.lanes.items():
            for first, count in lane.ranges(AWAITING, 0):
                build.move(RangeChange(Op.RELEASE, outgoing.number, index, first, count))
            for first, count in lane.ranges(AVAILABLE, 0):
                if talk:
                    build.move(RangeChange(Op.RELEASE, outgoing.number, index, first, count))
                else:
                    move = RangeChange(Op.END, outgoing.number, index, first, count, CHANGED)
                    end_range(build, move, Ending.SET_ASIDE, CHANGED)
                    aside += count
    step.record(build.change)
    return aside


def _release(step: Step, number: int) -> int:
    """Forget the messages of a hidden queue."""
    build, count = ChangeBuilder(step), 0
    for index, lane in step.state.all_queues[number].lanes.items():
        for first, size in lane.ranges(AVAILABLE, 0):
            build.move(RangeChange(Op.RELEASE, number, index, first, size))
            count += size
    step.record(build.change)
    return count


# ---- the table ---------------------------------------------------------------------------------

_STAYS: Final = "as it was at the backup"

TABLE: Final = (
    ByItself(
        "jobs",
        "Jobs",
        "Go on from the backup: what a job has sent elsewhere since arrives a second time, as a "
        "new message.",
        f"They end as cancelled, with the reason \"{OF_ANOTHER}\". Their numbers say how far they "
        "had come.",
        ("jobs",), (), lambda step: _record_all(
            step,
            [
                setups.JobEnded(job.number, JobState.CANCELLED.value, step.now.wall_s, OF_ANOTHER)
                for job in step.state.jobs.running()
            ],
        ),
    ),
    ByItself(
        "promises",
        "Promises of prepared branches (of XA, of groups, of last agents)",
        "Held as at the backup, until its coordinator decides again.",
        "Undone; the original keeps them.",
        ("branches",), (Timer.UNDECIDED,), _undo_promises,
    ),
    ByItself(
        "decisions",
        "Decisions for partners (databases, other queue managers)",
        "Told again, as far as the backup has them open.",
        "Forgotten. Partners ask the original.",
        ("branches",), (), lambda step: _record_all(
            step,
            [setups.DecisionCarriedOut(gtrid=gtrid) for gtrid in step.state.branches.decisions],
        ),
    ),
    ByItself(
        "rows",
        "Rows by which databases have decided",
        "Those that the backup knows are looked for.",
        "None is looked for.",
        ("branches",), (), lambda step: _record_all(
            step, [setups.RowsForgotten(agent=agent) for agent in step.state.branches.rows]
        ),
    ),
    ByItself(
        "groups",
        "Decided groups (batches of Spark), and the last version of each application",
        "Decided ones are carried out; versions are " + _STAYS + ", so a batch since then is "
        "written again if it is repeated.",
        "Groups are carried out; what they send elsewhere is set aside. Versions stay.",
        ("groups",),
    ),
    ByItself(
        "tokens",
        "Tokens",
        "Tokens are " + _STAYS + ": one that was revoked since is good again, so revoke it again.",
        "Void, with what was granted to them by name.",
        ("tokens",), (Timer.TOKENS,), lambda step: _record_all(
            step, [setups.TokenRevoked(token.name) for token in step.state.tokens.all()]
        ),
    ),
    ByItself(
        "messages",
        "Messages that wait for other queue managers",
        "Sent under their numbers: what has arrived since is a repetition there.",
        "Set aside as dead letters with class `0x800C`, acknowledgment messages included. The "
        "original sends them.",
        (
            "outgoing", "outgoing_numbers", "aliases", "bound", "streams", "drained", "refused",
            "bindings", "answering", "all_queues", "space",
        ),
        (Timer.CONNECT, Timer.CONTACT, Timer.RESEND), _set_messages_aside,
    ),
    ByItself(
        "acknowledgments",
        "Acknowledgments of how messages of its queues ended",
        "Sent, also a second time where the life that is undone has done so.",
        "None about messages that were in the copied store. Dead letters and journal copies for "
        "senders on this computer are kept.",
        # The record of the restore voids the reports that were requested of later ends
        # (``State._put_back``).
        ("all_queues", "receipts", "homes_kept"), (), lambda step: _release(step, ACKS_OWED),
    ),
    ByItself(
        "doubts",
        "Questions about messages in doubt",
        "Asked.",
        "Not asked. Dead letters in doubt stay what they are.",
        ("doubts",), (Timer.INQUIRE, Timer.ENDS), lambda step: _release(step, DOUBTS_KEPT),
    ),
    ByItself(
        "answers",
        "Repetitions of what others send, and answers about it",
        "What the backup has is a repetition. It never says that a message which it does not know"
        " did not come.",
        "The same.",
        ("progress", "memories", "first_heard", "seen", "clocks_ahead", "proofs", "undone",
         "restored"),
        (Timer.ORDER_ACK,),
    ),
    ByItself(
        "expiry",
        "Messages whose time is over",
        "End at the first start.",
        "The same, and nobody elsewhere is told.",
        ("expiry", "next_expiry"),
    ),
    ByItself(
        "delays",
        "Delayed messages",
        "Go on.",
        "The same; those for other queue managers are set aside.",
        ("due", "next_due", "subqueues", "queue_numbers"),
    ),
    ByItself(
        "retries",
        "Poison policies",
        "Go on.",
        "The same.",
        ("queues", "all_queues"), (Timer.RETRY,),
    ),
    ByItself(
        "readers",
        "How far readers have come (streams of Spark)",
        _STAYS.capitalize() + ". What comes in from now on stands behind every place that was "
        "given.",
        "The same.",
        ("readings", "first_place"),
    ),
    ByItself(
        "rights",
        "Rights, and how many queues each owner has made",
        "Rights are " + _STAYS + ": what was revoked since holds again. Those in the directory are "
        "read there. Who has made a queue stays, too.",
        "The same, without rights of tokens.",
        ("policy", "makers"),
    ),
    ByItself(
        "directory",
        "Entries in the directory",
        "As before.",
        "Under its own identity; its public queues have identifiers of their own. Give it a name "
        "of its own (`--name`), or the two register in turn under one name.",
        ("identity", "public"),
    ),
    ByItself(
        "outcomes",
        "Outcomes of commits",
        "Those that the backup has.",
        "The same.",
        ("outcomes",),
    ),
    ByItself(
        "switches",
        "Pauses and disconnections by operators",
        _STAYS.capitalize() + ".",
        "The same.",
        ("offline_s",),
    ),
    ByItself(
        "numbers",
        "Numbers of messages, streams and places",
        "Each start gives numbers that no other start has given.",
        "The same.",
        ("next_number", "next_message", "next_ordinal", "next_transaction", "number_ceiling",
         "stamp", "lives"),
    ),
    ByItself(
        "log",
        "The audit trail, and which messages are damaged",
        _STAYS.capitalize() + ".",
        "The same.",
        ("trail", "heads", "damages"),
    ),
    ByItself(
        "open",
        "Transactions, receives that wait, handles",
        "None: they end with each stop.",
        "None.",
        (), (Timer.RECEIVE, Timer.IDLE),
    ),
)  # fmt: skip
"""In the order in which they end: undoing may leave something to be sent or reported, so messages
and acknowledgments come behind it."""


# ---- restore -------------------------------------------------------------------------------------


@rule_for(PutBack)
def put_back(step: Step, item: PutBack) -> None:
    """Record it; answer how many messages were set aside.

    With its old identity nothing else is to be done: what waits continues under its numbers, and
    each start assigns new numbers to what comes later. With another identity it is another manager,
    and the original of the backup may live: a copy does nothing that the original does. What waited
    is set aside, in dead-letter queues, with the class for a sender whose identity has changed. No
    report is made of it: it has not failed. Public queues get identifiers of their own.
    """
    ended: dict[str, int] = {}
    if item.previous:
        ended = end_all(step)
        public = [
            queue.properties
            for queue in step.state.queues.values()
            if not queue.system and not queue.properties.private
        ]
        for properties, instance in zip(public, item.instances, strict=True):
            step.setup(setups.QueueSet(replace(properties, instance=instance)))
    aside = ended.get("messages", 0)
    step.setup(
        setups.StorePutBack(
            at_s=step.now.wall_s,
            taken_s=item.taken_s,
            position=item.position,
            previous=item.previous.hex(),
            aside=aside,
            jobs=ended.get("jobs", 0),
            promises=ended.get("promises", 0),
            tokens=ended.get("tokens", 0),
        )
    )
    kind = f"; made as a copy of {guid_text(item.previous)}" if item.previous else ""
    about = f"log position {item.position}, of second {item.taken_s}{kind}"
    record_act(step, "operator", "local", AuditEntry("restore", about))
    step.answer(item.owner, item.request, aside)


def tell(step: Step) -> None:
    """Report a restore to the operator, at the first start after it."""
    restored = step.state.restored
    if restored is None or restored.told:
        return
    step.setup(setups.StorePutBack(**asdict(replace(restored, told=True))))
    values: dict[str, object] = {
        "taken_s": restored.taken_s,
        "position": restored.position,
        "restored_s": restored.at_s,
    }
    if restored.previous:
        was = guid_text(bytes.fromhex(restored.previous))
        values |= {
            "copy_of": was, "set_aside": restored.aside, "jobs_cancelled": restored.jobs,
            "promises_undone": restored.promises, "tokens_dropped": restored.tokens,
        }  # fmt: skip
    step.act(Notice("this queue manager was put back from a backup", values))
