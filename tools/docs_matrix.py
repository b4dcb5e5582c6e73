"""docs/reference/who-may-do-what.md: the tables that ``tests/matrix`` tries on real daemons."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from docs_states import table

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests.matrix import answers, over_http, peers, showing  # noqa: E402
from tests.matrix.applications import PARTS, Row  # noqa: E402
from tests.matrix.roles import ANYONE, NAMED, ROLES, expected  # noqa: E402

SAID = {ANYONE: "", NAMED: "a name"}
THERE = {
    "beta": " there", "dead": " there", "new": " of that name", "rows": " at the database",
    "tenant": " there", "tenants": " under the pattern", "neighbour": " there",
}  # fmt: skip
INTRODUCTION = """\
`tests/matrix` tries each line on real queue managers, for every role. What a role is not allowed
is refused with [`access-denied`](errors.md) and changes nothing.
[Who may do what](../how-to/who-may-do-what.md) explains the rights, and
[TLS](../how-to/tls.md) how queue managers prove who they are.
"""
APPLICATIONS = """\
The answers do not depend on the transport (Unix socket, TCP on the same computer, TLS) or on the
proof (account, token, certificate). Only the Unix socket proves an account: *account over TCP* has
every right at the Unix socket, connects over loopback without a token or a certificate, and is
treated as `nobody`.

The roles: the *owner* created the queue. The *sender* has `send` there and to another queue
manager, the *receiver* `receive`, the *peeker* `peek`. The *tenant* has `create` at
`private$\\app-*` and owns a queue there; its *neighbour* there belongs to somebody else.
*Monitor*, *operator* and *administrator* have only the right `monitor`, `operate` or `administer`;
the account that runs the queue manager is an administrator without a grant. In brackets are the
right, or rights, that suffice; *a name*: any authenticated caller.
"""
OTHERS = """\
Each row is a packet that arrives at the port of a queue manager with an identity (last column: of
one without, from the same computer).
"""
ANSWERS = """\
A message waits for `DIRECT=OS:NAME` or `PRIVATE=GUID`. A queue manager with an identity connects
to the address that DNS, `[peers]` or the directory names, which may be wrong. What then happens,
and what `onceq outgoing why` says:
"""
HTTPS = """\
To a queue manager with an identity and `http_certificate`; the last row from the same computer, all
others from another one.
"""


def _needs(needs: str) -> str:
    if needs in SAID:
        return SAID[needs]
    words = []
    for word in needs.split():
        right, _, place = word.partition("@")
        there = THERE.get(place, "")
        words.append({"|": "or", "&": "and"}.get(word, f"`{right}`{there}"))
    return " ".join(words)


def _rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Requests that need the same and are allowed to the same roles share a line."""
    lines: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        allowed = tuple(role for role, may in expected(row.needs).items() if may)
        named = lines.setdefault((_needs(row.needs), _roles(allowed)), {})
        named.setdefault(f"`{row.kind.__name__}`", []).append(row.what)
    return [
        (", ".join(map(_request, requests, requests.values())), *line)
        for line, requests in lines.items()
    ]


def _request(name: str, cases: Sequence[str]) -> str:
    """A request, with what is asked of it; without a case it is the request as such."""
    said = "; ".join(case for case in cases if case)
    if not said:
        return name
    return f"{name} ({'also ' if '' in cases else ''}{said})"


def _roles(allowed: Sequence[str]) -> str:
    """The roles to which something is allowed; those that are left out where they are fewer."""
    others = [role for role in ROLES if role not in allowed]
    if not others:
        return "all"
    if len(others) < len(allowed):
        return f"all but {', '.join(others)}"
    return ", ".join(allowed) or "none"


def _tables(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows with the same cells share a line; those with one cell everywhere are a list apart."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for what, *cells in rows:
        lines.setdefault(tuple(cells), []).append(what)
    alike = [("; ".join(what), cells[0]) for cells, what in lines.items() if len({*cells}) == 1]
    others = [("; ".join(what), *cells) for cells, what in lines.items() if len({*cells}) > 1]
    found = [table(head, others), ""] if others else []
    if not alike:
        return found
    return [*found, "In every column:", "", *(f"* {cell}: {what}" for what, cell in alike), ""]


def _applications() -> list[str]:
    lines = ["## What applications ask", "", APPLICATIONS]
    for heading, rows in PARTS.items():
        lines += [f"### {heading}", ""]
        for requests, needs, allowed in _rows(rows):
            lines.append(f"* {allowed}{f' ({needs})' if needs else ''}: {requests}")
        lines.append("")
    only = ", ".join(f"`{row.name}`" for rows in PARTS.values() for row in rows if row.socket_only)
    return [*lines, f"At the Unix socket only: {only}; over TCP it is `unsupported-operation`.", ""]


def _shown() -> list[str]:
    head = ("shown", *showing.DOORS)
    rows = [(what, *(_who(one) for one in cells)) for what, cells in showing.SHOWN.items()]
    meaning = [f"* *{cell}*: {text}." for cell, text in showing.MEANING.items()]
    return [
        "## Who an application is",
        "",
        showing.INTRODUCTION,
        *_tables(head, rows),
        *meaning,
        "",
    ]


def _who(cell: str) -> str:
    return f"*{cell}*" if cell in showing.MEANING else cell


def _peers() -> list[str]:
    strangers = [
        (who, peers.NOT_PARSED, f"*{why}*") for who, why in peers.STRANGERS.items()
    ]  # fmt: skip
    strangers += [(who, cell, f"*... {why} ...*") for who, (cell, why) in peers.IMPOSTORS.items()]
    rows = [(packet, *(peers.cell(who, packet) for who in peers.KNOWN)) for packet in peers.PACKETS]
    meaning = [f"* *{cell}*: {text}." for cell, text in peers.MEANING.items()]
    return [
        "## What comes to the port for other queue managers", "",
        "Before the first packet, with the reason in the log:", "",
        *(f"* {who}: {what}, {why}" for who, what, why in strangers), "",
        OTHERS, *_tables(("packet", *peers.KNOWN), rows), *meaning, "",
    ]  # fmt: skip


def _answers() -> list[str]:
    rows = [
        (who, *(f"{cell}: *... {why} ...*" if why else cell for cell, why in cells.values()))
        for who, cells in answers.WHO.items()
    ]
    meaning = [f"* *{cell}*: {text}." for cell, text in answers.MEANING.items()]
    return [
        "## Who answers where a queue manager connects", "", ANSWERS,
        *_tables(("who answers", *answers.ASKED), rows), *meaning, "",
    ]  # fmt: skip


def _http() -> list[str]:
    rows = [(who, *cells.values()) for who, cells in over_http.WHO.items()]
    meaning = [f"* *{cell}*: {text}." for cell, text in over_http.MEANING.items()]
    return [
        "## What is posted over HTTPS", "", HTTPS, *_tables(("who posts", *over_http.POSTS), rows),
        *meaning, "",
    ]  # fmt: skip


def page(note: str) -> str:
    """The page."""
    lines = [
        "# Who may do what: the matrix", "", note.rstrip(), "", INTRODUCTION, *_applications(),
        *_shown(), *_peers(), *_answers(), *_http(),
    ]  # fmt: skip
    return "\n".join(lines).rstrip("\n") + "\n"
