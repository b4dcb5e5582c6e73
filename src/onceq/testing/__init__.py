"""Shipped for tests, ours and yours: a disk, a network and a clock that misbehave on purpose."""
