"""The metrics of each queue manager through the console: whose they are, and who gets none."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from onceq.console import app
from onceq.console.desk import Desk
from onceq.console.guard import Keys
from onceq.console.managers import Managers, Watched
from onceq.console.table import METRICS
from onceq.errors import AccessDenied, OnceqError, ServiceNotAvailable
from onceq.metrics_pages import PAGES
from onceq.model.views.view import MetricsView


class Site:
    """Two queue managers, and a console that watches them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        managers = Managers(["onceq://alpha:1", "onceq://beta:1"], lambda: 0.0)
        self.desk = Desk(managers, Keys(lambda: 0.0), "c", lambda: 0.0, lambda: 0.0)
        self.routes = {one.path: one.endpoint for one in app.metric_routes(self.desk)}
        self.error: OnceqError | None = None
        self.looked: list[str] = []
        self.going: asyncio.Event | None = None
        site = self

        async def read(watched: Watched, ask: Callable[[Any], Awaitable[Any]]) -> Any:
            site.looked.append(watched.key)
            if site.going is not None:
                await site.going.wait()
            if site.error is not None:
                raise site.error
            return MetricsView(name=watched.key)

        monkeypatch.setattr(Watched, "read", read)

    async def get(self, manager: str, path: str = "/metrics", *accept: bytes) -> Response:
        headers = [(b"accept", one) for one in accept]
        scope = {
            "type": "http", "headers": headers, "path_params": {"manager": manager},
            "state": {"session": None},
        }  # fmt: skip
        found: Response = await self.routes["/api/managers/{manager}" + path](Request(scope))
        return found


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def told(answer: Response) -> dict[str, str]:
    found: dict[str, str] = json.loads(bytes(answer.body))["error"]
    return found


def test_it_has_the_pages_that_a_queue_manager_shows(site: Site) -> None:
    assert {one.path for one in METRICS} == set(PAGES)
    assert set(site.routes) == {"/api/managers/{manager}" + path for path in PAGES}


def test_each_has_its_own_pages(site: Site) -> None:
    async def work() -> None:
        for key in ("alpha-1", "beta-1"):
            answers = [await site.get(key) for _ in range(3)]
            assert all(f'manager="{key}"'.encode() in bytes(one.body) for one in answers)
            assert answers[0].headers["content-type"].startswith("text/plain; version=")
        assert site.looked == ["alpha-1", "beta-1"]

    asyncio.run(work())


def test_the_form_is_the_one_that_any_line_accepts(site: Site) -> None:
    async def work() -> None:
        answer = await site.get(
            "beta-1", "/metrics/queues", b"text/html", b"application/openmetrics-text"
        )
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert bytes(answer.body).endswith(b"# EOF\n")

    asyncio.run(work())


def test_one_who_goes_does_not_end_it_for_others(site: Site) -> None:
    async def work() -> None:
        site.going = asyncio.Event()
        first, second = (asyncio.ensure_future(site.get("alpha-1")) for _ in range(2))
        while not site.looked:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        site.going.set()
        assert (await second).status_code == 200
        assert site.looked == ["alpha-1"]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("error", "status"),
    [(AccessDenied("monitor"), 403), (ServiceNotAvailable("it does not answer"), 503)],
)
def test_what_a_queue_manager_refuses_is_told(site: Site, error: OnceqError, status: int) -> None:
    site.error = error
    answer = asyncio.run(site.get("alpha-1"))
    assert (answer.status_code, told(answer)["code"]) == (status, error.code)
    assert told(answer)["text"] in error.text


def test_one_that_is_not_watched_is_not_found(site: Site) -> None:
    answer = asyncio.run(site.get("gamma"))
    assert (answer.status_code, told(answer)["code"]) == (404, "manager-not-found")
    assert not site.looked


def test_without_the_library_it_says_what_to_install(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "onceq.exposition", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = asyncio.run(site.get("alpha-1"))
    assert (answer.status_code, told(answer)["code"]) == (501, "configuration")
    assert "pip install 'onceq[metrics]'" in told(answer)["text"]
    assert "where the console runs" in told(answer)["cure"]
    assert not site.looked
    assert asyncio.run(site.get("gamma")).status_code == 404
