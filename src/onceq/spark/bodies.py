"""Bodies as columns: JSON and Avro, by Spark's own functions.

A data source in Python gives bytes; what they mean is for functions of Spark, which run in the
JVM and are known to its optimiser. So this is a step behind the source, usable with any column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from onceq.spark.given import frame_given
from onceq.spark.options import wrong

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FORMATS: Final = ("json", "avro")
WIDE_TEXT: Final = 8
"""Type of bodies that MSMQ applications send as text: UTF-16 (VT_BSTR)."""


def decoded(
    frame: DataFrame,
    schema: Any,
    *,
    format: str = "json",
    column: str = "body",
    into: str = "value",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Add a column with what the bodies say.

    JSON is taken as UTF-8; where the frame has the column ``bodyType``, bodies of type 8, the text
    of MSMQ applications, as UTF-16. A body that does not fit gives null (mode PERMISSIVE), or
    ends the query with ``options={"mode": "FAILFAST"}``.

    Args:
        frame: As the source gives it.
        schema: JSON: a DDL string such as ``"id bigint, price double"`` or a StructType. Avro: the
            schema as JSON text.
        format: "json" or "avro". Avro needs Spark's own package ``spark-avro`` in the session;
            without it Spark says AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE.
        column: Where the bodies are.
        into: Name of the new column.
        options: Of Spark's ``from_json`` or ``from_avro``.

    Raises:
        ConfigurationError: It is no frame, the format is unknown, or the column missing.
    """
    frame_given(frame, "decoded")
    if format not in FORMATS:
        raise wrong(f"bodies are {' or '.join(FORMATS)}, not {format!r}")
    if column not in frame.columns:
        raise wrong(f"there is no column {column!r} to decode; there are {frame.columns}")
    given = dict(options or {})
    if format == "avro":
        from pyspark.sql.avro.functions import from_avro

        return frame.withColumn(into, from_avro(frame[column], schema, given))
    from pyspark.sql import functions as sql

    return frame.withColumn(into, sql.from_json(text_of(frame, column), schema, given))


def text_of(frame: DataFrame, column: str) -> Column:
    """Bodies as text: UTF-8, or UTF-16 where the column ``bodyType`` says so."""
    from pyspark.sql import functions as sql

    plain = sql.col(column).cast("string")
    if "bodyType" not in frame.columns:
        return plain
    wide = sql.decode(sql.col(column), "UTF-16LE")
    return sql.when(sql.col("bodyType") == WIDE_TEXT, wide).otherwise(plain)
