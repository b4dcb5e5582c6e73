"""Identifiers of branches: what they may be, as text and back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import InvalidParameter
from onceq.model.branches import ONCEQ_FORMAT, Xid, decider_of, make_gtrid

XIDS = st.builds(
    Xid, st.integers(0, 0x7FFF_FFFF), st.binary(min_size=1, max_size=64), st.binary(max_size=64)
)


@given(XIDS)
def test_text_and_back(xid: Xid) -> None:
    text = str(xid)
    assert text.isascii()
    assert text.isprintable()
    assert Xid.parse(text) == xid


@given(st.text(max_size=40))
def test_any_text_is_a_branch_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidParameter):
        assert Xid.parse(text) == Xid.parse(str(Xid.parse(text)))


@pytest.mark.parametrize(
    ("format_id", "gtrid", "bqual"),
    [(-1, b"g", b""), (1 << 31, b"g", b""), (0, b"", b"b"), (0, bytes(65), b""),
     (0, b"g", bytes(65))],
)  # fmt: skip
def test_what_cannot_be(format_id: int, gtrid: bytes, bqual: bytes) -> None:
    with pytest.raises(InvalidParameter):
        Xid(format_id, gtrid, bqual)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 1 << 64))
def test_ours_are_known_and_fit_databases(decider: bytes, number: int) -> None:
    gtrid = make_gtrid(decider, number)
    assert decider_of(gtrid) == decider
    assert gtrid.decode().isprintable()
    Xid(ONCEQ_FORMAT, gtrid, b"db")


def test_others_are_not_ours() -> None:
    for gtrid in (b"x", b"onceq-", make_gtrid(bytes(16), 1) + b"g", b"onceq-" + b"0" * 32 + b"-"):
        assert decider_of(gtrid) is None
