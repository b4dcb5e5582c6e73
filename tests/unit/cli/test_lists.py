"""What commands that list print, text by text, for views that have something in every field."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from onceq.cli import commands, contexts, main, out
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
    TrailView,
    TransactionView,
)
from onceq.model.views.queues import ConsumerView, OutgoingView, QueueView, ReaderView, StreamView
from onceq.model.views.view import Page

GOLDEN: Final = Path(__file__).with_name("lists.txt")
"""The texts: a heading for each command line, and what it prints."""
NOW_S: Final = 1_700_000_090
AT_S: Final = 1_700_000_000
GUID: Final = "5f1f4a3c-0d5e-4b7a-9d0a-0123456789ab"
OTHER: Final = "7a2f4a3c-0d5e-4b7a-9d0a-0123456789ab"
QUEUES: Final = [
    QueueView(
        name="orders", path="private$\\orders", transactional=True, label="what is to be done",
        messages=12, available=9, locked=3, bytes=123_456, readers_waiting=2, paused_since=AT_S,
        quota_kb=4_294_967_295, journal_quota_kb=1_000, created=AT_S, modified=AT_S,
        instance="00ff", type="00000000-0000-0000-0000-000000000000", first_lookup=17,
        last_lookup=28, poison_then="move:poison", oldest=AT_S, state="LOCAL CONNECTION",
    ),
    QueueView(name="SYSTEM$;DEADXACT", path="SYSTEM$;DEADXACT", transactional=True, system=True),
    QueueView(name="late", path="private$\\late", messages=1, bytes=7, delayed=2,
              delayed_until=AT_S + 500),
]  # fmt: skip
OUTGOING: Final = [
    OutgoingView(
        destination="DIRECT=OS:beta\\private$\\stock", state="WAITING", messages=5,
        unacknowledged=4, bytes=5_000, trouble="connection refused", trouble_since=AT_S,
        attempts=3, retry_in_s=4.0, xact="UNKNOWN", next_hops=("127.0.0.1:1",),
        resend_interval_s=30.0, peer=GUID, stream=0x55, first_unacked=1, last_unacked=4,
        next_number=5, last_ack=1, last_ack_time=AT_S, last_ack_count=2,
    ),
    OutgoingView(destination="DIRECT=OS:alpha\\private$\\stock", state="NONACTIVE", xact="UNKNOWN"),
]  # fmt: skip
STREAMS: Final = [
    StreamView(
        queue="os:alpha\\private$\\orders", name="OS:ALPHA\\private$\\orders", source=GUID,
        sender="BETA", stream=0x77, number=41, last_access=AT_S, rejects=3, duplicates=2, gaps=1,
        connected=True, begun=AT_S,
    ),
    StreamView(queue="late", name="os:alpha\\private$\\late", source=OTHER, number=7),
]  # fmt: skip
CONSUMERS: Final = [
    ConsumerView("orders", "account:anna", "local", 3, opened=1, access="receive", says="nightly",
                 denies="receive", holds=12_000, since=AT_S),
    ConsumerView("orders", connection=1, waiting=4),
]  # fmt: skip
TRANSACTIONS: Final = [
    TransactionView(owner=4, number=9, began=AT_S, sent=3, received=2, bytes=2_048,
                    who="account:anna", place="local"),
    TransactionView(owner=3, number=1, began=AT_S),
]  # fmt: skip
BRANCHES: Final = [
    BranchView(xid="1869509489:01:02", phase="prepared", since=AT_S, messages=3, received=2,
               number=5),
]  # fmt: skip


class Group:
    """A group of its operations, of which ``list`` is the one that looks."""

    def __init__(self, name: str) -> None:
        self.list = lambda *_: ANSWERS[name]


class Manager:
    """A queue manager that answers with the views above."""

    id = GUID
    name = "ALPHA"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **asked: ANSWERS[name]

    @property
    def admin(self) -> Manager:
        return self

    @property
    def jobs(self) -> Any:
        return Group("jobs")

    @property
    def lists(self) -> Any:
        return Group("lists")

    @property
    def rights(self) -> Any:
        return Group("rights")

    @property
    def tokens(self) -> Any:
        return Group("tokens")

    def outgoing_queue(self, name: str) -> OutgoingView:
        return OUTGOING[0]

    def queue(self, name: str) -> QueueView:
        return QUEUES[0]

    def queue_page(self, **asked: Any) -> Page[QueueView]:
        return Page(tuple(QUEUES[: asked["limit"] or None]), "3", 7)

    def outgoing_page(self, **asked: Any) -> Page[OutgoingView]:
        return Page(tuple(OUTGOING[: asked["limit"] or None]), "3", 7)

    def _run(self, plan: Any) -> Any:
        return ANSWERS[plan.__name__]


ANSWERS: Final[dict[str, Any]] = {
    "_state": None,
    "queues": list(QUEUES),
    "outgoing": list(OUTGOING),
    "streams": list(STREAMS),
    "consumers": CONSUMERS,
    "eod_send_info": {},
    "eod_receive_info": [],
    "peers": [
        PeerView(name="os:beta", id=GUID, since=AT_S, connected=True),
        PeerView(name="address:127.0.0.1", id=OTHER, since=AT_S),
    ],
    "rights": [
        GrantView(who="account:anna", rights=("send", "peek"), pattern="private$\\orders",
                  by="account:bert", of_one_queue=True),
        GrantView(who="account:anna", rights=("operate",), origin="directory"),
        GrantView(who="account:bert", rights=("receive",), pattern="orders", owner=True),
    ],
    "tokens": [
        TokenView(name="web", made_s=AT_S, expires_s=AT_S, expired=True, connections=2),
        TokenView(name="app", made_s=AT_S),
    ],
    "transactions": TRANSACTIONS,
    "branches": BRANCHES,
    "decisions": [DecisionView(gtrid="onceq-1", partners=("pg", "beta"), since=AT_S)],
    "applications": [GroupView(app="query:1", query="abc", version=12, since=AT_S)],
    "damages": [
        DamageView(number=1, queue="private$\\orders", lookup=0x1F, count=3, bytes=3_000, at=AT_S),
        DamageView(number=2, queue="private$\\late", lookup=1, count=1, bytes=30, at=AT_S,
                   reason=0xC003),
        DamageView(number=3, queue="DIRECT=OS:beta\\private$\\a", lookup=1, count=1, bytes=30,
                   at=AT_S, reason=0x8003),
    ],
    "jobs": [
        JobView(number=7, action="move", state="running", queues=("private$\\a", "private$\\b"),
                looked=5, total=9, done=3, kept={"too young": 2, "another": 1}, failed=1,
                began=AT_S, who="account:anna"),
        JobView(number=8, action="purge", state="done"),
    ],
    "lists": [ListView(name="all", format_name=f"DL={GUID}", members=("DIRECT=OS:a\\b", "DL=x"))],
    "readers": [
        ReaderView("private$\\orders", "nightly", "q1", 41, AT_S, "spark on host"),
        ReaderView("private$\\late", "", "", 7, AT_S + 40, ""),
    ],
    "trail": [
        ActView(number=1, at=AT_S, who="account:anna", where="local", what="grant",
                about="private$\\orders", times=3, last=AT_S + 9),
        ActView(number=2, at=AT_S, who="account:bert", what="purge", about="orders",
                result="access-denied"),
    ],
    "trail_end": TrailView(id=GUID, number=2, heads=(
        HeadView(peer=OTHER, name="BETA", number=7, digest="00ff", at=AT_S),
        HeadView(peer=GUID, number=8, digest="00fe", at=AT_S),
    )),
    "settings": [
        SettingView(name="undecided_s", value=60, default=30),
        SettingView(name="pin_peers", value=True, default=True, at_start=True),
    ],
}  # fmt: skip
LINES: Final = (
    "queue list", "queue list --exact", "queue list --limit 2", "queue show orders",
    "outgoing list", "outgoing list --limit 1", "outgoing show beta", "stream list", "peer list",
    "rights show", "rights list", "token list", "tx list", "tx groups", "damage list", "job list",
    "list show", "spark readers", "trail", "trail --last 1", "trail heads", "qm settings",
    "qm settings --changed", "context list",
)  # fmt: skip
NARROW: Final = ("queue list", "outgoing list", "stream list", "damage list", "job list", "trail",
                 "tx list", "context list")  # fmt: skip


@pytest.fixture(autouse=True)
def _answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def asking(*given: Any, **more: Any) -> Iterator[Any]:
        yield Manager()

    for line in LINES:
        words = line.split()
        path = " ".join(words[:2]) if " ".join(words[:2]) in commands.COMMANDS else words[0]
        module = commands.COMMANDS[path].partition(":")[0]
        __import__(module)
        for name in ("asking", "manager"):
            if hasattr(sys.modules[module], name):
                monkeypatch.setattr(f"{module}.{name}", asking)
    monkeypatch.setattr(time, "time", lambda: float(NOW_S))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    known = contexts.Contexts({"a": contexts.Context("/data/a", ""),
                               "b": contexts.Context("onceq://host:1", "/t")}, "b")  # fmt: skip
    monkeypatch.setattr(contexts, "read", lambda: known)


def told(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command line prints, and what it says beside that."""
    assert main.run(line.split()) == 0
    said = capsys.readouterr()
    return said.out + "".join(f"2> {one}\n" for one in said.err.splitlines())


def texts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """All of them, as the file has them."""
    found = [f"$ onceq {line}\n{told(line, capsys)}" for line in LINES]
    monkeypatch.setattr(out, "width", lambda: 72)
    found += [f"$ onceq {line} # 72 columns\n{told(line, capsys)}" for line in NARROW]
    return "\n".join(found)


def test_lists_print_what_they_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert texts(capsys, monkeypatch) == GOLDEN.read_text()


@pytest.mark.parametrize("line", [one for one in LINES if "--exact" not in one])
def test_json_is_the_views(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*line.split(), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    rows = said if isinstance(said, list) else [said]
    assert rows
    assert all(isinstance(row, dict) for row in rows)
