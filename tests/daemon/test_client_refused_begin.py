"""A transaction that could not be begun says why, although nobody waits for its beginning."""

from __future__ import annotations

from pathlib import Path

import pytest

import onceq
from onceq.core.inputs import OwnerGone
from onceq.core.step import units
from onceq.errors import InsufficientResources, TransactionOver
from onceq.model.requests import Abort, Begin, Commit
from onceq.model.shares import Thing
from tests.conformance.world import World, item
from tests.few import few

T = r"private$\orders"


def test_the_reason_is_told_with_the_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, Thing.TRANSACTIONS, 1)
    with onceq.open(tmp_path / "a", name="ALPHA", create=True) as qm:
        qm.create_queue(T, transactional=True)
        qm.send_many(T, [b"1", b"2"], transactional=True)
        with qm.transaction() as first:
            assert first.receive(T, timeout=0).body == b"1"
            second = qm.transaction()
            for _ in range(2):
                with pytest.raises(InsufficientResources, match="open transactions already"):
                    second.receive(T, timeout=0)
            with pytest.raises(InsufficientResources, match="open transactions already"):
                second.commit()
            second.abort()
        with qm.transaction() as third:
            assert third.receive(T, timeout=0).body == b"2"


def test_it_is_forgotten_with_the_transaction_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, Thing.TRANSACTIONS, 1)
    monkeypatch.setattr(units, "REFUSED_MAX", 3)
    a = World("A")["A"]
    a.create("q")
    assert a.engine is not None
    refused = a.engine.manager._step.units.refused  # its size cannot be seen from outside
    a.begin()

    def begin(number: int) -> None:
        a.ask(Begin(number))

    def commit(number: int) -> None:
        a.ask(Commit(number, (item(T, b"m"),)))

    for number in range(100, 110):
        with pytest.raises(InsufficientResources):
            begin(number)
    assert len(refused) == 3
    with pytest.raises(InsufficientResources):
        commit(109)
    a.ask(Abort(109))
    for gone in (109, 100):
        with pytest.raises(TransactionOver):
            commit(gone)
    a.engine.submit(OwnerGone(a.owner))
    a.pump()
    assert not refused
