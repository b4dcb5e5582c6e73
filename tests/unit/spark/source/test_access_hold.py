"""The thread that renews a hold."""

from __future__ import annotations

import threading

from onceq.spark.source.access import LEASE_MS, RENEW_S, HoldRenewal


def test_it_beats_until_it_is_stopped() -> None:
    beats = threading.Semaphore(0)
    heartbeat = HoldRenewal(beats.release, every_s=0.001)
    for _ in range(3):
        assert beats.acquire(timeout=60)
    heartbeat.stop()
    heartbeat._thread.join(60)
    assert not heartbeat._thread.is_alive()


def test_some_beats_may_fail_before_the_lease_is_over() -> None:
    assert RENEW_S * 3 * 1_000 < LEASE_MS
