"""Mistakes of the starts that a history and an audit tell."""

from __future__ import annotations

from onceq.audit import files, proof, report
from onceq.core.peers import lives
from onceq.history import keeper, projector
from onceq.service import engine
from onceq.store import log
from tests.planted.planted import Planted, edited

AUDIT = "tests/audit/test_starts.py::"
STARTS = "tests/history/test_starts.py::"

PLANTED = (
    Planted("every-end-was-in-order",
            edited(engine, "orderly=found.clean,", "orderly=True,"),
            STARTS + "test_each_start_is_told_with_its_time_and_how_the_life_before_ended"),
    Planted("a-start-that-failed-was-an-orderly-end",
            edited(log, "if not untouched:", "if True:"),
            STARTS + "test_a_process_that_could_not_start_hides_no_kill"),
    Planted("a-restore-is-an-orderly-end",
            edited(lives, "orderly=orderly if _follows(state) else None,", "orderly=orderly,"),
            "tests/unit/core/management/test_copies_restore.py::"
            "test_how_the_life_before_ended_is_not_known_at_the_first_start"),
    Planted("the-last-start-of-a-file-alone",
            edited(keeper, "for one in rows.starts]", "for one in rows.starts[-1:]]"),
            STARTS + "test_lives_that_end_at_once_are_told_as_well"),
    Planted("starts-are-told-again-with-what-follows",
            edited(projector, "rows.starts.append(Start(position, record.at_us, record.orderly))",
                   "rows.starts += [Start(position, record.at_us, record.orderly)] * 2"),
            STARTS + "test_killed_at_any_moment"),
    Planted("a-start-without-a-time-is-told",
            edited(projector, "isinstance(record, LifeBegun) and record.at_us",
                   "isinstance(record, LifeBegun)"),
            STARTS + "test_starts_of_a_version_that_did_not_say_when_are_not_guessed"),
    Planted("a-proof-forgets-starts",
            edited(proof, "for values in judged.starts)", "for values in ())"),
            AUDIT + "test_a_proof_keeps_them_when_their_files_are_gone"),
    Planted("older-files-had-no-starts",
            edited(files, "if STARTS not in meta)", "if meta is None)"),
            AUDIT + "test_files_of_earlier_versions_do_not_tell_them_and_the_report_says_so"),
    Planted("equal-routes-cover-each-other",
            edited(report, "        if there is None:", "        if True:"),
            AUDIT + "test_four_equal_routes_are_four_lines_in_turn"),
)  # fmt: skip
