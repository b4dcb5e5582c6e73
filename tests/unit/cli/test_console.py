"""The command says what is missing, and what is wrong with its options."""

from __future__ import annotations

import os
import signal
import sys

import pytest
import uvicorn

from onceq.cli import out
from onceq.cli.main import run


def test_without_its_libraries_it_says_which_extra_has_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("onceq.console.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["console", "-q", "onceq://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "the console needs uvicorn: pip install 'onceq[console]'" in said


def test_a_token_that_can_be_guessed_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONCEQ_CONSOLE_TOKEN", "secret")
    assert run(["console", "-q", "onceq://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "20 characters or more" in said
    assert "secret" not in said


def test_a_signal_right_after_its_address_ends_it_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(text: str) -> None:
        if text.startswith("console: "):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(out, "line", end)
    assert run(["console", "--port", "0", "-q", "onceq://127.0.0.1:9"]) == 0


def test_a_console_that_does_not_start_names_no_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def startup(self: uvicorn.Server, sockets: object = None) -> None:
        self.should_exit = True

    monkeypatch.setattr(uvicorn.Server, "startup", startup)
    assert run(["console", "--port", "0", "-q", "onceq://127.0.0.1:9"]) == 2
    said = capsys.readouterr()
    assert "console: http" not in said.out
    assert "the console did not start" in said.err
