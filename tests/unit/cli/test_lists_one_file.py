"""A new column is a new field of its view: everything that shows such views follows from it."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from msgspec.structs import replace

import docs_cli
from onceq.cli import lists
from onceq.console import reading
from onceq.console.guard import FormValues
from onceq.console.table import environment
from onceq.model.views.managers import PeerView
from onceq.model.views.view import Column, columns, copy_by_name, meanings, plain


class Wider(PeerView, frozen=True):
    """A view with one more field.

    Attributes:
        spoken_s: How long it has
            spoken.
    """

    spoken_s: Annotated[int, Column("spoken for", "age")] = 0


VIEW = Wider(name="os:beta", id="b", since=1, spoken_s=90)


def test_a_builder_takes_it_from_what_has_it() -> None:
    source = type("Binding", (), {"spoken_s": 90, "since_s": 1})()
    assert copy_by_name(Wider, source, name="os:beta", id="b", connected=False) == VIEW
    with pytest.raises(TypeError, match="Wider has for connected"):
        copy_by_name(Wider, source, name="os:beta", id="b")


def test_a_list_of_the_command_line_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    wider = replace(lists.LISTS["peer list"], view=Wider)
    wider.show([VIEW], json=False)
    head, row = capsys.readouterr().out.splitlines()
    assert head.endswith("connected  spoken for")
    assert row.endswith("no         90 s")
    wider.show([VIEW], json=True)
    assert json.loads(capsys.readouterr().out)[0]["spoken_s"] == 90


def test_the_console_has_it() -> None:
    class Manager:
        def __init__(self) -> None:
            self.admin = self

        async def peers(self) -> list[PeerView]:
            return [VIEW]

    manager: Any = Manager()
    told = asyncio.run(reading.peers(manager, FormValues({}), 0))
    told_plain: Any = plain(told)
    assert told_plain["peers"][0]["spoken_s"] == 90
    page = environment(lambda: 0).get_template("peers.html").render(
        told=told, watched=SimpleNamespace(key="a", title="A"), given={}, title="", managers=[],
        session=None, form_token="", notices=[], screens=[], screen="peers",
    )  # fmt: skip
    assert '<th scope="col" class="n">Spoken for</th>' in page
    assert '<td data-label="Spoken for" class="n"><bdi>1 min 30 s</bdi></td>' in page


def test_the_reference_has_it() -> None:
    told = docs_cli.columns(replace(lists.LISTS["peer list"], view=Wider), set())
    assert "* `spoken for`: How long it has spoken.\n" in told
    assert "* `since`: When it first answered there.\n" in told


@pytest.mark.parametrize("listing", lists.LISTS.values(), ids=lists.LISTS)
def test_every_column_has_a_meaning(listing: lists.Listing[Any]) -> None:
    said = meanings(listing.view)
    assert [name for name in columns(listing.view) if not said.get(name)] == [
        name for name in columns(listing.view) if isinstance(vars(listing.view).get(name), property)
    ]
