"""Mistakes at the edge between applications and their queue manager."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from onceq import errors
from onceq.cli import terminal
from onceq.client import async_link, loops, ordered, retry
from onceq.client.async_link import AsyncLink
from onceq.client.plans import handles, sending_unit
from onceq.client.plans import unit_of_work as client_unit
from onceq.client.plans.sending_unit import PipelinedReceive
from onceq.client.socket_link import SocketLink
from onceq.client.threads import consuming
from onceq.client.threads.transaction import Transaction
from onceq.core import send
from onceq.core.transaction import unit_of_work
from onceq.packet import survey
from onceq.packet.survey import MessageOrigin
from onceq.partners.procedures import Calls, call, drive
from tests.planted.planted import SIM, Planted, edited

AHEAD = "tests/unit/client/plans/test_sending_unit_next.py::"
LOOPS = "tests/property/test_consuming.py::test_nothing_is_lost_and_nothing_comes_twice_unsaid"


def _nothing_dooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "dooms", lambda error: False)


def _only_quotas_doom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage and directory are forgotten, in the manager and in the client."""

    def dooms(error: errors.OnceqError) -> bool:
        return isinstance(error, errors.InsufficientResources)

    monkeypatch.setattr(send, "dooms", dooms)
    monkeypatch.setattr(client_unit, "dooms", dooms)
    monkeypatch.setattr(sending_unit, "dooms", dooms)


def _last_sends_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a commit brings along and is refused is left out, and the rest is committed."""
    from onceq.core.send import check_all_sends

    def last_sends(step, item, tx):  # type: ignore[no-untyped-def]
        try:
            return check_all_sends(step, item.items, tx, "")
        except errors.Refused:
            return []

    monkeypatch.setattr(unit_of_work, "last_sends", last_sends)


def _streams_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a sender's transaction has no stream."""
    unpack = MessageOrigin.unpack

    def without(raw: Any) -> MessageOrigin:
        head = unpack(raw)
        return replace(head, stream=0)

    monkeypatch.setattr(survey, "MessageOrigin", SimpleNamespace(unpack=without))


def _loops_commit_what_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is left commits in place of giving back."""

    def leave(tx: Any) -> Calls[None]:
        if not tx._state.over:
            yield tx.commit

    monkeypatch.setattr(loops, "leave", leave)
    monkeypatch.setattr(Transaction, "_leave", lambda tx: drive(leave(tx)))


def _loops_take_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop takes its message as it did before: outside of its transaction."""

    def take(tx: Any, course: loops.ConsumerLoop) -> Calls[Any]:
        receive, left_s = tx._manager.receive_many, course.slice_s()
        try:
            return (yield from call(receive, course.queue, course.batch, timeout=left_s))
        except errors.ReceiveTimeout:
            return None if course.nothing_came() else loops.NOTHING

    monkeypatch.setattr(loops, "take", take)
    monkeypatch.setattr(consuming, "take", take)


def _doubts_are_believed_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """What became of a commit whose answer was lost is not looked at."""

    def settle(*_: object) -> Calls[None]:
        yield from ()

    monkeypatch.setattr(loops, "settle", settle)


def _what_happened_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction whose commit has happened is repeated after an error that comes later."""
    monkeypatch.setattr(
        retry, "safe", lambda tx, error, also=(): isinstance(error, (errors.Retryable, *also))
    )


def _key_order_forgets_who_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers have messages of one key."""

    def next_place(self: ordered.KeyOrder) -> int | None:
        for place, key in self._keys.items():
            if place not in self._busy:
                self._busy[place] = key
                return place
        return None

    monkeypatch.setattr(ordered.KeyOrder, "next", next_place)


def _pipes_take_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in a pipe counts as read."""
    monkeypatch.setattr(terminal.Drain, "_unread", lambda self: 0)


def _stops_without_a_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client hears of the end of its connection only, also in this process."""
    monkeypatch.setattr(
        SocketLink,
        "_take_farewell",
        lambda self, error: self._lose(f"the manager ended it: {error}"),
    )


