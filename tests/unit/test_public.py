"""``import onceq``: its names, and what it does not load."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions

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


OF_EXTRAS = (
    "onceq.audit.", "onceq.console.", "onceq.exposition", "onceq.foreign.", "onceq.history.",
    "onceq.otel", "onceq.partners.postgresql", "onceq.partners.sqlalchemy", "onceq.service.http",
    "onceq.spark.", "onceq.testing.pytest", "onceq.wire.http",
    "onceq.wire.srmp.session",
)  # fmt: skip
"""Modules, or rooms of them, that may need a library of an extra when they are loaded."""
BARE = """
import importlib, json, pkgutil, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in WITHOUT:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import onceq
def modules(path, prefix):
    for found in pkgutil.iter_modules(path, prefix):
        yield found.name
        if found.ispkg:
            below = [f"{folder}/{found.name.rpartition('.')[2]}" for folder in path]
            yield from modules(below, found.name + ".")
failed, asked = [], 0
for name in modules(list(onceq.__path__), "onceq."):
    asked += 1
    try:
        name.endswith("__main__") or importlib.import_module(name)
    except Exception:
        failed.append(name)
print(json.dumps([asked, failed]))
"""
"""Load every module where no library of an extra is there; print how many, and which fail."""


def test_a_plain_install_loads_all_but_what_is_of_an_extra() -> None:
    """A module that stands with one of an extra fails with it, and with it a queue manager."""
    plain = {"onceq", "click", "msgspec"}
    without = {name for name, of in packages_distributions().items() if not plain & set(of)}
    assert {"pyarrow", "h11", "prometheus_client", "starlette", "cryptography"} <= without
    code = f"WITHOUT = {without!r}\n{BARE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    asked, failed = json.loads(done.stdout)
    assert asked > 300
    assert [name for name in failed if not name.startswith(OF_EXTRAS)] == []
    assert [one for one in OF_EXTRAS if not any(name.startswith(one) for name in failed)] == []
