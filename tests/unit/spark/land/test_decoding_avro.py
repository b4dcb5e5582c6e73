"""Avro schemas as columns, and bodies as records, without Spark."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest

from onceq.errors import ConfigurationError
from onceq.spark.land import decoding
from onceq.spark.land.plan import REASON
from tests.unit.spark.orders import ROW, SCHEMA, encoded

needs_fastavro = pytest.mark.skipif(
    find_spec("fastavro") is None, reason="not run: fastavro is not installed"
)


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def test_a_record_has_columns() -> None:
    fields = decoding.avro_fields_of(json.dumps(SCHEMA))
    assert {field["name"]: field["type"] for field in fields} == {
        "id": "long", "price": "double", "at": "timestamp", "day": "date", "sum": "decimal(9,2)",
        "key": "string", "kind": "string", "before": "string",
        "lines": {
            "type": "array", "containsNull": True,
            "elementType": {"type": "struct", "fields": [
                {"name": "n", "type": "integer", "nullable": True, "metadata": {}}]},
        },
        "more": {"type": "map", "keyType": "string", "valueType": "string",
                 "valueContainsNull": True},
    }  # fmt: skip
    assert [field["name"] for field in fields if field["nullable"]] == ["price", "before"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id BIGINT", "an Avro schema is JSON"),
        ('"string"', "is a record"),
        (record(), "names no column"),
        (record({"name": "a", "type": ["int", "string"]}), "a union of 2 types is no column"),
        (record({"name": "a", "type": "Later"}), "before it says what that is"),
        (record({"name": "a", "type": ["null", "R"]}), "before it says what that is"),
        (record({"name": "a", "type": 17}), "where a type should be"),
        (
            record({"name": "a", "type": {"type": "int", "logicalType": "time-millis"}}),
            "logical type 'time-millis' is no column here",
        ),
    ],
)
def test_schemas_that_are_no_table(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        decoding.avro_fields_of(text)


@needs_fastavro
def test_a_body_is_one_record_or_says_why_not() -> None:
    import pyarrow as pa

    text = json.dumps(SCHEMA)
    good = encoded(ROW)
    bodies = [good, good + b"x", good[:-3], b"", b"\xff" * 40, b'{"id": 7}']
    batch = pa.RecordBatch.from_pydict({"body": bodies})
    (found,) = decoding._Decode(text, "value")(iter([batch]))
    more, none = decoding.MORE, decoding.NO_RECORD
    assert found.column(REASON).to_pylist() == [None, more, none, none, none, none]
    row, *others = found.column("value").to_pylist()
    assert {**row, "more": dict(row["more"])} == ROW
    assert others == [None] * 5


@needs_fastavro
def test_a_record_of_a_longer_schema_is_no_record_of_this_one() -> None:
    """It has bytes left over: columns of it would be gone."""
    longer = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "x", "type": "int"}]}
    decode = decoding.decoder(json.dumps(SCHEMA))
    with pytest.raises(ValueError, match=decoding.MORE):
        decode(encoded({**ROW, "x": 1}, longer))
    with pytest.raises(ValueError, match=decoding.NO_RECORD):
        decoding.decoder(json.dumps(longer))(encoded(ROW))
