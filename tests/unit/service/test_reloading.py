"""What a reload applies and what it leaves: no key of the file is forgotten."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from onceq.model import limits
from onceq.model.settings import AT_START as SETTINGS_AT_START
from onceq.model.settings import Settings
from onceq.service.config import Configuration
from onceq.service.reloading import APPLIED, AT_START, _compared

HOW_TO = Path(__file__).resolve().parents[3] / "docs/how-to/run-a-queue-manager.md"


def test_each_key_is_either_applied_or_taken_at_the_start() -> None:
    assert set(APPLIED).isdisjoint(AT_START)
    assert {field.name for field in fields(Configuration)} == APPLIED | AT_START


def test_settings_that_say_that_they_are_taken_at_the_start_are() -> None:
    source = Path(limits.__file__).read_text()
    told = re.findall(r'^    (\w+): [^\n]*\n    """[^"]*[Tt]aken at the start', source, re.M)
    assert set(told) <= SETTINGS_AT_START
    assert {field.name for field in fields(Settings)} >= SETTINGS_AT_START


def test_the_page_names_what_is_taken_at_the_start() -> None:
    text = HOW_TO.read_text().split("## How to change its configuration")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", text))
    assert (AT_START | SETTINGS_AT_START) - {"name"} <= named


def test_what_needs_a_restart_stays_as_it_was_and_is_named_again() -> None:
    now = Configuration()
    wanted = Configuration(
        listen="0.0.0.0:1801", peers={"B": "x"}, databases=("postgresql://me:secret@host/db",),
        http_certificate="c.pem", settings=Settings(history=True, connect_retry_s=1.0),
    )  # fmt: skip
    for _ in range(2):
        holds, changed, restart = _compared(now, wanted)
        assert holds == Configuration(peers={"B": "x"}, settings=Settings(connect_retry_s=1.0))
        assert restart == [
            "listen: 127.0.0.1:1801 -> 0.0.0.0:1801", "databases",
            'http_certificate: "" -> c.pem', "settings.history: false -> true",
        ]  # fmt: skip
        now = holds
    assert changed == []
