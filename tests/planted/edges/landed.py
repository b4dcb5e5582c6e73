"""Planted mistakes about audits of landed tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.audit import landed
from onceq.audit.engine import blocks
from onceq.history import projector
from onceq.spark.land import reading
from tests.planted.planted import Planted, edited

LANDED = "tests/audit/test_landed.py::test_"


def table(old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A mistake in the text of ``landed.sql``."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        def changed(name: str, *, settled: bool) -> dict[str, str]:
            queries = blocks(name, settled=settled)
            assert any(old in query for query in queries.values()), old
            return {table: query.replace(old, new) for table, query in queries.items()}

        patch.setattr(landed, "blocks", changed)

    return plant


PLANTED = (
    Planted("readers-of-any-queue",
            edited(projector, "read.queue == queue and last <= read.to", "False"),
            LANDED + "the_history_tells_who_has_read"),
    Planted("others-have-read-it-too",
            table("JOIN landing g ON g.reader = e.reader AND g.alone", "CROSS JOIN landing g"),
            LANDED + "rows_of_messages_that_wait_and_bad_rows_are_true"),
    Planted("a-shared-name-is-its-own", table(" AND g.alone", ""),
            LANDED + "a_name_that_other_landings_have_accuses_nobody"),
    Planted("untold-is-nobody", table("NOT e.reader_told", "e.reader IS NULL AND e.reader_told"),
            LANDED + "without_readers_in_the_history_nobody_is_accused"),
    Planted("behind-the-end-is-nowhere",
            table("coalesce(r.lookup > n.newest, true)", "false"),
            LANDED + "what_the_history_does_not_reach_is_a_note"),
    Planted("acknowledgments-come-from-nowhere",
            table("(coalesce(o.acks, false) OR NOT coalesce(o.others, false))",
                  "coalesce(o.acks, false)"),
            LANDED + "acknowledgments_that_the_manager_has_made_are_not_accused"),
    Planted("any-queue-is-the-tables", table("l.queue IS NOT NULL AS planned", "true AS planned"),
            LANDED + "a_row_of_another_queue_that_is_true_there_is_elsewhere"),
    Planted("missing-rows-have-no-number",
            edited(landed, "missing = max(table.committed - (len(rows.table) - "
                           'counts["twice"]) - counts["lost"], 0)', "missing = 0"),
            LANDED + "rows_that_the_landing_counts_and_nobody_can_name_are_missing"),
    Planted("bad-rows-are-no-rows",
            edited(reading, "iter(()) if bad is None", "iter(()) if bad is not None"),
            LANDED + "rows_of_messages_that_wait_and_bad_rows_are_true"),
    Planted("two-ways-are-one-row", table("coalesce(m.came, 0) AS came", "1 AS came"),
            LANDED + "a_send_by_two_names_has_two_rows"),
)  # fmt: skip
