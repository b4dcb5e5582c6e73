"""Views of the state: the base of management commands and ``why`` (EOD-48).

Views are plain values; times are seconds since 1970, 0 meaning never.

Also here:

* The settings: their present values, beside their defaults.
* The meaning of a name, with the reason: for ``onceq names explain`` (finding K13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Final, TypeVar

from onceq.core.management import (
    damage,
    directory_rules,
    jobs,
    metrics,
    msmq_names,
    peer_operations,
    queue_views,
    rights,
    trail,
    work_views,
)
from onceq.core.management.directory_rules import find_list, list_view
from onceq.core.management.paging import LATER, PagedListing, page
from onceq.core.management.queue_views import outgoing_view, queue_view
from onceq.core.names import (
    computer_of,
    find_outgoing,
    find_queue,
    is_local,
    known_outgoing,
    local_queue,
    members,
    read_directory,
    waits_elsewhere,
)
from onceq.core.peers import lives
from onceq.core.peers.duplicate_identity import clash_views
from onceq.core.receive.poison import holds_poison
from onceq.core.rights import MONITOR, may, places, to_see_properties
from onceq.core.state.log_space import Space
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import DEAD_LETTER, DEAD_XACT, title_of
from onceq.core.state.queues import Queue
from onceq.core.step.connections import Mode
from onceq.core.step.step import Step, rule_for
from onceq.core.transfer.connecting import way_of
from onceq.errors import InvalidParameter, OnceqError
from onceq.model.addresses import HERE
from onceq.model.directory import Snapshot
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import QUEUES_MEASURED_AT_ONCE, SILENT_S
from onceq.model.names import FormatName, Kind, may_send, parse_any
from onceq.model.requests import Look
from onceq.model.settings import AT_START, Settings
from onceq.model.views import looks
from onceq.model.views.managers import NameView, SettingView, StatusView
from onceq.model.views.queues import QueueView
from onceq.model.views.view import Page

# ---- setting views -------------------------------------------------------------------------------


_DEFAULTS: Final = Settings()


def settings(step: Step) -> list[SettingView]:
    """Return all of them, in the order of ``docs/reference/settings.md``."""
    return [
        SettingView(
            name := field.name,
            getattr(step.settings, name),
            getattr(_DEFAULTS, name),
            at_start=name in AT_START,
        )
        for field in fields(step.settings)
    ]


# ---- name views ----------------------------------------------------------------------------------


_KINDS: Final = {
    Kind.PUBLIC: "public", Kind.PRIVATE: "private", Kind.DIRECT: "direct",
    Kind.MACHINE: "machine", Kind.CONNECTOR: "connector", Kind.DL: "list",
    Kind.MULTICAST: "multicast",
}  # fmt: skip
_SYSTEM: Final = "the system looks the name up (DNS), and port 1801 is asked"
_NOT_SHOWN: Final = "only who may monitor the queue manager is told where that is"


def explained(step: Step, item: Look) -> list[NameView]:
    """Return the view of a name, or of each element; a list's members are one level deeper.

    It uses the rules of a send: ``core/names.py`` says which names are of this computer and which
    outgoing queue a name has, ``core/transfer/connecting.py`` where that leads. Nothing is made
    here, and the view says what a send would refuse.
    """
    text = item.name
    snapshot = step.names.directory if step.names.mode is Mode.ONLINE else None
    if snapshot is not None and snapshot.list_named(text) is not None:
        text = list_view(find_list(snapshot, text)).format_name
    return list(_each(step, item.owner, parse_any(text), snapshot))


def _each(
    step: Step, owner: int, names: tuple[FormatName, ...], snapshot: Snapshot | None
) -> Iterator[NameView]:
    for name, depth, becomes in (snapshot or Snapshot()).explain(names):
        found = _meaning(step, owner, name)
        if found["leads_to"] in ("here", "elsewhere"):
            try:
                may_send(name)
            except OnceqError as error:
                found["rule"] += f"; {error.text}"
        # Without a directory, the name is not missing there.
        if snapshot is None and name.kind in (Kind.PUBLIC, Kind.DL):
            becomes = ""
        yield NameView(
            depth=depth, name=str(name), kind=_KINDS[name.kind], becomes=becomes, **found
        )


def _meaning(step: Step, owner: int, name: FormatName) -> dict[str, str]:
    """Return the fields of the view, except those that the name itself gives."""
    if is_local(step, name):
        return _here(step, owner, name)
    if name.kind is Kind.DL:
        return _list(step, name)
    if name.kind is Kind.MULTICAST:
        return {"leads_to": "nobody", "rule": "a multicast group; onceq sends to none"}
    if name.kind is Kind.CONNECTOR:
        return {"leads_to": "nobody", "rule": "a foreign system; onceq serves none"}
    try:
        members(step, (name,))
    except OnceqError as error:
        if known_outgoing(step, name) is None:
            return {"leads_to": "nobody", "rule": error.text}
    return _elsewhere(step, owner, name)


def _here(step: Step, owner: int, name: FormatName) -> dict[str, str]:
    # The rule by which it is one of this computer.
    host, directory = name.host.casefold(), step.names.directory
    rule = f"{name.host} is one of the addresses in onceq.toml"
    if name.kind is Kind.PUBLIC and directory is not None and name.guid in directory.queues:
        rule = "the directory says that it is here"
    elif name.kind is Kind.PUBLIC:
        rule = "a public queue of this manager"
    elif name.kind is not Kind.DIRECT:
        rule = "the GUID is this queue manager's own"
    elif host in HERE:
        rule = f"{name.host} is this computer, wherever it is used"
    elif host == step.identity.name.casefold():
        rule = f"{name.host} is the name of this queue manager"
    found: dict[str, str] = {
        "leads_to": "here", "rule": rule, "manager": step.identity.name,
        "manager_id": guid_text(step.identity.guid),
    }  # fmt: skip
    outgoing = known_outgoing(step, name)
    if outgoing is not None and waits_elsewhere(step, name):
        found["outgoing"] = str(outgoing.name)
        found["rule"] += "; what was sent before it was so arrives first"
    # Asking for names must not reveal whether there is such a queue.
    if not may(step, owner, map(to_see_properties, places(step, str(name)))):
        return {**found, "rule": f"{found['rule']}; which queues there are is not for you to see"}
    try:
        return {**found, "queue": title_of(local_queue(step, name))}
    except OnceqError as error:
        return {**found, "leads_to": "nobody", "rule": f"{found['rule']}; {error.text}"}


def _list(step: Step, name: FormatName) -> dict[str, str]:
    try:
        directory = read_directory(step, str(name))
    except OnceqError as error:
        return {"leads_to": "nobody", "rule": error.text}
    one = directory.lists.get(name.guid)
    if one is None:
        return {"leads_to": "nobody", "rule": "the directory has no such list"}
    return {"leads_to": "list", "queue": one.name, "rule": "a list of the directory"}


def _elsewhere(step: Step, owner: int, name: FormatName) -> dict[str, str]:
    outgoing = known_outgoing(step, name)
    asked = OutgoingQueue(0, Space(), name) if outgoing is None else outgoing
    way = way_of(step, asked)
    if way is None:
        reason = "nobody says yet on which computer this public queue is"
        return {"leads_to": "nobody", "rule": reason}
    protocol, host, guid, url, *_ = way
    path = ("private$\\" if name.private else "") + name.queue
    if name.kind is Kind.PRIVATE:
        path = f"private queue {name.number:08x}"
    elif name.kind is Kind.PUBLIC and step.names.directory is not None:
        queue = step.names.directory.queues.get(name.guid)
        path = queue.name if queue is not None else ""
    whole = may(step, owner, (MONITOR,))
    if name.kind is Kind.PRIVATE:
        guid = name.guid
    elif guid == NO_GUID and whole:
        # The manager that has answered under the name until now.
        guid = step.state.bindings.guid_of(asked.bound_name) or NO_GUID
    directory = step.names.directory
    computer = directory.computer_of(guid) if directory is not None and guid != NO_GUID else None
    manager = step.sessions.computer_names.get(guid, "") if whole else ""
    if computer is not None:
        manager = computer.name
    via = step.names.routes_to.get(name.guid) if name.kind is Kind.PRIVATE else None
    if via is not None:
        rule = f"[routes] in onceq.toml: {via} passes its messages on"
    elif name.kind is Kind.PRIVATE:
        rule = "the GUID is another queue manager's"
    elif name.kind is Kind.PUBLIC:
        placed = computer_of(step, name)
        rule = (
            f"the directory says that it is on {placed.name}" if placed is not None
            else "a direct name of the queue, or the manager that has answered for it, is known"
        )  # fmt: skip
    else:
        rule = f"{name.host} is neither the name of this queue manager nor one of its addresses"
    if outgoing is not None and outgoing.name.key() != name.key():
        rule += f"; it means the same queue as {outgoing.name}, and shares its outgoing queue"
    found: dict[str, str] = {
        "leads_to": "elsewhere", "queue": path, "manager": manager or host,
        "manager_id": guid_text(guid) if guid != NO_GUID else "",
        "rule": rule,
    }  # fmt: skip
    if not whole:
        return {**found, "rule": f"{found['rule']}; {_NOT_SHOWN}"}
    found["outgoing"] = str(outgoing.name if outgoing is not None else name)
    where, said_by = step.names.book.find(host or guid_text(way[2]))
    if protocol in ("HTTP", "HTTPS"):
        where, said_by = step.names.book.peers.get(f"{protocol}://{host}".casefold(), ""), "[peers]"
        where, said_by = (where, said_by) if where else (url, "the URL")
    elif not where:
        where, said_by = (f"{host}:1801", _SYSTEM) if host else ("", "nobody says where it is")
    found |= {"address": where, "address_by": said_by}
    peer = step.sessions.peers.get(outgoing.session) if outgoing is not None else None
    if peer is not None:
        found |= {"session": peer.address, "manager_id": guid_text(peer.peer)}
    return found


# ---- views ---------------------------------------------------------------------------------------


T = TypeVar("T")
S = TypeVar("S")
Shown = Callable[[Step, Look], object]


@rule_for(Look)
def answer_look(step: Step, item: Look) -> None:
    """Answer with the requested view."""
    shown = _SHOWN.get(item.what)
    if shown is None:
        raise InvalidParameter(f"there is no view {item.what!r}")
    found = shown(step, item)
    if found is not LATER:
        step.answer(item.owner, item.request, found)


def _status(step: Step, item: Look) -> object:
    step.begin(_counted(step, item))
    return LATER


def _counted(step: Step, item: Look) -> Iterator[None]:
    """Answer the manager's status; the contents of its queues are summed up some at a time."""
    queues = messages = poison = outgoing = 0
    for at, number in enumerate(list(step.state.all_queues), 1):
        queue = step.state.all_queues.get(number)
        if isinstance(queue, OutgoingQueue):
            outgoing += len(queue)
        elif isinstance(queue, Queue) and queue.sub:
            poison += len(queue) if holds_poison(queue) else 0
        elif isinstance(queue, Queue) and not queue.system:
            queues, messages = queues + 1, messages + len(queue)
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    failing, failing_all = yield from work_views.failing(step)
    damaged = 0
    for at, entry in enumerate(list(step.state.damages), 1):
        damaged += damage.left(step, entry)
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    state = step.state
    step.answer(item.owner, item.request, StatusView(
        name=step.identity.name,
        id=guid_text(step.identity.guid),
        queues=queues,
        messages=messages,
        bytes=state.space.total,
        outgoing=len(state.outgoing),
        outgoing_messages=outgoing,
        sessions=len(step.sessions.peers),
        transactions=len(step.units.transactions),
        waiting_readers=len(step.readers.waiting),
        streams=len(state.progress),
        log_position=step.position,
        space_low=step.space_low,
        dead_letters=len(state.all_queues[DEAD_LETTER]),
        transactional_dead_letters=len(state.all_queues[DEAD_XACT]),
        poison_messages=poison,
        offline_since=state.offline_s,
        damaged_messages=damaged,
        restored=state.restored,
        undone=lives.views(step),
        disbelieved=dict(step.sessions.disbelieved),
        life=guid_text(state.lives.id),
        clashes=clash_views(step),
        tls=step.doors.identity,
        certificate_ends=step.doors.ends_s,
        certificate_problem=step.doors.problem,
        plain_peers=step.doors.plain_peers,
        rights_trouble=step.names.rights_trouble,
        started=step.started_s,
        silent_s=SILENT_S,
        directory_trouble=step.names.directory_trouble,
        trail_trouble=step.trail.trouble,
        trail_lost=step.trail.lost,
        failing=failing,
        failing_others=failing_all - len(failing),
        wrong_names={one.text: one.count for one in step.sessions.watch.wrong_names.values()},
    ))  # fmt: skip


