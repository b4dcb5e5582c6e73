"""Programme P3: the rules hold in every interleaving, and each mistake is found."""

from __future__ import annotations

import pytest

from tests.model.order_model import Rules, search

MISTAKES = {
    "any_other_stream": "disorder",
    "ack_by_number": "loss",
    "claim_not_delivered": "accepted and dead-lettered",
    "numbers_volatile": "number reused",
    "sent_forgotten": "accepted and dead-lettered",
    "ack_before_record": "loss",
    "message_first": "duplicate",
    "progress_first": "loss",
    "progress_lost": "duplicate",
    "no_relink": "stuck",
    "progress_on_gap": "loss",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "expiries", "crashes", "states"),
    [
        (3, 2, 1, 36_000),
        pytest.param(4, 1, 1, 170_238, marks=pytest.mark.tier("rest")),
        (4, 2, 0, 47_000),
    ],
)
def test_nothing_goes_wrong(messages: int, expiries: int, crashes: int, states: int) -> None:
    found = search(messages, expiries=expiries, crashes_a=crashes, crashes_b=crashes)
    assert not found.violation, "\n".join(found.story)
    assert found.states > states // 2, "the search has become much smaller than it was"


def test_every_mistake_has_a_test() -> None:
    assert set(MISTAKES) == set(Rules.__dataclass_fields__)


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_the_mistake_is_found(mistake: str) -> None:
    found = search(3, expiries=1, crashes_a=1, crashes_b=1, rules=Rules(**{mistake: True}))
    assert found.violation == MISTAKES[mistake], f"{found}"
    assert 3 <= len(found.story) <= 12


def test_a_different_stream_delivers_twice() -> None:
    """Without expiries and crashes it takes nothing but a late repetition."""
    found = search(3, rules=Rules(any_other_stream=True))
    assert found.violation == "duplicate"
    assert found.story[-1] == "B accepts m1 (1.1 previous 0)"
