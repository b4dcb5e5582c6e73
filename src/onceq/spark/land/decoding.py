"""Rows of a table out of messages: the body's columns, or the reason why it has none.

Spark's ``from_json`` forgives much, and leaves out what it forgives: what follows the first value,
the first of two fields of one name, fields that the schema lacks, bytes that are no UTF-8. A queue
loses its messages to the table, so here each of these is a reason to keep the whole body, in the
error table.

An Avro body is one record in Avro's binary form and nothing else: no file, and no number of a
schema before it. The library fastavro decodes it in Spark's Python workers. Spark's ``from_avro``
needs a Java package, and does not report bytes that are left over, which show a record of another
schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from onceq.spark.argument_checks import wrong
from onceq.spark.land.plan import DATE, DATED, ERRORS, REASON, Field, LandPlan
from onceq.spark.message_columns import WIDE_TEXT, text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


DAY_S: Final = 86_400
SETTINGS: Final = {
    # A body that is no UTF-16 must not end the stream: it comes back with signs in place of what
    # was wrong, and `_whole` sees that.
    "spark.sql.legacy.codingErrorAction": "true",
}
"""Of the session that decodes."""
VALUE: Final = "onceq value"
TEXT: Final = "onceq text"
CORRUPT: Final = "onceq corrupt"
"""Columns on the way; no schema and no message has such names."""
END: Final = "the end of the body"


def judge_bodies(frame: DataFrame, plan: LandPlan, fields: Sequence[Field]) -> DataFrame:
    """Messages with what their bodies say, and in the column ``REASON`` why not; null: nothing is
    wrong."""
    if plan.body == "avro":
        return judge_avro(frame, plan.schema, fields, VALUE)
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructField, StructType

    loose = [{**field, "nullable": True, "metadata": {}} for field in fields]
    schema = StructType.fromJson({"type": "struct", "fields": loose})
    schema = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"columnNameOfCorruptRecord": CORRUPT}
    text = frame.withColumn(TEXT, text_of(frame, "body"))
    value = text.withColumn(VALUE, sql.from_json(sql.col(TEXT), schema, options))
    return value.withColumn(REASON, _reason(fields, ignore_unknown=plan.ignore_unknown))


def _reason(fields: Sequence[Field], *, ignore_unknown: bool) -> Column:
    from pyspark.sql import functions as sql

    text = sql.col(TEXT)
    names = sql.json_object_keys(text)
    # Only one whole value can come before another value in a list.
    listed = sql.concat(sql.lit("["), text, sql.lit(f',"{END}"]'))
    alone = sql.get_json_object(listed, "$[1]") == END
    found = sql.when(~_whole(), "the body is not text in its encoding")
    found = found.when(names.isNull(), "the body is not a JSON object")
    found = found.when(~sql.coalesce(alone, sql.lit(False)), "more follows behind the JSON object")
    found = found.when(
        sql.size(sql.array_distinct(names)) < sql.size(names), "a field stands there twice"
    )
    if not ignore_unknown:
        known = sql.array(*(sql.lit(field["name"]) for field in fields))
        unknown = sql.array_except(names, known)
        found = found.when(sql.size(unknown) > 0, _listing("not in the schema: ", unknown))
    # Which fields are there and do not have their type; those inside of others are not named.
    unfit = _those(
        [field["name"] for field in fields if not set("'[]\\") & set(field["name"])],
        lambda name: _value(name).isNull() & sql.get_json_object(text, f"$['{name}']").isNotNull(),
    )
    which = sql.when(
        sql.size(unfit) > 0, _listing("not of the type that the schema says: ", unfit)
    ).otherwise(sql.lit("a field does not have the type of the schema"))
    found = found.when(_value(CORRUPT).isNotNull(), which)
    needed = [field["name"] for field in fields if not field["nullable"]]
    lacking = _those(needed, lambda name: _value(name).isNull())
    return found.when(sql.size(lacking) > 0, _listing("NOT NULL, and not there: ", lacking))


def _whole() -> Column:
    """Whether the text is all of the body: bytes that mean nothing become other signs."""
    from pyspark.sql import functions as sql

    text = sql.col(TEXT)
    wide = sql.encode(text, "UTF-16LE") == sql.col("body")
    return sql.when(sql.col("bodyType") == WIDE_TEXT, wide).otherwise(sql.is_valid_utf8(text))


def _those(names: Sequence[str], so: Callable[[str], Column]) -> Column:
    """The names of which something is so."""
    from pyspark.sql import functions as sql

    found = [sql.when(so(name), sql.lit(name)) for name in names]
    return sql.array_compact(sql.array(*found, sql.lit(None).cast("string")))


def _listing(words: str, names: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.concat(sql.lit(words), sql.array_join(names, ", "))


def _value(name: str) -> Column:
    from pyspark.sql import functions as sql

    return sql.col(VALUE).getField(name)


def rows(frame: DataFrame, plan: LandPlan, fields: Sequence[Field] | None) -> DataFrame:
    """What the table gets of messages; of judged ones, if bodies have fields."""
    from pyspark.sql import functions as sql

    columns = [sql.col(name).alias(plan.prefix + name) for name in plan.kept]
    if fields is not None:
        frame = frame.where(sql.col(REASON).isNull())
        columns += [_value(field["name"]).alias(field["name"]) for field in fields]
    if plan.by_date:
        # Not to_date: that goes by the time zone of the session.
        days = sql.floor(sql.unix_seconds(DATED) / DAY_S).cast("int")
        columns.append(sql.date_from_unix_date(days).alias(DATE))
    return frame.select(*columns)


def refused(frame: DataFrame) -> DataFrame:
    """What the error table gets of judged messages."""
    from pyspark.sql import functions as sql

    return frame.where(sql.col(REASON).isNotNull()).select(*ERRORS, REASON)


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


def avro_fields_of(text: str) -> list[Field]:
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
        others = [part for part in schema if part != "null"]
        if len(others) != 1:
            raise wrong(
                f"a union of {len(others)} types is no column: {json.dumps(schema)}; of null and "
                "one other it is"
            )
        return _kind(others[0], named)[0], len(others) < len(schema)
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


def decoder(text: str) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that makes a record of a body, and raises ValueError with the reason."""
    from fastavro import parse_schema, schemaless_reader

    def without_uuid(found: dict[str, Any]) -> dict[str, Any]:
        # Text stays text: a column has no type for UUIDs.
        return {k: v for k, v in found.items() if (k, v) != ("logicalType", "uuid")}

    schema = parse_schema(json.loads(text, object_hook=without_uuid))

    def decode(body: bytes) -> dict[str, Any]:
        stream = BytesIO(body)
        try:
            record: dict[str, Any] = schemaless_reader(stream, schema, None)
        except Exception:  # noqa: BLE001 - after any error the bytes are no record
            raise ValueError(NO_RECORD) from None
        if stream.tell() < len(body):
            raise ValueError(MORE)
        return record

    return decode


def judge_avro(frame: DataFrame, text: str, fields: Sequence[Field], value: str) -> DataFrame:
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
        kind = arrow_type({"type": "struct", "fields": avro_fields_of(self._text)})
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
