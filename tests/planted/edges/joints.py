"""Mistakes where two capabilities meet: names and doubts, a directory and what waits."""

from __future__ import annotations

from onceq.core import manager
from onceq.core import names as resolve
from onceq.core.ending import acknowledgments
from onceq.core.management import directory_rules, jobs
from onceq.core.peers import trust
from onceq.core.state import in_doubt_table, state
from onceq.core.transfer import abandoned_streams, arrival, in_doubt, outgoing_queue, sessions
from tests.planted.planted import Planted, edited, replaced

MOVED = "tests/conformance/test_moved.py::test_"

REFUSED = "tests/conformance/test_refused_again.py::test_"
AWAY = "tests/conformance/test_directory_away.py::test_"
CIRCLES = "tests/conformance/test_group_5_lifetimes.py::test_what_goes_in_circles_the_second_time"

LATE = "tests/conformance/test_refused_late.py::test_"

PLANTED = (
    Planted(
        "a-refusal-of-a-message-that-is-gone-is-nothing",
        replaced(arrival, "refused_late", lambda step, peer, ack: None),
        LATE + "it_is_counted_and_named",
    ),
    Planted(
        "a-refusal-that-comes-again-counts-again",
        replaced(arrival, "taken_before", lambda step, ack: False),
        LATE + "told_twice_it_counts_once",
    ),
    Planted(
        "many-identifiers-push-refusals-out",
        edited(
            state, "known.popitem(last=False)", "known.popitem(last=False) and self.refused.clear()"
        ),
        LATE + "many_others_do_not_make_it_forgotten",
    ),
    Planted(
        "many-refusals-push-identifiers-out",
        edited(
            state,
            "self.refused.popitem(last=False)",
            "self.refused.popitem(last=False) and self.seen.clear()",
        ),
        LATE + "many_refusals_do_not_make_identifiers_forgotten",
    ),
    Planted(
        "a-refusal-that-was-in-time-is-not-remembered",
        replaced(outgoing_queue, "note_taken", lambda build, ack: None),
        LATE + "told_twice_it_counts_once",
    ),
    Planted(
        "where-a-drained-stream-led-is-forgotten",
        edited(outgoing_queue, " or state.all_queues.get(state.drained.get(stream, 0))", ""),
        LATE + "its_stream_may_be_over_by_then",
    ),
    Planted(
        "a-refused-repetition-never-arrived",
        replaced(arrival, "refused_later", lambda step, peer, ack: False),
        REFUSED + "a_refused_repetition_is_in_doubt",
    ),
    Planted(
        "a-refused-plain-repetition-never-arrived",
        edited(sessions, "queue.left_before(index, at)", "False"),
        REFUSED + "a_plain_message_whose_answer_was_lost",
    ),
    Planted(
        "what-was-handed-over-has-been-posted",
        edited(outgoing_queue, "left = peer.answered + under_way", "left = peer.messages"),
        REFUSED + "what_is_refused_the_first_time_is_not_delivered",
    ),
    Planted(
        "a-repetition-by-an-address-that-is-gone-is-refused",
        edited(arrival, "if run.onward and run.kind == USER and ", "if False and "),
        REFUSED + "a_repetition_is_known_whatever_its_address_leads_to",
    ),
    Planted(
        "a-router-knows-what-became-of-a-message-before",
        edited(trust, "if not answered and (", "if not answered or ("),
        CIRCLES + "_may_have_arrived_the_first",
    ),
    Planted(
        "what-is-put-for-a-queue-that-has-left-waits",
        edited(manager, "directory_rules.go_on(step, queue)",
               "outgoing_queue.start_if_possible(step, queue)"),
        AWAY + "what_is_committed_after_its_queue_has_left_ends_at_once",
    ),
    Planted(
        "messages-to-a-direct-name-end-with-the-public-one",
        edited(directory_rules, " and direct_name_of(outgoing) is None", ""),
        AWAY + "what_was_sent_to_a_direct_name_does_not_end_with_the_public_one",
    ),
    Planted(
        "a-direct-name-needs-the-directory",
        edited(resolve, "    if direct is not None:\n", "    if False:\n"),
        AWAY + "a_direct_name_needs_no_directory_whatever_else_its_queue_was_called",
    ),
    Planted(
        "nobody-is-asked-where-a-queue-has-left",
        edited(resolve, "guid = step.state.bindings.guid_of(outgoing.bound_name)", 'guid = b""'),
        AWAY + "a_computer_is_asked_for_what_it_has_although_its_queue_has_left",
    ),
    Planted(
        "acknowledgments-are-dropped-while-the-directory-is-away",
        edited(acknowledgments, "        except NoDirectory:\n            raise\n", ""),
        AWAY + "acknowledgments_wait_for_the_directory",
    ),
    Planted(
        "nobody-makes-the-acknowledgments-that-have-waited",
        edited(directory_rules, "    step.touched[ACKS_OWED] = None\n", ""),
        AWAY + "acknowledgments_wait_for_the_directory",
    ),
    Planted(
        "acknowledgments-wait-for-the-directory-for-ever",
        edited(state, "index == DEFERRED_LANE", "index == -1"),
        AWAY + "acknowledgments_do_not_wait_for_ever",
    ),
    Planted(
        "a-public-queue-of-this-computer-needs-the-directory",
        edited(resolve, "name.kind is Kind.PUBLIC and not is_local(step, name)",
               "name.kind is Kind.PUBLIC"),
        AWAY + "a_public_queue_of_this_computer_needs_no_directory",
    ),
    Planted(
        "a-job-fails-letters-while-the-directory-is-away",
        edited(jobs, "except (errors.StorageReserve, errors.NoDirectory):",
               "except errors.StorageReserve:"),
        "tests/unit/core/management/test_jobs.py::"
        "test_a_job_waits_while_the_directory_is_away_that_a_destination_needs",
    ),
    Planted(
        "whoever-has-the-name-settles-doubts",
        edited(state, "place + at, arrived, flags, given)", "place + at, arrived, flags)"),
        MOVED + "the_next_one_under_a_name_settles_nothing",
    ),
    Planted(
        "what-the-next-manager-never-got-was-never-delivered",
        edited(abandoned_streams, "len(holders(outgoing, now, counter)) > 1", "False"),
        MOVED + "what_the_next_one_never_got_of_a_stream_that_was_left",
    ),
    Planted(
        "one-of-two-managers-settles-doubts",
        edited(in_doubt, "(copies or len(doubt.given) > 1)", "copies"),
        MOVED + "what_two_managers_were_given_is_settled_by_its_end_alone",
    ),
    Planted(
        "what-was-set-back-never-came",
        edited(
            in_doubt_table,
            "        self._forgot(progress.source, progress.key, progress.stream)\n", "",
        ),
        MOVED + "a_stream_that_was_set_back_is_not_told_of",
    ),
)  # fmt: skip
