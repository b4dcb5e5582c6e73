"""Mistakes of histories and audits: what is summed, what limits them, what is put aside."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from onceq.audit import command, engine, measure, proof, rules
from onceq.history import heads
from tests.planted.planted import Planted, edited, replaced

HISTORY = "tests/history/test_bodies.py::"
LIMITS = "tests/audit/test_limits.py::"
WAITING = "tests/audit/test_waiting.py::"
KEPT = "tests/audit/test_kept.py::"
NAMED = "tests/audit/test_planted.py::test_those_outside_the_stream_are_named"


def ledger(old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A mistake in the text of ``ledger.sql``."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        blocks = engine.blocks

        def changed(name: str, *, settled: bool) -> dict[str, str]:
            queries = blocks(name, settled=settled)
            assert name != "ledger.sql" or any(old in query for query in queries.values()), old
            return {table: query.replace(old, new) for table, query in queries.items()}

        patch.setattr(engine, "blocks", changed)

    return plant


def rule(fault: str, column: str, old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A mistake in the SQL of one rule."""
    (right,) = (one for one in rules.RULES if one.fault == fault)
    text = getattr(right, column)
    assert old in text, text
    wrong = replace(right, **{column: text.replace(old, new)})
    made = tuple(wrong if one is right else one for one in rules.RULES)
    return replaced(command, "RULES", made)


def held_by_nobody(path: str, doing: str) -> int:
    """Two audits go on from one proof."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


PLANTED = (
    Planted("a-history-is-counted-beyond-its-place",
            edited(measure, "AND came < {page.position}", ""),
            WAITING + "test_at_every_moment_both_say_the_same"),
    Planted("what-moves-stays-where-it-was",
            edited(measure, "SELECT from_place, from_lookup,", "SELECT from_place, lookup,"),
            WAITING + "test_at_every_moment_both_say_the_same"),
    Planted("a-queue-that-is-not-listed-is-not-compared",
            edited(measure, "sorted(here.keys() | told.keys())", "sorted(here.keys())"),
            WAITING + "test_a_queue_that_its_manager_does_not_have_has_nothing"),
    Planted("nobody-is-somebody", replaced(engine, "NOBODY", "nobody"),
            LIMITS + "test_packets_damaged_in_a_hostile_world_accuse_nobody"),
    Planted("letters-of-whoever", ledger(" AND p.readable", ""),
            LIMITS + "test_a_dead_letter_that_cannot_be_read_is_not_called_missing"),
    Planted("moves-are-all-told", rule("received-elsewhere", "wrong", "got_unbroken AND ", ""),
            LIMITS + "test_a_move_in_a_part_that_is_missing_is_no_other_place"),
    Planted("http-is-not-summed",
            edited(heads, "if first + body <= min(end, len(view)):", "if False:"),
            HISTORY + "test_of_a_body_that_came_by_http"),
    Planted("changed-files-count",
            edited(proof, "if ends_of(path) != tuple(judged.files[name]):", "if False:"),
            KEPT + "test_a_file_that_has_changed_is_refused"),
    Planted("proof-without-a-lock", replaced(proof, "hold", held_by_nobody),
            KEPT + "test_another_audit_of_the_same_proof_is_told_who_has_it"),
    Planted("proof-let-go-before-it-is-kept",
            edited(proof, "    try:\n        with _opened(place) as proof:\n"
                          "            yield proof\n    finally:\n        _FILES.close(lock)",
                   "    _FILES.close(lock)\n    with _opened(place) as proof:\n"
                   "        yield proof"),
            KEPT + "test_a_proof_is_held_until_it_is_kept"),
    Planted("days-are-forgotten", edited(proof, "            self.connection.commit()\n", ""),
            KEPT + "test_a_quiet_day_reads_what_is_new_alone"),
    Planted("each-day-begins-at-the-first-row",
            edited(proof, "self.managers[id].rows if id in self.managers else 0", "0"),
            KEPT + "test_what_is_told_later_of_messages_that_were_judged"),
    Planted("places-of-nothing",
            ledger("o.origin_place = coalesce(e.from_place, e.place)",
                   "o.origin_place = e.place"), NAMED),
    Planted("receivers-of-the-own-lane-alone",
            ledger("f.taken_manager, f.refuser, h.heard_party,", "f.taken_manager, f.refuser,"),
            "tests/audit/test_sums.py::"
            "test_a_receiver_is_known_from_other_lanes_of_its_outgoing_queue"),
    Planted("pieces-of-any-step", edited(measure, "        step *= 2\n", "        step += 1\n"),
            "tests/audit/test_sums.py::test_pieces_of_time_are_many_but_not_too_many"),
    Planted("an-audit-takes-a-trace-that-was-cut-out-for-another-message",
            rule("altered", "wrong", " AND put_size - taken_size <> ", " OR 0 <> "),
            "tests/audit/test_acts.py::test_a_trace_that_was_cut_out_on_the_way_alters_nothing"),
)  # fmt: skip
