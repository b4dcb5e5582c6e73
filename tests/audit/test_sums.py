"""What copies add up to does not depend on the parts in which they come."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from onceq.audit import files, measure
from onceq.audit.copies import Copies, ledger
from onceq.audit.events import read
from onceq.audit.sums import (
    DIGITS,
    PIECES_MAX,
    Again,
    Late,
    Sums,
    Times,
    Traffic,
    merged,
    rounded,
    step_of,
    sums_of,
)
from tests.audit.corruptions import corrupt
from tests.audit.histories import peopled

WORST = 0.005
"""How far a percentile may be off, as the page about audits has it."""


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    place = tmp_path_factory.mktemp("sums") / "all"
    corrupt(peopled(place))
    histories = files.find([str(place)])
    return ledger(read(histories), histories)


def added(copies: Copies) -> Sums:
    return measure.sums(measure.measured(copies), late_us=1 << 60)


@pytest.mark.parametrize("seed", range(5))
def test_any_parts_add_up_to_the_whole(copies: Copies, seed: int) -> None:
    rng = np.random.default_rng(seed)
    part = rng.integers(0, rng.integers(1, 9), len(copies))
    found = measure.measured(copies)
    parts = [
        measure.sums(measure.part_of(found, part == at), late_us=1 << 60)
        for at in rng.permutation(9)
    ]
    whole = added(copies)
    assert merged(parts) == whole
    assert whole.late
    assert sum((one for one in parts), Sums()) == whole, "no part was changed"


def test_adding_changes_neither(copies: Copies) -> None:
    one, other = added(copies), added(copies)
    both = one + other
    assert one == other == added(copies)
    assert both.messages == 2 * one.messages
    assert both + Sums() == Sums() + both == both


def test_they_come_back_from_json(copies: Copies) -> None:
    whole = added(copies)
    assert sums_of(json.loads(json.dumps(whole.plain()))) == whole
    assert sums_of({}) == Sums()


# ---- latencies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_right_to_half_a_per_cent(seed: int) -> None:
    rng = random.Random(seed)
    values = np.array(
        [int(rng.lognormvariate(12, 3)) - rng.choice((0, 0, 0, 5_000)) for _ in range(1_777)]
    )
    different, counts = np.unique(rounded(values), return_counts=True)
    times = Times(dict(zip(different.tolist(), counts.tolist(), strict=True)), int(values.max()))
    exact = np.sort(values)
    for percent, found in zip((1, 50, 90, 99, 100), times.at(1, 50, 90, 99, 100), strict=True):
        true = int(exact[-(-percent * len(exact) // 100) - 1])
        assert abs(found - true) <= abs(true) * WORST, percent
    assert times.at(100) <= [times.most]


def test_values_are_rounded_once() -> None:
    values = np.array([0, 1, 999, 1_000, 1_004, 1_005, 9_996, 99_949, 10**17, -1, -1_234, -99_999])
    once = rounded(values)
    assert once.tolist() == [
        0, 1, 999, 1_000, 1_000, 1_010, 10_000, 99_900, 10**17, -1, -1_230, -100_000
    ]  # fmt: skip
    assert rounded(once).tolist() == once.tolist()
    assert DIGITS == 3


def test_the_longest_is_no_shorter_than_a_percentile() -> None:
    assert Times({1_010: 1}, 1_005).at(50, 100) == [1_005, 1_005]


# ---- traffic -------------------------------------------------------------------------------------


def test_pieces_of_time_are_many_but_not_too_many() -> None:
    for first in (0, 1, 1_700_000_123):
        for length in (0, 1, PIECES_MAX - 1, PIECES_MAX, 12_345, 86_400 * 400):
            step = step_of(first, first + length)
            pieces = (first + length) // step - first // step + 1
            assert pieces <= PIECES_MAX
            assert step == 1 or pieces > PIECES_MAX // 2 - 1
            assert step & (step - 1) == 0


def test_coarser_pieces_begin_where_finer_ones_do() -> None:
    fine = Traffic(1_000, 1_003, {("r", "received", second): 1 for second in range(1_000, 1_004)})
    coarse = Traffic(0, 9_999, {("r", "received", 8_192): 5})
    for one, other in ((fine, coarse), (coarse, fine)):
        both = Sums(traffic=one) + Sums(traffic=other)
        assert both.traffic.step == 128
        assert (both.traffic.first, both.traffic.last) == (0, 9_999)
        assert both.traffic.counts == {("r", "received", 896): 4, ("r", "received", 8_192): 5}


# ---- proofs that are there -----------------------------------------------------------------------


def test_the_first_proofs_are_read() -> None:
    plain = {
        "messages": 9, "states": {"in doubt": 9},
        "took": [["r", "commit", "acceptance", [120, 4_560], [3, 6]]],
        "resends": [{"route": "r", "messages": 2, "times": 3, "came_again": 1}],
        "traffic": [{"route": "r", "event": "received", "second": second, "messages": 1}
                    for second in (1_000, 1_060, 87_400)],
    }  # fmt: skip
    found = sums_of(plain)
    assert found.took == {("r", "commit", "acceptance"): Times({120: 3, 4_560: 6}, 4_560)}
    assert found.again == {"r": Again(2, 3, 1)}
    assert found.traffic.step == 1_024
    assert found.traffic.counts == {("r", "received", 0): 1, ("r", "received", 1_024): 1,
                                    ("r", "received", 87_040): 1}  # fmt: skip
    late = Sums(late={("r", 1): Late(1, 5, 7)}) + Sums(late={("r", 1): Late(2, 3, 9)})
    assert late.late == {("r", 1): Late(3, 3, 7)}
    assert found + Sums() == found


def test_what_waits_too_long_is_told_from_when_on(tmp_path: Path) -> None:
    histories = files.find([str(peopled(tmp_path))])
    as_of = measure.as_of_us(histories)
    assert measure.late_us(histories, 0.5) == as_of - 500_000
