"""The console as a process, beside a real queue manager: what a script and what a form can do."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from onceq.cli.main import run
from onceq.client.opening import connect
from onceq.console.guard import CONNECTIONS_MAX, READ_S_MAX
from onceq.console.pages import SCREENS
from onceq.errors import ReceiveTimeout, SharingViolation
from onceq.model.branches import Xid
from onceq.model.settings import SETTING_NAMES
from tests.daemon.console_world import (
    BRANCH,
    ORDERS,
    PLAIN,
    RETRY,
    SCRIPT,
    TOKEN,
    Running,
    console,
    furnished,
    prepared,
)
from tests.daemon.shell import running
from tests.scratch import scratch

AWAY = "onceq://127.0.0.1:9"
ALPHA = "/api/managers/alpha"
EVENTS = 40
"""Live numbers come every two seconds; only a defect makes a test wait for so many."""


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "console") as folder:
        path = folder / "alpha"
        assert run(["qm", "init", str(path), "--name", "ALPHA", "--listen", "127.0.0.1:0"]) == 0
        with running(path):
            furnished(path)
            yield path


@pytest.fixture(scope="module")
def made(alpha: Path) -> Iterator[Running]:
    with console(alpha.parent, alpha, AWAY) as one:
        yield one


@pytest.fixture
def script(made: Running) -> Iterator[httpx.Client]:
    """A script with the token."""
    shown = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=made.address, headers=shown, timeout=60) as client:
        yield client


@pytest.fixture
def browser(made: Running) -> Iterator[httpx.Client]:
    """A browser without scripts that has signed in."""
    with httpx.Client(base_url=made.address, follow_redirects=True, timeout=60) as client:
        assert client.post("/sign-in", data={"code": TOKEN}).url.path == "/"
        yield client


def asked(client: httpx.Client, path: str, **values: str) -> dict[str, Any]:
    answer = client.get(ALPHA + path, params=values)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def done(client: httpx.Client, path: str, **values: object) -> dict[str, Any]:
    answer = client.post(ALPHA + path, json=values)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def form(client: httpx.Client, page: str, path: str) -> httpx.Response:
    """Fill in and send the form of a page that goes to a path."""
    text = client.get(page).text
    _, action, rest = text.partition(f'action="{path}"')
    assert action, text
    fields = {}
    for piece in rest.partition("</form>")[0].split("<input ")[1:]:
        name = piece.partition('name="')[2].partition('"')[0]
        fields[name] = html.unescape(piece.partition('value="')[2].partition('"')[0])
    return client.post(path, data=fields)


def test_the_link_is_good_once(made: Running) -> None:
    code = made.link.partition("code=")[2]
    with httpx.Client(base_url=made.address) as first, httpx.Client(base_url=made.address) as late:
        assert code in first.get(made.link).text, "to look at the link does not use it up"
        answer = first.post("/sign-in", data={"code": code})
        cookie = answer.headers["set-cookie"].casefold()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert first.get("/").status_code == 200
        assert late.post("/sign-in", data={"code": code}).status_code == 403
        assert late.get("/").headers["location"] == "/sign-in"


def test_one_that_is_away_is_shown_as_away(script: httpx.Client) -> None:
    here, away = script.get("/api/managers").json()["managers"]
    assert (here["name"], here["away"]) == ("ALPHA", "")
    assert here["numbers"]["in_doubt"] >= 1
    assert any("cannot leave" in why for why in here["numbers"]["why"])
    assert "Connection refused" in away["away"]
    answer = script.get(f"/api/managers/{away['manager']}/queues")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service-not-available")
    page = script.get(f"/m/{away['manager']}/dead")
    assert page.status_code == 503
    assert "is away" in page.text


def test_one_that_does_not_run_and_a_mistyped_one_stop_nobody(alpha: Path, tmp_path: Path) -> None:
    beta = tmp_path / "beta"
    assert run(["qm", "init", str(beta), "--name", "BETA", "--listen", "127.0.0.1:0"]) == 0
    with console(tmp_path, beta, alpha, tmp_path / "alpah") as one:
        assert "alpah is shown as away: " in one.error.read_text()
        shown = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=one.address, headers=shown, timeout=60) as client:
            assert client.get(f"{ALPHA}/queues").status_code == 200
            answer = client.get("/api/managers/beta/queues")
            assert (answer.status_code, "is not running" in answer.text) == (503, True)
            assert client.get("/api/managers/alpah/queues").status_code == 503
            answer = client.get("/api/managers/alpa/queues")
            assert (answer.status_code, answer.json()["error"]["code"]) == (
                404,
                "manager-not-found",
            )
            with running(beta):
                assert client.get("/api/managers/beta/queues").status_code == 200


def test_a_stopped_one_does_not_hold_up_the_others(alpha: Path, tmp_path: Path) -> None:
    """SIGSTOP: it takes connections and answers nothing, until it goes on."""
    path = tmp_path / "beta"
    assert run(["qm", "init", str(path), "--name", "BETA", "--listen", "127.0.0.1:0"]) == 0
    with running(path) as process, console(tmp_path, alpha, path) as one:
        shown = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=one.address, headers=shown, timeout=60) as client:
            assert client.get("/api/managers/beta/queues").status_code == 200
            process.send_signal(signal.SIGSTOP)
            try:
                answer = client.get("/api/managers/beta/queues")
                assert answer.status_code == 503
                assert f"within {READ_S_MAX:.0f} s" in answer.text
                assert client.get(f"{ALPHA}/queues").status_code == 200
                assert client.get("/").status_code == 200
                assert client.get("/api/managers/beta/queues").status_code == 503
            finally:
                process.send_signal(signal.SIGCONT)
            with client.stream("GET", "/events") as live:
                for event, _ in zip(live.iter_text(), range(EVENTS), strict=False):
                    if "away" not in event:
                        break
            assert client.get("/api/managers/beta/queues").status_code == 200


def test_a_script_in_names_labels_and_bodies_is_text(browser: httpx.Client) -> None:
    pages = [f"/m/alpha/{path}" for path, _ in SCREENS]
    pages += [f"/m/alpha/queue?queue={PLAIN}&label={SCRIPT}", f"/m/alpha/queue?queue={SCRIPT}",
              f"/m/alpha/queues?name={SCRIPT}", f"/m/alpha/dead?reason={SCRIPT}",
              f"/m/alpha/dead?label={SCRIPT}", f"/m/{SCRIPT}/queues", f"/sign-in?code={SCRIPT}",
              f"/m/alpha/dead/return?to={SCRIPT}&label={SCRIPT}"]  # fmt: skip
    lookup = asked(browser, "/queue", queue=PLAIN)["messages"][0]["lookup_id"]
    pages += [f"/m/alpha/message?queue={PLAIN}&lookup_id={lookup}&view={view}"
              for view in ("text", "json", "hex", SCRIPT)]  # fmt: skip
    seen = 0
    for page in pages:
        text = browser.get(page).text
        assert SCRIPT not in text, page
        assert "<script>" not in text, page
        seen += "&lt;script&gt;document" in text
    assert seen > 5


def test_the_page_of_a_queue_says_who_works_on_it(browser: httpx.Client, alpha: Path) -> None:
    page = f"/m/alpha/queue?queue={ORDERS}"
    assert "Nobody waits at it, has it open or holds messages of it." in browser.get(page).text
    with connect(str(alpha)) as qm, qm.transaction() as tx:
        tx.receive(ORDERS, timeout=30)
        with qm.open_queue(ORDERS, share="deny-receive", note=SCRIPT):
            (one,) = asked(browser, "/queue", queue=ORDERS)["consumers"]
            text = browser.get(page).text
            at_work = browser.get("/m/alpha/transactions").text
        tx.abort()
    assert (one["holds"], one["denies"], one["says"]) == (1, "receive", SCRIPT)
    assert one["place"] == f"local, process {os.getpid()}"
    assert one["who"].startswith("account:")
    for part in ("receive alone", one["place"], one["who"], "&lt;script&gt;document"):
        assert part in text
    assert SCRIPT not in text
    assert one["who"] in at_work


def test_every_screen_reads_by_its_address(browser: httpx.Client) -> None:
    for path, title in SCREENS:
        answer = browser.get(f"/m/alpha/{path}")
        assert answer.status_code == 200, path
        assert f"<title>{title} · ALPHA" in answer.text
        assert "style=" not in answer.text
        assert 'aria-current="page"' in answer.text
    assert browser.get("/m/alpha").url.path == "/m/alpha/queues"
    assert browser.get("/m/beta/queues").status_code == 404
    assert browser.get("/nothing").status_code == 404


@pytest.mark.parametrize("sort", ["number", "name", "messages"])
def test_the_next_page_of_a_list_is_sorted_like_the_first(browser: httpx.Client, sort: str) -> None:
    path, seen = f"/m/alpha/queues?sort={sort}&limit=2", []
    for _ in range(EVENTS):
        answer = browser.get(path)
        assert answer.status_code == 200
        seen += re.findall(r'<td data-label="Queue"><a [^>]*><bdi>([^<]*)', answer.text)
        after = re.search(r'<a href="([^"]*)">Next page', answer.text)
        if after is None:
            break
        path = html.unescape(after[1])
    assert len(seen) == len(set(seen)) > 2


def test_messages_are_browsed_by_pages_and_filters(script: httpx.Client) -> None:
    after, found = "0", []
    while after:
        page = asked(script, "/queue", queue=ORDERS, limit="25", after=after)
        found += [message["label"] for message in page["messages"]]
        after = page["next"]
    assert found[:60] == [f"order {number}" for number in range(60)]
    only = asked(script, "/queue", queue="private$/orders", label="ORDER 17")["messages"]
    assert [message["label"] for message in only] == ["order 17"]
    assert asked(script, "/queue", queue=ORDERS, older_than="1d")["messages"] == []
    told = asked(script, "/message", queue=ORDERS, lookup_id=only[0]["lookup_id"])
    assert json.loads(told["body"])["order"] == 17
    assert [step["text"].partition(" ")[0] for step in told["story"]] == ["sent", "came"]
    (_, raw) = asked(script, "/queue", queue=PLAIN)["messages"]
    assert asked(script, "/message", queue=PLAIN, lookup_id=raw["lookup_id"])["body"] is None


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/queue?queue=private$/nothing", 404, "queue-not-found"),
        ("/queue", 400, "invalid-parameter"),
        ("/queue?qeue=x", 400, "invalid-parameter"),
        ("/queue?queue=private$/orders&limit=many", 400, "invalid-parameter"),
        ("/message?queue=private$/orders&lookup_id=5", 404, "message-not-found"),
        ("/dead?reason=whatever", 400, "invalid-parameter"),
        ("/nothing", 404, "no-such-page"),
    ],
)
def test_what_is_wrong_is_told(script: httpx.Client, path: str, status: int, code: str) -> None:
    answer = script.get(ALPHA + path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert answer.json()["error"]["text"]


def test_dead_letters_by_reason_and_home_again(script: httpx.Client, alpha: Path) -> None:
    told = asked(script, "/dead")
    before = {one["reason"]: one["count"] for one in told["reasons"]}
    assert before["purged"] >= 1
    (last,) = [one for one in told["letters"] if one["label"] == "invoice 2"]
    dry = done(script, "/dead/return", id=last["id"], dry_run=True)
    assert (dry["returned"], dry["dry_run"]) == (1, True)
    assert asked(script, "/dead")["count"] == told["count"]
    assert done(script, "/dead/return", id=last["id"])["returned"] == 1
    assert asked(script, "/dead")["count"] == told["count"] - 1
    with connect(str(alpha)) as qm:
        assert qm.receive(RETRY, timeout=30).body == b"invoice 2"
    assert script.get(f"{ALPHA}/dead/return").status_code == 405


def test_a_form_returns_a_dead_letter_and_says_so(browser: httpx.Client, alpha: Path) -> None:
    (letter,) = [one for one in asked(browser, "/dead")["letters"] if one["label"] == "invoice 1"]
    page = f"/m/alpha/dead/return?id={letter['id']}"
    answer = form(browser, page, "/m/alpha/dead/return")
    assert answer.url.path == "/m/alpha/dead"
    assert "1 dead letter returned" in answer.text
    assert "returned" not in browser.get("/m/alpha/peers").text
    with connect(str(alpha)) as qm:
        assert qm.receive(RETRY, timeout=30).label == "invoice 1"


def test_what_was_removed_is_gone(browser: httpx.Client) -> None:
    (letter,) = [one for one in asked(browser, "/dead")["letters"] if one["reason"] == "deleted"]
    page = f"/m/alpha/dead/purge?id={letter['id']}"
    assert "<strong>1</strong> would be removed" in browser.get(page).text
    assert "1 dead letter removed" in form(browser, page, "/m/alpha/dead/purge").text
    assert "deleted" not in [one["reason"] for one in asked(browser, "/dead")["letters"]]


def test_many_letters_are_a_job_that_the_page_of_jobs_shows(
    browser: httpx.Client, script: httpx.Client, alpha: Path
) -> None:
    with connect(str(alpha)) as qm:
        for number in range(3):
            qm.send(RETRY, b"x", transactional=True, label=f"many {number}", journal=1)
        qm.purge(RETRY)
    page = "/m/alpha/dead/send-as-new?label=many"
    assert "<strong>3</strong>" in browser.get(page).text
    assert "3 dead letters sent as new" in form(browser, page, "/m/alpha/dead/send-as-new").text
    assert asked(browser, "/dead", label="many")["count"] == 3
    home = done(script, "/dead/return", label="many")
    assert (home["returned"], home["state"], home["failed"]) == (3, "done", 0)
    gone = done(script, "/dead/purge", label="many")
    assert (gone["removed"], gone["job"]) == (0, home["job"] + 1)
    (newest, *_) = asked(script, "/jobs")["jobs"]
    assert newest["number"] == gone["job"]
    assert asked(script, "/job", number=str(home["job"]))["job"]["done"] == 3
    assert done(script, "/jobs/cancel", number=home["job"])["job"]["state"] == "done"
    text = browser.get("/m/alpha/jobs").text
    assert 'sse-connect="/m/alpha/jobs/events"' in text
    assert "send-as-new" in text
    assert "Done" in browser.get(f"/m/alpha/jobs/one?number={home['job']}").text
    with browser.stream("GET", "/m/alpha/jobs/events") as events:
        lines = events.iter_lines()
        assert next(lines) == "event: jobs"
        assert any("send-as-new" in next(lines) for _ in range(40))
    with connect(str(alpha)) as qm:
        assert len(qm.receive_many(RETRY, 10, timeout=30)) == 6


def test_a_job_that_waits_is_cancelled_by_its_button(browser: httpx.Client, alpha: Path) -> None:
    with connect(str(alpha)) as qm:
        qm.send(RETRY, b"x", transactional=True, label="held", journal=1)
        qm.purge(RETRY)
        held = qm.open_queue("SYSTEM$;DEADXACT", access="receive", share="deny-receive")
        answer = form(browser, "/m/alpha/dead/purge?label=held", "/m/alpha/dead/purge")
        assert "goes on" in answer.text
        (job, *_) = asked(browser, "/jobs")["jobs"]
        assert (job["state"], bool(job["trouble"])) == ("running", True)
        page = f"/m/alpha/jobs/one?number={job['number']}"
        assert "is cancelled" in form(browser, page, "/m/alpha/jobs/cancel").text
        held.close()
        assert asked(browser, "/dead", label="held")["count"] == 1


def test_a_form_of_another_session_does_nothing(browser: httpx.Client) -> None:
    before = asked(browser, "/dead")["count"]
    for fields in ({}, {"form_token": "x"}):
        assert browser.post("/m/alpha/dead/purge", data=fields).status_code == 403
    assert asked(browser, "/dead")["count"] == before


def test_a_branch_is_decided_by_a_form_and_forgotten(browser: httpx.Client, alpha: Path) -> None:
    xid = Xid(7, b"by-form", b"queue")
    with connect(str(alpha)) as qm:
        prepared(qm, xid)
        before = qm.queue(ORDERS).messages
    page = f"/m/alpha/transactions/decide?branch={xid}&outcome=commit"
    assert "the partners differ permanently" in browser.get(page).text
    answer = form(browser, page, "/m/alpha/transactions/decide")
    assert f"committed by hand: {xid}" in answer.text
    with connect(str(alpha)) as qm:
        assert qm.queue(ORDERS).messages == before + 1
    assert "only a prepared one is decided" in browser.get(page).text
    answer = form(browser, "/m/alpha/transactions", "/m/alpha/transactions/forget")
    assert f"forgotten: {xid}" in answer.text


def test_a_script_rolls_a_branch_back(script: httpx.Client, alpha: Path) -> None:
    xid = Xid(7, b"by-script", b"queue")
    with connect(str(alpha)) as qm:
        prepared(qm, xid)
    listed = asked(script, "/transactions")["branches"]
    assert str(BRANCH) in [one["xid"] for one in listed]
    assert script.post(f"{ALPHA}/transactions/forget", json={"branch": str(xid)}).status_code == 400
    told = done(script, "/transactions/decide", branch=str(xid), outcome="abort", dry_run=True)
    assert told["dry_run"]
    wrong = script.post(
        f"{ALPHA}/transactions/decide", json={"branch": str(xid), "outcome": "maybe"}
    )
    assert wrong.status_code == 400
    done(script, "/transactions/decide", branch=str(xid), outcome="abort")
    phases = {one["xid"]: one["phase"] for one in asked(script, "/transactions")["branches"]}
    assert phases[str(xid)] == "rolled back by hand"
    done(script, "/transactions/forget", branch=str(xid))
    gone = script.post(
        f"{ALPHA}/transactions/decide", json={"branch": "7:no:b", "outcome": "abort"}
    )
    assert gone.status_code == 404


def test_what_it_has_no_right_to_is_not_shown(alpha: Path, tmp_path: Path) -> None:
    """A console that may monitor: no bodies, no buttons; and what is asked for all the same is
    refused in the queue manager's words, with nothing changed."""
    secret = tmp_path / "token"
    with connect(str(alpha)) as qm:
        token = qm.tokens.create("watcher", grants={"": "monitor"}).token
        prepared(qm, Xid(7, b"not-yours", b"queue"))
    secret.touch(0o600)
    secret.write_text(token)
    with (
        console(tmp_path, alpha, token_file=secret) as one,
        httpx.Client(base_url=one.address, follow_redirects=True, timeout=60) as browser,
    ):
        browser.post("/sign-in", data={"code": TOKEN})
        dead = asked(browser, "/dead")
        assert dead["letters"]
        assert not dead["may_act"]
        for screen, word in (("dead", "/dead/return"), ("transactions", "/transactions/decide")):
            text = browser.get(f"/m/alpha/{screen}").text
            assert word not in text
            assert "not-yours" in text or screen == "dead"
        found = asked(browser, "/queue", queue=ORDERS, limit="1")
        assert (found["may_see"], found["may_see_bodies"]) == (True, False)
        place = found["messages"][0]["lookup_id"]
        told = asked(browser, "/message", queue=ORDERS, lookup_id=place)
        assert (told["body"], told["message"]["label"]) == (None, "order 0")
        page = browser.get(f"/m/alpha/message?queue={ORDERS}&lookup_id={place}").text
        assert "lacks the right peek-body" in page
        assert "chair" not in page
        assert "not <strong>operate</strong>" in browser.get("/m/alpha/rights").text
        script = {"authorization": f"Bearer {TOKEN}"}
        for path, values in (
            ("/dead/return", {}), ("/dead/purge", {}), ("/dead/send-as-new", {}),
            ("/transactions/decide", {"branch": "7:not-yours:queue", "outcome": "abort"}),
        ):  # fmt: skip
            answer = browser.post(ALPHA + path, json=values, headers=script)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "access-denied")
        assert asked(browser, "/dead")["count"] == dead["count"]
        assert token not in one.error.read_text()


