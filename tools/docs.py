"""Write (or compare) the generated pages and pictures of the documentation."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, get_args

import msgspec

import docs_cases
import docs_cli
import docs_console
import docs_copies
import docs_endings
import docs_matrix
import docs_metrics
import docs_rules
import docs_states
import pictures
from onceq import errors
from onceq.model import limits, settings, shares
from onceq.model.record import names
from onceq.model.requests import COUNT, KINDS, Messages
from onceq.model.requests.request import Needs, list_given
from onceq.wire.app import frames

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from proof.bench.peers import pages  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
COLUMNS = 100
NOTE = "<!-- Written by `make docs` from the code; a test compares them. -->\n\n"


def errors_page() -> str:
    """docs/reference/errors.md."""
    rows = []
    for code, kind in errors.every().items():
        said = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        hresult = f", `{kind.hresult:#010X}`".replace("0X", "0x") if kind.hresult else ""
        base = ", ".join(base.__name__ for base in kind.__bases__)
        rows.append(
            f"* `{code}`, `{kind.__name__}({base})`, {kind.exit_code}{hresult}: "
            f"{docs_rules.linked(said)} {kind.cure}"
        )
    return (
        "# Errors\n\n" + NOTE + "Every error is an `OnceqError` with a stable `code`; `hresult` is "
        "the result code of MSMQ where there is one. Base classes: `UsageError` (the call is "
        "wrong), `Refused` (a limit or a rule), `PeerError` (the other side), `InDoubt` (the "
        "outcome is not known yet), `StorageFailure` (the machine). A `Retryable` error guarantees "
        "that nothing has happened; `run` repeats it "
        "([transactions](client.md#transactions)). A number such as RCV-11 is a "
        "[rule](rules.md).\n\n"
        "Each line has the code, the class with its base, the exit code, the result code of MSMQ, "
        "the cause and the cure. Result codes that are not here cannot occur; "
        "`onceq/model/resultcodes.py` says why.\n\n" + "\n".join(rows) + "\n"
    )  # fmt: skip


def _documented(node: ast.AST) -> list[tuple[str, str, str]]:
    """(name, value, docstring) of the assignments of a module or class, in order."""
    found: list[tuple[str, str, str]] = []
    body = getattr(node, "body", [])
    for at, item in enumerate(body):
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
            continue
        following = body[at + 1] if at + 1 < len(body) else None
        said = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            said = " ".join(str(following.value.value).split())
        value = ast.unparse(item.value) if item.value is not None else ""
        found.append((item.target.id, value, said))
    return found


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


INSIDE = """
    DIRECTORY_RETRY_S DIRECTORY_DISPUTE_S_MAX SHARED_RIGHTS_NUMBER_MAX LOG_FLUSH_S_MAX
    TOKEN_LOOK_S TOKEN_ADDRESSES_MAX REPLIES_TIDY_S JOB_REASONS_MAX JOB_BATCH_BYTES
    JOB_PURGE_MESSAGES JOB_RETRY_S JOB_DIVERTED_MAX MESSAGE_NUMBER_MAX RECORD_BYTES_MAX
    STREAM_NUMBERS_MAX ANSWERS_TURN_BYTES RECEIVE_BYTES HTTP_RECEIPTS_MAX GROUP_NOTE_CHARS_MAX
    OWNERS_MAX ANSWERS_EACH_BYTES REFUSED_AHEAD_MAX UNDONE_MAX LIVES_MAX LIVES_MET_MAX
    LIVES_OF_ONE_MET_MAX CLASHES_MAX WRONG_NAMES_MAX REFUSALS_MAX DRAINED_STREAMS_MAX
    LATE_REFUSALS_KEPT ACCEPTED_NUMBERS_MAX ACCEPTED_STREAMS_MAX LEFT_AHEAD REST_BYTES_MIN
    SPARSE_POSITIONS_MAX LEFT_STREAMS_MAX PASSED_RANGES_MAX INQUIRY_STREAMS_MAX NOTES_MAX
    EARLY_RUN_BYTES HOLE_AGAIN_S HOLE_MESSAGES HOLE_GROWTH HOLES_WAITING_MAX ASKED_MESSAGES
    ASKED_GROWTH HOLE_TOLD_MAX ACKS_AT_ONCE QUEUES_MEASURED_AT_ONCE NOTICES_MAX
    SPARE_DESCRIPTORS ACCEPTS_AT_ONCE ACCEPT_PAUSE_S PLACES_AHEAD_MIN PLACES_AHEAD_MAX
    NOTICE_EVERY_S OUTGOING_NAMES_MAX METRICS_EVERY_S WATCH_S_MAX WATCH_HEAD_BYTES_MAX
    MAPPING_LOOK_S ACKS_DEFERRED_S RETURN_MESSAGES_MAX LOG_LINES_MAX TOKEN_LINES_MAX
    REQUEST_GRACE_S OUTCOME_SESSIONS_MAX PEERS_REMEMBERED_MAX ACKS_DEFERRED_MAX CLOCKS_AHEAD_MAX
    EARLY_SESSION_BYTES_MAX EARLY_BYTES_MAX REPORTS_MAX DESCRIPTORS_RESERVED DESCRIPTORS_LOCAL
    KNOWN_PEERS_MAX HISTORY_ROWS_MAX HISTORY_LOG_BYTES HISTORY_NOTES_MAX AUDIT_ASK_WAIT_S
    HISTORY_UNWRITTEN_BYTES_MAX REMOVALS_MAX ALIKE_PATTERNS_MAX PASSED_ON_MAX TOKEN_AGE_S_MAX
    SHARED_RIGHTS_BYTES_MAX LOG_LINES_AT_ONCE LOG_RATE_S WATCHERS_MAX MEMBERS_ASK_S
    QUEUES_MAX OUTGOING_QUEUES_MAX SUBQUEUES_MAX GRANTS_MAX HANDLES_MAX CURSORS_MAX
    WAITING_READERS_MAX OPEN_TRANSACTIONS_MAX PREPARED_MAX
