"""Undo transactions in which nothing has happened for a while.

A broken connection reveals a lost application; one that lives and has forgotten a transaction would
keep messages locked, and block every reader behind them, as long as it lives. A transaction that
waits for a message is not forgotten, and a prepared one is never undone here (XTX-4). A program
that knows how long it works in a transaction says so at its beginning (``Begin.idle_s``); loops do.

One timer serves them all: it is set when the first is begun, and rings a few times in the shortest
span that is allowed.

Upholds: I16, I20 (a promise is kept).
"""

from __future__ import annotations

from onceq.core.step.step import Step, Timer
from onceq.core.step.units import Transaction
from onceq.core.transaction.branch_phases import PHASES, Verb
from onceq.core.transaction.unit_of_work import undo
from onceq.errors import RolledBackByTime
from onceq.model.branch import Phase
from onceq.model.time import SECOND_US

LOOKS = 8
"""Checks of all transactions, at most, in the span that is allowed."""


def on_timer(step: Step, nobody: object) -> None:
    """Undo transactions in which nothing has happened for too long."""
    step.units.idle_look_us = 0
    now_us = step.now.mono_us
    waiting = {(item.owner, item.transaction) for item in step.readers.waiting.values()}
    least_us = 0
    for tx in list(step.units.all()):
        limit_us = _limit_us(step, tx)
        if not limit_us or tx.phase not in PHASES[Verb.ABANDON]:
            continue
        if (tx.owner, tx.number) in waiting:
            tx.used_us = now_us
        if tx.used_us + limit_us <= now_us:
            _undo(step, tx, limit_us)
        else:
            least_us = min(least_us or limit_us, limit_us)
    if least_us:
        _look_in(step, least_us // LOOKS)


def watch(step: Step) -> None:
    """Start the timer for open transactions, if that was switched on meanwhile."""
    limits = [limit_us for tx in step.units.all() if (limit_us := _limit_us(step, tx))]
    if limits and not step.units.idle_look_us:
        _look_in(step, min(limits) // LOOKS)


def _look_in(step: Step, after_us: int) -> None:
    step.units.idle_look_us = step.now.mono_us + after_us
    step.timer(step.units.idle_look_us, Timer.IDLE, None)


def _limit_us(step: Step, tx: Transaction) -> int:
    """Return how long a transaction may be idle; 0: without limit."""
    return step.settings.transaction_idle_s * SECOND_US if tx.idle_us is None else tx.idle_us


def _undo(step: Step, tx: Transaction, limit_us: int) -> None:
    """Undo it; its received messages are not at fault, so this abort does not count (SND-21)."""
    whose = "setting transaction_idle_s" if tx.idle_us is None else "the limit of its program"
    text = f"nothing had happened in it for {limit_us // SECOND_US} s ({whose})"
    if tx.phase is Phase.ACTIVE:
        over = RolledBackByTime(f"this transaction was rolled back: {text}")
        step.units.refuse_from_now_on((tx.owner, tx.number), over)
    if tx.xid is not None:
        why = RolledBackByTime(f"branch {tx.xid} was rolled back: {text}")
        step.units.refuse_from_now_on(tx.xid, why)
    undo(step, tx, blameless=True)
    step.notice(
        "a forgotten transaction was rolled back", str(tx.owner), application=tx.owner,
        transaction=str(tx.xid or tx.number), received=sum(h.count for h in tx.receives),
        sent=tx.messages, after_s=limit_us // SECOND_US,
    )  # fmt: skip
