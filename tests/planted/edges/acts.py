"""Mistakes of the trail: acts that are not noted, not told, not missed, or held against another."""

from __future__ import annotations

from onceq.audit import acts, files
from onceq.core.management import operations, trail
from onceq.core.peers import lives as peer_heads
from onceq.core.state import audit_trail as state_trail
from onceq.core.step import step as core_acts
from onceq.core.transaction import unit_of_work
from onceq.history import events, keeper, projector
from onceq.model import audit_trail
from onceq.service import trail_files
from tests.planted.planted import Planted, edited, replaced

CORE = "tests/unit/core/management/test_trail.py::"
EXPORT = "tests/unit/service/test_trail_files_export.py::"
CHECK = "tests/unit/model/test_audit_trail_check.py::"
HISTORY = "tests/history/test_acts.py::"
AUDIT = "tests/audit/test_acts.py::"
DELETED = "tests/history/test_files.py::test_messages_of_a_queue_that_is_deleted_are_deleted"

PLANTED = (
    Planted(
        "returns-are-sends-like-others",
        replaced(unit_of_work, "RETURNED_MARK", b"another mark"),
        CORE + "test_dead_letters_that_go_home_are_an_act_of_who_returns_them",
    ),
    Planted(
        "the-oldest-act-goes-first",
        edited(state_trail, "number = kinds[what].pop(0)", "number = min(self._kept)"),
        CORE + "test_who_does_one_thing_very_often_pushes_out_neither_others_nor_other_kinds",
    ),
    Planted(
        "acts-that-did-nothing-are-kept",
        edited(trail, "bool(actions) and all(", "bool(actions) and not all("),
        CORE + "test_acts_that_do_nothing_are_counted_and_have_no_numbers",
    ),
    Planted(
        "places-of-acts-are-alike",
        edited(state_trail, 'where.partition(",")[0]', '""'),
        CORE + "test_repetitions_are_counted_within_an_hour_and_from_one_place",
    ),
    Planted(
        "acts-are-told-before-they-are-durable",
        edited(trail_files, "while fresh and fresh[0].number <= number:", "while fresh:"),
        EXPORT + "test_each_act_is_there_when_it_is_durable_and_once_after_a_restart",
    ),
    Planted(
        "files-go-on-behind-what-a-crash-has-left",
        edited(trail_files, "self._end = sum(map(len, whole))", "self._end = len(data)"),
        EXPORT + "test_no_act_is_missing_nor_told_twice_wherever_the_power_goes",
    ),
    Planted(
        "acts-that-went-untold-are-nothing",
        edited(trail_files, "if act.number > behind + 1:", "if False:"),
        EXPORT + "test_what_goes_before_it_was_told_is_counted_and_the_file_says_which",
    ),
    Planted(
        "digests-cover-no-result",
        edited(audit_trail, "what, about, result]", 'what, about, ""]'),
        CORE + "test_each_digest_covers_the_act_and_all_before_it",
    ),
    Planted(
        "a-broken-chain-goes-on",
        edited(state_trail, "if act.before != (self.head or BEGIN):", "if False:"),
        CORE + "test_each_digest_covers_the_act_and_all_before_it",
    ),
    Planted(
        "gaps-in-the-files-are-none",
        edited(audit_trail, "said.number > before.number + 1", "False"),
        CHECK + "test_what_was_changed_is_named_with_its_place",
    ),
    Planted(
        "what-others-hold-proves-nothing",
        edited(audit_trail, "elif known:", "elif False:"),
        CHECK + "test_others_hold_digests_that_nobody_here_can_change",
    ),
    Planted(
        "whoever-comes-is-a-witness",
        edited(peer_heads, "if item.digest and proven and", "if item.digest and"),
        "tests/unit/core/peers/test_lives_trail_heads.py::"
        "test_with_an_identity_only_who_proves_its_own_is_a_witness",
    ),
    Planted(
        "every-removal-is-an-act",
        edited(trail, "if outgoing else NO_ENTRY", "if item.queue else NO_ENTRY"),
        CORE
        + "test_what_is_taken_out_of_an_outgoing_queue_is_an_act_and_what_was_received_is_none",
    ),
    Planted(
        "acts-say-where-they-end",
        edited(core_acts, "records[0].position if records else step.position", "step.position"),
        CORE + "test_an_act_says_where_what_it_did_stands",
    ),
    Planted(
        "acts-are-messages-of-nobody",
        edited(
            events,
            'each([e.act is not None for e in events], "?"),',
            'each([False for e in events], "?"),',
        ),
        HISTORY + "test_an_act_is_a_row_with_who_from_where_and_what",
    ),
    Planted(
        "acts-are-transactional",
        edited(projector, "transactional=False, act=act", "act=act"),
        HISTORY + "test_an_act_is_a_row_with_who_from_where_and_what",
    ),
    Planted(
        "files-count-their-own-acts",
        edited(
            keeper,
            "ACTS: self._projector.acts,",
            "ACTS: sum(e.act is not None for e in rows.events),",
        ),
        HISTORY + "test_they_are_told_once_whatever_dies_and_their_numbers_go_on",
    ),
    Planted(
        "the-last-act-is-not-missed",
        edited(files, "if to is not None and told_to > to:", "if False:"),
        AUDIT + "test_numbers_rise_by_one",
    ),
    Planted(
        "gaps-are-bridged",
        edited(files, "(span.life, span.start) == (self.life, self.end)", "True"),
        AUDIT + "test_numbers_rise_by_one",
    ),
    Planted(
        "acts-twice-are-one",
        edited(files, "self.added.append([number, number])", "pass"),
        AUDIT + "test_numbers_rise_by_one",
    ),
    Planted(
        "refused-acts-explain",
        edited(acts, "if not act.result]", "if act]"),
        AUDIT + "test_a_long_purge_goes_on_behind_its_act",
    ),
    Planted(
        "whatever-stands-before-an-act-is-its-own",
        edited(acts, "acts[at].since <= row", "0 <= row"),
        AUDIT + "test_a_long_purge_goes_on_behind_its_act",
    ),
    Planted(
        "what-goes-with-its-queue-is-purged",
        edited(operations, "index, first, count, _DELETED)", "index, first, count)"),
        DELETED,
    ),
    Planted(
        "of-a-long-deletion-what-goes-first-is-purged",
        edited(
            operations,
            "each.number, index, first, size, _DELETED)",
            "each.number, index, first, size)",
        ),
        DELETED,
    ),
)
