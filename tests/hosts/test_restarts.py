"""A queue manager that is restarted while a loop finds that every message fails (finding K9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.client import handlers, loops
from tests.daemon.applications import Daemon

pytestmark = pytest.mark.slow
Q = r"private$\orders"
BODIES = [b"%d" % number for number in range(5)]


@pytest.mark.parametrize("pauses", [None, {ConnectionError: 0.001}], ids=["breaker", "pauses"])
def test_a_restart_while_every_message_fails(
    pauses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is counted because of it, and operators see afterwards, too, that all fail. What the
    application has opened since then under the number of the note before it stays open."""
    monkeypatch.setattr(handlers, "PAUSES_S", (0.001,))
    monkeypatch.setattr(loops, "AWAY_S", (0.01,))
    calls = [0]
    handled: list[bytes] = []
    says: list[str] = []
    held: list[Any] = []

    def handle(tx: Any, message: Any) -> None:
        calls[0] += 1
        if calls[0] == 9:
            daemon.stop()
            daemon.start()
            held.append(qm.open_queue(Q, access="peek"))
        if calls[0] == 11:
            with onceq.connect(daemon.where) as other:
                says.extend(str(one["says"]) for one in other.consumers(Q) if one["says"])
        if calls[0] < 13:
            raise ConnectionError("away")
        handled.append(message.body)

    with Daemon(tmp_path / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(Q, transactional=True)
        qm.set_poison_policy(Q, attempts=3, retry_after=0, then="move:poison")
        qm.send_many(Q, BODIES, transactional=True)
        qm.consume(Q, handle, timeout=0.0, pauses=pauses)
        aside = [] if pauses else qm.peek_many(Q + ";poison").bodies()
        assert held[0].is_open
        with pytest.raises(onceq.errors.ReceiveTimeout):
            held[0].peek(timeout=0.0)
        assert not any(one["says"] for one in qm.consumers(Q))
    assert len(aside) < handlers.DIFFERENT
    assert sorted([*handled, *map(bytes, aside)]) == BODIES
    assert [text.partition(",")[0] for text in says] == ["every message fails"]
