"""What ``onceq spark land`` says where it ends in the middle (finding U3)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.cli.common import Exit
from onceq.cli.spark import _done
from onceq.errors import ManagerAway, OnceqError


@pytest.mark.parametrize(
    ("error", "raised"), [(ManagerAway, OnceqError), (KeyboardInterrupt, Exit)]
)
def test_what_landed_before_is_said(
    error: type[BaseException], raised: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(master: str, plan: object, say: Callable[[Any], None], tell: object) -> None:
        for batch, messages in enumerate((1_000, 7)):
            say(SimpleNamespace(batch=batch, messages=messages, bytes=1, bad=0))
        raise error("in the middle")

    with pytest.raises(raised):
        _done(SimpleNamespace(run=run), "local", None)
    assert "1,007 messages in 2 batches landed before this\n" in capsys.readouterr().err
