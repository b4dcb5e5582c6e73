"""Two managers and a bad way between them: once and in order, whatever it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.testing.links import Pair

Q = r"private$\q"
THERE, BACK = rf"DIRECT=OS:BETA\{Q}", rf"DIRECT=OS:ALPHA\{Q}"
WAIT = 60.0
SOON = 0.2


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with Pair(tmp_path) as made:
        for manager in (made.alpha, made.beta):
            manager.qm.create_queue(Q, transactional=True)
        yield made


def test_what_is_lost_and_repeated_arrives_once_and_in_order(pair: Pair) -> None:
    pair.link.bad(loss=0.3, repeat=0.3, delay_s=0.001, jitter_s=0.01)
    for n in range(20):
        pair.alpha.qm.send(THERE, json=n, transactional=True)
        pair.beta.qm.send(BACK, json=-n, transactional=True)
    for manager, sign in ((pair.beta, 1), (pair.alpha, -1)):
        got = [manager.qm.receive(Q, timeout=WAIT).json() for _ in range(20)]
        assert got == [sign * n for n in range(20)]
    assert pair.link.lost > 0
    assert pair.link.passed > 0


def test_a_cut_link_keeps_everything_until_it_is_healed(pair: Pair) -> None:
    pair.link.cut()
    pair.alpha.qm.send(THERE, b"x", transactional=True)
    pair.alpha.qm.send(THERE.replace("q", "none"), b"lost?", transactional=True, journal=1)
    with pytest.raises(onceq.ReceiveTimeout):
        pair.beta.qm.receive(Q, timeout=SOON)
    assert pair.alpha.qm.admin.outgoing_queue(THERE)["messages"] == 1
    pair.link.heal()
    assert pair.beta.qm.receive(Q, timeout=WAIT).body == b"x"
    assert pair.alpha.qm.receive("SYSTEM$;DEADXACT", timeout=WAIT).body == b"lost?"


def test_messages_expire_on_the_way_when_time_is_put_forward(pair: Pair) -> None:
    pair.link.cut()
    pair.alpha.qm.send(THERE, b"x", transactional=True, journal=1, time_to_reach_queue=3_600)
    pair.put_forward(3_700)
    assert pair.alpha.qm.receive("SYSTEM$;DEADXACT", timeout=WAIT).body == b"x"


def test_a_crash_of_the_other_side_is_no_loss(pair: Pair) -> None:
    pair.link.bad(loss=0.2)
    pair.alpha.qm.send_many(THERE, json=range(10), transactional=True)
    assert pair.beta.qm.receive(Q, timeout=WAIT).json() == 0
    pair.beta.crash()
    pair.alpha.qm.send(THERE, json=10, transactional=True)
    pair.beta.start()
    got = [pair.beta.qm.receive(Q, timeout=WAIT).json() for _ in range(10)]
    assert got == list(range(1, 11))


def test_shares_and_delays_are_checked(pair: Pair) -> None:
    for wrong in ({"loss": 2.0}, {"repeat": -0.1}, {"delay_s": -1.0}):
        with pytest.raises(ValueError, match="shares from 0 to 1"):
            pair.link.bad(**wrong)