def test_hostile_values_are_refused_and_nothing_falls_over(script: httpx.Client) -> None:
    values = ["\x00", "\u202e", "\U0001f600", "a" * 1000, "DIRECT=OS:x\\private$\\y", ";", "\\\\",
              "SYSTEM$;DEADXACT;x", "0x", "{}", "-1", "..", "%", "' or 1=1 --",
              "private$\\a;b;c"]  # fmt: skip
    for value in values:
        for path, name in (
            ("/queue", "queue"), ("/queues", "name"), ("/dead", "reason"), ("/dead", "origin"),
            ("/dead", "id"), ("/dead", "queue"), ("/dead", "older_than"), ("/rights", "queue"),
            ("/message", "queue"), ("/message", "lookup_id"), ("/trail", "after"),
            ("/job", "number"),
        ):  # fmt: skip
            answer = script.get(ALPHA + path, params={name: value})
            assert answer.status_code in (200, 400, 404, 409), (path, name, value, answer.text)
        for path, name in (("/transactions/decide", "branch"), ("/transactions/forget", "branch"),
                           ("/dead/return", "id"), ("/dead/return", "queue")):  # fmt: skip
            sent = {name: value, "outcome": "abort"} if "decide" in path else {name: value}
            answer = script.post(ALPHA + path, json=sent)
            assert answer.status_code in (200, 400, 404), (path, name, value, answer.text)
    for body in (b"", b"[]", b"{", b"\xff", b"[" * 10_000, b'{"id": "\\ud800"}', b'{"id": 1e400}'):
        answer = script.post(f"{ALPHA}/transactions/decide", content=body)
        assert answer.status_code == 400, body


