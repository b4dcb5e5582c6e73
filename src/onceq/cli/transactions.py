"""``onceq tx``: what is open, prepared or in doubt on both sides, shown and decided.

What is prepared here waits for a coordinator; what is prepared in a database waits for this
manager. What is decided by hand stays in the log, and for the coordinator until it is
forgotten (XTX-8).
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from onceq.cli import out
from onceq.cli.common import (
    CONNECT_S_MAX,
    TOP,
    Argument,
    DryRun,
    Exit,
    Json,
    Option,
    Where,
    Yes,
    agreed,
    asking,
    complete_branch,
    dumped,
    manager,
)
from onceq.cli.contexts import meant
from onceq.cli.lists import LISTS
from onceq.client.address import parse
from onceq.client.stopping import pause
from onceq.client.why import branch_advice
from onceq.errors import InvalidParameter, OnceqError, UnknownBranch, UsageError
from onceq.model.branches import DecisionState, Xid, decider_of
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.wording import duration, plural

if TYPE_CHECKING:
    from onceq.client.threads.administration import ManagerConnection
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.looks import BranchView
    from onceq.partners.contract import Resource
    from onceq.partners.recovery import Report

Others = Annotated[
    list[str] | None,
    Option(
        "--other", "-o", metavar="WHERE", show_default=False,
        help="Another queue manager that takes part (as for --qm); may be repeated. It gets a "
             "token only from a file with a line for it.",
    ),
]  # fmt: skip
Watch = Annotated[
    bool, Option("--watch", help="Go on: look again from time to time, until Ctrl-C.")
]
BranchId = Annotated[
    str,
    Argument(metavar="BRANCH", help="As the list shows it.", autocompletion=complete_branch),
]
Decider = Annotated[
    str,
    Option(
        "--decider", metavar="WHERE", show_default=False,
        help="The queue manager that decides (as for --qm): do as it says.",
    ),
]  # fmt: skip


# ---- looking -----------------------------------------------------------------------------------


def show_transaction(
    branch: BranchId, database: Databases = None, qm: Where = None, json: Json = False
) -> None:
    """Show one branch: what it does here, what is prepared of it elsewhere, and the decision."""
    xid = Xid.parse(branch)
    with manager(qm) as connection:
        found = gathered(connection, resources_of(database), connection.decision)
        decider = decider_of(xid.gtrid)
        decision = "not this manager's"
        if decider == guid_bytes(connection.id):
            decision = connection.decision(xid.gtrid).value
    same = [
        b for b in (*found["branches"], *found["prepared"])
        if Xid.parse(b["xid"]).gtrid == xid.gtrid
    ]  # fmt: skip
    known = any(d.gtrid.encode() == xid.gtrid for d in found["decisions"])
    if not same and not known:
        raise UnknownBranch(f"nothing is known of {branch} here, nor in the databases asked")
    if dumped({"xid": str(xid), "decision": decision, "branches": same}, json):
        return
    out.facts([("transaction", xid.gtrid.decode("ascii", "backslashreplace")),
               ("decision", decision)])  # fmt: skip
    for one in same:
        print()
        facts: list[tuple[str, object]] = [("branch", one["xid"]), ("where", one["where"])]
        if one.get("queues") or one.get("destinations"):
            facts += [
                ("since", out.when(one["since"])),
                (
                    "sends",
                    f"{one['messages']} messages to "
                    f"{', '.join(map(out.name, one['destinations']))}",
                ),
                (
                    "holds",
                    f"{one['received']} messages of {', '.join(map(out.name, one['queues']))}",
                ),
            ]
        out.facts(facts)
        out.line(one["advice"])


# ---- deciding ----------------------------------------------------------------------------------


def commit_branch(
    branch: BranchId, decider: Decider = "", dry_run: DryRun = False, yes: Yes = False,
    qm: Where = None,
) -> None:  # fmt: skip
    """Commit a prepared branch: as its queue manager has decided, or by hand."""
    _decide(branch, decider, dry_run, yes, qm, commit=True)


def abort_branch(
    branch: BranchId, decider: Decider = "", dry_run: DryRun = False, yes: Yes = False,
    qm: Where = None,
) -> None:  # fmt: skip
    """Roll a prepared branch back: as its queue manager has decided, or by hand."""
    _decide(branch, decider, dry_run, yes, qm, commit=False)


def _decide(
    branch: str, decider: str, dry_run: bool, yes: bool, qm: str | None, *, commit: bool
) -> None:
    xid = Xid.parse(branch)
    word = "committed" if commit else "rolled back"
    with manager(qm) as connection:
        view = next((b for b in connection.admin.branches() if b.xid == str(xid)), None)
        if view is None:
            raise UnknownBranch(f"there is no branch {branch} here; 'tx list' shows what there is")
        if view.phase != "prepared":
            raise UsageError(f"branch {branch} is {view.phase}: only a prepared one is decided")
        if decider:
            known = decider_of(xid.gtrid)
            with _connected(decider) as other:
                if known != guid_bytes(other.id):
                    raise InvalidParameter(f"{other.name} does not decide {xid}")
                decision = other.decision(xid.gtrid)
            if decision is not (DecisionState.COMMITTED if commit else DecisionState.ABORTED):
                raise UsageError(f"{other.name} says that it is {decision.value}: nothing was done")
        if dry_run:
            how = "as was decided" if decider else "by hand"
            out.line(f"would be {word} {how}: {_does(view)}")
            return
        if not decider and not yes:
            out.note(
                "nobody asked the coordinator: if it decides otherwise, the partners differ "
                "permanently. The decision is recorded, and kept until 'tx forget'."
            )
            verb = "commit it" if commit else "roll it back"
            agreed(f"{_does(view)}; {verb} by hand?", yes=False)
        if commit:
            connection.xa.commit(xid, by_hand=not decider)
        else:
            connection.xa.rollback(xid, by_hand=not decider)
    out.line(f"{word}{'' if decider else ' by hand'}: {branch}")


def _does(view: BranchView) -> str:
    return f"it sends {plural(view.messages, 'message')} and has received {view.received}"


def forget_branch(
    branch: BranchId, yes: Yes = False, dry_run: DryRun = False, qm: Where = None
) -> None:
    """Forget a branch that was decided by hand, once all partners were compared. It asks first."""
    xid = Xid.parse(branch)
    with manager(qm) as connection:
        view = next((b for b in connection.admin.branches() if b.xid == str(xid)), None)
        if view is not None and not view.phase.endswith("by hand"):
            raise UsageError(f"branch {branch} is {view.phase}: only one decided by hand is kept")
        if view is not None and dry_run:
            out.line(f"would be forgotten: {branch}, {view.phase}; nothing was changed")
            return
        if view is not None:
            agreed(f"forget that {branch} was {view.phase}?", yes=yes)
        connection.xa.forget(xid)
    out.line(f"forgotten: {branch}")


def recover(
    database: Databases = None, other: Others = None, watch: Watch = False,
    dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Bring what is prepared elsewhere to the outcome that this manager has decided."""
    from onceq.client.recovering import ManagerResource
    from onceq.partners.finding import place_for

    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(manager(qm))
        if watch:
            if json or dry_run:
                raise UsageError("--watch goes with neither --json nor --dry-run")
            _watch(connection, other or [], database or [])
        others = [stack.enter_context(_connected(where)) for where in other or ()]
        resources: list[Resource] = [ManagerResource(other) for other in others]
        recovery = connection.recovery(resources)
        for text in database or ():
            recovery.add_place(place_for(text), now=True)
        report = recovery.step(time.monotonic(), dry_run=dry_run)
        recovery.close()
    if not dumped(_as_map(report), json):
        _print(report, dry_run)
    if not report.clean:
        raise Exit(1)


