"""An Avro schema with columns of every kind, and a record of it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "record", "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                 "scale": 2}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "before", "type": ["null", "Kind"]},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}}},
        {"name": "more", "type": {"type": "map", "values": "string"}},
    ],
}  # fmt: skip
ROW: dict[str, Any] = {
    "id": 7, "price": None, "at": datetime(2026, 11, 24, 1, 2, 3, 4, UTC), "day": date(2026, 1, 2),
    "sum": Decimal("12.50"), "key": "8c1b1d5c-9c0f-4c4e-8f0e-6d5a2f4f9a11", "kind": "B",
    "before": "A", "lines": [{"n": 1}, {"n": 2}], "more": {"a": "b"},
}  # fmt: skip


def encoded(row: dict[str, Any], schema: Any = SCHEMA) -> bytes:
    from fastavro import schemaless_writer

    stream = BytesIO()
    schemaless_writer(stream, schema, row)
    return stream.getvalue()
