"""Mistakes of histories and audits: what is summed, what limits them, what is put aside."""

from __future__ import annotations

import os

import numpy as np
import pytest

from onceq.audit import arrays, events, kept, letters, narrow, proof, rules, waiting
from onceq.audit.past import Keys, Past
from onceq.history import heads
from tests.planted.planted import Planted, edited, replaced

HISTORY = "tests/history/test_bodies.py::"
LIMITS = "tests/audit/test_limits.py::"
WAITING = "tests/audit/test_waiting.py::"
KEPT = "tests/audit/test_kept.py::"
NARROW = "tests/audit/test_narrow.py::"


def nobody_is_somebody(patch: pytest.MonkeyPatch) -> None:
    """Rows that do not say their message limit nothing."""
    patch.setattr(events, "NOBODY", "nobody")


def places_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    """What comes at the place of a message that was put aside is new."""
    has = Past.has

    def blind(past: Past, parties: list[str], keys: Keys) -> np.ndarray:
        return has(past, parties, keys) & (keys.kind != "place")

    patch.setattr(Past, "has", blind)


def held_by_nobody(path: str, doing: str) -> int:
    """Two audits go on from one proof."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


PLANTED = (
    Planted("a-history-is-counted-beyond-its-place",
            edited(waiting, "came < page.position", "came != NONE"),
            WAITING + "test_at_every_moment_both_say_the_same"),
    Planted("what-moves-stays-where-it-was",
            edited(waiting, "events.from_lookup[rows_moved]", "events.lookup[rows_moved]"),
            WAITING + "test_at_every_moment_both_say_the_same"),
    Planted("a-queue-that-is-not-listed-is-not-compared",
            edited(waiting, "sorted(here.keys() | told.keys())", "sorted(here.keys())"),
            WAITING + "test_a_queue_that_its_manager_does_not_have_has_nothing"),
    Planted("nobody-is-somebody", nobody_is_somebody,
            LIMITS + "test_packets_damaged_in_a_hostile_world_accuse_nobody"),
    Planted("letters-of-whoever", edited(letters, " & known.read[events.manager]", ""),
            LIMITS + "test_a_dead_letter_that_cannot_be_read_is_not_called_missing"),
    Planted("moves-are-all-told",
            edited(rules, "return there & copies.known.unbroken[got.manager] & wrong",
                   "return there & wrong"),
            LIMITS + "test_a_move_in_a_part_that_is_missing_is_no_other_place"),
    Planted("http-is-not-summed",
            edited(heads, "if start + size > min(end, len(view)):", "if True:"),
            HISTORY + "test_of_a_body_that_came_by_http"),
    Planted("places-are-not-kept", places_are_not_kept,
            KEPT + "test_what_is_told_later_of_messages_that_were_put_aside"),
    Planted("half-of-a-violation",
            edited(kept, "if whole or not violations(verdicts):", "if True:"),
            KEPT + "test_what_is_told_later_of_messages_that_were_put_aside"),
    Planted("changed-files-count",
            edited(proof, "if ends_of(path) != tuple(judged.files[name]):", "if False:"),
            KEPT + "test_a_file_that_has_changed_is_refused"),
    Planted("proof-without-a-lock", replaced(proof, "hold", held_by_nobody),
            KEPT + "test_another_audit_of_the_same_proof_is_told_who_has_it"),
    Planted("proof-let-go-before-it-is-kept",
            edited(proof, "    try:\n        yield read(folder)\n"
                          "    finally:\n        _FILES.close(lock)",
                   "    _FILES.close(lock)\n    yield read(folder)"),
            KEPT + "test_a_proof_is_held_until_it_is_kept"),
    Planted("pages-without-end",
            edited(narrow, "if len(pages) > form.pages_max:", "if False:"),
            NARROW + "test_as_few_bytes_as_they_need"),
    Planted("numbers-are-pages",
            edited(narrow, "if self.bits:", "if False:"),
            NARROW + "test_as_few_bytes_as_they_need"),
    Planted("keys-are-always-small",
            edited(arrays, "if bits + own <= 64:", "if bits <= 64:"),
            NARROW + "test_sorted_and_in_groups_whatever_their_size"),
    Planted("likes-of-the-first-alone",
            edited(arrays, "if wanted[rows].any():", "if wanted[rows][0]:"),
            NARROW + "test_no_row_that_is_like_a_wanted_one_is_left_out"),
    Planted("places-of-nothing",
            edited(letters, "there = place != NONE", "there = place != place"),
            "tests/audit/test_planted.py::test_those_outside_the_stream_are_named"),
)  # fmt: skip