def accept_database(
    name: Annotated[str, Argument(metavar="NAME", help="As the queue manager calls it.")],
    qm: Where = None,
) -> None:
    """Accept a database that decides by its rows in its present state, after it was restored."""
    from onceq.client.recovering import ManagerDecider

    with manager(qm) as connection:
        ManagerDecider(connection).rows(name, -1)
    out.line(f"{name} is accepted in its present state")


def _connected(where: str) -> QueueManager:
    """Another queue manager: a token that does not say for whom it is is for the one that is
    operated."""
    from onceq.client.opening import connect_aside

    other = meant(where)
    return connect_aside(
        other.where, timeout=CONNECT_S_MAX, token_file=other.token_file or TOP.token_file
    )


def _watch(qm: QueueManager, others: list[str], databases: list[str]) -> NoReturn:
    """Go on until somebody interrupts it; what stays the same is not said again.

    No partner needs to be there yet: one that does not answer is named, and asked again.
    """
    from onceq.client.threads.recovering import AbsentManager
    from onceq.partners.finding import place_for
    from onceq.partners.recovery import WAIT_S_MAX

    recovery = qm.recovery()
    for place in others:
        parse(meant(place).where)  # what is no address at all is told now
        recovery.add_unmet(AbsentManager(partial(_connected, place)), place)
    for place in databases:
        recovery.add_place(place_for(place))
    said: set[str] = set()
    count = len(others) + len(databases)
    out.note(f"{qm.name} looks after {count} partners of its transactions; Ctrl-C ends it")
    try:
        while True:
            now_s, wait_s = time.monotonic(), WAIT_S_MAX
            try:
                report = recovery.step(now_s)
            except OnceqError as error:
                trouble = {f"this queue manager cannot be asked: {error.text}"}
            else:
                wait_s = recovery.next_s(now_s, report)
                for line in _done(report, ""):
                    out.line(line)
                sys.stdout.flush()  # also into a pipe, where somebody watches
                trouble = set(_troubles(report))
            for line in sorted(trouble - said):
                out.note(line)
            for line in sorted(said - trouble):
                out.note(f"no longer: {line}")
            said = trouble
            pause(wait_s)
    finally:
        recovery.close()


