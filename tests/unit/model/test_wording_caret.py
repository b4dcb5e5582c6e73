"""Faults in a text, shown with a caret below."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import IllegalPathName
from onceq.model.wording import SHOWN_AFTER, SHOWN_BEFORE, TextSource


@given(st.text(min_size=1, max_size=300), st.data())
def test_a_caret_stands_below_its_fault(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    sentence, shown, caret = TextSource(text, IllegalPathName).fault(at, "wrong").text.split("\n")
    assert sentence == f"wrong, at position {at}"
    assert len(shown) <= SHOWN_BEFORE + SHOWN_AFTER + 8
    assert shown.isascii()
    assert shown.isprintable()
    if at < len(text) and text[at].isascii() and text[at].isprintable():
        assert shown[caret.index("^")] == text[at]
