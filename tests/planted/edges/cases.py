"""Mistakes that the conformance cases let through until they were tested word by word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core import send
from onceq.core.ending import ending
from onceq.core.receive import entrance, receive, receive_exact
from onceq.core.state.queues import Queue
from onceq.core.step import step as step_module
from onceq.core.transaction import unit_of_work
from onceq.core.transfer import arrival, outgoing_queue
from onceq.model.marks import NEVER_S
from onceq.model.requests import Access, OpenQueue, Receive, Share
from onceq.wire.srmp import envelope
from tests.planted.planted import Planted, edited

CASES = "tests/conformance/"


def _transactions_have_one_number(patch: pytest.MonkeyPatch) -> None:
    """The identifier of a transaction is the same in all its messages, and in all others."""
    patch.setattr(send, "TRANSACTION_NUMBERS", 1)


def _sharing_is_among_ones_own(patch: pytest.MonkeyPatch) -> None:
    """Who has a queue for himself keeps himself out, and nobody else."""
    before = entrance._open_to_receive

    def opened(step: Any, item: OpenQueue) -> Any:
        if all(held.owner == item.owner for held in step.readers.handles.values()):
            return before(step, item)
        return before(step, replace(item, access=Access.PEEK, share=Share.DENY_NONE))

    patch.setattr(entrance, "_open_to_receive", opened)


def _what_is_named_may_be_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A transaction refuses to peek in order, and shows what is asked for by its identifier."""
    before = receive._checked

    def checked(step: Any, item: Receive) -> Any:
        if item.peek and item.lookup:
            item = replace(item, transaction=0)
        return before(step, item)

    patch.setattr(receive, "_checked", checked)


def _refused_sends_leave_their_lifetimes(patch: pytest.MonkeyPatch) -> None:
    """The lifetimes of a transaction are those of its first send, whether it went well or not."""
    before = send.check_all_sends

    def check_all_sends(step: Any, items: Any, tx: Any, by: Any) -> Any:
        try:
            return before(step, items, tx, by)
        finally:
            if tx is not None and tx.lifetimes is None:
                p = items[0].properties
                tx.lifetimes = (p.time_to_reach_queue, p.time_to_be_received)

    patch.setattr(unit_of_work, "check_all_sends", check_all_sends)


def _order_of_asked_priorities(patch: pytest.MonkeyPatch) -> None:
    """The messages of a send show priority 0, and the highest that was asked for goes first."""
    before = send.in_order

    def in_order(sends: Any, message: int) -> Any:
        by_priority = sorted(sends, key=lambda p: -(p.item.properties.priority or 0))
        return before(by_priority, message)

    patch.setattr(send, "in_order", in_order)


def _progress_waits_as_before(patch: pytest.MonkeyPatch) -> None:
    """After an acknowledgment the table begins anew, and the wait that runs goes on."""
    before = outgoing_queue.order_acked

    def order_acked(step: Any, ack: Any) -> None:
        queue = step.state.streams.get(ack.stream)
        due_us = queue.pace.due_us if queue is not None else 0
        before(step, ack)
        if queue is not None and queue.pace.due_us:
            queue.pace.due_us = due_us

    patch.setattr(arrival, "order_acked", order_acked)


def _doomed_keeps_what_it_received(patch: pytest.MonkeyPatch) -> None:
    """A transaction of which a send was refused sends nothing, and gives nothing back."""
    before = unit_of_work.undo

    def undo(step: Any, tx: Any) -> None:
        if tx.doomed is not None:
            tx.receives.clear()
        before(step, tx)

    patch.setattr(unit_of_work, "undo", undo)


def _rejections_are_not_told(patch: pytest.MonkeyPatch) -> None:
    """A rejected message becomes a dead letter, and whoever asked for acknowledgments waits."""
    edited(
        ending,
        "    if fate.told is When.ASKED and w is not None and",
        "    if reason != MessageClass.NACK_RECEIVE_REJECTED and fate.told is When.ASKED and w and",
    )(patch)