"""
"""Limits of what the program does in one step, or remembers for itself: nobody meets them. The
last ones stand among the shares of one owner."""


def limits_page() -> str:
    """docs/reference/limits.md."""
    inside = INSIDE.split()
    rows = [
        f"* `{name}` ({getattr(limits, name):,}): {docs_rules.linked(said)}"
        for name, _, said in _documented(_tree(limits))
        if name.isupper() and isinstance(getattr(limits, name), int) and name not in inside
    ]
    return (
        "# Limits\n\n" + NOTE + "Input from outside cannot use more memory, disk or time than "
        "these. A name without a unit is a count. `onceq/model/limits.py` has them all, also those "
        "of single steps inside the program.\n\n" + "\n".join(rows) + "\n\n" + _shares()
    )


def _shares() -> str:
    """What one owner may have, a line for each thing."""
    rows = [
        f"* {thing}: {line.whole:,}, {line.share:,}, {line.reserve:,}; {line.owner}"
        for thing, line in shares.TABLE.items()
    ]
    return (
        "## Shares of one owner\n\n"
        "Shared things are counted by owner: an account, a token, a certificate or another queue "
        "manager. One owner has at most its share, and at most what is left for all others: the "
        "first takes at most half, the next half of the rest. Administrators (right `administer`, "
        "and the account that runs the queue manager) have no share and may use the reserve. A "
        "refusal (`quota-exceeded`) names the limit, what the owner has, and what to do. Tokens "
        "have no share, because only administrators make them; nor has the one subqueue for "
        "delayed messages of each queue.\n\n"
        "Each line has the number in all, of one owner, of the reserve; and whose it is.\n\n"
        + "\n".join(rows) + "\n"
    )  # fmt: skip


_PROTOCOL = REFERENCE / "formats" / "client-protocol.md"
_REQUESTS = re.compile(r"(<!-- Written by `make docs`.*?-->\n).*?(\n<!-- End)", re.S)


def protocol_page() -> str:
    """docs/reference/formats/client-protocol.md, with the requests as their classes are."""
    rows = [f"* {code} {_request(kind)}\n" for code, kind in sorted(KINDS.items())]
    return wrapped(
        _REQUESTS.sub(lambda at: f"{at[1]}\n{''.join(rows)}{at[2]}", _PROTOCOL.read_text())
    )


def _request(kind: Any) -> str:
    """A request with its head, and what is not as with most others."""
    answer, needs = _answer(kind.answer), kind.needs.value
    more = [f"answer: {answer}"] if answer != _answer(COUNT) else []
    more += [f"needs: {needs}"] if kind.needs is not Needs.STATE else []
    more += ["number 0"] if kind.quiet else []
    return f"{kind.__name__} ({', '.join(list_given(kind))})" + "".join(f"; {one}" for one in more)


def _answer(kind: Any) -> str:
    """An answer of a type, as it crosses a connection."""
    if kind is COUNT:
        return "a number; nil"
    if kind is Messages:
        return f"{', '.join(names(frames.HandedHead))}; data"
    if isinstance(kind, UnionType):
        return "; ".join(map(_answer, get_args(kind)))
    if issubclass(kind, Enum):
        return " or ".join(f'"{one.value}"' for one in kind)
    if issubclass(kind, tuple):
        return ", ".join(kind._fields)
    if issubclass(kind, msgspec.Struct):
        return f"{', '.join(names(kind))} (a map)"
    return {bytes: "bytes", object: "a map"}.get(kind, "nil")


def _shown(value: object) -> str:
    """The default of a setting."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int | float) else f'"{value}"'


