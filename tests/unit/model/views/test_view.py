"""Views: fields by attribute and by name, and defaults for what an older manager does not say."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import msgspec
import pytest

from onceq.model.views import looks, managers, queues
from onceq.model.views.looks import LOOKS
from onceq.model.views.queues import ConnectionView, OutgoingView, QueueView, SequenceInfo
from onceq.model.views.view import View, plain

SOURCE = Path(__file__).resolve().parents[4] / "src" / "onceq"
KINDS = {
    name: kind
    for module in (managers, queues, looks)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, View) and kind.__module__ == module.__name__
}


def test_a_field_is_an_attribute_and_an_item() -> None:
    view = QueueView(name="q", messages=3)
    assert view.messages == view["messages"] == 3
    for name in ("nothing", "as_dict", "__class__"):
        with pytest.raises(KeyError, match=name):
            view[name]
    assert "messages" in view
    assert "nothing" not in view
    assert 0 not in view
    with pytest.raises(TypeError, match="not iterable"):
        list(view)  # type: ignore[call-overload]


def test_as_dict_is_fit_for_json() -> None:
    history = (ConnectionView(status=1, address="10.0.0.2"),)
    found = OutgoingView(next_hops=("OS:B",), history=history).as_dict()
    assert found["next_hops"] == ["OS:B"]
    assert found["history"] == [history[0].as_dict()]
    assert found["put_back"] is None
    assert list(found) == [field.name for field in dataclasses.fields(OutgoingView)]
    assert plain({"x": (b"\x01", [history[0]])}) == {"x": ["01", [history[0].as_dict()]]}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_field_has_a_default_and_a_meaning(kind: type[View]) -> None:
    """So that a client understands managers that say more, and such that say less."""
    said = {"a field of a later version": 1}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=kind) == kind()
    names = [field.name for field in dataclasses.fields(kind)]
    doc = kind.__doc__ or ""
    assert [name for name in names if f"        {name}: " not in doc] == []


def test_the_core_says_every_field_of_what_it_shows() -> None:
    """Defaults are for what others leave out; a type checker does not notice a field forgotten, and
    ``copy_by_name`` does."""
    made = set()
    for path in (SOURCE / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            kind = KINDS.get(node.func.id)
            words: list[object] = [word.arg for word in node.keywords]
            starred = any(isinstance(one, ast.Starred) for one in node.args)
            if kind in (None, SequenceInfo) or starred or None in words or not (node.args or words):
                continue
            assert kind is not None
            made.add(node.func.id)
            left = {field.name for field in dataclasses.fields(kind)[len(node.args) :]}
            left -= {*words, *LATER.get(node.func.id, ())}
            assert not left, f"{path.name}:{node.lineno}"
    assert len(made) > 10


LATER = {"QueueView": {"put_back"}, "Restored": {"aside", "told"}}
"""What is filled in elsewhere."""


def test_every_look_has_its_word() -> None:
    assert all(what == look.what for what, look in LOOKS.items())
    assert len(LOOKS) == 32
