"""Mistakes about who works on a queue: what an operator would look for in vain."""

from __future__ import annotations

from onceq.core.management import work_views
from onceq.service import api, peer_transports
from tests.planted.planted import Planted, edited

VIEWS = "tests/unit/core/management/test_work_views_consumer.py::test_"

PLANTED = (
    Planted(
        "whoever-may-see-a-queue-sees-who-works-on-it",
        edited(work_views, "    if not may(step, item.owner, (MONITOR,)):", "    if False:"),
        f"{VIEWS}who_may_see_the_queue_and_no_more_sees_what_is_his_own",
    ),
    Planted(
        "a-branch-is-of-who-was-at-work-in-it",
        edited(
            work_views,
            "step.known_by(one.owner) if one.rests is None else whose(step, one.rests)",
            "step.known_by(one.owner)",
        ),
        f"{VIEWS}a_branch_of_another_is_not_shown_because_one_was_at_work_in_it",
    ),
    Planted(
        "what-a-prepared-branch-holds-is-nobodys",
        edited(work_views, "        elif count:\n", "        elif False:\n"),
        f"{VIEWS}a_prepared_branch_holds_messages_after_its_application_has_gone",
    ),
    Planted(
        "who-waits-comes-before-who-holds",
        edited(
            work_views,
            "0 if one.holds else 1 if one.waiting else 2",
            "0 if one.waiting else 1 if one.holds else 2",
        ),
        f"{VIEWS}holders_come_first_the_oldest_before_the_others",
    ),
    Planted(
        "since-the-last-transaction-and-not-the-oldest",
        edited(
            work_views,
            "if not one.holds or since_s < one.since_s:",
            "if not one.holds or since_s > one.since_s:",
        ),
        f"{VIEWS}who_holds_messages_is_told_with_how_many_and_since_when",
    ),
    Planted(
        "messages-of-other-queues-count",
        edited(work_views, " if held.queue == queue.number)", ")"),
        f"{VIEWS}a_subqueue_has_its_own",
    ),
    Planted(
        "the-account-for-the-process",
        edited(
            peer_transports,
            "return 0 if found is None else found[0]",
            "return 0 if found is None else found[1]",
        ),
        "tests/unit/service/test_peer_transports_identities.py::test_one_that_cannot_be_seen_from_here_is_none",
    ),
    Planted(
        "a-process-that-is-not-known-is-named",
        edited(api, 'if process else "local")', 'if True else "local")'),
        "tests/unit/service/test_api.py"
        "::test_where_an_application_is_says_its_process_if_that_is_known",
    ),
)
