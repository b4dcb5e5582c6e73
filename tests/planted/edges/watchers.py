"""Mistakes about metrics, health and those who look at them."""

from __future__ import annotations

from onceq import metrics_pages
from onceq.core.management import metrics
from onceq.model import identification
from onceq.service import daemon, http
from tests.planted.planted import Planted, edited

WATCHING = "tests/unit/service/test_http_watching.py"
METRICS = "tests/unit/core/management/test_metrics.py"

PLANTED = (
    Planted(
        "metrics-for-whoever-asks",
        edited(
            http,
            "        if isinstance(result, OnceqError):\n            self._denied",
            "        if False:\n            self._denied",
        ),
        f"{WATCHING}::test_whoever_may_not_look_hears_why_not",
    ),
    Planted(
        "metrics-for-nobody",
        edited(http, "elif who == NOBODY and not", "elif who != NOBODY and not"),
        f"{WATCHING}::test_nobody_does_not_come_as_far_as_the_core",
    ),
    Planted(
        "a-page-for-each-who-asks",
        edited(metrics_pages, "if made is None or (", "if True or ("),
        f"{WATCHING}::test_many_who_ask_at_once_get_one_view",
    ),
    Planted(
        "metrics-in-plain-words-to-anybody",
        edited(
            identification, "return address in house.plain or is_loopback(address)", "return True"
        ),
        f"{WATCHING}::test_from_elsewhere_it_is_tls_and_a_token",
    ),
    Planted(
        "ready-although-full",
        edited(http, "    if engine.low:\n", "    if False:\n"),
        "tests/unit/service/test_http_health.py::test_what_makes_it_unready",
    ),
    Planted(
        "alive-although-it-hangs",
        edited(daemon, "if turns != self._seen or self._idle():", "if True:"),
        "tests/unit/service/test_daemon_supervisor.py"
        "::test_a_loop_that_works_is_alive_and_one_that_hangs_is_not",
    ),
    Planted(
        "metrics-in-one-long-step",
        edited(
            metrics,
            "            walk.see(step, queue)\n        if not at % QUEUES_MEASURED_AT_ONCE:\n",
            "            walk.see(step, queue)\n        if False:\n",
        ),
        f"{METRICS}::test_many_queues_are_seen_in_several_steps",
    ),
    Planted(
        "metrics-without-end",
        edited(metrics, "if len(self.rows) < METRICS_QUEUES_MAX:", "if True:"),
        f"{METRICS}::test_of_too_many_queues_those_with_the_oldest_messages_are_told_of",
    ),
    Planted(
        "metrics-under-any-name",
        edited(http, "if host and not tls and not", "if False and not"),
        f"{WATCHING}::test_a_name_that_was_made_to_lead_here_is_answered_nothing",
    ),
    Planted(
        "metrics-for-pages-of-other-sites",
        edited(http, "if origin and urlsplit(origin)", "if False and urlsplit(origin)"),
        f"{WATCHING}::test_a_page_of_another_site_is_answered_nothing",
    ),
)
