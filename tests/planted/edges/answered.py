"""Mistakes about what the queue manager writes for a sender: acknowledgments, dead letters."""

from __future__ import annotations

from onceq.core.rights import demands
from onceq.core.transfer import admission
from tests.planted.planted import Planted, edited

DEMANDS = "tests/unit/core/rights/test_demands.py::"
PEERS = "tests/conformance/test_rights.py::"

PLANTED = (
    Planted(
        "acknowledgments-go-anywhere",
        edited(demands, "if wanted.admin_queue and wanted.acknowledge:", "if False:"),
        DEMANDS + "test_what_the_queue_manager_writes_for_him_is_judged_as_if_he_sent_it",
    ),
    Planted(
        "dead-letters-go-anywhere",
        edited(demands, "if wanted.dead_letter_queue:", "if False:"),
        DEMANDS + "test_what_the_queue_manager_writes_for_him_is_judged_as_if_he_sent_it",
    ),
    Planted(
        "a-queue-that-is-not-written-to-is-judged",
        edited(demands, "if wanted.admin_queue and wanted.acknowledge:", "if wanted.admin_queue:"),
        DEMANDS + "test_an_administration_queue_that_is_asked_for_nothing_needs_no_right",
    ),
    Planted(
        "acknowledgments-of-others-go-anywhere",
        edited(admission, "if run.acknowledge and not _may_be_answered(step, peer, run):",
               "if False:"),
        PEERS + "test_acknowledgments_are_written_where_the_sender_may_send",
    ),
    Planted(
        "a-refusal-is-written-where-nobody-may",
        edited(admission, "run = replace(run, acknowledge=0, barred=True)",
               "run = replace(run, barred=True)"),
        PEERS + "test_acknowledgments_are_written_where_the_sender_may_send",
    ),
    Planted(
        "barred-messages-enter",
        edited(admission, "if may and not run.barred:", "if may:"),
        PEERS + "test_outside_transactions_acknowledgments_are_judged_too",
    ),
    Planted(
        "who-may-send-nowhere-hears-that-a-queue-is-gone",
        edited(admission, "else may_deliver_somewhere(step, peer, run.source)", "else True"),
        PEERS + "test_that_a_queue_is_gone_is_told_to_who_names_it_by_its_number",
    ),
    Planted(
        "a-queue-that-is-gone-lacks-a-right",
        edited(admission, "else may_deliver_somewhere(step, peer, run.source)", "else False"),
        PEERS + "test_that_a_queue_is_gone_is_told_to_who_names_it_by_its_number",
    ),
)  # fmt: skip
