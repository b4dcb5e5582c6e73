"""Transactions that nobody remembers: after a while without anything happening they are undone.

A lost application is noticed by its connection; one that lives and has forgotten a transaction
would keep messages locked, and everybody behind them waiting, for as long as it lives. What waits
for a message is not forgotten, and what is prepared is never undone here (XTX-4).

One timer serves them all: it is set when the first is begun, and looks at most a few times in the
span that is allowed.

Upholds: I16, I20 (a promise is kept).
"""

from __future__ import annotations

from onceq.core.step.step import Step, Timer
from onceq.core.step.units import Transaction
from onceq.core.transaction.branch_phases import PHASES, Verb
from onceq.core.transaction.unit_of_work import undo
from onceq.errors import RolledBackByTime, TransactionOver
from onceq.model.branch import Phase
from onceq.model.time import SECOND_US

LOOKS = 8
"""Times that all are looked at, at most, in the span that is allowed."""


def on_timer(step: Step, nobody: object) -> None:
    """Undo those in which nothing has happened for too long."""
    step.watching.discard(Timer.IDLE)
    limit_us = step.settings.transaction_idle_s * SECOND_US
    if not limit_us:
        return  # switched off meanwhile
    now_us = step.now.mono_us
    waiting = {(item.owner, item.transaction) for item in step.readers.waiting.values()}
    left = False
    for tx in list(step.units.all()):
        if tx.phase not in PHASES[Verb.ABANDON]:
            continue
        if (tx.owner, tx.number) in waiting:
            tx.used_us = now_us
        if tx.used_us + limit_us <= now_us:
            _undo(step, tx)
        else:
            left = True
    if left:
        step.timer(now_us + limit_us // LOOKS, Timer.IDLE, None)
        step.watching.add(Timer.IDLE)


def watch(step: Step) -> None:
    """See to it that open transactions are looked at, if that was switched on meanwhile."""
    limit_us = step.settings.transaction_idle_s * SECOND_US
    if limit_us and Timer.IDLE not in step.watching and any(True for _ in step.units.all()):
        step.timer(step.now.mono_us + limit_us // LOOKS, Timer.IDLE, None)
        step.watching.add(Timer.IDLE)


def _undo(step: Step, tx: Transaction) -> None:
    text = (
        f"nothing had happened in it for {step.settings.transaction_idle_s} s "
        "(setting transaction_idle_s)"
    )
    if tx.phase is Phase.ACTIVE:
        over = TransactionOver(f"this transaction was rolled back: {text}")
        step.units.refuse_from_now_on((tx.owner, tx.number), over)
    if tx.xid is not None:
        why = RolledBackByTime(f"branch {tx.xid} was rolled back: {text}")
        step.units.refuse_from_now_on(tx.xid, why)
    undo(step, tx)
    step.notice(
        "a forgotten transaction was rolled back", str(tx.owner), application=tx.owner,
        transaction=str(tx.xid or tx.number), received=sum(h.count for h in tx.receives),
        sent=tx.messages,
    )  # fmt: skip