def test_live_numbers_come_by_themselves(browser: httpx.Client) -> None:
    with browser.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = ""
        for part in answer.iter_text():
            told += part
            if told.count("event: overview") == 2:
                break
    assert "ALPHA" in told
    page = browser.get("/").text
    assert page.count("sse-connect") == 1
    assert "Running since 20" in page


def test_a_queue_is_paused_and_resumed_by_a_form_and_by_a_script(
    script: httpx.Client, browser: httpx.Client, alpha: Path
) -> None:
    name, key = PLAIN, ALPHA.rpartition("/")[2]
    page = f"/m/{key}/queue?queue={name}"
    assert "paused by an operator" in form(browser, page, f"/m/{key}/queue/pause").text
    with connect(str(alpha)) as qm, pytest.raises(ReceiveTimeout, match="paused"):
        qm.receive(name, timeout=0)
    assert asked(script, "/queue", queue=name)["queue"]["paused_since"] > 0
    assert done(script, "/queue/resume", queue=name)["paused_since"] == 0
    assert done(script, "/queue/pause", queue=name)["paused_since"] > 0
    text = form(browser, page, f"/m/{key}/queue/resume").text
    assert "paused by an operator" not in text
    there = asked(script, "/outgoing")["outgoing"][0]["destination"]
    wrong = script.post(ALPHA + "/queue/pause", json={"queue": there})
    assert wrong.status_code == 404, "the way out of it is paused at another place"


