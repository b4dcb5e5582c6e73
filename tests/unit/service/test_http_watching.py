"""Metrics and health over HTTP, on a real loop: what is answered, to whom, and what is not read."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceq import metrics_pages
from onceq.core.decision import Answer, Decision
from onceq.core.inputs import Input, OwnerGone
from onceq.errors import AccessDenied
from onceq.model import identification, limits, tokens
from onceq.model.policy import Policy
from onceq.model.requests import Look
from onceq.model.views.managers import ScrubView
from onceq.model.views.view import MetricsView, QueueMetrics
from onceq.service import http
from onceq.service import peer_transports as doors_module
from onceq.service.config import Configuration
from onceq.service.peer_transports import Entrance
from tests.certificates import ALPHA, Authority
from tests.unit.service.looped import Host, ended, until
from tests.unit.service.looped import run as run_loop

VIEW = MetricsView(name="OWN", sent=42, per_queue=(QueueMetrics("private$\\q", 3),))


class Site:
    """A manager that shows what a script says, and its client."""

    def __init__(self) -> None:
        self.host = Host().admit_nobody()
        self.where = ("", 0)
        self.tls: ssl.SSLContext | None = None
        self.may: object = ScrubView()
        self.view: object = VIEW
        self.host.house.core.decide = self._decide

    def _decide(self, item: Input) -> Decision | None:
        if not isinstance(item, Look):
            return None
        result = self.may if item.what == "scrub" else self.view
        return Decision(actions=[Answer(item.owner, item.request, result)])

    @property
    def looked(self) -> list[str]:
        """Names of the looks for metrics."""
        return [item.name for item in self.host.seen(Look) if item.what == "metrics"]

    async def open(self) -> Site:
        where = await self.host.network.listen(Entrance.WATCHERS, "127.0.0.1:0")
        home, _, port = where.rpartition(":")
        self.where = home, int(port)
        return self

    async def say(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """Bytes of a request; status, heads and body of the answer (0: there is none)."""
        host = "localhost" if self.tls is not None else None
        reader, writer = await asyncio.open_connection(
            *self.where, ssl=self.tls, server_hostname=host
        )
        writer.write(data)
        try:
            said = await reader.read()
        except ConnectionResetError:
            said = b""
        writer.close()
        head, _, body = said.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        heads = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines)}
        return int(first.split()[1]) if first else 0, heads, body

    async def get(self, path: str, *heads: str, method: str = "GET") -> Any:
        lines = "".join(f"{head}\r\n" for head in heads)
        return await self.say(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode()
        )


def run(work: Callable[[Site], Awaitable[None]]) -> None:
    async def whole() -> None:
        site = await Site().open()
        try:
            await work(site)
        finally:
            await site.host.network.shut()
        assert not site.host.failures

    run_loop(whole)


def test_metrics_are_shown_in_the_form_that_is_asked_for() -> None:
    async def work(site: Site) -> None:
        status, heads, body = await site.get("/metrics")
        assert (status, heads["content-type"].split(";")[0]) == (200, "text/plain")
        assert b"onceq_messages_sent_total 42.0" in body
        assert len(body) == int(heads["content-length"])
        status, heads, body = await site.get(
            "/metrics/queues?x=1", "Accept: application/openmetrics-text; version=1.0.0"
        )
        assert heads["content-type"].startswith("application/openmetrics-text")
        assert b'onceq_queue_messages{queue="private$\\\\q"} 3.0' in body
        assert site.looked == ["", "queues"]

    run(work)


def test_whoever_has_been_answered_leaves() -> None:
    async def work(site: Site) -> None:
        await site.get("/metrics")
        await until(lambda: site.host.seen(OwnerGone))
        assert not site.host.network._open

    run(work)


def test_many_who_ask_at_once_get_one_view() -> None:
    async def work(site: Site) -> None:
        found = await asyncio.gather(*(site.get("/metrics") for _ in range(8)))
        assert {status for status, _, _ in found} == {200}
        assert len(site.looked) == 1

    run(work)


def test_a_view_is_made_anew_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_pages, "METRICS_EVERY_S", 0)

    async def work(site: Site) -> None:
        await site.get("/metrics")
        site.view = MetricsView(sent=43)
        assert b"onceq_messages_sent_total 43.0" in (await site.get("/metrics"))[2]

    run(work)


def test_health_says_yes_or_why_not() -> None:
    async def work(site: Site) -> None:
        status, heads, body = await site.get("/health/live")
        assert (status, json.loads(body)["status"]) == (200, "live")
        assert heads["connection"] == "close"
        status, _, body = await site.get("/health/ready")
        assert (status, json.loads(body)) == (200, {"status": "ready", "reasons": [], "notes": []})
        site.host.house.engine._upkeep._low = True
        status, _, body = await site.get("/health/ready")
        assert (status, json.loads(body)["reasons"]) == (503, [http.FULL])
        assert not site.host.seen(Look), "nothing is asked of the core for it"

    run(work)


def test_head_says_how_much_there_would_be() -> None:
    async def work(site: Site) -> None:
        status, heads, body = await site.get("/health/ready", method="HEAD")
        assert (status, body) == (200, b"")
        assert int(heads["content-length"]) > 10

    run(work)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET //metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (b"DELETE /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET / HTTP/1.1\r\nHost: ::1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 413),
        (b"PUT / HTTP/1.1\r\nHost: ::1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", 413),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nBad Head: 1\r\n\r\n", 400),
        (b"GET " + b"/" * limits.WATCH_HEAD_BYTES_MAX, 431),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ],
)  # fmt: skip
def test_what_is_no_request_of_ours_is_refused(data: bytes, status: int) -> None:
    async def work(site: Site) -> None:
        found, _, _ = await site.say(data)
        assert found == status
        assert (await site.get("/health/live"))[0] == 200
        assert not site.looked

    run(work)


def test_a_second_request_on_the_connection_is_not_read() -> None:
    async def work(site: Site) -> None:
        one = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        _, _, body = await site.say(one * 50)
        assert body.count(b"live") == 1

    run(work)


def test_who_says_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "WATCH_S_MAX", 0.05)

    async def work(site: Site) -> None:
        reader, writer = await asyncio.open_connection(*site.where)
        writer.write(b"GET /metrics HTTP/1.1\r\n")
        assert await ended(reader)
        writer.close()

    run(work)


def test_those_who_say_nothing_make_room() -> None:
    async def work(site: Site) -> None:
        silent = [await asyncio.open_connection(*site.where) for _ in range(limits.WATCHERS_MAX)]
        assert (await site.get("/health/live"))[0] == 200
        assert await ended(silent[0][0]), "the oldest"
        for _, writer in silent:
            writer.close()

    run(work)


def test_whoever_may_not_look_hears_why_not() -> None:
    async def work(site: Site) -> None:
        site.may = AccessDenied("access denied: no grant; onceq grant account:x monitor")
        status, heads, body = await site.get("/metrics")
        assert (status, b"onceq grant" in body) == (403, True)
        assert "www-authenticate" not in heads, "no token helps: who it is was proven"
        assert not site.looked
        assert (await site.get("/health/ready"))[0] == 200

    run(work)


def test_nobody_does_not_come_as_far_as_the_core() -> None:
    async def work(site: Site) -> None:
        site.host.house.core.state.policy = Policy()
        status, heads, _ = await site.get("/metrics")
        assert (status, heads["www-authenticate"]) == (401, "Bearer")
        status, heads, _ = await site.get("/metrics", "Authorization: Bearer wrong")
        assert (status, heads["www-authenticate"]) == (401, "Bearer")
        for _ in range(limits.WRONG_TOKENS_AT_ONCE):
            status = (await site.get("/metrics", "Authorization: Bearer wrong"))[0]
        assert status == 503, "after too many wrong ones none is looked at"
        assert not site.host.seen(Look)

    run(work)


def test_a_manager_that_stops_shows_no_metrics() -> None:
    async def work(site: Site) -> None:
        site.host.house.engine.stopped = True
        assert (await site.get("/metrics"))[0] in (0, 503)

    run(work)


def test_from_elsewhere_it_is_tls_and_a_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What comes from this computer counts as from elsewhere here.
    monkeypatch.setattr(identification, "is_loopback", lambda address: False)
    signs = Authority()
    signs.identity(tmp_path, ALPHA)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / "authorities.pem"))

    async def work(site: Site) -> None:
        doors = doors_module.Doors(str(tmp_path), ALPHA)
        doors.prepared(Configuration(metrics_listen="127.0.0.1:0", plain_peers=()))()
        site.host.network.doors = doors
        status, _, _ = await site.get("/health/live")
        assert status == 0, "who speaks no TLS is not answered"
        site.tls = trusting
        assert (await site.get("/health/live"))[0] == 200
        site.host.house.core.state.policy = Policy()
        assert (await site.get("/metrics"))[0] == 401, "nobody"
        assert (await site.get("/metrics", "Authorization: Bearer wrong"))[0] == 401
        secret, salt = b"s" * tokens.SECRET_BYTES, b"t" * tokens.SALT_BYTES
        kept = tokens.Token("watcher", salt, tokens.digest_of(salt, secret), 1)
        site.host.house.core.state.tokens.put(kept)
        shown = tokens.text_of("watcher", secret)
        status, _, body = await site.get("/metrics", f"Authorization: Bearer {shown}")
        assert (status, b"onceq_build_info" in body) == (200, True)

    run(work)


def _from(address: str) -> asyncio.BaseTransport:
    own = SimpleNamespace(family=socket.AF_INET)
    return asyncio.BaseTransport({"peername": (address, 1), "socket": own})


def test_doors_of_those_who_watch(tmp_path: Path) -> None:
    none = doors_module.Doors(str(tmp_path), ALPHA)
    assert none.way_in(Entrance.WATCHERS, "127.0.0.1", 0) is None
    assert isinstance(none.way_in(Entrance.WATCHERS, "10.0.0.7", 0), str)
    plain = Configuration(metrics_listen="0.0.0.0:0", plain_peers=("10.0.0.7",))
    none.prepared(plain)()
    assert none.way_in(Entrance.WATCHERS, "10.0.0.7", 0) is None
    known = none.who(_from("10.0.0.7"), Entrance.WATCHERS)
    assert isinstance(known, identification.Identification)
    assert str(known.actor) == "address:10.0.0.7"
    assert isinstance(none.way_in(Entrance.WATCHERS, "10.0.0.8", 0), str)
    Authority().identity(tmp_path, ALPHA)
    some = doors_module.Doors(str(tmp_path), ALPHA)
    some.prepared(plain)()
    assert isinstance(some.way_in(Entrance.WATCHERS, "10.0.0.8", 0), ssl.SSLContext)
    assert some.way_in(Entrance.WATCHERS, "10.0.0.7", 0) is None


@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues", "/health/live", "/health/ready"])
def test_a_name_that_was_made_to_lead_here_is_answered_nothing(path: str) -> None:
    """A page whose name leads to this computer all at once (DNS rebinding) reads as of its own."""

    async def work(site: Site) -> None:
        own = site.host.house.engine.manager.identity.name
        for host in (
            "evil.example",
            "evil.example:9464",
            f"{own}.evil.example",
            "127.0.0.1.nip.io",
        ):
            status, _, body = await site.say(
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            )
            assert (status, b"is not called so" in body) == (421, True), host
        for host in ("127.0.0.1:9464", "localhost", "[::1]:9464", f"{own.lower()}:9464", own):
            status, _, _ = await site.say(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert status in (200, 503), host
        status, _, _ = await site.say(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        assert status in (200, 503), "a simple probe says no name; a browser does"

    run(work)


def test_a_page_of_another_site_is_answered_nothing() -> None:
    async def work(site: Site) -> None:
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
            status, heads, _ = await site.get("/metrics", f"Origin: {origin}")
            assert status == 403, origin
            assert not any(name.startswith("access-control") for name in heads)
        status, _, _ = await site.get("/metrics", "Origin: http://127.0.0.1")
        assert status == 200

    run(work)
