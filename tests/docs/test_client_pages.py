"""The pages about the client protocol and the client library say what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import msgspec

import onceq
import onceq.aio
import onceq.directory
from onceq.client.properties import NAMES
from onceq.model import limits
from onceq.model.requests import KINDS, Abort
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode, ItemRow, written

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PROTOCOL = (REFERENCE / "formats" / "client-protocol.md").read_text()
LIBRARY = (REFERENCE / "client.md").read_text()

PUBLIC = (onceq, onceq.aio, onceq.directory)

CONNECTION: dict[FrameCode, tuple[type, type]] = {
    FrameCode.HELLO: (frames.Hello, frames.Welcome),
    FrameCode.PROVE: (frames.Prove, frames.ProofAnswer),
}
"""The fields of frames that are no requests, and of their answers."""


def fields(kind: type) -> str:
    names = getattr(kind, "_fields", None) or [f.name for f in msgspec.structs.fields(kind)]
    return ", ".join(names)


def test_the_frames_of_the_connection_are_those_of_the_code() -> None:
    """The table of requests is written from their classes (``tools/docs.py``)."""
    rows = re.findall(r"^\| (\d+) \| ([a-z]+) \| ([^|]+) \| ([^|]+) \|$", PROTOCOL, re.M)
    assert [(int(code), name) for code, name, _, _ in rows] == [
        (int(code), code.name.lower()) for code in FrameCode
    ]
    assert not KINDS.keys() & set(FrameCode)
    for number, _, head, answer in rows:
        known = CONNECTION.get(FrameCode(int(number)))
        if known is None:  # answered where it arrives
            assert (head, answer) == ("nothing", "nil")
        else:
            assert (head, answer) == tuple(map(fields, known))


def test_an_item_is_as_described() -> None:
    assert f"`[{fields(ItemRow)}]`" in PROTOCOL


def test_the_frame_shown_is_the_frame_sent() -> None:
    shown = re.search(r"^10 [0-9a-f ]+$", PROTOCOL, re.M)
    assert shown is not None
    sent = b"".join(written(3, Abort(5)))
    assert bytes.fromhex(shown[0]) == sent


def test_the_limits_named_exist() -> None:
    names = re.findall(r"`([A-Z][A-Z_]+_MAX|OUTCOME_WINDOW)`", PROTOCOL)
    assert "OUTCOME_WINDOW" in names
    for name in names:
        assert hasattr(limits, name), name


def test_every_property_is_described() -> None:
    table = LIBRARY.split("## Properties")[1].split("##")[0]
    described = {name for row in re.findall(r"^\* (`[^:]+): ", table, re.M)
                 for name in re.findall(r"`(\w+)`", row)}  # fmt: skip
    assert described == set(NAMES)


def test_every_public_call_says_what_it_does() -> None:
    """The reference is made from docstrings; ``tests/docs/test_site.py`` looks into it."""
    for module in PUBLIC:
        for name in module.__all__:
            thing = getattr(module, name)
            assert inspect.getdoc(thing), f"{module.__name__}.{name}"
            for member, value in inspect.getmembers(thing) if inspect.isclass(thing) else ():
                if (not member.startswith("_") and callable(value)) or isinstance(value, property):
                    assert inspect.getdoc(value), f"{module.__name__}.{name}.{member}"


def test_both_faces_have_the_same_calls() -> None:
    """Who knows a call for threads knows it for tasks; its parameters have the same names."""
    for name in onceq.aio.__all__:
        if not name.startswith("Async"):
            continue
        mine, other = getattr(onceq.aio, name), getattr(onceq, name.removeprefix("Async"))
        assert calls(mine) == calls(other), name


def calls(kind: type) -> dict[str, list[str]]:
    """Public methods of a class with the names of their parameters."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: list(inspect.signature(value).parameters)
        for name, value in found
        if not name.startswith("_")
    }


def test_the_overview_names_no_call_that_does_not_exist() -> None:
    """What stands in it as ``qm.name`` or ``tx.name`` is one."""
    kinds = {"qm": onceq.QueueManager, "tx": onceq.Transaction}
    named = re.findall(r"\b(qm|tx)\.(\w+)", LIBRARY)
    assert {"qm", "tx"} == {holder for holder, _ in named}
    for holder, name in named:
        kind = kinds[holder]
        assert hasattr(kind, name) or f"        {name}: " in (kind.__doc__ or ""), name
