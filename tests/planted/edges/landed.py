"""Planted mistakes about audits of landed tables."""

from __future__ import annotations

from onceq.audit import landed, landed_rules
from onceq.history import ends
from onceq.spark.land import reading
from tests.planted.planted import Planted, edited

LANDED = "tests/audit/test_landed.py::test_"

PLANTED = (
    Planted("readers-of-any-queue",
            edited(ends, "read.queue == queue and last <= read.to", "False"),
            LANDED + "the_history_tells_who_has_read"),
    Planted("others-have-read-it-too",
            edited(landed_rules, "(beside.reader == reader))", "(beside.reader < UNTOLD + 9))"),
            LANDED + "rows_of_messages_that_wait_and_bad_rows_are_true"),
    Planted("a-shared-name-is-its-own",
            edited(landed_rules, "reader if table.alone else UNTOLD - 1", "reader"),
            LANDED + "a_name_that_other_landings_have_accuses_nobody"),
    Planted("untold-is-nobody",
            edited(landed, "np.full(file.metadata.num_rows, UNTOLD, np.int64)",
                   "np.full(file.metadata.num_rows, ABSENT, np.int64)"),
            LANDED + "without_readers_in_the_history_nobody_is_accused"),
    Planted("behind-the-end-is-nowhere",
            edited(landed_rules, "return np.asarray(rows.here & (rows.lookup > newest",
                   "return np.asarray(~rows.here & (rows.lookup > newest"),
            LANDED + "what_the_history_does_not_reach_is_a_note"),
    Planted("acknowledgments-come-from-nowhere",
            edited(landed_rules, "(acks | ~others)", "acks"),
            LANDED + "acknowledgments_that_the_manager_has_made_are_not_accused"),
    Planted("any-queue-is-the-tables",
            edited(landed_rules, "elsewhere |= ~named & rows.here", "named &= rows.here"),
            LANDED + "a_row_of_another_queue_that_is_true_there_is_elsewhere"),
    Planted("missing-rows-have-no-number",
            edited(landed_rules, "max(table.committed - different - len(lost), 0)", "0"),
            LANDED + "rows_that_the_landing_counts_and_nobody_can_name_are_missing"),
    Planted("bad-rows-are-no-rows",
            edited(reading, "iter(()) if bad is None", "iter(()) if bad is not None"),
            LANDED + "rows_of_messages_that_wait_and_bad_rows_are_true"),
    Planted("two-ways-are-one-row",
            edited(landed_rules, "(rank >= came) & beside.whole", "(rank >= 1) & beside.whole"),
            LANDED + "a_send_by_two_names_has_two_rows"),
)  # fmt: skip
