"""Mistakes of the console: whoever is let in, what is shown as markup, what a preview changes, and
whom a silent queue manager holds up, whose metrics a collector gets."""

from __future__ import annotations

from onceq.console import app, guard, letters, managers, reading, table
from onceq.core.management import paging, queue_views
from tests.planted.planted import Planted, edited

UNIT = "tests/unit/console/"

VIEWS = "tests/unit/core/management/test_views.py::"

PLANTED = (
    Planted(
        "a-page-of-any-order-is-taken",
        edited(paging, "order_said != name or ", ""),
        VIEWS + "test_a_page_of_one_order_is_no_page_of_another",
    ),
    Planted(
        "slashes-of-destinations-are-not-found",
        edited(queue_views, 'name.replace("/", "\\\\").casefold()', "name.casefold()"),
        VIEWS + "test_a_destination_over_http_is_found_by_a_part_of_its_name",
    ),
    Planted(
        "forms-of-any-session-are-taken",
        edited(guard, "if not session.has_sent(token):",
               "if False:"),
        UNIT + "test_guard.py::test_a_change_needs_the_form_token_of_its_session",
    ),
    Planted(
        "a-console-has-any-name",
        edited(guard, "if host not in self._hosts:", "if False:"),
        UNIT + "test_guard.py::test_a_name_of_somebody_else_is_refused",
    ),
    Planted(
        "pages-of-other-sites-change-things",
        edited(guard, "urlsplit(origin).netloc.casefold() != host", "not origin"),
        UNIT + "test_guard.py::test_another_sites_page_changes_nothing",
    ),
    Planted(
        "the-door-is-everywhere",
        edited(guard, 'if scope["path"].startswith(OPEN):', "if True:"),
        UNIT + "test_guard.py::test_whoever_has_not_signed_in_sees_the_door_alone",
    ),
    Planted(
        "a-body-is-as-long-as-it-says",
        edited(guard, "if len(found) > BODY_BYTES_MAX:", "if False:"),
        UNIT + "test_guard.py::test_what_is_too_large_is_not_read",
    ),
    Planted(
        "a-link-signs-in-again-and-again",
        edited(guard, "self._codes.pop(_digest(secret), None)", "self._codes.get(_digest(secret))"),
        UNIT + "test_guard_keys.py::test_a_code_is_good_once",
    ),
    Planted(
        "what-people-write-is-markup",
        edited(table, "autoescape=True", "autoescape=False"),
        UNIT + "test_table_show.py::test_templates_escape_everything_and_miss_nothing",
    ),
    Planted(
        "everybody-waits-for-a-silent-one",
        edited(managers, "if self._silent and not probe:", "if False:"),
        UNIT + "test_managers.py::test_one_that_says_nothing_is_waited_for_once",
    ),
    Planted(
        "an-impatient-page-ends-what-it-began",
        edited(managers, "done, _ = await asyncio.wait((task,), timeout=ACT_S_MAX)\n",
               "done, _ = await asyncio.wait((task,), timeout=ACT_S_MAX)\n        task.cancel()\n"),
        UNIT + "test_managers.py::test_what_was_begun_is_done_to_its_end",
    ),
    Planted(
        "a-preview-sends-letters-home",
        edited(letters, 'second=given.flag("second"), dry_run=True',
               'second=given.flag("second"), dry_run=False'),
        UNIT + "test_letters.py::test_a_preview_changes_nothing",
    ),
    Planted(
        "an-abort-by-hand-commits",
        edited(reading, 'if told["outcome"] == "commit":', "if True:"),
        UNIT + "test_reading_steering_branches.py::test_a_branch_is_decided_once_and_forgotten",
    ),
    Planted(
        "metrics-of-another-one",
        edited(app, "pages[watched].page(", "next(iter(pages.values())).page("),
        UNIT + "test_app_metrics.py::test_each_has_its_own_pages",
    ),
    Planted(
        "whoever-goes-takes-the-page-along",
        edited(app, "await asyncio.shield(page)", "await page"),
        UNIT + "test_app_metrics.py::test_one_who_goes_does_not_end_it_for_others",
    ),
    Planted(
        "half-requests-stay",
        edited(app, "if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):", "if False:"),
        UNIT + "test_app_serving_connection.py"
        "::test_half_a_second_request_has_a_time_and_waiting_for_one_has_not",
    ),
    Planted(
        "half-requests-fill-the-console",
        edited(app, "if len(waiting) > SILENT_MAX:", "if False:"),
        UNIT + "test_app_serving_connection.py::test_those_that_have_said_nothing_whole_are_few",
    ),
    Planted(
        "live-numbers-after-signing-out",
        edited(app, "ends.append(asyncio.ensure_future(session.over.wait()))", "pass"),
        UNIT + "test_app_live.py::test_they_end_at_once_with_their_session",
    ),
)  # fmt: skip