def settings_page() -> str:
    """docs/reference/settings.md."""
    defaults = settings.Settings()
    (node,) = (
        n for n in _tree(settings).body if isinstance(n, ast.ClassDef) and n.name == "Settings"
    )
    rows = [
        f"* `{name}` ({_shown(getattr(defaults, name))}): {docs_rules.linked(said)}"
        for name, _, said in _documented(node)
    ]
    return (
        "# Settings\n\n" + NOTE + "Write them in the table `[settings]` of `onceq.toml`, or in "
        "`onceq.Settings(...)` for an embedded queue manager. Defaults are those of MSMQ where it "
        "has them (in brackets). An unknown name is refused.\n\n" + "\n".join(rows) + "\n"
    )


PAGES: dict[str, Callable[[], str]] = {
    "errors.md": errors_page,
    "limits.md": limits_page,
    "cli.md": docs_cli.page,
    "console.md": lambda: docs_console.page(NOTE),
    "copies.md": lambda: docs_copies.page(NOTE),
    "conformance.md": lambda: docs_cases.page(NOTE),
    "endings.md": docs_endings.page,
    "metrics.md": lambda: docs_metrics.page(NOTE),
    "settings.md": settings_page,
    "states.md": lambda: docs_states.page(NOTE),
    "who-may-do-what.md": lambda: docs_matrix.page(NOTE),
}


def wrapped(page: str) -> str:
    """A page with its prose wrapped, so that a change of it can be read; tables, headings and code
    stay as they are."""
    lines, code = [], False
    for line in page.split("\n"):
        code ^= line.startswith("```")
        if not code and len(line) > COLUMNS and not line.startswith(("|", "#", "<")):
            item = re.match(r" *[*-] ", line)
            indent = " " * len(item[0]) if item else ""
            line = textwrap.fill(
                line, COLUMNS, subsequent_indent=indent, break_long_words=False,
                break_on_hyphens=False,
            )  # fmt: skip
        lines.append(line)
    return "\n".join(lines)


def texts() -> dict[Path, str]:
    """Everything that is written from the code, by file."""
    found = {REFERENCE / name: wrapped(make()) for name, make in PAGES.items()}
    found |= pages.texts() | {_PROTOCOL: protocol_page()}
    return found | {pictures.PICTURES / name: dot for name, dot in docs_states.pictures().items()}


def stale() -> list[str]:
    """Files that do not say what the code says."""
    return [
        str(path.relative_to(ROOT))
        for path, text in texts().items()
        if not path.exists() or path.read_text() != text
    ]


def main() -> int:
    """Write the files, or say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        for path, text in texts().items():
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
        _draw()
        return 0
    for name in stale():
        print(f"{name} is stale: run make docs")
    return len(stale())


def _draw() -> None:
    """Draw the pictures whose texts have changed, where Graphviz is installed."""
    for source in pictures.stale():
        if shutil.which("dot") is None:
            print(f"{source.relative_to(ROOT)} has changed: run make pictures, with Graphviz")
        else:
            pictures.draw(source)
            print(f"drew {source.with_suffix('.svg').relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
