"""What keeps messages from moving, or waits for somebody, is told at each face that an operator
looks at; or a reason stands here why it is not (finding U5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from onceq import exposition
from onceq.cli import lists, outgoing, queues, status, top
from onceq.console import reading
from onceq.console.guard import FormValues
from onceq.console.table import environment
from onceq.model.resultcodes import MessageClass
from onceq.model.views.looks import BranchView
from onceq.model.views.managers import ClashView, RightView, StatusView
from onceq.model.views.queues import (
    EVERY_FAILS,
    ConsumerView,
    EndingView,
    OutgoingView,
    QueueView,
    SendInfo,
)
from onceq.model.views.view import MetricsView, OutgoingMetrics, Page

Q, D = "private$\\orders", "DIRECT=OS:BETA\\private$\\stock"
NOW = int(time.time())
FACES = (
    "qm status", "overview", "top", "outgoing list", "outgoing show", "outgoing why",
    "console outgoing", "queue list", "queue show", "console queues", "qm metrics",
)  # fmt: skip
OF_OUTGOING = ("outgoing list", "outgoing show", "outgoing why", "console outgoing")
OF_QUEUES = ("queue list", "queue show", "console queues")
NO_QUEUE = "it is about no queue"
NO_OUTGOING = "it is about no outgoing queue"


class Seen:
    """A queue manager as far as it is looked at, in one condition."""

    def __init__(
        self, manager: StatusView | None = None, counted: MetricsView | None = None, *,
        queue: QueueView | None = None, far: OutgoingView | None = None,
        branches: tuple[BranchView, ...] = (), consumers: tuple[ConsumerView, ...] = (),
        paused: bool = False, full: bool = False, stuck: bool = True, refused: bool = False,
    ) -> None:  # fmt: skip
        self.manager, self.counted = manager or StatusView(), counted or MetricsView()
        self.one = queue or QueueView(path=Q, name="orders", messages=3, available=3)
        self.far = far or OutgoingView(destination=D, state="CONNECTED", messages=3)
        self.all_branches, self.at_work = list(branches), list(consumers)
        self.parts = {
            "": True, "used": True, "busy": True, "noted": True, "paused": paused, "full": full,
            "stuck": stuck and far is not None, "refused": refused,
        }  # fmt: skip

    @property
    def admin(self) -> Seen:
        return self

    jobs = SimpleNamespace(list=list)
    rights = SimpleNamespace(explain=lambda *_, **__: RightView(allowed=True))

    def status(self) -> StatusView:
        return self.manager

    def metrics(self, *, queues: bool = False) -> MetricsView:
        return self.counted

    def branches(self) -> list[BranchView]:
        return self.all_branches

    def consumers(self, queue: str) -> list[ConsumerView]:
        return self.at_work

    def queue(self, name: str) -> QueueView:
        return self.one

    def outgoing_queue(self, name: str) -> OutgoingView:
        return self.far

    def eod_send_info(self, name: str) -> SendInfo:
        return SendInfo()

    def queue_page(self, *, only: str = "", **_: object) -> Page[QueueView]:
        some = (self.one,) if self.parts[only] else ()
        return Page(some, "", len(some))

    def outgoing_page(self, *, only: str = "", **_: object) -> Page[OutgoingView]:
        some = (self.far,) if self.parts[only] else ()
        return Page(some, "", len(some))

    def queues(self, **asked: Any) -> list[QueueView]:
        return list(self.queue_page(**asked).views)

    def outgoing(self, **asked: Any) -> list[OutgoingView]:
        return list(self.outgoing_page(**asked).views)


class Awaited:
    """The same for tasks."""

    def __init__(self, seen: Any) -> None:
        self._seen = seen

    @property
    def admin(self) -> Awaited:
        return self

    @property
    def rights(self) -> Awaited:
        return Awaited(self._seen.rights)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **more: Any) -> Any:
            return getattr(self._seen, name)(*args, **more)

        return call


def now(**more: Any) -> OutgoingView:
    values: dict[str, Any] = {"destination": D, "messages": 3, "unacknowledged": 3} | more
    return OutgoingView(**values)


REFUSED = EndingView(int(MessageClass.NACK_ACCESS_DENIED), 0, 2, 0, NOW)

CONDITIONS: dict[str, tuple[Seen, dict[str, str]]] = {
    "a queue is paused": (
        Seen(
            counted=MetricsView(queues_paused=1), paused=True,
            queue=QueueView(path=Q, name="orders", messages=3, available=3, paused_since=NOW),
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_QUEUES), "paused")
        | {"qm metrics": "onceq_queues_paused 1.0"},
    ),
    "an outgoing queue is paused": (
        Seen(
            counted=MetricsView(outgoing=(OutgoingMetrics("beta", {"ONHOLD": 1}),)),
            far=now(state="ONHOLD", paused_since=NOW, trouble="idle", trouble_since=NOW),
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_OUTGOING), "paused")
        | {"qm metrics": 'state="ONHOLD"} 1.0'},
    ),
    "something was refused there": (
        Seen(
            counted=MetricsView(
                outgoing=(OutgoingMetrics("beta", {}, refused={"nack-access-denied": 2}),)
            ),
            far=now(state="INACTIVE", messages=0, unacknowledged=0, endings=(REFUSED,)),
            stuck=False, refused=True,
        ),
        dict.fromkeys(("qm status", "overview", "outgoing why", "outgoing show",
                       "console outgoing"), "2 messages were refused (access denied there)")
        | dict.fromkeys(("top", "outgoing list"), "2 refused there")
        | {"qm metrics": 'onceq_outgoing_refused_total{class="nack-access-denied",peer="beta"} 2'},
    ),
    "it is hardened": (
        Seen(
            counted=MetricsView(outgoing=(OutgoingMetrics("beta", {"LOCKED": 1}),)),
            far=now(state="LOCKED"),
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_OUTGOING), "hardened")
        | {"qm metrics": 'state="LOCKED"} 1.0'},
    ),
    "it is disconnected by an operator": (
        Seen(
            StatusView(offline_since=NOW), MetricsView(offline=True),
            far=now(state="DISCONNECTED", offline_since=NOW), stuck=False,
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_OUTGOING), "disconnected by an operator")
        | {"qm metrics": "onceq_offline 1.0"},
    ),
    "a quota is used up": (
        Seen(
            counted=MetricsView(queue_quota_ratio=1.0), full=True,
            queue=QueueView(path=Q, name="orders", messages=3, quota_kb=1, quota_used=1.0),
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_QUEUES), "100 % of its quota")
        | {"qm metrics": "onceq_fullest_queue_quota_used_ratio 1.0"},
    ),
    "it cannot be reached": (
        Seen(
            counted=MetricsView(outgoing=(OutgoingMetrics("beta", oldest_age_s=77),)),
            far=now(state="WAITING", trouble="connection refused", trouble_since=NOW, attempts=2),
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_OUTGOING), "connection refused")
        | {"qm metrics": 'peer="beta"} 77.0'},
    ),
    "the directory is away": (
        Seen(
            StatusView(directory_trouble="no such file"), MetricsView(directory_away=True),
            far=now(state="NEED VALIDATION"),
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_OUTGOING), "directory")
        | {"qm metrics": "onceq_directory_away 1.0"},
    ),
    "an identity is used twice": (
        Seen(
            StatusView(clashes=(ClashView(id="5a", found="it was copied"),)),
            MetricsView(clashes=1), far=now(state="CONNECTED", clash="it was copied"),
        ),
        dict.fromkeys(("qm status", "overview", "outgoing why", "outgoing show",
                       "console outgoing"), "it was copied")
        | dict.fromkeys(("top", "outgoing list"), "another queue manager has the identity")
        | {"qm metrics": "onceq_identity_clashes 1.0"},
    ),
    "its certificate is not believed": (
        Seen(
            StatusView(tls=True, certificate_problem="it has expired"),
            far=now(state="WAITING", trouble="it has expired", trouble_since=NOW),
        ),
        dict.fromkeys(("qm status", "overview", "top", *OF_OUTGOING), "it has expired")
        | {"qm metrics": "- onceq_certificate_ends is 0 then, and the alert rules say so"},
    ),
    "its receiver turns away": (
        Seen(far=now(state="CONNECTED", turned_away="a stream of the past", turned_away_at=NOW)),
        dict.fromkeys(("qm status", "overview", "top", *OF_OUTGOING), "a stream of the past")
        | {"qm metrics": "- what waits is told by its age; the reason is a text"},
    ),
    "a job runs": (
        Seen(counted=MetricsView(jobs_running=1)),
        dict.fromkeys(("qm status", "overview"), "1 job is running")
        | {"top": "- it shows what moves; what a job moves, moves",
           "qm metrics": "onceq_jobs_running 1.0"},
    ),
    "a job waits": (
        Seen(counted=MetricsView(jobs_running=1, jobs_waiting=1)),
        dict.fromkeys(("qm status", "overview"), "1 job is waiting")
        | {"top": "- it shows what moves", "qm metrics": "onceq_jobs_waiting 1.0"},
    ),
    "poison messages wait": (
        Seen(
            StatusView(poison_messages=2), MetricsView(poison_messages=2),
            queue=QueueView(path=Q, name="orders", messages=3, poison=2),
        ),
        dict.fromkeys(OF_QUEUES, "moved aside")
        | {"qm status": "2 messages moved aside", "overview": "Moved aside",
           "top": "2 dead letters", "qm metrics": "onceq_poison_messages 2.0"},
    ),
    "dead letters wait": (
        Seen(
            StatusView(dead_letters=1, transactional_dead_letters=1),
            MetricsView(dead_letters=1, transactional_dead_letters=1),
        ),
        {"qm status": "1 message in the dead-letter queue", "overview": "Dead letters",
         "top": "2 dead letters", "qm metrics": 'onceq_dead_letters{kind="transactional"} 1.0'},
    ),
    "messages were set aside": (
        Seen(StatusView(damaged_messages=4), MetricsView(damaged_messages=4)),
        dict.fromkeys(("qm status", "overview"), "4 messages set aside")
        | {"top": "- it shows what moves", "qm metrics": "onceq_damaged_messages 4.0"},
    ),
    "a consumer can handle nothing": (
        Seen(
            StatusView(failing={Q: f"{EVERY_FAILS}, the next is tried in 1 s: E: x"}),
            MetricsView(queues_failing=1),
            consumers=(ConsumerView(queue="orders", says=f"{EVERY_FAILS}, the next"),),
        ),
        dict.fromkeys(("qm status", "overview", "queue show"), EVERY_FAILS)
        | {"top": "- it shows that messages stay, and who takes them is told of one queue",
           "queue list": "- it is told of one queue, and of the whole manager",
           "console queues": "- as of the list",
           "qm metrics": "onceq_queues_failing 1.0"},
    ),
    "trace reports were dropped": (
        Seen(counted=MetricsView(reports_dropped=5)),
        dict.fromkeys(("qm status", "overview"), "5 trace reports dropped")
        | {"top": "- nothing waits for them",
           "qm metrics": "onceq_trace_reports_dropped_total 5.0"},
    ),
    "a branch is prepared": (
        Seen(
            counted=MetricsView(in_doubt=1),
            branches=(BranchView(xid="7:a:b", phase="prepared", since=NOW),),
        ),
        dict.fromkeys(("qm status", "overview"), "1 branch of an external transaction is prepared")
        | {"top": "1 in doubt", "qm metrics": "onceq_transactions_in_doubt 1.0"},
    ),
}  # fmt: skip


def told(seen: Seen, face: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What one face shows."""
    aside: Any = Awaited(seen)
    page = environment(lambda: NOW)
    if face == "overview":
        numbers = asyncio.run(reading.numbers(aside, NOW))
        card = {"manager": "a", "where": "a", "name": "A", "away": "", "slow": "", "age_s": 0,
                "numbers": numbers.shown, "picture": "", "log_rate": None}  # fmt: skip
        return page.get_template("cards.html").render(cards=[card])
    if face.startswith("console"):
        name = face.partition(" ")[2]
        found = asyncio.run(getattr(reading, name)(aside, FormValues({}), NOW))
        watched = type("Watched", (), {"key": "a", "title": "A"})
        return page.get_template(f"{name}.html").render(
            told=found, watched=watched, given={}, title="", managers=[], session=None,
            form_token="", notices=[], screens=[], screen=name,
        )  # fmt: skip
    if face == "qm metrics":
        return exposition.text(seen.counted)
    if face == "top":
        before = top._read_moment(seen, everything=False)  # type: ignore[arg-type]
        top._Screen(False, False, False).show(before, before)
    else:
        commands: dict[str, Callable[[], object]] = {
            "qm status": status.status,
            "outgoing list": lists.list_outgoing,
            "queue list": lists.list_queues,
            "outgoing show": lambda: outgoing.show(D),
            "outgoing why": lambda: outgoing.why_(D),
            "queue show": lambda: queues.show_queue(Q),
        }
        commands[face]()  # fmt: skip
    return capsys.readouterr().out


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.replace(" ", "-"))
def test_it_is_told_or_it_is_said_why_not(
    condition: str, face: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, expected = CONDITIONS[condition]

    @contextmanager
    def asking(*_: object, **__: object) -> Iterator[Seen]:
        yield seen

    for module in (status, outgoing, queues, lists):
        monkeypatch.setattr(module, "asking", asking)
    words = expected.get(face)
    if words is None:
        about = OF_QUEUES if face in OF_QUEUES else OF_OUTGOING
        assert face in about, f"{face} says nothing, and no reason stands here"
        assert not set(about) & set(expected), "one of these tells it, so all do"
        return
    shown = told(seen, face, capsys)
    if words.startswith("- "):
        return
    assert words.casefold() in " ".join(shown.split()).casefold(), shown


def test_a_row_has_the_name_of_its_destination_once(capsys: pytest.CaptureFixture[str]) -> None:
    seen, _ = CONDITIONS["an outgoing queue is paused"]
    shown = told(seen, "console outgoing", capsys)
    assert shown.count(f"<bdi>{D}</bdi>") == 1
    assert f"{D}: " not in shown
    assert ">Paused by an operator since" in shown
