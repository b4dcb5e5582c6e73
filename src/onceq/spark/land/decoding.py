"""Rows of a table out of messages: the body's columns, or the reason why it has none.

Spark's ``from_json`` forgives much, and leaves out what it forgives: what follows the first value,
the first of two fields of one name, fields that the schema lacks, bytes that are no UTF-8. A queue
loses its messages to the table, so here each of these is a reason to keep the body as it is, in the
error table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from onceq.spark.bodies import WIDE_TEXT, text_of
from onceq.spark.land import avro
from onceq.spark.land.plan import DATE, DATED, ERRORS, REASON, Plan
from onceq.spark.land.schemas import Field

if TYPE_CHECKING:
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


def judged(frame: DataFrame, plan: Plan, fields: Sequence[Field]) -> DataFrame:
    """Messages with what their bodies say, and in the column ``REASON`` why not; null: nothing is
    wrong."""
    if plan.body == "avro":
        return avro.judged(frame, plan.schema, fields, VALUE)
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
    # One value and nothing else is what can stand in a list before another value.
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
    found = found.when(_value(CORRUPT).isNotNull(), _unfit(fields))
    needed = [field["name"] for field in fields if not field["nullable"]]
    lacking = _those(needed, lambda name: _value(name).isNull())
    return found.when(sql.size(lacking) > 0, _listing("NOT NULL, and not there: ", lacking))


def _whole() -> Column:
    """Whether the text is all of the body: bytes that mean nothing become other signs."""
    from pyspark.sql import functions as sql

    text = sql.col(TEXT)
    wide = sql.encode(text, "UTF-16LE") == sql.col("body")
    return sql.when(sql.col("bodyType") == WIDE_TEXT, wide).otherwise(sql.is_valid_utf8(text))


def _unfit(fields: Sequence[Field]) -> Column:
    """Which fields are there and do not have their type; those inside of others are not named."""
    from pyspark.sql import functions as sql

    def unfit(name: str) -> Column:
        return (
            _value(name).isNull() & sql.get_json_object(sql.col(TEXT), f"$['{name}']").isNotNull()
        )

    named = [field["name"] for field in fields if not set("'[]\\") & set(field["name"])]
    found = _those(named, unfit)
    some = sql.lit("a field does not have the type of the schema")
    listing = _listing("not of the type that the schema says: ", found)
    return sql.when(sql.size(found) > 0, listing).otherwise(some)


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


def rows(frame: DataFrame, plan: Plan, fields: Sequence[Field] | None) -> DataFrame:
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
