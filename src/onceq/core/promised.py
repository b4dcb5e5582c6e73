"""How a promise ends: a prepared branch takes effect, or is undone; one record each.

Whoever decides comes here: a coordinator through the verbs of XA, an operator, a group, time.

Upholds: I2, I20 (nothing is asked anew: what was promised stands in the record).
"""

from __future__ import annotations

from onceq.core.branch_table import Marks
from onceq.core.decision import Sent
from onceq.core.desk import Desk, Transaction
from onceq.core.poison import given_back
from onceq.core.records import Change
from onceq.core.transaction import put_back, release, take_effect
from onceq.model.branch import Phase


def carry_out(desk: Desk, tx: Transaction, *, by_hand: bool = False) -> Sent:
    """Make all of a branch happen, in one record with its end."""
    release(desk, tx)
    change = Change(desk.now.wall_s)
    result = take_effect(desk, change, tx.sends, tx.receives)
    if tx.branch:
        change.marks = Marks(tx.branch, Phase.COMMITTED if by_hand else None)
    if change.puts or change.moves or change.marks is not None:
        desk.record(change)
    return result


def undo_promised(desk: Desk, tx: Transaction, *, by_hand: bool = False) -> None:
    """Nothing of a prepared branch happens, on record."""
    assert tx.branch, "only what is prepared is undone by a record of its own"
    release(desk, tx)
    change = Change(desk.now.wall_s)
    back = put_back(desk, change, tx.receives)
    change.marks = Marks(tx.branch, Phase.ROLLED_BACK if by_hand else None)
    desk.record(change)
    given_back(desk, back)
