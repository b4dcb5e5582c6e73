"""What somebody may send who comes for a certificate, and what one may hear that asks for it."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import OnceqError
from onceq.tls.invitations import Asking, Granting
from onceq.tls.joining import read_answer, removed_in
from tests.certificates import ALPHA, BETA

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)
REQUESTS = st.dictionaries(
    st.sampled_from(["want", "secret", "request", "removed", "more"]),
    VALUES | st.sampled_from(["news", "certificate", "authority"]),
).map(lambda said: json.dumps(said).encode() + b"\n")


def answered(raw: bytes, who: Asking) -> Any:
    with tempfile.TemporaryDirectory() as own:
        granting = Granting(
            own, ALPHA, who, 7, note=lambda **_: None, known=lambda guid, name: ""
        )  # fmt: skip
        answer = granting.data(raw)
        assert granting.signed is None
    return json.loads(answer) if answer else None


@given(REQUESTS | st.binary(max_size=200).map(lambda raw: raw + b"\n"), st.booleans())
def test_every_request_gets_one_refusal_and_no_mistake_of_ours(raw: bytes, member: bool) -> None:
    assert set(answered(raw, Asking("10.0.0.7", BETA if member else bytes(16)))) == {"error"}


@given(st.binary(max_size=200) | VALUES.map(lambda said: json.dumps(said).encode()))
def test_no_answer_ends_whoever_has_asked(raw: bytes) -> None:
    with suppress(OnceqError):
        removed_in(read_answer(raw, "10.0.0.7:1801"))
