"""The store keeps its promises through power cuts on a real file system (P7)."""

from __future__ import annotations

import pytest

from proof.torture import power_loss


@pytest.mark.slow
@pytest.mark.tier("rest")
def test_twenty_power_cuts() -> None:
    reason = power_loss.impossible()
    if reason:
        pytest.skip(reason)
    assert "all kept" in power_loss.run(20, seed=1)


@pytest.mark.slow
def test_torn_tails_are_cut() -> None:
    """Parts of what was written, and not synced, stand on the disk; the store takes none of it."""
    reason = power_loss.impossible()
    if reason:
        pytest.skip(reason)
    assert int(power_loss.run(14, seed=5).rpartition("torn tails ")[2]) > 0


@pytest.mark.slow
def test_a_store_that_does_not_sync_records_is_found_out() -> None:
    """The programme can fail."""
    reason = power_loss.impossible()
    if reason:
        pytest.skip(reason)
    with pytest.raises(AssertionError, match="cycle"):
        power_loss.run(6, seed=1, careless=True)
