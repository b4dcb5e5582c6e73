"""Planted mistakes about what one owner may have of the things that all share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import pytest

from onceq.core import names as resolve
from onceq.core.management import jobs, operations, rights
from onceq.core.receive import entrance, lookup, receive
from onceq.core.state import branch_table, queue_tables
from onceq.core.step import step as asked
from onceq.core.step import units
from onceq.core.transaction import second_phase, unit_of_work, xa_branch
from onceq.core.transfer import admission
from onceq.model import policy, shares
from tests.planted.planted import Planted, edited

TESTS = "tests/unit/core/step/test_step_shares.py::test_"
FILLS = f"{TESTS}one_fills_and_another_works"
COUNTED = "tests/property/test_shares.py::test_what_is_counted_is_what_is_there"
Plant = Callable[[pytest.MonkeyPatch], None]


def _unasked(module: ModuleType, thing: str, how: str = "check_share(step, ") -> Plant:
    """One place that counts asks nobody."""
    lines = inspect.getsource(module).splitlines()
    (line,) = (one for one in lines if f"Thing.{thing}," in one and how in one)
    before, _, call = line.partition(how)
    return edited(module, line, f"{before}(lambda *_, **__: '')({call}")


PLANTED = (
    Planted("shares-nobody-has-a-share",
            edited(shares, "if own + more > limit.share:", "if False:"), FILLS),
    Planted("shares-a-few-owners-have-everything",
            edited(shares, "    if own + more > left:", "    if more > left:"), FILLS),
    Planted("shares-everybody-has-the-reserve",
            edited(shares, "limit.whole - limit.reserve - total, 0", "limit.whole - total, 0"),
            FILLS),
    Planted("shares-administrators-have-no-reserve",
            edited(asked, "administers=administers", "administers=not by"), FILLS),
    Planted("shares-the-whole-has-no-end",
            edited(shares, "if total + more > limit.whole:", "if False:"), FILLS),
    Planted("shares-nobody-counts-queues", _unasked(operations, "QUEUES", "refusal(step, "), FILLS),
    Planted("shares-nobody-counts-subqueues",
            _unasked(lookup, "SUBQUEUES", "refusal(step, "), FILLS),
    Planted("shares-nobody-counts-outgoing-queues",
            _unasked(resolve, "OUTGOING", "refusal(step, "), FILLS),
    Planted("shares-nobody-counts-grants", _unasked(rights, "GRANTS"), FILLS),
    Planted("shares-nobody-counts-jobs", _unasked(jobs, "JOBS", "refusal(step, "), FILLS),
    Planted("shares-nobody-counts-handles", _unasked(entrance, "HANDLES"), FILLS),
    Planted("shares-nobody-counts-cursors", _unasked(lookup, "CURSORS"), FILLS),
    Planted("shares-nobody-counts-waits", _unasked(receive, "WAITS"), FILLS),
    Planted("shares-nobody-counts-transactions", _unasked(unit_of_work, "TRANSACTIONS"), FILLS),
    Planted("shares-nobody-counts-branches",
            _unasked(xa_branch, "BRANCHES", "refusal(step, "), FILLS),
    Planted("shares-nobody-counts-decisions",
            _unasked(xa_branch, "DECISIONS", "refusal(step, "), FILLS),
    Planted("shares-nobody-counts-names",
            edited(second_phase, "    full = refusal(step, by, Thing.GROUPS, own, count)",
                   "    full = ''"), FILLS),
    Planted("shares-nobody-counts-streams",
            _unasked(admission, "STREAMS", "refusal(step, "), FILLS),
    Planted("shares-each-connection-has-its-own",
            edited(unit_of_work, "    by = step.who.get(owner, \"\")\n    tx = OpenTransaction(",
                   "    by = f\"{step.who.get(owner)} {owner}\"\n    tx = OpenTransaction("),
            FILLS),
    Planted("shares-a-deleted-queue-counts",
            edited(queue_tables, "        self.makers.gone(queue)\n", ""), COUNTED),
    Planted("shares-a-revoked-grant-counts",
            edited(policy, "        self._uncount(self._grants.pop(key_of_grant(grant)))\n",
                   "        del self._grants[key_of_grant(grant)]\n"), COUNTED),
    Planted("shares-a-grant-counts-twice",
            edited(policy, "        self._uncount(self._grants.get(key_of_grant(grant)))\n", ""),
            COUNTED),
    Planted("shares-a-branch-that-is-over-counts",
            edited(branch_table, "        self.held_by.drop(branch.by)\n", ""), COUNTED),
    Planted("shares-a-decision-carried-out-counts",
            edited(branch_table, "self.decided_by.drop(made.by)\n", "pass\n"), COUNTED),
    Planted("shares-a-forgotten-name-counts",
            edited(branch_table, "            self.named_by.drop(known.by)\n",
                   "            pass\n"), COUNTED),
    Planted("shares-a-lost-cursor-counts",
            edited(units, "            self.taken_away(cursor)\n",
                   "            del self.cursors[cursor]\n"), COUNTED),
    Planted("shares-a-prepared-branch-counts-as-open",
            edited(xa_branch, "    step.units.closed(tx)\n", ""), COUNTED),
    Planted("shares-an-undone-transaction-counts",
            edited(units, "            self.open_by.drop(tx.by)\n            tx.by = None\n",
                   "            tx.by = None\n"), COUNTED),
    Planted("shares-makers-are-not-in-checkpoints",
            edited(queue_tables, "        return list(self._of.items())",
                   "        return []"), COUNTED),
)  # fmt: skip
