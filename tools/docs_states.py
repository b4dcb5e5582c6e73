"""docs/reference/states.md and its pictures: the state machines of the code, out of their tables.

Each table of the code becomes one ``Machine``. From it come a section of the page, with a table of
what leads from which state to which, and a text for Graphviz (``docs/pictures/states-*.dot``),
which ``make pictures`` draws.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import docs_rules
from onceq.core.state import positions
from onceq.core.state.position_block import AVAILABLE, REMOVED
from onceq.core.state.positions import LINKS, Link, LinkEvent
from onceq.core.state.records import Op
from onceq.core.transaction.unit_of_work import OVER, PHASES, Verb
from onceq.core.transfer import ordered_arrival
from onceq.core.transfer.ordered_arrival import StreamState
from onceq.core.transfer.outgoing_queue import OF_LINK
from onceq.model.branches import Phase
from onceq.wire.mqqb import session as session_states
from onceq.wire.mqqb.internal import Establish, Parameters, SessionHeader, UserPackets

HEAD: Final = (
    "graph [rankdir=LR, bgcolor=white, nodesep=0.45, ranksep=0.75, pad=0.2]",
    'node [shape=box, style="rounded,filled", fillcolor="#f4f6fa", color="#5b6b86", height=0.45,',
    '      fontname="DejaVu Sans,Verdana,sans-serif", fontsize=11, margin="0.14,0.07"]',
    'edge [color="#5b6b86", fontname="DejaVu Sans,Verdana,sans-serif", fontsize=9.5,',
    '      fontcolor="#33415c", arrowsize=0.7]',
)
BEGIN: Final = "begin"
GONE: Final = "over"
LABEL_CHARS: Final = 22
"""Events of one arrow are written in lines of about this length."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An event leads from one state to another."""

    before: str
    event: str
    after: str


@dataclass(frozen=True, slots=True)
class Machine:
    """One table of the code, as a section of the page.

    Attributes:
        name: Of its picture: ``docs/pictures/states-NAME.dot``.
        module: Where its table stands, below src/onceq.
        says: What it is about, in Markdown.
        picture: What the picture shows, for those who cannot see it.
        table: Of the section, in Markdown.
        more: What follows the table, in Markdown.
        ends: States that nothing leads out of.
        durable: States that survive a crash.
    """

    name: str
    title: str
    module: str
    says: str
    picture: str
    edges: tuple[Edge, ...]
    table: str
    more: str = ""
    ends: tuple[str, ...] = ()
    durable: tuple[str, ...] = ()

    def dot(self) -> str:
        """Its text for Graphviz."""
        states = dict.fromkeys(s for e in self.edges for s in (e.before, e.after) if s != BEGIN)
        lines = [f"// {self.title}. Written by `make docs` from {self.module}; drawn by"]
        lines += ["// `make pictures`.", f"digraph states_{self.name.replace('-', '_')} {{"]
        lines += [f"    {line}" for line in HEAD]
        lines.append(f'    {BEGIN} [label="", shape=point, width=0.14]')
        for state in states:
            more = ', fillcolor="#ffd0a8"' if state in self.durable else ""
            more += ', style="rounded,dashed"' if state in self.ends else ""
            lines.append(f'    {_id(state)} [label="{state}"{more}]')
        for (before, after), events in self._arrows().items():
            said = _lines(events)
            lines.append(f'    {_id(before)} -> {_id(after)} [label="{said}"]')
        return "\n".join([*lines, "}"]) + "\n"

    def _arrows(self) -> dict[tuple[str, str], list[str]]:
        """The events of each pair of states."""
        found: dict[tuple[str, str], list[str]] = {}
        for edge in self.edges:
            found.setdefault((edge.before, edge.after), []).append(edge.event)
        return found

    def section(self) -> str:
        """Its section of the page."""
        return (
            f"## {self.title}\n\n{self.says}\n\n"
            f"![{self.picture}](../pictures/states-{self.name}.svg)\n\n"
            f"{self.table}\n{self.more}\n"
            f"The table and its theory: [`{self.module}`](../../src/onceq/{self.module}).\n"
        )


def _id(state: str) -> str:
    return state.replace(" ", "_").replace("-", "_")


def _lines(events: Iterable[str]) -> str:
    """Events one behind the other, in lines that are not too long."""
    lines = [""]
    for event in events:
        if lines[-1] and len(lines[-1]) + len(event) > LABEL_CHARS:
            lines.append("")
        lines[-1] += f", {event}" if lines[-1] else event
    return ",\\n".join(lines)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines)


def events(rows: Iterable[tuple[str, str, str]]) -> str:
    """A list of events: each with what leads from where to where, and what has happened."""
    return "\n".join(f"* {name} ({leads}): {said}" for name, said, leads in rows)


