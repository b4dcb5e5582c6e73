"""A connection that only looks sees what the whole client library sees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceq.client.asking import Asking
from onceq.client.greetings import Greeting
from onceq.client.plans.receive import peek_many
from onceq.client.session import Session
from onceq.client.threads.manager import QueueManager
from onceq.errors import (
    LinkLost,
    MalformedPacket,
    QueueNotFound,
    ReceiveTimeout,
    ServiceNotAvailable,
    UnsupportedOperation,
)
from onceq.model import requests
from onceq.model.views.looks import LOOKS
from onceq.model.views.pages import Page
from onceq.wire.app.frames import REVISION, REVISION_PAGES
from tests.unit.client.scripted import WAIT_S, Scripted, begun

OTHERWISE = {
    "look",
    "look_at_page",
    "look_at_all",
    "close",
    "group_versions",
    "readers",
    "peek_many",
    "waiting",
}
"""Methods that a queue manager of the client library does not have by these names, and one that
waits there."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Scripted]:
    with Scripted(tmp_path) as made:
        yield made


@pytest.fixture
def asking(server: Scripted) -> Iterator[Asking]:
    future = begun(lambda: Asking(server.address.path, timeout=WAIT_S))
    server.greet(name="ALPHA", id=bytes(range(16)))
    with future.result(WAIT_S) as made:
        yield made


def methods() -> dict[str, Callable[..., Any]]:
    return {
        name: one for name, one in vars(Asking).items()
        if inspect.isfunction(one) and not name.startswith("_")
    }  # fmt: skip


def test_every_look_has_the_word_and_the_type_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, object]] = []

    def look(self: Asking, what: str, kind: object, name: str = "") -> Any:
        seen.append((what, kind))
        return []

    def look_at_page(self: Asking, what: str, kind: Any, name: str = "", **asked: Any) -> Any:
        seen.append((what, Page[kind]))
        return Page()

    monkeypatch.setattr(Asking, "look", look)
    monkeypatch.setattr(Asking, "look_at_page", look_at_page)
    made = object.__new__(Asking)
    made.revision = REVISION
    for name, one in methods().items():
        if name in (
            "look",
            "look_at_all",
            "close",
            "list_members",
            "peek_many",
            "look_at_page",
            "waiting",
        ):
            continue
        needed = [p for p in list(inspect.signature(one).parameters.values())[1:]
                  if p.default is p.empty]  # fmt: skip
        one(made, *("x" for _ in needed))
    assert len(seen) > 15
    assert dict(seen) == {what: LOOKS[what].kind for what, _ in seen}


def test_its_methods_are_those_of_a_queue_manager() -> None:
    for name, one in methods().items():
        if name in OTHERWISE:
            continue
        ours, theirs = inspect.signature(one), inspect.signature(getattr(QueueManager, name))
        assert list(ours.parameters)[1:] == list(theirs.parameters)[1:], name


def test_who_answers_is_known(asking: Asking) -> None:
    assert (asking.name, asking.id) == ("ALPHA", "03020100-0504-0706-0809-0a0b0c0d0e0f")


def test_a_long_list_comes_in_pages(asking: Asking, server: Scripted) -> None:
    asking.revision = REVISION
    future = begun(lambda: asking.queues(only="busy"))
    pages = [
        ("", {"views": [{"path": "a", "number": 4}], "next": "[4]"}),
        ("[4]", {"views": [{"path": "b", "number": 9}], "next": "", "of": 2}),
    ]
    for after, page in pages:
        request, code, asked, _ = server.read()
        assert asked == requests.Look("queues", after=after, only="busy")
        server.say(request, page, code)
    assert [queue.path for queue in future.result(WAIT_S)] == ["a", "b"]


def test_an_older_queue_manager_is_named_as_one(asking: Asking) -> None:
    asking.revision = REVISION_PAGES - 1
    with pytest.raises(UnsupportedOperation, match="does not tell a list in pages"):
        asking.outgoing()


def test_the_trail_is_read_to_its_end(asking: Asking, server: Scripted) -> None:
    future = begun(lambda: asking.trail(3))
    for after, numbers in (("3", [4, 5]), ("5", [6]), ("6", [])):
        request, code, asked, _ = server.read()
        assert asked == requests.Look("trail", after)
        server.say(request, [{"number": number} for number in numbers], code)
    assert [act.number for act in future.result(WAIT_S)] == [4, 5, 6]


def test_messages_are_looked_at_as_the_whole_library_does(asking: Asking, server: Scripted) -> None:
    future = begun(lambda: asking.peek_many(r"private$\q", 256, after=7))
    request, code, asked, _ = server.read()
    session = Session(Greeting("ALPHA", bytes(16), 0))
    whole = next(peek_many(session, r"private$\q", 256, after=7))
    assert (code, asked) == (requests.Receive.code, whole.asked)
    server.hand(request, b"one", b"three")
    assert list(future.result(WAIT_S).run.lengths) == [3, 5]


def test_it_does_not_wait_for_messages(asking: Asking, server: Scripted) -> None:
    future = begun(lambda: asking.peek_many("q"))
    request, code, asked, _ = server.read()
    assert (asked.wait_ms, asked.peek) == (0, True)
    server.fail(request, ReceiveTimeout.code, "nothing is there", code)
    with pytest.raises(ReceiveTimeout):
        future.result(WAIT_S)


def test_one_that_has_no_jobs_is_not_asked_for_any(asking: Asking) -> None:
    for ask in (asking.jobs, lambda: asking.job(3)):
        with pytest.raises(UnsupportedOperation, match="older than its client"):
            ask()


def test_a_refusal_is_raised_and_the_connection_lives(asking: Asking, server: Scripted) -> None:
    future = begun(lambda: asking.queue("private$/x"))
    request, code, _, _ = server.read()
    server.fail(request, "queue-not-found", "there is no queue x", code)
    with pytest.raises(QueueNotFound, match="no queue x"):
        future.result(WAIT_S)
    future = begun(lambda: asking.queue("private$/y"))
    request, code, _, _ = server.read()
    server.say(request, {"path": "y", "what a later version says": 1}, code)
    assert future.result(WAIT_S).path == "y"


def test_an_answer_that_makes_no_sense(asking: Asking, server: Scripted) -> None:
    future = begun(asking.status)
    request, code, _, _ = server.read()
    server.say(request, ["no", "view"], code)
    with pytest.raises(MalformedPacket):
        future.result(WAIT_S)


def test_a_manager_that_stops_says_so(asking: Asking, server: Scripted) -> None:
    future = begun(asking.status)
    server.read()
    server.fail(0, "service-not-available", "it stops")
    with pytest.raises(ServiceNotAvailable, match="it stops"):
        future.result(WAIT_S)


def test_a_connection_that_breaks(asking: Asking, server: Scripted) -> None:
    future = begun(asking.status)
    server.read()
    server.hang_up()
    with pytest.raises(LinkLost, match="broke"):
        future.result(WAIT_S)


def test_one_that_does_not_answer_in_time(server: Scripted) -> None:
    future = begun(lambda: Asking(server.address.path, timeout=0.05))
    server.greet()
    with future.result(WAIT_S) as made, pytest.raises(LinkLost, match="timed out"):
        made.status()


def test_the_answer_of_another_request_is_passed_over(asking: Asking, server: Scripted) -> None:
    future = begun(lambda: asking.queue("q"))
    request, _, _, _ = server.read()
    server.say(request + 7, {"path": "other"}, requests.Look.code)
    server.say(request, {"path": "q"}, requests.Look.code)
    assert future.result(WAIT_S).path == "q"