def _queue(step: Step, name: str) -> QueueView:
    queue = find_queue(step, name)
    return replace(queue_view(step, queue), put_back=lives.of_queue(step, queue))


def _named(look: looks.LookEntry[T], show: Callable[[Step, str], T]) -> tuple[str, Shown]:
    """Return a row of the table below; this checks that the answer has the look's type."""
    return look.what, lambda step, item: show(step, item.name)


def _whole(look: looks.LookEntry[T], show: Callable[[Step], T]) -> tuple[str, Shown]:
    """Return the same for a look without a name."""
    return look.what, lambda step, _: show(step)


def _paged(look: looks.LookEntry[Page[T]], listing: PagedListing[S, T]) -> tuple[str, Shown]:
    """Return the same for a list that comes a page at a time."""
    return look.what, page(listing)


def _own(look: looks.LookEntry[T], show: Callable[[Step, int], T]) -> tuple[str, Shown]:
    """Return the same for a look that shows each actor its own."""
    return look.what, lambda step, item: show(step, item.owner)


_SHOWN: Final[Mapping[str, Shown]] = dict(
    (
        (looks.STATUS.what, _status),
        _paged(looks.QUEUES, queue_views.QUEUES),
        _named(looks.QUEUE, _queue),
        _paged(looks.OUTGOING, queue_views.OUTGOING),
        _named(looks.RANGE, queue_views.range_view),
        _paged(looks.READERS, queue_views.READERS),
        (looks.CONSUMERS.what, work_views.consumers),
        _named(looks.OUTGOING_QUEUE, lambda s, name: outgoing_view(s, find_outgoing(s, name))),
        _paged(looks.STREAMS, queue_views.STREAMS),
        _paged(looks.PEERS, peer_operations.PEERS),
        _named(looks.EOD_SEND, msmq_names.send_info),
        _named(looks.EOD_RECEIVE, msmq_names.receive_info),
        _paged(looks.LISTS, directory_rules.LISTS),
        _named(looks.LIST, directory_rules.one_list),
        (looks.COPIES.what, directory_rules.copies),
        (looks.EXPLAIN_NAME.what, explained),
        _named(looks.MANAGEMENT, msmq_names.properties),
        _own(looks.BRANCHES, work_views.branches),
        _own(looks.DECISIONS, work_views.decisions),
        _paged(looks.DAMAGES, damage.DAMAGES),
        _whole(looks.SCRUB, lambda step: step.scrub),
        _paged(looks.GROUPS, work_views.GROUPS),
        _paged(looks.TRANSACTIONS, work_views.TRANSACTIONS),
        _paged(looks.RIGHTS, rights.GRANTS),
        _named(looks.TRAIL, trail.acts),
        _whole(looks.TRAIL_END, trail.end),
        _paged(looks.TOKENS, rights.TOKENS),
        _own(looks.JOBS, jobs.listed),
        (looks.JOB.what, jobs.view_job),
        (looks.METRICS.what, metrics.measure),
        _whole(looks.SETTINGS, settings),
        (looks.WAITING.what, work_views.waiting),
    )
)
"""How each look is answered (``model/views/looks.py``)."""
