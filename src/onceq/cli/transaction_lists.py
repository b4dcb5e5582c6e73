"""``onceq tx list``: transactions at work, branches, decisions, and what databases have prepared.

Each line says what is known of the decision, and what can safely be done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped, manager
from onceq.cli.lists import LISTS
from onceq.cli.parameters import Option
from onceq.client.why import branch_advice
from onceq.model.branch import Decision
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.wording import duration
from onceq.model.xid import Xid, decider_of

if TYPE_CHECKING:
    from onceq.client.threads.looking import Looking
    from onceq.partners.contract import Resource

Databases = Annotated[
    list[str] | None,
    Option(
        "--database", "-d", metavar="DATABASE", show_default=False,
        help="Look there, too: postgresql://user@host/name, mariadb://user@host/name or "
             "sqlite:///path. May be given several times.",
    ),
]  # fmt: skip


def resources_of(databases: list[str] | None) -> list[Resource]:
    """What recovers what these databases have prepared."""
    from onceq.partners.finding import place_for

    found = (place_for(text).resource for text in databases or ())
    return [resource for resource in found if resource is not None]


def list_transactions(database: Databases = None, qm: Where = None, json: Json = False) -> None:
    """List transactions at work, branches, decisions, and what is prepared in databases."""
    if database:
        with manager(qm) as connection:
            found = gathered(connection, resources_of(database), connection.decision)
    else:
        with asking(qm) as connection:
            found = gathered(connection)
    if dumped(found, json):
        return
    now = int(time.time())
    shown = False
    if found["transactions"]:
        shown = True
        LISTS["tx list"].table(found["transactions"])
    for title, what in (("here", "branches"), ("database", "prepared")):
        if found[what]:
            shown = True
            out.table(
                ("branch", title, "for", "sends", "holds", "what to do"),
                [
                    (b["xid"], b["where"], duration(now - b["since"]) if b["since"] else "",
                     b["messages"], b["received"], b["advice"])
                    for b in found[what]
                ],
                texts=("what to do",),
                give=("for", "sends", "holds", "what to do"),
            )  # fmt: skip
    if found["decisions"]:
        shown = True
        LISTS["tx list: decisions"].table(found["decisions"])
    for name, why in found["failed"].items():
        out.note(f"{name} cannot be asked: {why}")
    if not shown:
        out.line("no transaction is open, prepared or in doubt")


def gathered(
    qm: Looking, resources: Sequence[Resource] = (),
    decided: Callable[[bytes], Decision] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Everything that there is, on both sides.

    Args:
        resources: Of databases that are to be looked into.
        decided: Asks the queue manager for a decision; needed where there are some.
    """
    branches = [
        {**b.as_dict(), "where": b.phase, "advice": branch_advice(b, guid_bytes(qm.id))}
        for b in qm.branches()
    ]
    prepared: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for resource in resources:
        try:
            for xid in resource.recover():
                prepared.append({
                    "xid": str(xid), "where": resource.name, "since": 0, "messages": 0,
                    "received": 0, "advice": _advice_there(qm.id, xid, decided),
                })  # fmt: skip
        except Exception as error:  # noqa: BLE001 - any driver's errors
            failed[resource.name] = str(error)
        finally:
            resource.close()
    transactions = sorted(qm.transactions(), key=lambda t: (t.began, t.owner, t.number))
    return {
        "transactions": transactions, "branches": branches, "prepared": prepared,
        "decisions": qm.decisions(), "failed": failed,
    }  # fmt: skip


def _advice_there(id: str, xid: Xid, decided: Callable[[bytes], Decision] | None) -> str:
    decider = decider_of(xid.gtrid)
    if decider is None:
        return "not ours: leave it to its owner"
    if decider != guid_bytes(id):
        return f"queue manager {guid_text(decider)} decides: ask there"
    assert decided is not None
    decision = decided(xid.gtrid)
    if decision is Decision.OPEN:
        return "its application is at work: leave it"
    done = "commits it" if decision is Decision.COMMITTED else "rolls it back"
    return f"decided: {decision.value}; tx recover {done}"
