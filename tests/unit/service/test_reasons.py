"""Why something about a connection failed, in words: never without any."""

from __future__ import annotations

import errno

import pytest

from onceq.service.reasons import said

CLOSED = "the other side closed the connection"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionResetError(), CLOSED),
        (ConnectionAbortedError(), CLOSED),
        (ConnectionResetError("SSL handshake is taking longer"), "SSL handshake is taking longer"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
        (TimeoutError(), "no answer"),
        (OSError(), "OSError"),
    ],
)
def test_a_reason_is_never_empty(error: Exception, words: str) -> None:
    assert said(error) == words
