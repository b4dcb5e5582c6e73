"""Mistakes about what the queue manager writes for a sender: acknowledgments, dead letters."""

from __future__ import annotations

from onceq.core import names as resolve
from onceq.core import rights as required_rights
from onceq.core.peers import answer_addresses
from onceq.core.transfer import admission
from onceq.model import addresses
from tests.planted.planted import Planted, edited

DEMANDS = "tests/unit/core/test_rights.py::"
PEERS = "tests/conformance/test_rights.py::"
HOMES = "tests/unit/core/peers/test_answer_addresses_homes.py::"
ADDRESSES = "tests/unit/model/test_addresses.py::"

PLANTED = (
    Planted(
        "acknowledgments-go-anywhere",
        edited(required_rights, "if wanted.admin_queue and wanted.acknowledge:", "if False:"),
        DEMANDS + "test_what_the_queue_manager_writes_for_him_is_judged_as_if_he_sent_it",
    ),
    Planted(
        "dead-letters-go-anywhere",
        edited(required_rights, "if wanted.dead_letter_queue:", "if False:"),
        DEMANDS + "test_what_the_queue_manager_writes_for_him_is_judged_as_if_he_sent_it",
    ),
    Planted(
        "a-queue-that-is-not-written-to-is-judged",
        edited(required_rights, "if wanted.admin_queue and wanted.acknowledge:",
               "if wanted.admin_queue:"),
        DEMANDS + "test_an_administration_queue_that_is_asked_for_nothing_needs_no_right",
    ),
    Planted(
        "acknowledgments-of-others-go-anywhere",
        edited(admission, "if not all(_may_write(step, peer, run, name) for name in asked):",
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
        "a-way-that-an-application-has-opened-is-none-of-answers",
        edited(answer_addresses, "        if not outgoing.answers:\n", "        if False:\n"),
        "tests/unit/core/peers/test_answer_addresses_homes.py::"
        "test_tidying_up_leaves_a_way_of_answers_where_an_application_has_written",
    ),
    Planted(
        "barred-messages-enter",
        edited(admission, "if not may or run.barred:", "if not may:"),
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
    Planted(
        "answers-go-where-they-are-asked",
        edited(admission, "elif asked and not _all_home(step, peer, run, asked):", "elif False:"),
        HOMES + "test_an_answer_goes_to_the_address_that_its_message_came_from",
    ),
    Planted(
        "old-forms-of-addresses-are-names",
        edited(addresses, "_old_form(text) if _OCTETS.fullmatch(text) else", "False or"),
        ADDRESSES + "test_every_spelling_of_loopback_is_one",
    ),
    Planted(
        "whoever-comes-from-loopback-is-here",
        edited(answer_addresses, "known = not is_near(own) or", "known = True or"),
        HOMES + "test_no_answer_goes_to_this_computer_for_who_is_elsewhere",
    ),
    Planted(
        "everything-here-is-everything-elsewhere",
        edited(answer_addresses, "step.state.policy.allows_elsewhere(",
                                                                     "step.state.policy.allows("),
        HOMES + "test_who_may_send_there_is_answered_there",
    ),
    Planted(
        "answers-take-the-connections-of-applications",
        edited(resolve, "(target.queue.homes is not None and not answer)", "False"),
        HOMES + "test_an_application_that_sends_there_may_reach_it_anywhere",
    ),
    Planted(
        "what-nobody-has-judged-goes-anywhere",
        edited(resolve, "and (homes or state.homes_kept)", "and homes"),
        HOMES + "test_what_was_forgotten_is_not_sent",
    ),
)  # fmt: skip
