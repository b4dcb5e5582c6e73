"""Server-sent events are whole, whatever the text has."""

from __future__ import annotations

from onceq.console.live import event


def test_every_line_is_data() -> None:
    assert event("overview", "<p>\nevent: x\n\n</p>") == (
        b"event: overview\ndata: <p>\ndata: event: x\ndata: \ndata: </p>\n\n"
    )
    assert event("overview", "") == b"event: overview\n\n"