def test_a_hold_is_ended_by_a_form_and_by_a_script(
    alpha: Path, script: httpx.Client, browser: httpx.Client
) -> None:
    name = r"private$\held"
    page, path = f"/m/alpha/queue?queue={name}", "/m/alpha/queue/release"
    with connect(str(alpha)) as qm:
        qm.create_queue(name)
    assert path not in browser.get(page).text, "nobody holds it"
    with connect(str(alpha)) as holder, connect(str(alpha)) as other:
        for way in ("form", "script"):
            holder.open_queue(name, access="receive", share="deny-receive")
            with pytest.raises(SharingViolation):
                other.receive(name, timeout=0.0)
            if way == "form":
                assert f"1 hold of {name} ended" in form(browser, page, path).text
            else:
                assert done(script, "/queue/release", queue=name)["released"] == 1
            with pytest.raises(ReceiveTimeout):
                other.receive(name, timeout=0.0)
    assert done(script, "/queue/release", queue=name)["released"] == 0
    wrong = script.post(ALPHA + "/queue/release", json={"queue": r"private$\none"})
    assert wrong.status_code == 404
    with connect(str(alpha)) as qm:
        qm.delete_queue(name)  # other tests count those that are there


def test_an_outgoing_queue_is_paused_and_resumed(
    script: httpx.Client, browser: httpx.Client
) -> None:
    key = ALPHA.rpartition("/")[2]
    (stock,) = asked(script, "/outgoing")["outgoing"]
    there = stock["destination"]
    assert "paused" in done(script, "/outgoing/pause", destination=there)["why"]
    form(browser, f"/m/{key}/outgoing", f"/m/{key}/outgoing/resume")
    (stock,) = asked(script, "/outgoing")["outgoing"]
    assert stock["paused_since"] == 0


