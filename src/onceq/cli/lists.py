"""Commands that list what a queue manager tells: ``onceq queue list``, ``token list`` and others.

A view says which columns it has, with head, unit and meaning (``model/views``). A row of ``LISTS``
says which views a command lists, and of a cell what the view alone does not say. So a new column
needs no line here, and a new list is a row here and its name in ``commands``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Protocol, TypeVar

from onceq.cli import out
from onceq.cli.common import Argument, Json, Option, Where, as_json, asking, dumped
from onceq.errors import InvalidParameter
from onceq.model.record import Record
from onceq.model.views.looks import BranchView, DecisionView, GroupView, JobView
from onceq.model.views.managers import (
    ActView,
    DamageView,
    GrantView,
    HeadView,
    ListView,
    PeerView,
    SettingView,
    TokenView,
    TransactionView,
)
from onceq.model.views.queues import ConsumerView, OutgoingView, QueueView, ReaderView, StreamView
from onceq.model.views.view import Column, Page, View, columns
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.administration import ManagerConnection

T = TypeVar("T")
V = TypeVar("V", bound=View)
NEAR_MAX: Final = 3
"""Settings that an error suggests in place of an unknown name."""
Cell = Callable[[Any], object]
"""Returns the content of a cell, from the view of its row."""


class Listing(Record, Generic[V], frozen=True):
    """A table of views.

    Attributes:
        help: Of the command; "": it has a function of its own.
        view: What is listed.
        read: Asks for it.
        order: By what it is sorted; None: as it was told.
        nothing: What is said where there is nothing to list; "": the table has no rows then.
        cells: By the heads of columns: what their cells say in place of the field.
        more: Columns behind those of the view, each with its cells.
        last: Head of a column of the view that stands behind these; "": none does.
        only: Heads of the columns that there are; (): all.
    """

    help: str
    view: type[V]
    read: Callable[[ManagerConnection], Sequence[V]]
    order: Callable[[V], Any] | None = None
    nothing: str = ""
    cells: Mapping[str, Cell] = {}
    more: tuple[tuple[Column, Cell], ...] = ()
    last: str = ""
    only: tuple[str, ...] = ()

    def command(self) -> Callable[..., None]:
        """The function of a command that takes no arguments."""

        def run(qm: Where = None, json: Json = False) -> None:
            with asking(qm) as connection:
                found = self.read(connection)
            self.show(found, json)

        run.__doc__ = self.help
        return run

    def show(
        self, views: Sequence[V], json: bool, *, cells: Mapping[str, Cell] | None = None,
        short: Mapping[str, Cell] | None = None,
    ) -> bool:  # fmt: skip
        """Print views, as JSON if that was asked for; whether it is a table for people.

        Args:
            cells: What cells say beside ``self.cells``.
            short: By the heads of columns: short forms of their cells.
        """
        if self.order is not None:
            views = sorted(views, key=self.order)
        if dumped(views, json):
            return False
        if views or not self.nothing:
            self.table(views, cells=cells, short=short)
        else:
            out.line(self.nothing)
        return True

    def columns(self) -> dict[str, tuple[Column, Cell]]:
        """The columns by their heads, in their order, each with what its cells are made of."""
        own = {one.title: (one, _field(name)) for name, one in columns(self.view).items()}
        last = {self.last: own.pop(self.last)} if self.last else {}
        found = own | {one.title: (one, cell) for one, cell in self.more} | last
        return {title: found[title] for title in self.only or found}

    def table(
        self, views: Sequence[V], *, cells: Mapping[str, Cell] | None = None,
        short: Mapping[str, Cell] | None = None,
    ) -> None:  # fmt: skip
        """Print views as a table for people."""
        own, now_s = {**self.cells, **(cells or {})}, time.time()
        heads: list[Column] = []
        shown: list[list[object]] = []
        brief: dict[str, list[object]] = {}
        for title, (one, cell) in self.columns().items():
            values = [cell(view) for view in views]
            said = [out.value(one, value, now_s) for value in values]
            if title in own:
                said = [own[title](view) for view in views]
            if one.rare and all(text == one.empty for text in said):
                continue
            heads.append(one)
            shown.append(said)
            if title in (short or {}):
                brief[title] = [(short or {})[title](view) for view in views]
            elif one.shortens:
                brief[title] = [out.short_value(one, value, now_s) for value in values]
        turns = [(one.leaves, one.title) for one in heads if one.leaves]
        turns += [(one.shortens, one.title) for one in heads if one.shortens]
        out.table(
            [one.title for one in heads], list(zip(*shown, strict=True)),
            texts=[one.title for one in heads if one.cut],
            give=[title for _, title in sorted(turns)] if turns else None, brief=brief,
        )  # fmt: skip


def _field(name: str) -> Cell:
    return lambda view: getattr(view, name)


# ---- which lists there are -----------------------------------------------------------------------


def _notes_of_queue(view: QueueView) -> str:
    """What an operator should know of the queue."""
    from onceq.client.attention import notes_of_queue

    return "; ".join(notes_of_queue(view))


def _notes_of_outgoing(view: OutgoingView) -> str:
    """What an operator should know of the outgoing queue."""
    from onceq.client.attention import notes_of_outgoing

    return out.sentence("; ".join(notes_of_outgoing(view)))


def ended_as(reason: int) -> str:
    """How a message ended that waited for another computer; "-" for one that was here."""
    from onceq.model.resultcodes import class_name

    if not reason:
        return "-"
    return "in doubt" if reason == 0xC003 else f"not delivered ({class_name(reason)})"


def _groups(qm: ManagerConnection) -> Sequence[GroupView]:
    from onceq.client.plans import batch_commit

    return qm._run(batch_commit.applications(qm._state))


LISTS: Final[Mapping[str, Listing[Any]]] = {
    "queue list": Listing(
        "", QueueView, lambda qm: qm.queues(only="used"),
        more=((Column("note", cut=True), _notes_of_queue),), last="label",
    ),
    "qm status": Listing(
        "", QueueView, lambda qm: qm.queues(only="busy"),
        only=("queue", "messages", "locked", "bytes"),
    ),
    "queue show": Listing(
        "", ConsumerView, lambda qm: [],
        nothing="nobody waits at it, has it open or holds messages of it",
        cells={
            "who": lambda one: one.who or ("in its own process" if one.connection else "-"),
            "opened to": lambda one: (
                f"{one.access}{' alone' if one.denies else ''}" if one.opened else "-"
            ),
        },
    ),
    "outgoing list": Listing(
        "", OutgoingView, lambda qm: qm.admin.outgoing(),
        more=((Column("note", cut=True, leaves=3), _notes_of_outgoing),),
    ),
    "stream list": Listing(
        "", StreamView, lambda qm: qm.admin.streams(), order=lambda one: (one.queue, one.source),
    ),
    "peer list": Listing(
        """List the names that were connected to, and who answers there.""",
        PeerView, lambda qm: qm.admin.peers(), cells={"name": lambda one: one.title},
    ),
    "rights show": Listing("", GrantView, lambda qm: qm.rights.list()),
    "token list": Listing(
        """List the tokens; what they may do is shown by 'rights show'.""",
        TokenView, lambda qm: qm.tokens.list(), nothing="there are no tokens",
        cells={"expires": lambda one: out.when(one.expires_s) + " (expired)" * one.expired},
    ),
    "tx list": Listing(
        "", TransactionView, lambda qm: qm.admin.transactions(),
    ),
    "tx list: branches": Listing("", BranchView, lambda qm: qm.admin.branches()),
    "tx list: decisions": Listing("", DecisionView, lambda qm: qm.admin.decisions()),
    "tx groups": Listing(
        """List applications that commit groups of branches (Spark), and their last versions.""",
        GroupView, _groups, nothing="nobody has committed a group of branches here",
    ),
    "damage list": Listing(
        """List what was set aside: where it was, when, and how much.

        An entry stands for neighbouring messages. Those of outgoing queues are 'in doubt' or 'not
        delivered'.
        """,
        DamageView, lambda qm: qm.admin.damages(),
        cells={"ended as": lambda one: ended_as(one.reason)},
    ),
    "job list": Listing(
        """List the jobs that run, and the last that are over.""",
        JobView, lambda qm: qm.jobs.list(), nothing="there are no jobs",
    ),
    "list show": Listing("", ListView, lambda qm: qm.lists.list()),
    "spark readers": Listing(
        "", ReaderView, lambda qm: [],
        nothing="no stream has read and removed messages here",
    ),
    "trail": Listing(
        "", ActView, lambda qm: qm.admin.trail(),
        cells={"last": lambda act: out.when(act.last) if act.times > 1 else "-"},
    ),
    "trail heads": Listing(
        """List what this queue manager holds of the trails of others.

        Each tells the number and the digest of its last act when a session begins.
        """,
        HeadView, lambda qm: qm.admin.trail_end().heads,
    ),
    "qm settings": Listing("", SettingView, lambda qm: qm.admin.settings()),
}  # fmt: skip
"""The tables of views, by the commands that print them. Those with a help are whole commands."""


# ---- commands that take arguments ----------------------------------------------------------------

Sort = Annotated[
    str,
    Option(
        "--sort", metavar="BY", show_default=False,
        help="messages (most first), bytes, oldest message, or number (as made) [else by name].",
    ),
]  # fmt: skip
Part = Annotated[
    str,
    Option("--name", metavar="TEXT", show_default=False, help="Those with this in their names."),
]
Limit = Annotated[int, Option("--limit", metavar="N", min=0, help="At most N rows; 0: all.")]


class OfAll(Protocol[T]):
    """``queues`` or ``outgoing`` of a queue manager."""

    def __call__(self, *, only: str, part: str) -> list[T]: ...


def read_sorted(
    everything: OfAll[T], some: Callable[..., Page[T]], *, sort: str, only: str, part: str,
    limit: int,
) -> tuple[list[T], int | None]:  # fmt: skip
    """What is to be listed, and how many there are; None: more, and nobody has counted them.

    The queue manager sorts and cuts, so that it does not tell of thousands of which a few are
    shown; what is listed as a whole and by name is sorted here.
    """
    if not (sort or limit):
        found = everything(only=only, part=part)
        return found, len(found)
    found, after = [], ""
    while True:
        left = limit - len(found) if limit else 0
        page = some(sort=sort or "name", only=only, part=part, after=after, limit=left)
        found += page.views
        after = page.next
        if not after or (limit and len(found) >= limit):
            return found, (None if after else len(found)) if page.of is None else page.of


def note_others(shown: int, of: int | None, what: str) -> None:
    """Say how many are not in the list; None: nobody has counted them."""
    if of is None:
        out.note("there are more; --limit 0 shows all")
    elif of > shown:
        out.note(f"{plural(of - shown, f'other {what}')} not shown; --limit 0 shows all")


def list_queues(
    system: Annotated[
        bool, Option("--system", help="Dead-letter queues and the journal too.")
    ] = False,
    sort: Sort = "", part: Part = "", limit: Limit = 0, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """List the queues. System queues are listed when something is in them, or with --system."""
    with asking(qm) as connection:
        found, of = read_sorted(
            connection.queues, connection.queue_page, sort=sort, only="" if system else "used",
            part=part, limit=limit,
        )  # fmt: skip
    if not (sort or limit):
        found.sort(key=lambda one: (one.system, one.path.casefold()))
    if LISTS["queue list"].show(found, json):
        note_others(len(found), of, "queue")


def list_outgoing(
    sort: Sort = "", part: Part = "", limit: Limit = 0, qm: Where = None, json: Json = False
) -> None:
    """List the outgoing queues."""
    with asking(qm) as connection:
        admin = connection.admin
        found, of = read_sorted(
            admin.outgoing, admin.outgoing_page, sort=sort, only="", part=part, limit=limit
        )
    if not (sort or limit):
        found.sort(key=lambda one: one.destination.casefold())
    if LISTS["outgoing list"].show(found, json):
        note_others(len(found), of, "outgoing queue")


def list_streams(qm: Where = None, json: Json = False) -> None:
    """List the incoming streams: what was accepted last, and what was turned away."""
    with asking(qm) as connection:
        found = connection.admin.streams()
        names = sender_names(connection, found)
    LISTS["stream list"].show(
        found, json, cells={"source": lambda one: names.get(one.source, one.source)},
        # By the beginning of its GUID a sender is known to commands, too.
        short={"source": lambda one: names.get(one.source, one.source.partition("-")[0])},
    )  # fmt: skip


def sender_names(connection: ManagerConnection, found: Sequence[StreamView]) -> dict[str, str]:
    """Names of senders by GUID: what they have said themselves, else where they are reached."""
    bound: dict[str, str] = {}
    if not all(one.sender for one in found):
        bound = {one.id: one.name.partition(":")[2].upper() for one in connection.admin.peers()}
    return bound | {one.source: one.sender for one in found if one.sender}


def list_grants(
    queue: Annotated[
        str,
        Argument(metavar="[QUEUE]", help="Only those about this queue.", show_default=False),
    ] = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """List the grants, or those that are about a queue."""
    with asking(qm) as connection:
        found = connection.rights.list(queue)
    if not as_json(json):
        found.sort(key=lambda one: (one.who, one.pattern))
    LISTS["rights show"].show(found, json)


def list_members(
    name: Annotated[
        str,
        Argument(metavar="[LIST]", help="One list; else all of them.", show_default=False),
    ] = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Show the lists of the directory, or the members of one."""
    with asking(qm) as connection:
        if name:
            members = connection.lists.members(name)
            for member in () if dumped(members, json) else members:
                out.line(member)
            return
        found = connection.lists.list()
    LISTS["list show"].show(found, json)


