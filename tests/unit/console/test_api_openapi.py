"""The OpenAPI document has every operation, as the table says it."""

from __future__ import annotations

import json

from onceq.console.api import document
from onceq.console.table import METRICS, OPERATIONS


def test_every_operation_is_in_it() -> None:
    paths = document()["paths"]
    json.dumps(paths)
    found = {
        (method, path.removeprefix("/api/managers/{manager}"))
        for path, methods in paths.items()
        for method in methods
    }
    wanted = {(one.method.lower(), one.path) for one in OPERATIONS}
    wanted |= {("get", one.path) for one in METRICS}
    assert found - {("get", "/api/managers")} == wanted
    names = [told["operationId"] for methods in paths.values() for told in methods.values()]
    assert len(set(names)) == len(names)


def test_metrics_are_text() -> None:
    for one in METRICS:
        told = document()["paths"][f"/api/managers/{{manager}}{one.path}"]["get"]
        assert set(told["responses"]["200"]["content"]) == {
            "text/plain",
            "application/openmetrics-text",
        }
        assert [p["name"] for p in told["parameters"]] == ["manager"]


def test_what_changes_something_is_a_post_with_a_body() -> None:
    for one in OPERATIONS:
        told = document()["paths"][f"/api/managers/{{manager}}{one.path}"][one.method.lower()]
        assert ("requestBody" in told) is one.changes
        if one.changes:
            schema = told["requestBody"]["content"]["application/json"]["schema"]
            assert set(schema["properties"]) == one.names
        else:
            assert {p["name"] for p in told["parameters"]} == {"manager", *one.names}
