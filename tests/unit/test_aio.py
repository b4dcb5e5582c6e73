"""What ``help`` says of a call for tasks is all that it says of the one for threads."""

from __future__ import annotations

import inspect

import pytest

import onceq
from onceq import aio

OWN = {"close", "recovery"}
"""Methods that are written for each face by itself."""
CLASSES = [name for name in aio.__all__ if name.startswith("Async")]


def plain(thing: object) -> str:
    """Without the words that differ by nature."""
    said = inspect.getdoc(thing) or ""
    for word, plainly in (("An Async", "A "), ("Async", ""), ("async with", "with")):
        said = said.replace(word, plainly)
    return said


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_says_what_its_twin_says(name: str) -> None:
    tasks, threads = getattr(aio, name), getattr(onceq, name.removeprefix("Async"))
    for member, twin in inspect.getmembers(threads, inspect.isfunction):
        if member.startswith("_") or member in OWN:
            continue
        assert plain(getattr(tasks, member)) == plain(twin), member
    assert len(plain(tasks)) >= 40


def test_functions_do_too() -> None:
    for name in ("open", "connect"):
        assert plain(getattr(aio, name)) == plain(getattr(onceq, name))
        assert "Raises:" in plain(getattr(aio, name))
