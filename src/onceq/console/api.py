"""The HTTP interface for scripts: JSON in and out, for all that the pages do.

``GET /api/managers`` names the queue managers; what can be asked of each stands in ``table``. An
error has a status of HTTP and the code, text and cure of the command line.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from onceq.console.desk import Desk, status_of, told_of
from onceq.console.given import Given
from onceq.console.managers import Watched
from onceq.console.openapi import document
from onceq.console.table import OPERATIONS, Operation
from onceq.errors import InvalidParameter, OnceqError
from onceq.model.views.view import plain

Handler = Callable[[Request], Awaitable[Response]]


def routes(desk: Desk) -> list[Route]:
    """All of them."""
    made = [
        Route("/api/openapi.json", _document, methods=["GET"]),
        Route("/api/managers", _managers(desk), methods=["GET"]),
    ]
    for one in OPERATIONS:
        path = f"/api/managers/{{manager}}{one.path}"
        made.append(Route(path, _operation(desk, one), methods=[one.method]))
    return made


async def _document(request: Request) -> Response:
    return JSONResponse(document())


def _managers(desk: Desk) -> Handler:
    async def answer(request: Request) -> Response:
        return JSONResponse(
            {"managers": [overview(one, desk) for one in desk.managers_of(request)]}
        )

    return answer


def overview(watched: Watched, desk: Desk) -> dict[str, Any]:
    """What is known of a queue manager, whether it is there or away."""
    last = watched.samples[-1] if watched.samples else None
    return {
        "manager": watched.key,
        "where": watched.where,
        "name": watched.name,
        "away": watched.away,
        "slow": watched.slow,
        "away_s": int(desk.monotonic() - watched.away_since) if watched.away else 0,
        "age_s": int(desk.monotonic() - last.at) if last else None,
        "numbers": last.shown if last else None,
    }


def _operation(desk: Desk, operation: Operation) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            watched = desk.watched(request)
            if operation.changes:
                given = Given.of_json(_parsed(await request.body()))
                given.only(operation.names)
                told = await desk.act(request, watched, operation.run, given)
            else:
                given = Given.of_query(request.url.query)
                given.only(operation.names)
                told = await desk.read(watched, operation.run, given)
        except OnceqError as error:
            return JSONResponse(told_of(error), status_code=status_of(error))
        return JSONResponse(plain(told))

    return answer


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise InvalidParameter("the body of this request is a JSON object") from None
