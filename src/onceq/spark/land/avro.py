"""Bodies that are Avro records: their columns, and how tasks decode them.

A body is one record in Avro's binary form and nothing else: no file, and no number of a schema
before it. The library fastavro decodes it in Spark's Python workers. Spark's ``from_avro`` needs a
Java package, and does not say when bytes are left over, by which a record of another schema is
known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from onceq.spark.land.plan import REASON
from onceq.spark.land.schemas import Field
from onceq.spark.targets import wrong

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PLAIN: Final = {
    "boolean": "boolean", "int": "integer", "long": "long", "float": "float", "double": "double",
    "bytes": "binary", "string": "string", "fixed": "binary", "enum": "string",
}  # fmt: skip
LOGICAL: Final = {
    "date": "date", "timestamp-millis": "timestamp", "timestamp-micros": "timestamp",
    "uuid": "string",
}  # fmt: skip
NO_RECORD: Final = "the body is not an Avro record of the schema"
MORE: Final = "more follows behind the Avro record"


def fields_of(text: str) -> list[Field]:
    """The columns of an Avro schema.

    Raises:
        ConfigurationError: It is no schema of a record, or has what no column can be.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise wrong(f"an Avro schema is JSON, and this is not: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise wrong('an Avro schema of bodies is a record: {"type": "record", "fields": ...}')
    named: dict[str, Any] = {}
    fields: list[Field] = []
    for field in schema["fields"]:
        kind, nullable = _kind(field["type"], named)
        fields.append({"name": field["name"], "type": kind, "nullable": nullable})
    if not fields:
        raise wrong("the schema names no column")
    return fields


def _kind(schema: Any, named: dict[str, Any]) -> tuple[Any, bool]:
    """Spark's type, as the JSON of a ``StructType`` has it, and whether it may be null."""
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        if schema in PLAIN and schema not in ("fixed", "enum"):
            return PLAIN[schema], False
        if schema not in named:
            raise wrong(f"the Avro schema has {schema!r} before it says what that is, or inside it")
        return named[schema], False
    if not isinstance(schema, dict):
        raise wrong(f"the Avro schema has {schema!r} where a type should be")
    kind = _named(schema, named)
    if "name" in schema:
        named[schema["name"]] = kind
    return kind, False


def _named(schema: Mapping[str, Any], named: dict[str, Any]) -> Any:
    kind, logical = schema.get("type"), schema.get("logicalType")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical is not None:
        if logical not in LOGICAL:
            known = ", ".join([*LOGICAL, "decimal"])
            raise wrong(f"logical type {logical!r} is no column here; there are {known}")
        return LOGICAL[logical]
    if kind == "record":
        return {"type": "struct", "fields": [_field(f, named) for f in schema["fields"]]}
    if kind == "array":
        element, _ = _kind(schema["items"], named)
        return {"type": "array", "elementType": element, "containsNull": True}
    if kind == "map":
        value, _ = _kind(schema["values"], named)
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
    if isinstance(kind, str) and kind in PLAIN:
        return PLAIN[kind]
    return _kind(kind, named)[0]


def _field(field: Mapping[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """One inside of a column; whether it may be null is Avro's affair."""
    kind, _ = _kind(field["type"], named)
    return {"name": field["name"], "type": kind, "nullable": True, "metadata": {}}


def _union(schema: list[Any], named: dict[str, Any]) -> tuple[Any, bool]:
    others = [part for part in schema if part != "null"]
    if len(others) != 1:
        raise wrong(
            f"a union of {len(others)} types is no column: {json.dumps(schema)}; of null and one "
            "other it is"
        )
    return _kind(others[0], named)[0], len(others) < len(schema)


def decoder(text: str) -> Callable[[bytes], dict[str, Any]]:
    """What makes a record of a body; it raises whatever is wrong, in words."""
    from fastavro import parse_schema, schemaless_reader

    # Text stays text: a column has no type for UUIDs.
    schema = parse_schema(json.loads(text, object_hook=_without_uuid))

    def decode(body: bytes) -> dict[str, Any]:
        stream = BytesIO(body)
        try:
            record: dict[str, Any] = schemaless_reader(stream, schema, None)
        except Exception:  # noqa: BLE001 - whatever bytes do to it: they are no record
            raise ValueError(NO_RECORD) from None
        if stream.tell() < len(body):
            raise ValueError(MORE)
        return record

    return decode


def _without_uuid(found: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in found.items() if (k, v) != ("logicalType", "uuid")}


def judged(frame: DataFrame, text: str, fields: Sequence[Field], value: str) -> DataFrame:
    """Messages with the column ``value``, which has what their bodies say, and in the column
    ``REASON`` why not; null: nothing is wrong."""
    from pyspark.sql.types import StringType, StructField, StructType

    loose = [{**field, "nullable": True, "metadata": {}} for field in fields]
    record = StructType.fromJson({"type": "struct", "fields": loose})
    more = [StructField(value, record), StructField(REASON, StringType())]
    return frame.mapInArrow(_Decode(text, value), StructType([*frame.schema.fields, *more]))


class _Decode:
    """What a task does with its rows."""

    def __init__(self, text: str, value: str) -> None:
        self._text = text
        self._value = value

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        decode = decoder(self._text)
        kind = arrow_type({"type": "struct", "fields": fields_of(self._text)})
        for batch in batches:
            records: list[dict[str, Any] | None] = []
            reasons: list[str | None] = []
            for body in batch.column("body").to_pylist():
                try:
                    records.append(decode(body))
                    reasons.append(None)
                except ValueError as error:
                    records.append(None)
                    reasons.append(str(error))
            columns = [*batch.columns, pa.array(records, kind), pa.array(reasons, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, self._value, REASON])


def arrow_type(kind: Any) -> pa.DataType:
    """Arrow's type for one of Spark's."""
    import pyarrow as pa

    if isinstance(kind, str):
        if kind.startswith("decimal"):
            precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
            return pa.decimal128(int(precision), int(scale))
        return {
            "boolean": pa.bool_(), "integer": pa.int32(), "long": pa.int64(),
            "float": pa.float32(), "double": pa.float64(), "binary": pa.binary(),
            "string": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
        }[kind]  # fmt: skip
    if kind["type"] == "array":
        return pa.list_(arrow_type(kind["elementType"]))
    if kind["type"] == "map":
        return pa.map_(pa.string(), arrow_type(kind["valueType"]))
    return pa.struct([(field["name"], arrow_type(field["type"])) for field in kind["fields"]])
