"""Every situation in which a message ends; and a text of what each leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.inputs import PutBack, Reconfigure
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.state.records import Op, RangeChange
from onceq.core.step.step import ChangeBuilder
from onceq.core.transfer import in_doubt, outgoing_queue, pending_outcomes
from onceq.model import requests
from onceq.model.limits import DOUBT_AGE_S, HOPS_MAX
from onceq.model.message import Journal
from onceq.model.resultcodes import FORGOTTEN_THERE, MessageClass
from onceq.model.run import Run
from onceq.model.settings import KEEP_ASKED, Settings
from onceq.packet.acks import FinalAck, OrderAck
from tests.unit.core.alone import IDENTITY, WALL_S
from tests.unit.core.ending.stage import BODY, FAR, HERE, LIFETIME_S, PEER, THERE, Asked, Stage

Situation = Callable[[Stage], None]


# ---- in a queue here ------------------------------------------------------------------------


def local(ending: Situation) -> Situation:
    """It was sent here, to a queue here."""

    def run(stage: Stage) -> None:
        stage.send()
        stage.forget_own()
        ending(stage)

    return run


def foreign(ending: Situation) -> Situation:
    """It came from another manager."""

    def run(stage: Stage) -> None:
        stage.arrive()
        ending(stage)

    return run


def expire(stage: Stage) -> None:
    stage.pass_time(LIFETIME_S + 1)


IN_QUEUE: Final[dict[str, Situation]] = {
    "stored": lambda stage: None,
    "received": Stage.receive,
    "purged": Stage.purge,
    "deleted with its queue": Stage.delete,
    "not received in time": expire,
}
REJECTED: Final[dict[str, Situation]] = {
    "rejected": lambda stage: stage.reject(keep=False),
    "rejected and kept": lambda stage: stage.reject(keep=True),
}


def nowhere(stage: Stage) -> None:
    """The queue is deleted between the send and the commit."""
    properties = stage.asks.properties(transactional=True)
    item = requests.SendItem(HERE + "q", properties, Run.of([BODY]))
    stage.do(requests.Begin(7))
    stage.do(requests.Send(7, (item,)))
    stage.delete("private$\\q")
    stage.forget_own()
    stage.do(requests.Commit(7))


def too_many_hops(stage: Stage) -> None:
    stage.step(Reconfigure(Settings(forward_messages=True), {}))
    stage.arrive(hops=HOPS_MAX, to=THERE)


def passing(ending: Situation) -> Situation:
    """It is passed on to another manager."""

    def run(stage: Stage) -> None:
        stage.step(Reconfigure(Settings(forward_messages=True), {}))
        stage.arrive(to=THERE)
        ending(stage)

    return run


# ---- in an outgoing queue ---------------------------------------------------------------------


def sent(ending: Situation, *, left: bool) -> Situation:
    """It waits for another manager, and may have been transmitted, or not."""

    def run(stage: Stage) -> None:
        far = stage.send_far()
        far.transmitted[stage.lane] = int(left)
        ending(stage)

    return run


def built(work: Callable[[Stage, ChangeBuilder], None]) -> Situation:
    """Something is decided, and put on record."""

    def run(stage: Stage) -> None:
        build = ChangeBuilder(stage.manager._step)
        work(stage, build)
        build.step.record(build.change)

    return run


def order_ack(stage: Stage) -> None:
    outgoing_queue.order_acked(stage.manager._step, OrderAck(PEER, stage.far.stream, 1))


def only_asked(ending: Situation) -> Situation:
    """Dead letters are kept as MSMQ keeps them."""

    def run(stage: Stage) -> None:
        stage.step(Reconfigure(Settings(xact_dead_letter=KEEP_ASKED), {}))
        ending(stage)

    return run


def final(kind: int) -> Situation:
    def run(stage: Stage) -> None:
        far = stage.far
        ack = FinalAck(PEER, kind, far.stream, 1, 0, IDENTITY.guid, 1)
        if not in_doubt.settled_by(stage.manager._step, ack):
            outgoing_queue.final_acked(stage.manager._step, ack)

    return run


def delivered(stage: Stage, build: ChangeBuilder) -> None:
    outgoing_queue.handed_over(build, stage.far.number, stage.lane, 1, 1)


def answered(stage: Stage, build: ChangeBuilder) -> None:
    reason = MessageClass.NACK_BAD_DESTINATION_QUEUE
    move = RangeChange(Op.END, stage.far.number, stage.lane, 1, 1, reason)
    end_range(build, move, Ending.REFUSED_THERE, reason)


def unknown_end(stage: Stage, build: ChangeBuilder) -> None:
    pending_outcomes._end(build, stage.far, 1, FORGOTTEN_THERE)


def left_behind(ending: Ending, reason: MessageClass) -> Situation:
    def work(stage: Stage, build: ChangeBuilder) -> None:
        move = RangeChange(Op.END, stage.far.number, TRANSACTIONAL_LANE, 1, 1, reason)
        end_range(build, move, ending, reason)

    return built(work)


def set_aside(stage: Stage) -> None:
    stage.ask(PutBack(0, 0, WALL_S - 60, 500, b"O" * 16, ()))


# ---- in doubt -----------------------------------------------------------------------------------


def doubted(ending: Situation) -> Situation:
    """It is purged after it may have been transmitted: from then on it is in doubt."""

    def run(stage: Stage) -> None:
        sent(lambda stage: stage.purge(FAR), left=True)(stage)
        ending(stage)

    return run


def inquired(*, arrived: bool) -> Situation:
    def work(stage: Stage, build: ChangeBuilder) -> None:
        doubts, stream = stage.manager.state.doubts, stage.far.stream
        for number in doubts.unknown(stream):
            doubt = doubts.find(stream, number)
            assert doubt is not None
            in_doubt._certain(build, doubt, arrived=arrived)

    return built(work)


def days(stage: Stage) -> None:
    stage.pass_time(DOUBT_AGE_S + 1)


PURGED_FAR: Final[Situation] = lambda stage: stage.purge(FAR)  # noqa: E731

BOTH_KINDS: Final[dict[str, Situation]] = {
    **{f"sent here, {name}": local(one) for name, one in IN_QUEUE.items()},
    **{f"arrived, {name}": foreign(one) for name, one in IN_QUEUE.items()},
    "arrives for no queue": lambda stage: stage.arrive("private$\\x"),
    "arrives for a queue of the other kind": lambda stage: stage.arrive(
        "private$\\n" if stage.transactional else "private$\\q"
    ),
    "arrives with no room": lambda stage: stage.arrive(
        "private$\\full" if stage.transactional else "private$\\small"
    ),
    "makes too many hops": too_many_hops,
    "passed on, then purged": passing(lambda stage: stage.purge(str(stage.far.name))),
    "passed on, then too late": passing(expire),
    "waits, purged": sent(PURGED_FAR, left=False),
    "may have left, purged": sent(PURGED_FAR, left=True),
    "waits, too late": sent(expire, left=False),
    "may have left, too late": sent(expire, left=True),
    "waits, put back in a copy": sent(set_aside, left=False),
}
TRANSACTIONAL: Final[dict[str, Situation]] = {
    **{f"sent here, {name}": local(one) for name, one in REJECTED.items()},
    **{f"arrived, {name}": foreign(one) for name, one in REJECTED.items()},
    "its queue is deleted before the commit": nowhere,
    "sent here to a queue of the other kind": lambda stage: stage.send_unasked(HERE + "n"),
    "acknowledged in its order": sent(order_ack, left=True),
    "its receiver has forgotten its end": sent(built(unknown_end), left=True),
    "left behind, not delivered": sent(
        left_behind(Ending.LEFT_BEHIND, MessageClass.NACK_REACH_QUEUE_TIMEOUT), left=True
    ),
    "left behind, in doubt": sent(
        left_behind(Ending.LEFT_IN_DOUBT, MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER), left=True
    ),
    **{
        f"told by its receiver {kind:04x}": sent(final(kind), left=True)
        for kind in (0x4000, 0x8000, 0xC001, 0xC003)
    },
    "told by its receiver 8000, where only what asked is kept": only_asked(
        sent(final(0x8000), left=True)
    ),
    "its queue is deleted before the commit, where only what asked is kept": only_asked(nowhere),
    **{
        f"in doubt, then told {kind:04x}": doubted(final(kind)) for kind in (0x4000, 0x8000, 0xC001)
    },
    "in doubt, then never arrived": doubted(inquired(arrived=False)),
    "in doubt, then arrived": doubted(inquired(arrived=True)),
    "in doubt for four days": doubted(days),
}
PLAIN: Final[dict[str, Situation]] = {
    "sent here to a queue of the other kind": lambda stage: stage.send_unasked(HERE + "q"),
    "the next manager has it": sent(built(delivered), left=True),
    "the next manager refuses it": sent(built(answered), left=True),
}
SITUATIONS: Final = (
    *((name, True, one) for name, one in (BOTH_KINDS | TRANSACTIONAL).items()),
    *((name, False, one) for name, one in (BOTH_KINDS | PLAIN).items()),
)


EVERYTHING: Final = Asked(Journal(3), 15)


def wishes(transactional: bool) -> list[Asked]:
    """What a sender can ask for: each thing alone, and all together."""
    found = [Asked(), *(Asked(journal) for journal in (Journal.DEADLETTER, Journal.JOURNAL))]
    found += [Asked(level=level) for level in (1, 2, 4, 8)]
    if transactional:
        found += [Asked(Journal.DEADLETTER, own=own) for own in ("own", "gone", "full")]
    return [*found, EVERYTHING]


def outcome(situation: Situation, asked: Asked, *, transactional: bool) -> str:
    """What is left after it."""
    stage = Stage(asked, transactional)
    situation(stage)
    return "; ".join(stage.left()) or "nothing"


def text() -> str:
    """What every situation leaves for every wish; wishes that leave the same share a line."""
    lines = [
        "# What each way to end leaves: where something is then, and of which class. Before the",
        "# colon stands what the sender has asked for: nothing (-), a dead letter (D), also in a",
        "# queue of its own that is there, gone or full, a copy in the journal (J), or",
        "# acknowledgments (their level). `python -m tests.unit.core.ending.situations` writes it.",
    ]
    for name, transactional, situation in SITUATIONS:
        found: dict[str, list[str]] = {}
        for asked in wishes(transactional):
            left = outcome(situation, asked, transactional=transactional)
            found.setdefault(left, []).append(str(asked))
        lines.append(f"{name} ({'transactional' if transactional else 'not transactional'})")
        lines += [f"    {', '.join(asks)}: {left}" for left, asks in found.items()]
    return "\n".join(lines) + "\n"


OUTCOMES: Final = Path(__file__).with_name("outcomes.txt")

if __name__ == "__main__":
    OUTCOMES.write_text(text())
