"""What all views have in common, and what a field says of itself.

A view is a frozen record that the core builds, that crosses a connection as a map of field names to
values, and that the client library hands to the application as the same class. Every field has a
default, which stands for what an older queue manager does not say.

Everything about a field is in its class. The line under ``Attributes`` gives its meaning; a
``Column`` in its annotation makes it a column of the tables that list such views. The command line,
the console and the reference take columns from here (``columns``). The core
takes the values of fields from objects that have them under the same name (``copy_by_name``), and
its functions (``outgoing_view`` and the like) give all others. So a new column is a field here, and
a value there unless the object has an attribute of that name.

Also here:

* The counts of a queue manager, for metrics: any monitoring system can read them.

Upholds: what is shown is plain: numbers, texts, truth values, and tuples and maps of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeVar, get_type_hints

from onceq.model.record import Record, field, repr_without

# ---- view ----------------------------------------------------------------------------------------


T_co = TypeVar("T_co", covariant=True)
LISTS_AT_ONCE: Final = 10
"""Distribution lists on one page: each has up to DIRECTORY_MEMBERS_MAX names."""

Unit = Literal[
    "", "bytes", "moment", "since", "age", "name", "place", "hex", "count", "words", "setting"
]  # fmt: skip
"""What the value of a field is: a number of bytes; a moment, or the time since a moment, both in
seconds since 1970; a number of seconds; a name of a queue; a lookup identifier; a number that is
written in hexadecimal digits; a collection that is shown as its size (a map of numbers as their
sum); words with commas between them, as a command takes them; the value of a setting.
"": it is shown unchanged."""


class Column(Record, frozen=True):
    """How the tables that list views show a field.

    Attributes:
        title: Head of the column.
        unit: What the values are.
        leaves: On a narrow terminal columns leave in the order of these numbers; 0: this one stays.
            If no column of a table has a number, they leave from the last one to the second.
        shortens: When its short form is taken, in the same order; 0: it has none.
        cut: Whether its texts may be cut short.
        rare: Whether a table has it only if a row has something in it.
        empty: What is shown where there is nothing.
    """

    title: str
    unit: Unit = ""
    leaves: int = 0
    shortens: int = 0
    cut: bool = False
    rare: bool = False
    empty: str = "-"


class View(Record, frozen=True):
    """The base class of what a queue manager tells of itself.

    A field is an attribute, ``view.messages``; it can be read by its name too,
    ``view["messages"]``, and ``as_dict`` gives all of them.
    """

    __repr__ = repr_without()

    def __getitem__(self, name: str) -> object:
        """The value of a field; raises KeyError, which names the fields, if there is no such."""
        if name not in self.__struct_fields__:
            fields = ", ".join(self.__struct_fields__)
            raise KeyError(f"a {type(self).__name__} has no field {name!r}; it has {fields}")
        value: object = getattr(self, name)
        return value

    def __contains__(self, name: object) -> bool:
        """Whether there is a field of this name."""
        return name in self.__struct_fields__

    # Python would go through items 0, 1, 2 ... of what can be read by name.
    __iter__ = None

    def as_dict(self) -> dict[str, object]:
        """All fields by name, views in them as maps too and tuples as lists: fit for JSON."""
        return {name: plain(getattr(self, name)) for name in self.__struct_fields__}


class Page(View, Generic[T_co], frozen=True):
    """Some of a list that may be long.

    What is on a page is bounded (``VIEWS_AT_ONCE``). In an order by number or by name, going from
    page to page meets each that was there all the time once, and what comes or goes meanwhile once
    or not at all. What another order has moved meanwhile may be met twice, or not.

    Attributes:
        views: What is on this page, in its order.
        next: What to ask for the next page with; "": this is the last one.
        of: How many there are on all pages; None where nobody has counted them.
    """

    views: tuple[T_co, ...] = ()
    next: str = ""
    of: int | None = None


V = TypeVar("V", bound=View)
_MEANING: Final = re.compile(r"^        (\w[\w, ]*): ((?:.|\n {12})*)", re.MULTILINE)
"""A line under ``Attributes``, and how it goes on."""


def columns(kind: type[View]) -> Mapping[str, Column]:
    """The columns of a view by the names of fields and properties, in their order."""
    hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
    found = {name: hints[name] for name in kind.__struct_fields__}
    for name, one in vars(kind).items():
        if isinstance(one, property):
            found[name] = get_type_hints(one.fget, include_extras=True)["return"]
    return {
        name: extra
        for name, hint in found.items()
        for extra in getattr(hint, "__metadata__", ())
        if isinstance(extra, Column)
    }


def meanings(kind: type[View]) -> Mapping[str, str]:
    """What each field means: its line under ``Attributes``, in the class or one that it extends."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        _, _, lines = (one.__dict__.get("__doc__") or "").partition("Attributes:")
        for names, text in re.findall(
            r"^        (\w[\w, ]*): ((?:.|\n {12})*)", lines, re.MULTILINE
        ):
            found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