def members(kind: type) -> dict[str, str]:
    """What stands below each member of a class, by name."""
    (body,) = (
        n.body for n in ast.parse(inspect.getsource(kind)).body if isinstance(n, ast.ClassDef)
    )
    found = {}
    for item, following in pairwise(body):
        match item, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[name] = " ".join(said.split()).replace("``", "`")
    return found


def position() -> Machine:
    """The states of a position."""
    name, said = positions.NAMES, members(Op)
    edges = [Edge(BEGIN, "put, or moved here", name[AVAILABLE])]
    rows = []
    for number, transition in positions.TRANSITIONS.items():
        op = Op(number)
        edges += [Edge(name[a], op.name, name[b]) for a, b in transition.moves]
        leads = "; ".join(f"{name[a]} to {name[b]}" for a, b in transition.moves)
        if transition.ends:
            leads = f"any to {name[REMOVED]}"
        others = "refused" if transition.strict else "stay as they are"
        rows.append(
            (f"`{op.name}`", docs_rules.linked(said[op.name]), leads or "no change", others)
        )
    return Machine(
        "position",
        "A message in a queue",
        "core/state/positions.py",
        "A position is the place of one message in one queue. A record names an operation and a "
        "range of positions; the list says what the operation does to each. All states are "
        "durable, but what was locked by a transaction that is not prepared is given back at a "
        "restart. Where positions in other states are refused, a record that names them would "
        "contradict the queue: it is never written, and a store that had it would not open.",
        "The states of a position: available; locked by a transaction, and purging if an operator "
        "purged it meanwhile; awaiting the news of its end; removed",
        tuple(edges),
        events((name, said, f"{leads}; others {rest}") for name, said, leads, rest in rows),
        ends=(name[REMOVED],),
    )


def branch() -> Machine:
    """The phases of a branch."""
    said = members(Verb)
    edges = [Edge(BEGIN, "start", Phase.ACTIVE.value)]
    rows = []
    for verb, leads in PHASES.items():
        name = verb.name.lower().replace("_", " ")
        reached: dict[str, list[str]] = {}
        for before, after in leads.items():
            end = after.value if after is not OVER else GONE
            edges.append(Edge(before.value, name, end))
            reached.setdefault(end, []).append(before.value)
        cells = "; ".join(f"{' or '.join(found)} to {end}" for end, found in reached.items())
        rows.append((name, docs_rules.linked(said.get(verb.name, "")), cells or "makes it active"))
    return Machine(
        "branch",
        "A branch of an external transaction",
        "core/transaction/unit_of_work.py",
        "A branch is what this queue manager does in a transaction that somebody else decides "
        "([XTX-3](rules.md#xtx-3)). A verb of XA in a phase that the list does not name for it "
        "is refused with `branch-state` (XAER_PROTO). The coloured phases survive a crash, which "
        "rolls back a branch in any other. A prepare that finds nothing to decide, or cannot "
        "promise it, ends the branch, and its answer says so.",
        "The phases of a branch: active, suspended and ended before it is prepared; prepared; "
        "over, or kept as decided by hand until it is forgotten",
        tuple(edges),
        events(rows),
        ends=(GONE,),
        durable=(Phase.PREPARED.value, Phase.COMMITTED.value, Phase.ROLLED_BACK.value),
    )


def incoming() -> Machine:
    """What a stream is for its receiver."""
    said = members(ordered_arrival.Standing)
    edges = [Edge(BEGIN, "", StreamState.NEW.value)]
    edges.append(Edge(StreamState.PRESENT.value, "a greater one begins", StreamState.LEFT.value))
    rows = []
    for state, row in ordered_arrival.VERDICTS.items():
        names = {standing.value: said[standing.name] for standing in row}
        if len(set(row.values())) == 1:
            names = {"anything": ""}
        for (name, meaning), verdict in zip(names.items(), row.values(), strict=False):
            answer = ordered_arrival.ANSWERS[verdict]
            after = StreamState.PRESENT if answer.accepted else state
            edges.append(Edge(state.value, name, after.value))
            told = ["how far it is accepted"] if answer.acknowledged else []
            told += ["that the stream is stale"] if answer.turned_away else []
            told += ["everybody, that two managers send as one"] if answer.clash else []
            rows.append((state.value, name, meaning, verdict.value, ", ".join(told)))
    return Machine(
        "incoming",
        "An incoming stream",
        "core/transfer/ordered_arrival.py",
        "For each sender and queue a receiver keeps one stream, the present one, and the last "
        "number that it has accepted there ([EOD-21](rules.md#eod-21)); both are durable, with "
        "the message, in one record. What arrives stands somewhere in its stream, and the table "
        "says what is made of it and what its sender hears. Where a stream is new to a receiver "
        "that knows none of this sender, nothing is told before something is accepted.",
        "The states of a stream for its receiver: new, present, and left for a greater one",
        tuple(edges),
        table(("stream", "the message is", "that is", "verdict", "told"), rows),
        ends=(StreamState.LEFT.value,),
        durable=(StreamState.PRESENT.value,),
    )


