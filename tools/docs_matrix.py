"""docs/reference/who-may-do-what.md: the tables that ``tests/matrix`` tries on real daemons."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
Every cell of these tables is tried on real queue managers by `tests/matrix`, which has its
expectations from the same place as this page: what is allowed succeeds, what is refused is
refused with [`access-denied`](errors.md) and has changed nothing, or with what the table says.
What the rights are, and how they are given, is in
[who may do what](../how-to/who-may-do-what.md); how queue managers prove who they are is in
[queue managers that know each other](../how-to/tls.md).
"""
APPLICATIONS = """\
The answers are the same through every door: the Unix socket, TCP on the same computer, and TLS;
whether an account, a token or a certificate says who somebody is. At the Unix socket there is
nobody without a name. Over TCP an account is no name: *account over TCP* may everything at the Unix
socket, comes over loopback, plainly or in TLS, shows neither token nor certificate, and has what
`nobody` has.

The queue that the rows are about has been made by its owner. The sender may `send` there and to
another queue manager, the receiver may `receive` there, the peeker `peek`. The tenant has `create`
at `private$\\app-*`, and owns a queue that it has made there, whose name is `app-*`. Monitor,
operator and administrator have the right `monitor`, `operate` or `administer`, and nothing else;
the account that runs the queue manager is administrator without a grant. *Needs* is the right that
is enough by itself, or several: each right has been tried alone as well. `a name` needs no right,
but that it is known who asks.
"""
OTHERS = """\
Each row is a packet, as somebody sends it who has connected to the port of a queue manager with an
identity (the last column: to one without, from the same computer).
"""
ANSWERS = """\
A message waits for `DIRECT=OS:NAME`, or for `PRIVATE=GUID`, and a queue manager with an identity
connects to where that leads, by DNS, `[peers]` or the directory, which may be wrong. What becomes
of it there, and what `onceq outgoing why` says:
"""
HTTPS = """\
To a queue manager with an identity and `http_certificate`, from another computer but for the last
row.
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
    return [
        (
            f"`{row.kind.__name__}` {row.what}".strip(), _needs(row.needs),
            *("yes" if allowed else "no" for allowed in expected(row.needs).values()),
        )
        for row in rows
    ]  # fmt: skip


def _applications() -> list[str]:
    lines = ["## What applications ask", "", APPLICATIONS]
    for heading, rows in PARTS.items():
        lines += [f"### {heading}", "", table(("request", "needs", *ROLES), _rows(rows)), ""]
    only = ", ".join(f"`{row.name}`" for rows in PARTS.values() for row in rows if row.socket_only)
    return [*lines, f"At the Unix socket only: {only}; over TCP it is `unsupported-operation`.", ""]


def _shown() -> list[str]:
    head = ("shown", *showing.DOORS)
    rows = [(what, *(_who(one) for one in cells)) for what, cells in showing.SHOWN.items()]
    meaning = [f"* *{cell}*: {text}." for cell, text in showing.MEANING.items()]
    return ["## Who an application is", "", showing.INTRODUCTION, table(head, rows), "",
            *meaning, ""]  # fmt: skip


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
        "Whatever packet it begins with:", "",
        table(("who comes", "what becomes of it", "reason in the log"), strangers), "",
        OTHERS, table(("packet", *peers.KNOWN), rows), "", *meaning, "",
    ]  # fmt: skip


def _answers() -> list[str]:
    rows = [
        (who, *(f"{cell}: *... {why} ...*" if why else cell for cell, why in cells.values()))
        for who, cells in answers.WHO.items()
    ]
    meaning = [f"* *{cell}*: {text}." for cell, text in answers.MEANING.items()]
    return [
        "## Who answers where a queue manager connects", "", ANSWERS,
        table(("who answers", *answers.ASKED), rows), "", *meaning, "",
    ]  # fmt: skip


def _http() -> list[str]:
    rows = [(who, *cells.values()) for who, cells in over_http.WHO.items()]
    meaning = [f"* *{cell}*: {text}." for cell, text in over_http.MEANING.items()]
    return [
        "## What is posted over HTTPS", "", HTTPS, table(("who posts", *over_http.POSTS), rows),
        "", *meaning, "",
    ]  # fmt: skip


def page(note: str) -> str:
    """The page."""
    lines = [
        "# Who may do what: the matrix", "", note.rstrip(), "", INTRODUCTION, *_applications(),
        *_shown(), *_peers(), *_answers(), *_http(),
    ]  # fmt: skip
    return "\n".join(lines).rstrip("\n") + "\n"
