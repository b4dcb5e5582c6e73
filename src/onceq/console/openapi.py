"""The OpenAPI document of the HTTP interface, made from the table of operations."""

from __future__ import annotations

from typing import Any, Final

from onceq.console.table import METRICS, OPERATIONS, Operation, Parameter, Text
from onceq.version import __version__

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
        paths.setdefault(path, {})[one.method.lower()] = _operation(one)
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


def _operation(one: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.text,
        "description": f"Right: {one.right}.",
        "parameters": [_MANAGER],
        "responses": {"200": _ANSWER, "default": _ERROR},
    }
    if not one.changes:
        told["parameters"] = [_MANAGER, *(_in_query(parameter) for parameter in one.parameters)]
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


def _in_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name, "in": "query", "required": parameter.needed,
        "description": parameter.text, "schema": {"type": parameter.kind},
    }  # fmt: skip
