"""Mistakes about the sink of Spark: what is a repetition, and where rows go."""

from __future__ import annotations

from onceq.core.transaction import groups
from onceq.spark import sink_digest, sink_targets
from tests.planted.planted import Planted, edited, replaced

GROUPS = "tests/conformance/test_groups.py::test_"
UNIT = "tests/unit/spark/"


PLANTED = (
    Planted(
        "another-write-is-a-repetition", replaced(groups, "_same", lambda known, item: None),
        GROUPS + "what_was_committed_as_another_is_no_repetition",
    ),
    Planted(
        "columns-in-any-order-are-other-rows",
        edited(sink_digest, "sorted((name, index) for", "list((name, index) for"),
        UNIT + "test_sink_digest.py::test_columns_are_known_by_name",
    ),
    Planted(
        "addresses-are-computers",
        edited(sink_targets, "if not _ADDRESS.match(name) and _possible(name):", "if True:"),
        UNIT + "test_sink_targets.py::"
        "test_0_8_an_address_for_a_computer_is_refused_before_it_waits_for_days",
    ),
)  # fmt: skip
