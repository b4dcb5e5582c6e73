"""What the documentation says of running a queue manager is what the code does."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from onceq.model.settings import Settings
from onceq.service.config import Configuration, parse

ROOT = Path(__file__).resolve().parents[3]
CONFIGURATION = ROOT / "docs" / "reference" / "configuration.md"
HOW_TO = ROOT / "docs" / "how-to" / "run-a-queue-manager.md"
UNIT = ROOT / "packaging" / "onceq@.service"


def test_every_key_of_the_configuration_is_listed_with_its_default() -> None:
    keys = CONFIGURATION.read_text().split("## Keys")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\* `(\w+)` \(`([^`]*)`\): ", keys, re.M))
    wanted = {}
    for item in fields(Configuration):
        value = getattr(Configuration(), item.name)
        if isinstance(value, str):
            wanted[item.name] = f'"{value}"'
        elif isinstance(value, tuple):
            wanted[item.name] = "[]"
        else:
            assert value in ({}, Settings())
            wanted[item.name] = "{}"
    assert rows == wanted


@pytest.mark.parametrize("page", [CONFIGURATION, HOW_TO])
def test_samples_of_the_configuration_are_accepted(page: Path) -> None:
    samples = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.M | re.S)
    assert samples
    for sample in samples:
        parse(tomllib.loads(sample))


def test_every_event_that_is_logged_is_listed() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src/onceq/service").glob("*.py"))
    logged = set(re.findall(r"\bevent\(\s*\"([^\"]+)\"", source))
    assert len(logged) > 8
    listed = set(re.findall(r"`([^`]+)`", HOW_TO.read_text().split("## What it logs")[1]))
    assert logged <= listed, f"not in {HOW_TO.name}: {sorted(logged - listed)}"


def test_the_unit_restarts_after_what_a_restart_can_cure() -> None:
    text = UNIT.read_text()
    assert "Restart=on-failure" in text
    assert "RestartPreventExitStatus=2\n" in text
    assert "Type=notify" in text
    assert re.search(r"^ExecStart=/usr/bin/env onceq qm run ", text, re.M)
