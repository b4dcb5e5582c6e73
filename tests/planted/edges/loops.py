"""Planted mistakes about loops: what is counted against messages, and what a send is."""

from __future__ import annotations

import pytest

from onceq.client import handlers, loops
from onceq.client.plans import handles, sending_unit
from onceq.core import send
from onceq.core.transaction import unit_of_work
from tests.planted.planted import Planted, edited

FAILURES = "tests/daemon/test_client_failures.py::"
KINDS = "tests/daemon/test_client_kinds.py::"
LIFETIMES = "tests/daemon/test_client_lifetimes.py::"
FORGOTTEN = "tests/conformance/test_forgotten.py::"


def _nobody_looks_at_lifetimes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending_unit, "check_lifetimes", lambda *_: None)


PLANTED = (
    Planted(
        "whoever-sends-is-not-refused",
        edited(
            send,
            "queue.properties.transactional != transactional:\n            raise",
            "queue is None:\n            raise",
        ),
        KINDS + "test_a_send_is_what_the_queue_takes_whatever_its_name",
    ),
    Planted(
        "lists-are-of-no-kind",
        edited(handles, "kind = opened.transactional", "kind = opened.local or None"),
        KINDS + "test_a_send_is_what_the_queue_takes_whatever_its_name",
    ),
    Planted(
        "another-lifetime-is-said-at-the-commit",
        _nobody_looks_at_lifetimes,
        LIFETIMES + "test_another_time_is_refused_and_the_transaction_goes_on",
    ),
    Planted(
        "who-is-blameless-is-counted",
        edited(unit_of_work, "Op.RETURN if blameless else Op.UNLOCK", "Op.UNLOCK"),
        FORGOTTEN + "test_a_limit_of_its_own_is_longer_or_shorter_than_the_setting",
    ),
    Planted(
        "a-limit-ends-with-its-first-transaction",
        edited(
            unit_of_work,
            "_open_or_refuse(step, item.owner, item.then, idle_us)",
            "_open_or_refuse(step, item.owner, item.then, None)",
        ),
        FORGOTTEN + "test_a_limit_of_its_own_is_longer_or_shorter_than_the_setting",
    ),
    Planted(
        "what-time-undoes-is-counted",
        edited(unit_of_work, "undo(step, tx, blameless=True)", "undo(step, tx)"),
        FORGOTTEN + "test_what_was_forgotten_is_rolled_back",
    ),
    Planted(
        "a-breaker-blames",
        edited(loops, "tx._state.blameless = wait_s is not None", "pass"),
        FAILURES + "test_what_fails_for_all_is_counted_against_few",
    ),
    Planted(
        "what-was-given-back-is-not-looked-at",
        edited(
            handlers, "if futures is not None and isinstance(result, futures.Future):", "if False:"
        ),
        FAILURES + "test_what_a_handler_gives_back_says_that_it_has_not_run",
    ),
)