def _tasks_do_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection of tasks is used without a look whether it lives."""

    async def look(self: AsyncLink) -> bool:
        return self._lost is None

    monkeypatch.setattr(AsyncLink, "check_alive", look)


def _lost_handles_are_usage_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    edited(handles, "raise errors.HandleLost(", "raise errors.InvalidHandle(")(monkeypatch)


def _the_next_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gives up a commit forgets what went out with it."""
    monkeypatch.setattr(PipelinedReceive, "give_up", lambda ahead: iter(()))


PLANTED = (
    Planted(
        "the-next-begins-in-any-case",
        edited(
            unit_of_work,
            "check_free(step, item.owner, item.then)\n",
            "open_unit(step, item.owner, item.then)\n        item.then = 0\n",
        ),
        "tests/conformance/test_followed.py::"
        "test_after_a_send_that_is_wrong_in_itself_nothing_begins",
    ),
    Planted(
        "the-next-is-left-open",
        _the_next_is_left_open,
        AHEAD + "test_a_commit_that_is_given_up_ends_the_next",
    ),
    Planted(
        "queues-here-are-taken-for-others",
        edited(handles, "if place and not opened.local:", "if place:"),
        "tests/unit/client/plans/test_unit_of_work.py::"
        "test_the_manager_is_asked_whatever_else_a_name_is",
    ),
    Planted("a-refused-send-dooms-nothing", _nothing_dooms, SIM),
    Planted(
        "the-reserve-dooms-nothing",
        _only_quotas_doom,
        "tests/conformance/test_group_4.py::test_a_send_refused_for_the_disk_dooms_its_transaction",
    ),
    Planted(
        "a-refused-last-send-is-left-out",
        _last_sends_are_left_out,
        "tests/daemon/test_client_api.py::test_a_send_that_was_refused_dooms_its_transaction",
    ),
    Planted(
        "transactions-of-two-streams-are-one",
        _streams_are_one,
        "tests/property/test_whole.py::test_what_is_complete_is_one_transaction_and_all_of_it",
    ),
    Planted(
        "a-farewell-is-not-understood",
        _stops_without_a_farewell,
        "tests/unit/client/test_socket_link.py::"
        "test_a_farewell_says_that_what_was_not_answered_has_not_happened",
    ),
    Planted(
        "tasks-take-a-wrong-port-for-one-that-is-away",
        edited(async_link, "        self._ungreeted(None)\n", ""),
        "tests/unit/client/test_socket_link.py::"
        "test_the_port_of_queue_managers_is_not_that_of_applications",
    ),
    Planted(
        "tasks-do-not-look",
        _tasks_do_not_look,
        "tests/unit/client/test_async_link.py::test_a_look_notices_that_the_other_side_has_gone",
    ),
    Planted(
        "lost-handles-are-usage-errors",
        _lost_handles_are_usage_errors,
        "tests/daemon/test_client_away.py::test_both_faces_see_the_same",
    ),
    Planted("loops-commit-what-is-at-hand", _loops_commit_what_is_at_hand, LOOPS),
    Planted("loops-take-for-good", _loops_take_for_good, LOOPS),
    Planted("doubts-are-believed-done", _doubts_are_believed_done, LOOPS),
    Planted(
        "what-happened-is-done-again",
        _what_happened_is_done_again,
        "tests/unit/client/test_retry.py::test_work_may_end_its_transaction_by_itself",
    ),
    Planted(
        "key-order-forgets-who-is-at-work",
        _key_order_forgets_who_is_at_work,
        "tests/unit/client/test_ordered_keys.py::test_any_interleaving_keeps_the_order_of_each_key",
    ),
    Planted(
        "pipes-take-all",
        _pipes_take_all,
        "tests/unit/cli/test_terminal_draining.py::test_what_is_not_read_is_waited_for",
    ),
)