_TAKEN: Final[dict[tuple[type, type], Mapping[str, str]]] = {}


def _taken(kind: type[View], source: type) -> Mapping[str, str]:
    """Fields of a view that objects of a class have, with the names of the attributes."""
    if (known := _TAKEN.get((kind, source))) is not None:
        return known
    said = {name for one in source.__mro__ for name in getattr(one, "__annotations__", ())}
    found = {
        name: attribute
        for name in kind.__struct_fields__
        for attribute in (f"{name}_s", name)
        if attribute in said or not callable(getattr(source, attribute, print))
    }
    return _TAKEN.setdefault((kind, source), found)


def copy_by_name(kind: type[V], *sources: Any, **more: Any) -> V:
    """A view whose fields are those of ``more``, and else attributes of the same names, or with
    ``_s`` for seconds behind, of the first of ``sources`` that has them.

    Raises:
        TypeError: A field would have its default, which is for what older managers do not say.
    """
    for source in sources:
        for name, attribute in _taken(kind, type(source)).items():
            if name not in more:
                more[name] = getattr(source, attribute)
    if len(more) < len(kind.__struct_fields__):
        left = ", ".join(name for name in kind.__struct_fields__ if name not in more)
        raise TypeError(f"nobody says what a {kind.__name__} has for {left}")
    return kind(**more)


def plain(value: object) -> object:
    """A value as it crosses a connection: views and dataclasses as maps, tuples as lists, bytes
    as hexadecimal digits."""
    if isinstance(value, View):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.value
    return value


# ---- metrics -------------------------------------------------------------------------------------
#
# Counters begin at 0 with each start of the process, but for what destinations have refused,
# which is durable; everything else is the present state. Ages are seconds from now, 0 where there
# is nothing, and sizes are bytes. `onceq.exposition` names them for Prometheus.


PER_QUEUE: Final = "queues"
"""Name of the look at these that tells of each queue, too."""


class Durations(View, frozen=True):
    """How long something took, each time since the start: a histogram.

    Attributes:
        bounds: Upper bounds of the classes in seconds, without the last, which has none.
        counts: How often it took so long, by class: one more than there are bounds.
        total_s: All of it together.
    """

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    total_s: float = 0.0


class QueueMetrics(View, frozen=True):
    """One queue of applications, or one of their subqueues.

    Attributes:
        name: With the name of a subqueue (``orders;retry``).
        messages: All that it holds, those that transactions hold included.
        bytes: Of its messages.
        oldest_age_s: Since when the oldest message in it is there.
        quota_ratio: How much of its quota is used; 0: it has none.
    """

    name: str = ""
    messages: int = 0
    bytes: int = 0
    oldest_age_s: int = 0
    quota_ratio: float = 0.0


class OutgoingMetrics(View, frozen=True):
    """All outgoing queues to one other queue manager.

    Attributes:
        peer: Its name as senders write it, or its GUID; "(others)" stands for all for which there
            was no room.
        states: How many outgoing queues are in which state (Q-40).
        messages: All that they hold.
        unacknowledged: Of these, transactional ones without an order acknowledgment.
        bytes: Of all.
        oldest_age_s: Since when the oldest one waits that the other manager does not have yet.
        refused: How many it did not take, by class, since this queue manager first sent there.
    """

    peer: str = ""
    states: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    unacknowledged: int = 0
    bytes: int = 0
    oldest_age_s: int = 0
    refused: dict[str, int] = field(default_factory=dict)


