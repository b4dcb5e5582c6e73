"""Mistakes of what audits add up, and of what Spark's parts are given."""

from __future__ import annotations

from onceq.audit import story, sums
from onceq.spark.audit import bundles, parts, rows, survey, tasks
from tests.planted.planted import Planted, edited, replaced

SUMS = "tests/audit/test_sums.py::"
PARTS = "tests/unit/spark/test_audit_parts.py::"
SURVEY = "tests/unit/spark/test_audit_survey.py::"

PLANTED = (
    Planted("parts-share-their-counts",
            edited(sums, "mine[key] = deepcopy(one)", "mine[key] = one"),
            SUMS + "test_any_parts_add_up_to_the_whole"),
    Planted("pieces-of-any-step", edited(sums, "        step *= 2\n", "        step += 1\n"),
            SUMS + "test_pieces_of_time_are_many_but_not_too_many"),
    Planted("a-digit-too-few", replaced(sums, "DIGITS", 2),
            SUMS + "test_percentiles_are_right_to_half_a_per_cent"),
    Planted("percentiles-beyond-the-longest",
            edited(sums, "found.append(min(value, self.most))", "found.append(value)"),
            SUMS + "test_the_longest_is_no_shorter_than_a_percentile"),
    Planted("rows-in-any-order",
            edited(rows, "if not (row[1:] > row[:-1]).all():", "if False:"),
            SURVEY + "test_rows_come_back_in_their_order"),
    Planted("what-is-spoken-of-is-left-out",
            edited(tasks, "self.told[slots(message)]", "~self.told[slots(message)]"),
            PARTS + "test_of_what_nobody_speaks_little_is_looked_at"),
    Planted("a-lane-in-several-parts",
            edited(tasks, 'return numbers(events, "source"), within',
                   'return numbers(events, "source"), numbers(events, "number")'),
            PARTS + "test_the_parts_find_what_the_whole_finds"),
    Planted("the-last-rows-are-not-spread",
            edited(bundles, "    if waiting:\n", "    if not waiting:\n"),
            "tests/unit/spark/test_audit_bundles.py::"
            "test_rows_that_are_equal_are_in_one_part_and_each_is_there_once"),
    Planted("receivers-of-the-own-lane-alone",
            edited(parts, "copies.to[rows] = np.where(there == ABSENT, copies.to[rows], there)",
                   "pass"),
            PARTS + "test_a_receiver_is_known_from_other_lanes_of_its_outgoing_queue"),
    Planted("observed-rows-limit-what-is-known",
            edited(survey, 'pc.and_(pc.equal(source, NOBODY), pc.invert(table["observed"]))',
                   "pc.equal(source, NOBODY)"),
            SURVEY + "test_rows_that_say_no_message_are_counted_as_in_one_process"),
    Planted("large-queues-are-not-counted",
            edited(survey, "                (self.arrivals, COPY_BYTES, "
                   '"messages", "queue"),\n', ""),
            SURVEY + "test_a_stream_that_no_task_can_hold_is_refused_at_once"),
    Planted("stories-without-acknowledgments",
            edited(story, "    near |= _near(about.source, about.message, None, sources, messages, "
                   "None)\n", ""),
            PARTS + "test_stories_are_made_of_few_rows_and_are_those_of_one_process"),
)  # fmt: skip
