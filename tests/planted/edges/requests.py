"""Planted mistakes about requests and their replies."""

from __future__ import annotations

from onceq.client import retry
from onceq.client.plans import send
from onceq.model import identity
from tests.planted.planted import Planted, edited

DAEMON = "tests/daemon/test_client_requests.py::"

PLANTED = (
    Planted(
        "any-reply-will-do",
        edited(retry, "pick=PickBy.CORRELATION, value=id.pack(),", ""),
        DAEMON + "test_a_late_reply_confuses_no_later_request",
    ),
    Planted(
        "replies-stay",
        edited(
            retry,
            "yield from do(requests.Remove(replies, 0, reply.lookup_id, reply.lookup_id))",
            "pass",
        ),
        DAEMON + "test_a_request_is_answered_and_nothing_is_left",
    ),
    Planted(
        "new-replies-are-removed-with-old-ones",
        edited(send, "takewhile(", "filter("),
        "tests/unit/client/test_retry_requesting.py::test_only_what_is_old_is_removed",
    ),
    Planted(
        "numbers-are-as-long-as-they-like",
        edited(identity, "not 0 < len(text) <= DIGITS_MAX", "not text"),
        "tests/fuzz/test_odd_texts.py::test_numbers_of_any_length_are_answered",
    ),
)
