"""``onceq names explain``: who a name is, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped
from onceq.cli.parameters import Argument

if TYPE_CHECKING:
    from onceq.model.views.managers import NameView

_LEADS_TO = {
    "here": "a queue of this queue manager",
    "elsewhere": "another queue manager",
    "list": "a distribution list",
    "nobody": "nobody: a message to it is refused",
}


def explain(
    name: Annotated[
        str,
        Argument(metavar="NAME", help="A path name, a format name, or the name of a list."),
    ],
    qm: Where = None,
    json: Json = False,
) -> None:
    """Say who a name is and why: which queue a message to it goes to, and how.

    Nothing is sent, and no outgoing queue is made.
    """
    with asking(qm) as connection:
        found = connection.explain_name(name)
    if dumped(found, json):
        return
    for one in found:
        _show(one)


def _show(one: NameView) -> None:
    indent = "  " * one.depth
    becomes = f"  -> {one.becomes}" if one.becomes else ""
    out.line(f"{indent}{one.name}{becomes}")
    if "one copy" in one.becomes or one.becomes == "was expanded before":
        return
    rows = (
        ("leads to", _LEADS_TO.get(one.leads_to, one.leads_to)),
        ("queue", one.queue),
        (
            "manager",
            " ".join(filter(None, (one.manager, f"({one.manager_id})" * bool(one.manager_id)))),
        ),
        ("address", f"{one.address} ({one.address_by})" if one.address else one.address_by),
        ("session", f"with {one.session}" if one.session else ""),
        ("goes through", f"outgoing queue {one.outgoing}" if one.outgoing else ""),
        ("because", one.rule),
    )
    for word, text in rows:
        if text:
            out.line(f"{indent}  {word + ':':13} {text}")
