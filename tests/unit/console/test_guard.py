"""Who is let in, and what every answer carries."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from onceq.console.guard import BODY_BYTES_MAX, HEADER_BYTES_MAX, POLICY, Guard, Keys, hosts_of

BASE = "http://127.0.0.1:8181"
TOKEN = "the-token-of-this-console"


class Door:
    """A guarded application that says what it was handed."""

    def __init__(self) -> None:
        self.keys = Keys(lambda: 0.0, TOKEN)
        paths = ("/", "/sign-in", "/static/x", "/api/x")
        app = Starlette(
            routes=[Route(path, self._echo, methods=["GET", "POST"]) for path in paths],
            middleware=[
                Middleware(Guard, keys=self.keys, hosts=hosts_of(8181, ["c.example"]), cookie="c")
            ],
        )
        self.client = TestClient(app, base_url=BASE, follow_redirects=False)
        self.seen = 0

    async def _echo(self, request: Request) -> Response:
        self.seen += 1
        return PlainTextResponse(await request.body())

    def sign_in(self) -> str:
        """Sign the client in; the form token."""
        cookie = self.keys.sign_in(TOKEN)
        assert cookie
        session = self.keys.session(cookie)
        assert session is not None
        self.client.cookies.set("c", cookie)
        return session.form_token


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    with made.client:
        yield made


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


def test_whoever_has_not_signed_in_sees_the_door_alone(door: Door) -> None:
    assert door.client.get("/").headers["location"] == "/sign-in"
    assert code(door.client.get("/api/x")) == "sign-in"
    assert code(door.client.post("/")) == "sign-in"
    assert door.seen == 0
    assert door.client.get("/sign-in").status_code == 200
    assert door.client.get("/static/x").status_code == 200


def test_a_token_needs_no_form_token(door: Door) -> None:
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert door.client.post("/api/x", headers=shown, content=b"{}").text == "{}"
    wrong = door.client.get("/api/x", headers={"authorization": "Bearer x"})
    assert (wrong.status_code, code(wrong)) == (401, "wrong-token")


def test_a_wrong_token_is_not_mended_by_a_cookie(door: Door) -> None:
    door.sign_in()
    assert door.client.get("/", headers={"authorization": "Bearer x"}).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:80", ""])
def test_a_name_of_somebody_else_is_refused(door: Door, host: str) -> None:
    door.sign_in()
    answer = door.client.get("/", headers={"host": host})
    assert (answer.status_code, code(answer)) == (421, "wrong-host")


def test_a_proxys_name_is_taken(door: Door) -> None:
    door.sign_in()
    assert door.client.get("/static/x", headers={"host": "C.example"}).status_code == 200


def test_a_change_needs_the_form_token_of_its_session(door: Door) -> None:
    token = door.sign_in()
    assert code(door.client.post("/")) == "form-token"
    assert code(door.client.post("/", data={"form_token": token + "x"})) == "form-token"
    assert door.client.post("/", data={"form_token": token}).status_code == 200
    sent = {"x-form-token": token}
    assert door.client.post("/api/x", headers=sent, json={}).status_code == 200
    told = {"form_token": token}
    assert code(door.client.post("/api/x", json=told)) == "form-token"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999"])
def test_another_sites_page_changes_nothing(door: Door, origin: str) -> None:
    token = door.sign_in()
    answer = door.client.post("/", data={"form_token": token}, headers={"origin": origin})
    assert (answer.status_code, code(answer)) == (403, "wrong-origin")
    good = door.client.post("/", data={"form_token": token}, headers={"origin": BASE})
    assert good.status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999"])
@pytest.mark.parametrize("path", ["/", "/sign-in", "/api/managers/x/metrics"])
def test_another_sites_page_reads_nothing(door: Door, origin: str, path: str) -> None:
    door.sign_in()
    answer = door.client.get(path, headers={"origin": origin})
    assert (answer.status_code, code(answer)) == (403, "wrong-origin")
    shown = {"authorization": f"Bearer {TOKEN}", "origin": origin}
    assert door.client.get(path, headers=shown).status_code == 403


def test_who_has_not_signed_in_keeps_no_connection(door: Door) -> None:
    assert door.client.get("/sign-in").headers["connection"] == "close"
    wrong = door.client.get("/api/x", headers={"authorization": "Bearer wrong"})
    assert wrong.headers["connection"] == "close"
    door.sign_in()
    assert "connection" not in door.client.get("/").headers


def test_what_is_too_large_is_not_read(door: Door) -> None:
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert door.client.post("/api/x", headers=shown, content=b"x" * BODY_BYTES_MAX).is_success
    for content in (b"x" * (BODY_BYTES_MAX + 1), iter([b"x" * BODY_BYTES_MAX, b"x"])):
        answer = door.client.post("/api/x", headers=shown, content=content)
        assert (answer.status_code, code(answer)) == (413, "too-large")
    long = door.client.get("/", headers={"x-long": "x" * HEADER_BYTES_MAX})
    assert (long.status_code, code(long)) == (431, "too-large")
    lying = door.client.post("/api/x", headers={**shown, "content-length": "-1"})
    assert lying.status_code == 413


def test_every_answer_carries_the_policy(door: Door) -> None:
    for path in ("/", "/sign-in", "/api/x"):
        answer = door.client.get(path)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
