"""Sentences of workers on their way to the command that has started Spark."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onceq.spark.worker_messages import (
    SENTENCE_BYTES_MAX,
    VARIABLE,
    LogFileHandler,
    LogReader,
    follow_log,
    logging_into,
)


def log_of(path: Path) -> logging.Logger:
    """A worker's log, which nobody else has."""
    log = logging.Logger("worker")
    log.addHandler(LogFileHandler(str(path)))
    return log


def test_each_sentence_is_heard_once_and_as_one_line(tmp_path: Path) -> None:
    heard: list[str] = []
    ear = LogReader(tmp_path / "says", heard.append)
    one, other = log_of(tmp_path / "says"), log_of(tmp_path / "says")
    one.warning("%s does not answer\n(refused)", "HUB")
    ear.pass_on()
    ear.pass_on()
    assert heard == ["HUB does not answer (refused)"]
    other.warning("HUB does not answer (refused)")
    ear.pass_on()
    assert len(heard) == 1, "tasks that wait for the same say it once"
    other.warning("HUB answers again, after 2.0 s")
    one.warning("HUB does not answer (refused)")
    ear.pass_on()
    ear.pass_on()
    assert heard[1:] == ["HUB answers again, after 2.0 s", "HUB does not answer (refused)"]


def test_half_a_sentence_waits_for_its_end(tmp_path: Path) -> None:
    heard: list[str] = []
    path = tmp_path / "says"
    ear = LogReader(path, heard.append)
    path.write_bytes(b"whole\nha")
    ear.pass_on()
    assert heard == ["whole"]
    path.write_bytes(b"whole\nhalf\n")
    ear.pass_on()
    assert heard == ["whole", "half"]


def test_a_long_sentence_is_cut_and_stays_one_line(tmp_path: Path) -> None:
    heard: list[str] = []
    ear = LogReader(tmp_path / "says", heard.append)
    log_of(tmp_path / "says").warning("é" * SENTENCE_BYTES_MAX)
    log_of(tmp_path / "says").warning("next")
    ear.pass_on()
    assert heard[0].startswith("é" * (SENTENCE_BYTES_MAX // 2 - 1))
    assert heard[1:] == ["next"]


def test_who_is_not_heard_any_more_speaks_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command has ended, or is on another computer: no worker fails because of that."""
    log_of(tmp_path / "gone").warning("nobody hears this")
    assert capsys.readouterr().err == "nobody hears this\n"
    assert not (tmp_path / "gone").exists()


def test_a_process_that_is_started_inside_is_heard_and_others_are_not(tmp_path: Path) -> None:
    heard: list[str] = []
    program = (
        "import logging, onceq.spark, onceq.spark.source.access;"
        "logging.getLogger('onceq.spark').warning('here I am')"
    )
    command = [sys.executable, "-c", program]
    path = tmp_path / "says"
    with follow_log(path, heard.append):
        with logging_into(path):
            inside = subprocess.run(command, capture_output=True, text=True, check=True)
        outside = subprocess.run(command, capture_output=True, text=True, check=True)
    assert heard == ["here I am"]
    assert (inside.stderr, outside.stderr) == ("", "here I am\n")
    assert VARIABLE not in os.environ


def test_the_last_sentence_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said between the last look and the end; before that, nothing is looked at here."""
    monkeypatch.setattr("onceq.spark.worker_messages.LOOK_S", 3600.0)
    heard: list[str] = []
    with follow_log(tmp_path / "says", heard.append):
        log_of(tmp_path / "says").warning("the last one")
    assert heard == ["the last one"]