def _one_close_is_enough(patch: pytest.MonkeyPatch) -> None:
    """An empty subqueue goes when the first of those who have it open closes it."""
    before = entrance.close_handle

    def close_handle(step: Any, number: int) -> None:
        queue = step.state.all_queues.get(step.readers.handles[number].queue)
        before(step, number)
        if isinstance(queue, Queue) and queue.parent is not None:
            queue.handles.clear()

    patch.setattr(entrance, "close_handle", close_handle)


def _lifetimes_end_early(patch: pytest.MonkeyPatch) -> None:
    """What has a lifetime of ten seconds expires after seven."""
    before = send._deadline

    def deadline(sent_s: int, lifetime_s: int) -> int:
        return before(sent_s, max(lifetime_s - 3, 0) if lifetime_s < NEVER_S - 1 else lifetime_s)

    patch.setattr(send, "_deadline", deadline)


def _a_stream_says_once_where_it_starts(patch: pytest.MonkeyPatch) -> None:
    """Over HTTP the first message of a stream that is sent again does not say where receipts go."""
    before, said = envelope._stream, set()

    def stream(value: Any) -> Any:
        if value is not None and value in said:
            return before(replace(value, receipts_to=""))
        said.add(value)
        return before(value)

    patch.setattr(envelope, "_stream", stream)


def _quotas_lack_a_byte(patch: pytest.MonkeyPatch) -> None:
    """A queue that a message from here would fill to its last byte counts as full."""
    before = step_module.Step.holding
    patch.setattr(step_module.Step, "holding", lambda self, queue: before(self, queue) + 1)


def _moves_pass_by_who_is_alone(patch: pytest.MonkeyPatch) -> None:
    """Who has a queue for himself keeps receivers out, and has its messages moved away."""
    patch.setattr(receive_exact, "check_taking", lambda *args, **more: None)


PLANTED = (
    Planted("transactions-have-one-number", _transactions_have_one_number,
            CASES + "test_group_1.py::test_case_021_first_and_last_per_destination"),
    Planted("sharing-among-ones-own", _sharing_is_among_ones_own,
            CASES + "test_group_2_open.py::test_case_038_the_whole_table"),
    Planted("peeks-by-identifier-in-a-transaction", _what_is_named_may_be_looked_at,
            CASES + "test_group_2_receive.py::test_case_029_peek_in_a_transaction"),
    Planted("refused-sends-leave-lifetimes", _refused_sends_leave_their_lifetimes,
            CASES + "test_group_1.py"
            "::test_case_024_too_large_message_leaves_the_transaction_usable"),
    Planted("order-of-asked-priorities", _order_of_asked_priorities,
            CASES + "test_group_1.py::test_case_019_priority_of_transactional_messages_is_zero"),
    Planted("progress-waits-as-before", _progress_waits_as_before,
            CASES + "test_group_3_pace.py::test_case_060_progress_resets_the_interval"),
    Planted("doomed-keeps-what-it-received", _doomed_keeps_what_it_received,
            CASES + "test_group_4.py::test_case_071_one_that_cannot_take_it_stops_all"),
    Planted("rejections-are-not-told", _rejections_are_not_told,
            CASES + "test_group_6.py::test_case_103_the_sender_elsewhere_gets_it_back"),
    Planted("one-close-is-enough", _one_close_is_enough,
            CASES + "test_group_6.py::test_case_109_subqueues_come_and_go"),
    Planted("lifetimes-end-early", _lifetimes_end_early,
            CASES + "test_group_5.py::test_case_096_the_time_to_reach_the_queue_is_over"),
    Planted("a-stream-says-once-where-it-starts", _a_stream_says_once_where_it_starts,
            CASES + "test_group_7_http.py"
            "::test_case_117_behind_a_gateway_without_a_mapping_receipts_do_not_come"),
    Planted("quotas-lack-a-byte", _quotas_lack_a_byte,
            CASES + "test_group_5_quotas.py::test_case_097_the_last_byte_of_a_quota_may_be_used"),
    Planted("moves-pass-by-who-is-alone", _moves_pass_by_who_is_alone,
            CASES + "test_group_6.py::test_case_108_what_cannot_be_moved"),
)  # fmt: skip
