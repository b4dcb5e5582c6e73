"""Names of subqueues, as moves and rejections take them."""

from __future__ import annotations

from onceq.client.choosing import subqueue


def test_a_target_that_begins_with_a_semicolon_is_beside_a_subqueue() -> None:
    """Not inside it: a queue has one level of subqueues."""
    assert subqueue("q", ";retry") == "q;retry"
    assert subqueue("q;retry", ";poison") == "q;poison"
    assert subqueue("q;retry", "") == "q"
    assert subqueue("q;retry", "other") == "other"