class MetricsView(View, frozen=True):
    """The metrics of a queue manager.

    Attributes:
        name: Its computer name.
        id: Its GUID.
        version: Of onceq.
        impl: What runs it, such as ``cpython-3.12``.
        sent: Messages that applications have sent; one to several destinations counts once.
        accepted: Messages that came in streams from other queue managers and were accepted.
        received: Messages that applications have received for good.
        returned: Messages that transactions had received and gave back.
        acknowledged: Messages that other queue managers have taken over.
        resent: Messages that were transmitted once more.
        ended: Messages that ended otherwise than by being received here or handed over, by class.
        refused: Requests that were refused, by the code of the error.
        reports_dropped: Trace reports that no report queue has taken.
        disbelieved: What other queue managers said that does not count, by what it was.
        turned_away: Connections that were not let in, by kind.
        queues: How many there are, those of the system not counted.
        queues_paused: Those of them that an operator has paused.
        queues_failing: Those of which a consumer says that it can handle no message.
        clashes: Identities, its own or others', that two queue managers use.
        directory_away: Whether it has a directory that it cannot read.
        trail_untold: Whether acts of administration wait that are to be told outside.
        trail_lost: Acts that went before they were told.
        messages: How many are in them.
        bytes: Of all messages that the manager holds, wherever.
        oldest_age_s: Of the oldest message in any of them.
        journal_messages: How many are in journals.
        dead_letters: Messages in the dead-letter queue.
        transactional_dead_letters: Messages in the transactional dead-letter queue.
        poison_messages: Messages that policies have moved aside, because their receives
            were aborted too often.
        damaged_messages: Those that were set aside because their stored bytes are damaged.
        doubts: Messages of which it is not known whether they arrived.
        waiting_readers: Receives and peeks that wait for a message.
        outgoing: Where messages go, by other queue manager.
        sessions: Connections with other queue managers.
        transactions: Those that are open.
        in_doubt: Branches that are prepared and not decided.
        in_doubt_oldest_age_s: Since when the oldest of them is.
        jobs_running: Jobs that are not over.
        jobs_waiting: Those of them that cannot go on now.
        quota_ratio: How much of the quota of the computer is used.
        queue_quota_ratio: How much the fullest queue has used of its own quota.
        offline: Whether an operator has disconnected it.
        space_low: Whether the reserve of its disk is reached: sends are refused.
        certificate_ends: Until when (seconds since 1970) its certificate is good; 0: it has none.
        commits: From when a turn of work began until all that it decided was durable: what each
            commit in it has waited, one entry for all of them.
        syncs: Waits for the disk, of these.
        log_position: Where its log ends: bytes that were ever written to it.
        store_bytes: What it takes on its disk, by kind: log, ready, checkpoint.
        disk_free: What is left for it.
        per_queue: Its queues, if they were asked for; those with the oldest messages if they are
            too many.
        left_out: How many queues are not among these.
        started: When it was started (seconds since 1970); 0: an older one, which does not say it.
    """

    name: str = ""
    id: str = ""
    version: str = ""
    impl: str = ""
    sent: int = 0
    accepted: int = 0
    received: int = 0
    returned: int = 0
    acknowledged: int = 0
    resent: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    reports_dropped: int = 0
    disbelieved: dict[str, int] = field(default_factory=dict)
    turned_away: dict[str, int] = field(default_factory=dict)
    queues: int = 0
    queues_paused: int = 0
    queues_failing: int = 0
    clashes: int = 0
    directory_away: bool = False
    trail_untold: bool = False
    trail_lost: int = 0
    messages: int = 0
    bytes: int = 0
    oldest_age_s: int = 0
    journal_messages: int = 0
    dead_letters: int = 0
    transactional_dead_letters: int = 0
    poison_messages: int = 0
    damaged_messages: int = 0
    doubts: int = 0
    waiting_readers: int = 0
    outgoing: tuple[OutgoingMetrics, ...] = ()
    sessions: int = 0
    transactions: int = 0
    in_doubt: int = 0
    in_doubt_oldest_age_s: int = 0
    jobs_running: int = 0
    jobs_waiting: int = 0
    quota_ratio: float = 0.0
    queue_quota_ratio: float = 0.0
    offline: bool = False
    space_low: bool = False
    certificate_ends: int = 0
    commits: Durations = Durations()
    syncs: Durations = Durations()
    log_position: int = 0
    store_bytes: dict[str, int] = field(default_factory=dict)
    disk_free: int = 0
    per_queue: tuple[QueueMetrics, ...] = ()
    left_out: int = 0
    started: int = 0
