"""What public calls return has a type: no ``Any``, and no dictionary whose keys nobody tells."""

from __future__ import annotations

import inspect
import sys
import threading
import typing
from collections.abc import Iterator
from types import FunctionType, SimpleNamespace

import pytest

import onceq
import onceq.aio
from onceq.model.views.view import View

OPEN: dict[str, str] = {
    "enlist": "the connection that was given, or a branch",
    "json": "whatever a body is, or of the type that was asked for",
    "run": "what the application's own function returns",
}
"""Calls whose result is of a type that only the caller knows."""


def named() -> dict[str, object]:
    """Names that annotations may use, also those that are imported for type checkers only."""
    found: dict[str, object] = {}
    for module in [m for name, m in sys.modules.items() if name.startswith("onceq")]:
        found |= {name: value for name, value in vars(module).items() if isinstance(value, type)}
    found |= {"threading": threading, "ManagementValue": onceq.ManagementValue}
    return found | {"array": list}  # An array has no type of its items before Python 3.12.


def calls() -> Iterator[tuple[str, FunctionType]]:
    for module in (onceq, onceq.aio):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing
            for member, value in inspect.getmembers(thing) if inspect.isclass(thing) else ():
                function = value.fget if isinstance(value, property) else value
                ours = str(getattr(function, "__module__", "")).startswith("onceq")
                if ours and not member.startswith("_") and inspect.isfunction(function):
                    yield f"{module.__name__}.{name}.{member}", function


CALLS = dict(calls())


def loose(hint: object) -> bool:
    """Whether a type leaves open what there is."""
    return hint in (typing.Any, dict) or any(map(loose, typing.get_args(hint)))


@pytest.mark.parametrize("name", CALLS)
def test_results_have_types(name: str) -> None:
    if name.rpartition(".")[2] in OPEN:
        return
    call = CALLS[name]
    result = SimpleNamespace(__annotations__={"return": call.__annotations__["return"]})
    # What a module has itself is meant; of the others, names that it imports for its types alone.
    others = {name: kind for name, kind in named().items() if name not in call.__globals__}
    hint = typing.get_type_hints(result, call.__globals__, others | {"array": list})["return"]
    assert not loose(hint), hint


def test_fields_of_views_have_types() -> None:
    kinds = [getattr(onceq, name) for name in onceq.__all__]
    views = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, View)]
    assert len(views) > 20
    for view in views:
        for field, hint in typing.get_type_hints(view).items():
            assert not loose(hint), f"{view.__name__}.{field}"


def test_what_leaves_open_is_noticed() -> None:
    for hint in (typing.Any, dict, dict[str, typing.Any], list[dict[str, typing.Any]]):
        assert loose(hint)
    assert not loose(list[onceq.QueueView])
