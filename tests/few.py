"""Limits of shared things made small, for tests that reach them."""

from __future__ import annotations

import pytest

from onceq.model.shares import TABLE, Thing, line


def few(patch: pytest.MonkeyPatch, thing: Thing, whole: int) -> None:
    """So many are all of them, shared as in the table."""
    was = TABLE[thing]
    part = (was.whole - was.reserve) // was.share
    small = line(whole, part, was.owner, was.cure, reserved=bool(was.reserve))
    patch.setitem(TABLE, thing, small)
