"""Mistakes at the joints between a client and its host: forks, signals, event loops."""

from __future__ import annotations

import pytest

from onceq.client import async_link, loops, socket_link
from onceq.client.async_link import AsyncLink
from onceq.client.link import Session
from onceq.client.plans import unit_of_work
from onceq.client.socket_link import SocketLink
from onceq.client.threads import connected
from onceq.client.threads.transaction import Transaction
from onceq.embedded import host
from onceq.errors import InDoubt
from tests.planted.planted import Planted, edited

BED = "tests/hosts/test_bed.py::test_programs_are_told_what_has_happened"
FORKS = "tests/hosts/test_forks.py::"
CALLS = "tests/hosts/test_calls_in_calls.py::"
LETS_GO = "self._store.descriptors() + "
FINISHED = """\
                yield from finish(self._qm, tx, course, following(), self._wait)
                (course.done if tx._state.decided else course.given_back)(taken)
"""
LOST = """\
                if following() is not None:
                    yield from finish(self._qm, tx, course, following(), self._wait)
                course.done(taken)
"""
"""The handler of the last message before a stop has returned, and nothing is committed."""


def _a_child_shares_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at a fork is left out: parent and child read from one socket."""
    monkeypatch.setattr(SocketLink, "forked", lambda link: None)


def _a_child_has_the_session_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the parent has gathered is sent by both."""
    monkeypatch.setattr(Session, "forked", lambda session: None)


def _calls_in_calls_are_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connected, "is_inside", lambda one, codes: False)


def _a_commit_without_an_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was lost with a queue manager counts as committed."""
    real = Transaction.commit

    def commit(tx: Transaction, *, retaining: bool = False) -> object:
        try:
            return real(tx, retaining=retaining)
        except InDoubt:
            return None

    monkeypatch.setattr(Transaction, "commit", commit)


def _a_unit_that_is_left_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``break`` in a loop counts as the end of its body."""
    real = Transaction._leave

    def leave(tx: Transaction, error: BaseException | None = None) -> None:
        if error is None and tx._state.begun and not tx._state.over:
            tx.commit()
        real(tx, error)

    monkeypatch.setattr(Transaction, "_leave", leave)


def _loops_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncLink, "check_loop", lambda link, leaving=False: None)


PLANTED = (
    Planted("a-child-shares-the-connection", _a_child_shares_the_connection, BED),
    Planted("calls-in-calls-are-not-noticed", _calls_in_calls_are_not_noticed, BED),
    Planted("loops-are-not-compared", _loops_are_not_compared, BED),
    Planted(
        "a-commit-takes-sends-on",
        edited(unit_of_work, "self.over = ENDING  #", 'self.over = ""  #'),
        BED,
    ),
    Planted("a-commit-without-an-answer-is-told", _a_commit_without_an_answer_is_told, BED),
    Planted("a-unit-that-is-left-is-committed", _a_unit_that_is_left_is_committed, BED),
    Planted("what-was-handled-is-lost-at-the-stop", edited(loops, FINISHED, LOST), BED),
    Planted("a-child-keeps-the-store", edited(host, LETS_GO, ""), BED),
    Planted(
        "a-call-goes-on-in-a-child",
        edited(connected, "if self._state.life is not life:", "if False:"),
        FORKS + "test_a_fork_before_a_commit_has_its_connection_leaves_it_to_the_parent",
    ),
    Planted(
        "a-note-is-closed-on-another-connection",
        edited(loops, " and before[1] == on:", ":"),
        "tests/hosts/test_restarts.py::test_a_restart_while_every_message_fails",
    ),
    Planted(
        "a-handler-fails-in-a-child",
        edited(
            loops,
            "except (errors.NotCarriedOut, Unworkable, errors.WrongProcess)",
            "except (errors.NotCarriedOut, Unworkable)",
        ),
        FORKS + "test_a_handler_that_returns_in_a_child_ends_the_loop_there",
    ),
    Planted(
        "a-child-has-the-session-of-its-parent",
        _a_child_has_the_session_of_its_parent,
        FORKS + "test_a_transaction_block_around_a_fork_commits_once",
    ),
    Planted(
        "an-answer-is-forgotten-before-it-is-told",
        edited(
            async_link,
            "place, request, _ = self._waiting.get(number, (None, None, None))",
            "place, request, _ = self._waiting.pop(number, (None, None, None))",
        ),
        "tests/unit/client/test_async_link.py::"
        "test_an_answer_whose_taking_is_interrupted_leaves_nobody_waiting",
    ),
    Planted(
        "an-answer-is-brought-once",
        edited(async_link, "range(TIMES)", "range(1)"),
        "tests/unit/embedded/test_host_link.py::"
        "test_an_answer_whose_handing_over_is_interrupted_is_not_lost",
    ),
    Planted(
        "an-overdue-answer-is-waited-for",
        edited(
            socket_link,
            "                slot.due = request.due(time.monotonic())\n",
            "                slot.due = None\n",
        ),
        "tests/hosts/test_silence.py::test_threads_that_share_a_connection_give_up_each_in_its_"
        "own_time",
    ),
)
