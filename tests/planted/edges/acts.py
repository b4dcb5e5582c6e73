"""Mistakes of the trail: acts that are not noted, not told, not missed, or held against another."""

from __future__ import annotations

from onceq.audit import acts, numbering
from onceq.core.management import purges, trail
from onceq.core.step import acts as core_acts
from onceq.core.transaction import unit_of_work
from onceq.history import events, keeper, projector
from tests.planted.planted import Planted, edited, replaced

CORE = "tests/unit/core/management/test_trail.py::"
HISTORY = "tests/history/test_acts.py::"
AUDIT = "tests/audit/test_acts.py::"
DELETED = "tests/history/test_files.py::test_messages_of_a_queue_that_is_deleted_are_deleted"

PLANTED = (
    Planted(
        "returns-are-sends-like-others",
        replaced(unit_of_work, "MARK", b"another mark"),
        CORE + "test_dead_letters_that_go_home_are_an_act_of_who_returns_them",
    ),
    Planted(
        "every-removal-is-an-act",
        edited(trail, "if outgoing else NOTHING", "if item.queue else NOTHING"),
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
            'each([e.act is not None for e in events], "?")),',
            'each([False for e in events], "?")),',
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
        edited(numbering, "if to is not None and told_to > to:", "if False:"),
        AUDIT + "test_numbers_rise_by_one",
    ),
    Planted(
        "gaps-are-bridged",
        edited(numbering, "(span.life, span.start) == (self.life, self.end)", "True"),
        AUDIT + "test_numbers_rise_by_one",
    ),
    Planted(
        "acts-twice-are-one",
        edited(numbering, "self.added.append([number, number])", "pass"),
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
        edited(purges, "index, first, count, _DELETED)", "index, first, count)"),
        DELETED,
    ),
    Planted(
        "of-a-long-deletion-what-goes-first-is-purged",
        edited(
            purges, "each.number, index, first, size, _DELETED)", "each.number, index, first, size)"
        ),
        DELETED,
    ),
)