def test_a_message_is_sent_to_try_it_after_a_preview(
    script: httpx.Client, browser: httpx.Client, alpha: Path
) -> None:
    name, key = RETRY, ALPHA.rpartition("/")[2]
    given = {"queue": name, "label": "<b>try</b>", "form": "json", "body": '{"n": 1}'}
    before = asked(script, "/queue", queue=name)["queue"]["messages"]
    page = str(httpx.URL(f"/m/{key}/queue/send", params=given))
    shown = browser.get(page).text
    assert "&lt;b&gt;try&lt;/b&gt;" in shown
    assert "7 bytes of JSON" in shown
    assert done(script, "/queue/send", **given, dry_run=True)["body"] == '{"n":1}'
    assert asked(script, "/queue", queue=name)["queue"]["messages"] == before
    assert "sent: " in form(browser, page, f"/m/{key}/queue/send").text
    with connect(str(alpha)) as qm:
        sent = list(qm.peek_many(name))[-1]
    assert (sent.json(), sent.label) == ({"n": 1}, "<b>try</b>")
    wrong = script.post(ALPHA + "/queue/send", json={**given, "body": "{"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid-parameter")
    assert "no JSON" in wrong.json()["error"]["text"]


def test_the_other_screens_tell_what_the_manager_tells(script: httpx.Client) -> None:
    (stock,) = asked(script, "/outgoing")["outgoing"]
    assert "cannot leave" in stock["why"]
    assert asked(script, "/trail")["acts"]
    assert asked(script, "/rights")["own"] == {"monitor": True, "operate": True, "administer": True}
    told = asked(script, "/settings")
    assert told["state"]["name"] == "ALPHA"
    values = {one["name"]: (one["value"], one["default"]) for one in told["settings"]}
    assert set(values) == set(SETTING_NAMES)
    first = [one["name"] for one in told["settings"] if one["value"] != one["default"]]
    assert first == [one["name"] for one in told["settings"]][: len(first)]
    assert asked(script, "/streams") == {"streams": []}
    assert asked(script, "/peers") == {"peers": []}
    names = [queue["name"] for queue in asked(script, "/queues", name="PRIVATE$/")["queues"]]
    assert set(names) == {"orders", "parcels", "invoices"}
    assert script.get("/api/openapi.json").json()["openapi"].startswith("3.")


def test_a_port_that_is_taken_and_a_wrong_place_are_told(
    made: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = made.address.rpartition(":")[2].strip("/")
    for words, said in (
        (["-q", AWAY, "--port", port], "--port takes another"),
        (["-q", str(tmp_path / "no")], "neither a directory nor an address"),
        (["-q", AWAY, "--host", "http://x/"], "--host takes a name"),
    ):
        assert run(["console", *words]) != 0
        assert said in capsys.readouterr().err


def test_half_requests_keep_nobody_out(made: Running, script: httpx.Client) -> None:
    """130 of them kept it at 503 for as long as they were open (finding S16)."""
    url = httpx.URL(made.address)
    with ExitStack() as halves:
        for _ in range(CONNECTIONS_MAX + 30):
            line = socket.create_connection((url.host, url.port or 80), timeout=60)
            halves.enter_context(line)
            line.sendall(b"GET / HTTP/1.1\r\nHost: ")
        for _ in range(3):
            assert script.get("/api/managers").status_code == 200
        assert httpx.get(made.address + "sign-in", timeout=60).status_code == 200


def test_signing_out_ends_live_numbers(browser: httpx.Client) -> None:
    with browser.stream("GET", "/events") as answer:
        parts = answer.iter_text()
        assert "event: overview" in next(parts)
        assert form(browser, "/", "/sign-out").status_code == 200
        # No more than what was on its way; they went on for seven seconds.
        assert sum(part.count("event: overview") for part in parts) <= 1
