"""The HTTP interface for scripts: JSON in and out, for all that the pages do.

``GET /api/managers`` names the queue managers; ``table`` lists the requests to each. An error has a
status of HTTP and the code, text and cure of the command line.

The OpenAPI document is made from the same table.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from onceq.console.desk import Desk, status_of, told_of
from onceq.console.guard import FormValues
from onceq.console.managers import Watched
from onceq.console.table import METRICS, OPERATIONS, Operation, Text
from onceq.errors import InvalidParameter, OnceqError
from onceq.model.views.view import plain
from onceq.version import __version__

Handler = Callable[[Request], Awaitable[Response]]


def routes(desk: Desk) -> list[Route]:
    """All of them."""

    async def described(request: Request) -> Response:
        return JSONResponse(document())

    async def managers(request: Request) -> Response:
        return JSONResponse(
            {"managers": [overview(one, desk) for one in desk.managers_of(request)]}
        )

    made = [
        Route("/api/openapi.json", described, methods=["GET"]),
        Route("/api/managers", managers, methods=["GET"]),
    ]
    for one in OPERATIONS:
        path = f"/api/managers/{{manager}}{one.path}"
        made.append(Route(path, _operation(desk, one), methods=[one.method]))
    return made


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
                given = FormValues.of_json(_parsed(await request.body()))
                given.only(operation.names)
                told = await desk.act(request, watched, operation.run, given)
            else:
                given = FormValues.of_query(request.url.query)
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


_ANSWER: Final[dict[str, Any]] = {
    "description": "What was asked for.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}
_TEXT: Final[dict[str, Any]] = {
    "description": "What a collector of metrics reads.",
    "content": {
        kind: {"schema": {"type": "string"}}
        for kind in ("text/plain", "application/openmetrics-text")
    },
}
_ERROR: Final[dict[str, Any]] = {
    "description": "An error: its code, what happened, and what to do.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_SCHEMAS: Final[dict[str, Any]] = {
    "Error": {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("code", "text", "cure")},
                "required": ["code", "text"],
            }
        },
        "required": ["error"],
    }
}
_MANAGER: Final[dict[str, Any]] = {
    "name": "manager", "in": "path", "required": True, "schema": {"type": "string"},
    "description": "As `GET /api/managers` names it.",
}  # fmt: skip


def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, Any] = {
        "/api/managers": {
            "get": {
                "operationId": "managers",
                "summary": "The queue managers that this console watches, and their last numbers.",
                "responses": {"200": _ANSWER, "default": _ERROR},
            }
        }
    }
    for one in OPERATIONS:
        path = f"/api/managers/{{manager}}{one.path}"
        paths.setdefault(path, {})[one.method.lower()] = _describe(one)
    for page in METRICS:
        paths[f"/api/managers/{{manager}}{page.path}"] = {"get": _text(page)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "onceq console", "version": __version__},
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
        "paths": paths,
    }


def _describe(one: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.text,
        "description": f"Right: {one.right}.",
        "parameters": [_MANAGER],
        "responses": {"200": _ANSWER, "default": _ERROR},
    }
    if not one.changes:
        told["parameters"] = [
            _MANAGER,
            *(
                {
                    "name": parameter.name, "in": "query", "required": parameter.needed,
                    "description": parameter.text, "schema": {"type": parameter.kind},
                }
                for parameter in one.parameters
            ),
        ]  # fmt: skip
        return told
    told["requestBody"] = {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        parameter.name: {"type": parameter.kind, "description": parameter.text}
                        for parameter in one.parameters
                    },
                    "required": [p.name for p in one.parameters if p.needed],
                }
            }
        },
    }
    return told


def _text(page: Text) -> dict[str, Any]:
    return {
        "operationId": page.name,
        "summary": page.text,
        "description": f"Right: {page.right}.",
        "parameters": [_MANAGER],
        "responses": {"200": _TEXT, "default": _ERROR},
    }