def link() -> Machine:
    """The link of an outgoing queue, and MSMQ's words for it."""
    said = members(LinkEvent)
    edges, rows = [Edge(BEGIN, "", Link.NONE.value)], []
    for event, leads in LINKS.items():
        moves = [(a.value, b.value) for a, b in leads.items() if a is not b]
        edges += [Edge(a, event.value, b) for a, b in moves]
        reached: dict[str, list[str]] = {}
        for before, after in moves:
            reached.setdefault(after, []).append(before)
        cells = "; ".join(f"{' or '.join(found)} to {end}" for end, found in reached.items())
        rows.append((event.value, docs_rules.linked(said[event.name]), cells))
    words = [
        (one.value, f"`{word}`", docs_rules.linked(members(Link)[one.name]))
        for one, word in OF_LINK.items()
    ]
    return Machine(
        "link",
        "An outgoing queue and its link",
        "core/state/positions.py",
        "An outgoing queue outlives every session. What it knows of one is in five states. None "
        "of them is durable: after a start there is no link, and one is made if messages wait.",
        "The link of an outgoing queue: none, connecting, connected, closing, and put off until "
        "the next attempt",
        tuple(edges),
        events(rows),
        "\n"
        "Operators see one word for the queue, as MSMQ has it ([Q-40](rules.md#q-40)). "
        "`LOCKED` and `ONHOLD` come first; without a session `NEED VALIDATION` comes next, and "
        "`DISCONNECTED` if an operator has disconnected this queue manager "
        "([the management view](management.md)). In all other cases the word follows from "
        "the link:\n\n" + table(("link", "state", "meaning"), words) + "\n",
    )


def session() -> Machine:
    """The states of a protocol session."""
    said = members(session_states.SessionState)
    packets: dict[type, str] = {SessionHeader: "SessionAck", UserPackets: "messages"}
    packets |= {Establish: "EstablishConnection", Parameters: "ConnectionParameters"}
    opened, closed = session_states.SessionState.OPEN, session_states.SessionState.CLOSED
    names = {one: one.name.lower().replace("_", " ") for one in session_states.SessionState}
    begin = session_states.BEGIN
    edges = [
        Edge(BEGIN, "the side that connects", names[begin[True]]),
        Edge(names[begin[True]], "start", names[begin[False]]),
        Edge(BEGIN, "the other side", names[begin[False]]),
    ]
    rows = []
    for state, takes in session_states.TAKES.items():
        edges += [Edge(names[state], packets[kind], names[to]) for kind, to in takes.items()]
        edges += [Edge(names[state], "anything else", names[closed])] if takes else []
        taken = ", ".join(f"{packets[kind]} (to {names[to]})" for kind, to in takes.items())
        rows.append((names[state], docs_rules.linked(said[state.name]), taken or "nothing"))
    return Machine(
        "session",
        "A session between two queue managers",
        "wire/mqqb/session.py",
        "A session of [MS-MQQB](formats/mqqb.md) carries messages and acknowledgments in both "
        "directions. None of its states is durable: what was not acknowledged is transmitted "
        "again on the next session. A packet that a state does not take ends the session; so do a "
        "refusal, a wait that is over, and a close by either side.",
        f"The states of a session: new, two for setting it up, {opened.value}, and {closed.value}",
        tuple(edges),
        table(("state", "meaning", "takes"), rows),
        ends=(names[closed],),
    )


def machines() -> tuple[Machine, ...]:
    """Every machine of the page."""
    return (position(), branch(), link(), incoming(), session())


def page(note: str) -> str:
    """docs/reference/states.md."""
    return (
        "# States\n\n"
        + note
        + "A message in a queue, a branch of a transaction, the link of an outgoing queue, an "
        "incoming stream and a session are each in one of a few states. A table of the code "
        "says what leads from which to which, and the code decides by that table; the "
        "pictures are drawn from it. A dashed box is an end.\n\n"
        + "\n".join(one.section() for one in machines())
    )


def pictures() -> Mapping[str, str]:
    """Texts for Graphviz by name of the file in docs/pictures."""
    return {f"states-{one.name}.dot": one.dot() for one in machines()}
