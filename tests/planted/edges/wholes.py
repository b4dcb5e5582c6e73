"""Planted mistakes where whole transactions, pauses and poison policies meet other capabilities."""

from __future__ import annotations

from onceq.client.plans import selection, unit_of_work
from onceq.core import send
from onceq.core.management import jobs
from onceq.core.receive import entrance, poison, receive
from onceq.core.state import queue_tables
from onceq.packet import survey
from onceq.service import jobs as service_jobs
from tests.planted.planted import Planted, edited

CASES = "tests/conformance/test_wholes.py::test_"
WHOLE = "tests/property/test_whole.py::test_what_is_complete_is_one_transaction_and_all_of_it"
JOBS = "tests/unit/service/test_jobs_transactions.py::test_"
TORN = f"{JOBS}what_it_tears_is_told_and_is_never_complete"
PAUSED = "tests/unit/core/receive/test_entrance.py::test_a_pause_keeps_what_works_and_not_who_names"
ASIDE = (
    "tests/conformance/test_group_6_transactions.py::"
    "test_case_123_what_is_set_aside_for_people_stays"
)

PLANTED = (
    Planted(
        "what-is-sent-here-says-its-message-number-alone",
        edited(send, "(message - before - 1) & 0xFFFF_FFFF", "0"),
        f"{CASES}messages_to_other_queues_between_them_do_not_count",
    ),
    Planted(
        "a-second-batch-begins-to-count-anew",
        edited(send, "counts[number] = before + len(p.item.bodies)", "counts[number] = before"),
        f"{CASES}a_transaction_with_a_delayed_member_is_whole_when_that_has_come",
    ),
    Planted(
        "packets-of-a-prepare-are-those-of-the-first",
        edited(
            send, "packets, _ = part.packets(transaction)",
            "part.here = (0, 0)\n        packets, _ = part.packets(transaction)",
        ),
        f"{CASES}a_restart_forgets_nothing_of_it",
    ),
    Planted(
        "a-run-goes-on-behind-a-last-message",
        edited(survey, "left is not None and not left.ends", "left is not None"),
        "tests/property/test_whole.py::test_a_part_behind_the_last_message_is_none_of_it",
    ),
    Planted(
        "a-hole-between-marks-does-not-count",
        edited(survey, "(key, rank - 1)", "(key, rank - 2)"),
        WHOLE,
    ),
    Planted(
        "message-numbers-prove-what-has-a-hole",
        edited(survey, "head.message, member)", "head.ordinal, member)"),
        "tests/property/test_whole.py::"
        "test_a_transaction_of_which_a_part_came_in_another_stream_is_found_by_message_numbers",
    ),
    Planted(
        "a-whole-transaction-comes-in-the-order-of-its-places",
        edited(
            unit_of_work, "_in_order(parts, members.lookups)",
            "_in_order(parts, sorted(members.lookups))",
        ),
        f"{CASES}a_transaction_of_which_a_member_is_tried_again_is_whole",
    ),
    Planted(
        "a-job-sends-each-message-alone",
        edited(jobs, "for part in [some] if whole else", "for part in [] if whole else"),
        f"{JOBS}whole_ones_stay_whole_wherever_a_page_ends",
    ),
    Planted(
        "what-a-job-tears-is-marked-as-whole",
        edited(jobs, "apart = deed.apart or bool(together and not whole)", "apart = False"),
        TORN,
    ),
    Planted(
        "a-batch-ends-in-the-middle-of-a-transaction",
        edited(
            service_jobs, "ends[index] = max(ends[index], end)", "ends[index] = ends[index]"
        ),
        f"{JOBS}whole_ones_stay_whole_wherever_a_page_ends",
    ),
    Planted(
        "letters-of-several-queues-are-one-transaction",
        edited(service_jobs, 'return "" if self._order.to else message.destination', 'return ""'),
        f"{JOBS}letters_that_are_mixed_go_home_as_they_came",
    ),
    Planted(
        "a-whole-receive-asks-about-no-pause",
        edited(entrance, "if reason is Why.WORK and is_paused(queue):", "if False:"),
        PAUSED,
    ),
    Planted(
        "what-a-search-has-found-counts-as-named",
        edited(entrance, "not (item.hold or item.pick)", "not item.hold"),
        PAUSED,
    ),
    Planted(
        "a-seek-asks-about-no-pause",
        edited(
            receive,
            "raise nothing(item, queue)\n    found = find_place", "pass\n    found = find_place",
        ),
        PAUSED,
    ),
    Planted(
        "a-search-does-not-say-what-it-takes-for",
        edited(selection, "pick=wanted.pick, value=wanted.value, hold=hold", "hold=hold"),
        "tests/conformance/test_paused.py::"
        "test_what_a_search_or_a_whole_receive_has_found_waits",
    ),
    Planted(
        "what-is-set-aside-expires",
        edited(
            queue_tables, "NEVER_S if move.reason == SET_ASIDE else lane.expires(counter)",
            "lane.expires(counter)",
        ),
        ASIDE,
    ),
    Planted(
        "what-waits-for-its-next-attempt-expires",
        edited(poison, "is not sub or not waits(queue)", "is not sub or True"),
        ASIDE,
    ),
)  # fmt: skip
