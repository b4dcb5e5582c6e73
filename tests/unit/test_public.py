"""``import onceq``: its names, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import onceq
from onceq import public


def loaded(code: str) -> set[str]:
    """Modules of onceq that are there in a new process when it has run the code."""
    code += "\nimport sys\nprint(*[name for name in sys.modules if name.startswith('onceq')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_public_name_is_there() -> None:
    for name in public.__all__:
        assert getattr(onceq, name) is getattr(public, name)
    assert {*public.__all__, "__version__"} == set(dir(onceq))


def test_a_name_that_is_not_there_is_told_by_name() -> None:
    with pytest.raises(AttributeError, match="module 'onceq' has no attribute 'conect'"):
        onceq.conect  # type: ignore[attr-defined]  # noqa: B018


def test_the_client_library_is_loaded_when_a_name_of_it_is_used() -> None:
    assert "onceq.client.opening" not in loaded("import onceq")
    assert "onceq.client.opening" in loaded("import onceq; onceq.connect")
    assert "onceq.client.opening" in loaded("from onceq import *")


def test_a_daemon_does_not_load_it() -> None:
    assert not [m for m in loaded("import onceq.service.main") if m.startswith("onceq.client")]
