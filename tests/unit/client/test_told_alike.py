"""What ``help`` says of a call for tasks is all that it says of the one for threads."""

from __future__ import annotations

import inspect

import pytest

import onceq
from onceq import aio
from onceq.client.told_alike import told_alike

OWN = {"recovery"}
"""Methods that do something else in tasks."""
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
        assert plain(getattr(tasks, member)).startswith(plain(twin)), member
    assert len(plain(tasks)) >= 40


def test_functions_do_too() -> None:
    for name in ("open", "connect"):
        assert plain(getattr(aio, name)) == plain(getattr(onceq, name))
        assert "Raises:" in plain(getattr(aio, name))


def test_what_is_different_is_added() -> None:
    def threads() -> None:
        """Do it.

        Args:
            none.
        """

    def tasks() -> None:
        """Do it; see ``threads``. It may be cancelled."""

    def other() -> None:
        """Something else."""

    told_alike(tasks, threads)
    told_alike(other, threads)
    assert tasks.__doc__ == "Do it.\n\nArgs:\n    none.\n\nIn tasks: It may be cancelled."
    assert other.__doc__ == "Something else."
