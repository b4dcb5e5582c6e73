"""A planted mistake, and what finds it.

Each module of ``tests/planted/edges`` has a tuple ``PLANTED``. ``make planted`` plants one mistake
after another and runs what is said to find it; a mistake that is not found fails the run. To try
one by hand, with the test that shall fail::

    ONCEQ_PLANT=name-of-the-mistake python -m pytest -p tests.planted.plugin -x -q tests/unit/...
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

from onceq.core import rights as required_rights
from onceq.model.requests import Request
from onceq.model.requests.request import Needs
from onceq.model.rights import Right

SIM = "sim"
"""Found by the simulator, within the seeds of ``make sim SEEDS=300``."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One mistake.

    Attributes:
        name: Words with hyphens; unique.
        plant: Puts the mistake into the code that runs in this process.
        found_by: Node identifier of a test of ``make test`` without parameters, or SIM.
        first: For SIM: the seed from which the search begins.
    """

    name: str
    plant: Callable[[pytest.MonkeyPatch], None]
    found_by: str
    first: int = 0


def replaced(target: object, name: str, value: object) -> Callable[[pytest.MonkeyPatch], None]:
    """A mistake that takes the place of one attribute."""
    return lambda monkeypatch: monkeypatch.setattr(target, name, value)


def demanded(kind: type[Request], needs: Right | Needs) -> Callable[[pytest.MonkeyPatch], None]:
    """A mistake that is a request for which something else must be allowed."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(required_rights.TABLE, kind, raising=False)
        monkeypatch.setattr(kind, "needs", needs)

    return plant


def edited(module: ModuleType, old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A mistake that is an edit of a module's text: its functions and methods run the edited code
    from then on, wherever they have been imported to.

    Args:
        old: Occurs in the module once.

    Raises (when it is planted):
        NameError: The edited text reads a name that the module does not have. It would be found as
            a crash, not as the mistake that it is meant to be.
        ValueError: No function runs the edited text, because a table of the module was made before.
    """

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        text = inspect.getsource(module)
        assert text.count(old) == 1, f"{module.__name__} has {old!r} {text.count(old)} times"
        code = compile(text.replace(old, new), str(module.__file__), "exec")
        if unknown := sorted(_global_reads(code) - vars(module).keys() - vars(builtins).keys()):
            raise NameError(f"{module.__name__} has no {', '.join(unknown)}, which {new!r} reads")
        changed = False
        for one in code.co_consts:
            there = vars(module).get(one.co_name) if isinstance(one, CodeType) else None
            if getattr(there, "__module__", "") != module.__name__:
                continue
            if isinstance(there, type):
                for method in one.co_consts:
                    if isinstance(method, CodeType):
                        member = vars(there).get(method.co_name)
                        changed |= _exchange(monkeypatch, member, method)
            else:
                changed |= _exchange(monkeypatch, there, one)
        if not changed:
            raise ValueError(f"no function of {module.__name__} runs {new!r}")

    return plant


def _global_reads(code: CodeType) -> set[str]:
    """Return the globals that the functions of a module's code read, within classes too."""
    read: set[str] = set()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            operations = dis.get_instructions(inner)
            read |= {str(one.argval) for one in operations if one.opname == "LOAD_GLOBAL"}
            read |= _global_reads(inner)
    return read


def _exchange(monkeypatch: pytest.MonkeyPatch, function: object, code: CodeType) -> bool:
    """Let a function run other code; return whether it does something else from then on."""
    if callable(function):
        function = inspect.unwrap(function)
    if not isinstance(function, FunctionType) or function.__code__.co_name != code.co_name:
        return False
    before = _doing(function.__code__)
    monkeypatch.setattr(function, "__code__", code)
    return before != _doing(code)


def _doing(code: CodeType) -> tuple[object, ...]:
    """Return what a function's code does, without the lines on which it stands."""
    consts = (_doing(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, *consts


def all_planted() -> dict[str, Planted]:
    """Every mistake of the folder ``edges``, by name."""
    found: dict[str, Planted] = {}
    for path in sorted((Path(__file__).parent / "edges").glob("[a-z]*.py")):
        module = import_module(f"tests.planted.edges.{path.stem}")
        for planted in module.PLANTED:
            assert planted.name not in found, f"two planted mistakes are called {planted.name}"
            found[planted.name] = planted
    return found