def _as_map(report: Report) -> dict[str, Any]:
    return {
        "committed": [[name, str(xid)] for name, xid in report.committed],
        "rolled_back": [[name, str(xid)] for name, xid in report.rolled_back],
        "at_work": [[name, str(xid)] for name, xid in report.at_work],
        "by_hand": [[name, str(xid), why] for name, xid, why in report.by_hand],
        "failed": report.failed,
        "forgotten": [gtrid.decode() for gtrid in report.forgotten],
        "waiting": {gtrid.decode(): list(names) for gtrid, names in report.waiting.items()},
    }


def _print(report: Report, dry_run: bool) -> None:
    done = _done(report, "would be " if dry_run else "")
    for line in done:
        out.line(line)
    for line in _troubles(report):
        out.note(line)
    if report.clean and not done:
        out.line("nothing was left prepared that this queue manager decides")


def _done(report: Report, would: str) -> list[str]:
    return [
        *(f"{would}committed at {name}: {xid}" for name, xid in report.committed),
        *(f"{would}rolled back at {name}: {xid}" for name, xid in report.rolled_back),
        *(f"decided by hand at {name}: {xid}: {why}" for name, xid, why in report.by_hand),
    ]


def _troubles(report: Report) -> list[str]:
    return [
        *(
            f"left alone at {name}, its application is at work: {xid}"
            for name, xid in report.at_work
        ),
        *(f"{name} cannot be asked: {why}" for name, why in report.failed.items()),
        *(
            f"{gtrid.decode()} is still to be told to {', '.join(names)}: name these with "
            "--database or --other"
            for gtrid, names in report.waiting.items()
        ),
    ]


Databases = Annotated[
    list[str] | None,
    Option(
        "--database", "-d", metavar="DATABASE", show_default=False,
        help="Look there, too: postgresql://user@host/name, mariadb://user@host/name or "
             "sqlite:///path; may be repeated.",
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
    qm: ManagerConnection, resources: Sequence[Resource] = (),
    decided: Callable[[bytes], DecisionState] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Everything that there is, on both sides.

    Args:
        resources: Of databases that are to be looked into.
        decided: Asks the queue manager for a decision; needed where there are some.
    """
    branches = [
        {**b.as_dict(), "where": b.phase, "advice": branch_advice(b, guid_bytes(qm.id))}
        for b in qm.admin.branches()
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
    transactions = sorted(qm.admin.transactions(), key=lambda t: (t.began, t.owner, t.number))
    return {
        "transactions": transactions, "branches": branches, "prepared": prepared,
        "decisions": qm.admin.decisions(), "failed": failed,
    }  # fmt: skip


def _advice_there(id: str, xid: Xid, decided: Callable[[bytes], DecisionState] | None) -> str:
    decider = decider_of(xid.gtrid)
    if decider is None:
        return "not ours: leave it to its owner"
    if decider != guid_bytes(id):
        return f"queue manager {guid_text(decider)} decides: ask there"
    assert decided is not None
    decision = decided(xid.gtrid)
    if decision is DecisionState.OPEN:
        return "its application is at work: leave it"
    done = "commits it" if decision is DecisionState.COMMITTED else "rolls it back"
    return f"decided: {decision.value}; tx recover {done}"