def list_readers(
    queues: Annotated[
        list[str] | None, Argument(metavar="[QUEUE...]", help="Names of the queues [all].")
    ] = None,
    qm: Where = None,
    json: Json = False,
) -> None:
    """List the streams that have read queues and removed what they had written."""
    from onceq.client.plans import receive

    with asking(qm) as connection:
        found: list[ReaderView] = []
        for queue in queues or [""]:
            read = connection._run(receive.readers(connection._state, queue))
            found += sorted(read, key=lambda one: -one.since)  # the latest comes first
    LISTS["spark readers"].show(found, json)


def list_acts(
    last: Annotated[
        int, Option("--last", metavar="N", min=0, help="Only the last N; 0: all.")
    ] = 50,
    after: Annotated[
        int, Option("--after", metavar="NUMBER", min=0, help="Only those behind this one.")
    ] = 0,
    qm: Where = None,
    json: Json = False,
) -> None:
    """List who did what to the queue manager, when, from where, and with what result.

    Acts are changes of rights and queues, purges, branches decided by hand, pauses and backups,
    and, once an hour for each kind, what was refused for lack of a right.
    """
    with asking(qm) as connection:
        found = connection.admin.trail(after)
    LISTS["trail"].show(found[-last:] if last else found, json)


def complete_setting(incomplete: str) -> list[str]:
    """Names of settings for the shell's completion."""
    from onceq.model.settings import SETTING_NAMES

    return [name for name in SETTING_NAMES if name.startswith(incomplete.casefold())]


def list_settings(
    name: Annotated[
        str,
        Argument(
            metavar="[NAME]", help="Only this one.", show_default=False,
            autocompletion=complete_setting,
        ),
    ] = "",
    changed: Annotated[
        bool, Option("--changed", help="Only those that are not at their defaults.")
    ] = False,
    qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Show the settings of a queue manager and their defaults.

    They are set in the table [settings] of its onceq.toml, and read at a start or by 'onceq qm
    reload'; those marked "at a start" only at a start.
    """
    with asking(qm) as connection:
        found = connection.admin.settings()
    if name:
        known = {one.name: one for one in found}
        said = name.strip().casefold().replace("-", "_")
        if said not in known:
            from difflib import get_close_matches

            near = get_close_matches(said, known, NEAR_MAX)
            near += [one for one in known if said in one and one not in near]
            like = "'onceq qm settings' lists them"
            if near:
                like = f"did you mean {' or '.join(near[:NEAR_MAX])}?"
            raise InvalidParameter(f"there is no setting {name!r}; {like}")
        found = [known[said]]
    if changed:
        found = [one for one in found if one.value != one.default]
    if found or as_json(json):
        LISTS["qm settings"].show(found, json)
    else:
        out.line(f"{name or 'every setting'} is at its default")
