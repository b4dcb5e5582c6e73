"""Metrics through a console that runs are those that the queue manager itself shows."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from onceq.client.opening import connect
from onceq.file_access import CONFIGURATION_FILE
from tests.daemon.console_world import TOKEN, Running, console
from tests.daemon.process import WAIT_S, Process
from tests.scratch import scratch

pytestmark = pytest.mark.slow

Q = r"private$\orders"
AWAY = "onceq://127.0.0.1:9"
ALPHA = "/api/managers/alpha"
SHOWN = {"authorization": f"Bearer {TOKEN}"}
OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"}
FALLS_TOO = "onceq_disk_free_bytes"
"""Others use the disk as well: of all other numbers here none falls while it is looked at."""


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with scratch(tmp_path_factory, "console-metrics") as folder:
        path = folder / "alpha"
        path.mkdir()
        (path / CONFIGURATION_FILE).write_text(
            'listen = "127.0.0.1:0"\nmetrics_listen = "127.0.0.1:0"\n'
        )
        process = Process(path, "--create", "ALPHA").started()
        with connect(str(path)) as qm:
            qm.rights.grant("nobody", "monitor")  # the page itself is looked at without a token
            qm.create_queue(Q, transactional=True)
            for body in ("a", "b", "c"):
                qm.send(Q, body, transactional=True)
            qm.purge(Q)
            qm.send(Q, "d", transactional=True)
        yield process
        assert process.end(signal.SIGTERM) == 0, process.said


@pytest.fixture(scope="module")
def made(alpha: Process) -> Iterator[Running]:
    with console(alpha.path.parent, alpha.path, AWAY) as one:
        yield one


@pytest.fixture
def script(made: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=made.address, headers=SHOWN, timeout=60) as client:
        yield client


def own(process: Process, path: str, heads: dict[str, str]) -> httpx.Response:
    """A page as the queue manager shows it."""
    where = process.ready.split("metrics on ")[1].split(",")[0]
    return httpx.get(f"http://{where}{path}", headers=heads)


def own_anew(process: Process, path: str, heads: dict[str, str], old: str) -> httpx.Response:
    """The same when it was made anew: for a second it is one and the same page."""
    until = time.monotonic() + WAIT_S
    while (found := own(process, path, heads)).text == old:
        assert time.monotonic() < until, "the message that waits grows older"
    return found


def lines(text: str) -> list[tuple[str, float]]:
    """Each line without its number, and the number; 0 for what is said about a metric."""
    found = []
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        found.append((line, 0.0) if line.startswith("#") else (name, float(value)))
    return found


@pytest.mark.parametrize("heads", [{}, OPENMETRICS], ids=["prometheus", "openmetrics"])
@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues"])
def test_they_are_what_the_queue_manager_itself_shows(
    alpha: Process, script: httpx.Client, path: str, heads: dict[str, str]
) -> None:
    before = own(alpha, path, heads)
    there = script.get(ALPHA + path, headers=heads)
    after = own_anew(alpha, path, heads, before.text)
    assert there.status_code == 200, there.text
    assert there.headers["content-type"] == before.headers["content-type"]
    first, found, last = (lines(answer.text) for answer in (before, there, after))
    assert [name for name, _ in found] == [name for name, _ in first]
    for (name, low), (_, value), (_, high) in zip(first, found, last, strict=True):
        assert low <= value <= high or name == FALLS_TOO, name


def test_they_tell_what_has_happened(script: httpx.Client) -> None:
    sums = dict(lines(script.get(f"{ALPHA}/metrics").text))
    assert sums["onceq_messages_sent_total"] == 4
    assert sums["onceq_messages"] == 1
    queues = script.get(f"{ALPHA}/metrics/queues", headers=OPENMETRICS).text
    assert 'onceq_queue_messages{queue="private$\\\\orders"} 1.0' in queues
    assert "onceq_messages " not in queues
    assert queues.endswith("# EOF\n")


def test_they_are_for_whoever_has_the_token(made: Running) -> None:
    with httpx.Client(base_url=made.address, timeout=60) as nobody:
        for path in ("/metrics", "/metrics/queues"):
            for heads in ({}, {"authorization": "Bearer " + TOKEN[:-1]}):
                answer = nobody.get(ALPHA + path, headers=heads)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert "onceq_" not in answer.text
        assert nobody.post(f"{ALPHA}/metrics", headers=SHOWN).status_code == 405
        assert nobody.head(f"{ALPHA}/metrics", headers=SHOWN).status_code == 200


def test_one_that_is_away_and_one_that_is_not_watched(script: httpx.Client) -> None:
    away = script.get("/api/managers").json()["managers"][1]["manager"]
    answer = script.get(f"/api/managers/{away}/metrics")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service-not-available")
    assert "Connection refused" in answer.json()["error"]["text"]
    answer = script.get("/api/managers/gamma/metrics")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "manager-not-found")
    answer = script.get(f"{ALPHA}/metrics/nothing")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no-such-page")


def test_a_console_without_the_right_shows_none(alpha: Process, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    with connect(str(alpha.path)) as qm:
        token = qm.tokens.create("sender", grants={Q: "send"}).token
    secret.touch(0o600)
    secret.write_text(token)
    with (
        console(tmp_path, alpha.path, token_file=secret) as one,
        httpx.Client(base_url=one.address, headers=SHOWN, timeout=60) as client,
    ):
        answer = client.get(f"{ALPHA}/metrics")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "access-denied")
        assert "onceq grant token:sender monitor" in answer.text
        assert "onceq_messages" not in answer.text
