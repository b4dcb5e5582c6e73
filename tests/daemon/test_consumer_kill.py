"""Consumers that die in the middle of their work; and the judge, which must notice what it is there
to notice."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proof.torture.consumer_kill import KEYS, KINDS, deaths, judged

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_nothing_is_lost_or_done_twice_through_deaths() -> None:
    """I3a, I4, I5, I17, in small; ``make consumer-kill`` is the same at random times, with more."""
    done = subprocess.run(
        [sys.executable, "-m", "proof", "consumer-kill", "--kills", "4", "--deaths", "calls"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(
        r"^(\w+) +4 kills +\d+ messages +(\d+) of them handed out again .*nothing lost, nothing",
        done.stdout, re.M,
    )  # fmt: skip
    assert [kind for kind, _ in found] == list(KINDS), done.stdout + done.stderr
    assert all(int(again) >= 4 for _, again in found), "each death leaves something at hand"


@pytest.mark.parametrize(
    ("kind", "arrived", "says"),
    [
        ("one", [0, 1, 3], "1 lost, such as 2"),
        ("one", [0, 1, 2, 3, 1], "1 twice, such as 1"),
        ("database", [0, 1, 2, 3, 1], "1 twice, such as 1"),
        ("one", [0, 2, 1, 3], "1 came behind 2"),
        ("one", [0, 1, 2, 3, 4], "some were never sent"),
    ],
)
def test_the_judge_notices_what_is_wrong(kind: str, arrived: list[int], says: str) -> None:
    assert says in judged(kind, 4, arrived)


def test_the_judge_accepts_what_is_right() -> None:
    assert judged("one", 4, [0, 1, 2, 3]) == []
    assert judged("database", 4, [3, 1, 0, 2]) == []
    rising = list(range(2 * KEYS))
    assert judged("async", len(rising), [*rising[1:KEYS], 0, *rising[KEYS:]]) == []
    assert judged("async", len(rising), [KEYS, *rising[:KEYS], *rising[KEYS + 1 :]]) != []


def test_the_same_seed_dies_the_same_deaths() -> None:
    first, again = (list(deaths(random.Random("7/one"), 9, calls=True)) for _ in range(2))
    assert first == again
    assert len(set(first)) > 2
