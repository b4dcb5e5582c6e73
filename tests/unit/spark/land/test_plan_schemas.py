"""What a landing may be asked for, and how its schema may change, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ConfigurationError
from onceq.spark.land.memory import LandMemory, began
from onceq.spark.land.plan import IDENTITY, Field, LandPlan, check_change, check_names, fields_of


def field(name: str, kind: Any = "long", nullable: bool = True) -> Field:
    return {"name": name, "type": kind, "nullable": nullable}


def of(*fields: Field) -> str:
    return json.dumps({"type": "struct", "fields": fields})


def no_ddl(text: str) -> Any:
    raise AssertionError(text)


ID, PRICE = field("id"), field("price", "double")


def test_a_schema_is_the_json_of_a_struct_or_words_of_sql() -> None:
    strict = {"name": "n", "type": "string", "nullable": False, "metadata": {"x": 1}}
    found = fields_of(of(ID, strict), no_ddl)
    assert found == [ID, field("n", "string", nullable=False)]
    assert fields_of("id BIGINT", lambda text: json.loads(of(ID))) == [ID]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"type": "object", "properties": {}}', "not of a StructType"),
        ("{nonsense", "is not JSON"),
        (of(), "names no column"),
        (of(ID, field("ID")), "column 'ID' twice"),
        (
            of(field("s", {"type": "struct", "fields": [field("a", nullable=False)]})),
            "NOT NULL of something inside",
        ),
    ],
)
def test_schemas_that_are_none(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        fields_of(text, no_ddl)


def test_new_columns_need_a_word_and_may_be_null() -> None:
    check_change([ID], [PRICE, ID], allowed=True)
    check_change([field("id", nullable=False)], [ID], allowed=False)
    with pytest.raises(ConfigurationError, match="lacks: price; --evolve adds them"):
        check_change([ID], [ID, PRICE], allowed=False)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([PRICE], "no column 'id' any more"),
        ([field("id", "string"), PRICE], "'id' is long in the table and string in the schema"),
        ([field("id", nullable=False), PRICE], "is NOT NULL in the schema"),
        ([ID, PRICE, field("x", nullable=False)], "new column 'x' is NOT NULL"),
    ],
)
def test_a_column_that_is_left_out_or_another_is_refused(after: list[Field], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_change([ID, PRICE], after, allowed=True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"table": "excel"}, "a table is parquet"),
        ({"body": "xml", "schema": "a INT"}, "bodies are json"),
        ({"body": "json"}, "nobody guesses columns"),
        ({"schema": "a INT"}, "a schema needs --format"),
        ({"to": Path("s3a://lake/x")}, "not a folder of this computer"),
        ({"columns": ("colour",)}, "no column 'colour'"),
    ],
)
def test_plans_that_make_no_sense(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        LandPlan("hub", "q", **{"to": tmp_path / "t", **more}).check()


def test_names_of_message_and_body_do_not_meet(tmp_path: Path) -> None:
    plan = LandPlan("hub", "q", tmp_path, body="json", schema="x", identified=True)
    assert plan.kept == (*IDENTITY, "arrivedTime", "bodyCrc")
    # A folder that an older version has begun goes on without sums, as nobody says other columns.
    before = [*IDENTITY, "arrivedTime"]
    assert list(plan.going_on(before).kept) == before
    assert plan.going_on([]) is plan
    assert replace(plan, columns=("label",)).going_on(before).kept == (*IDENTITY, "label")
    with pytest.raises(ConfigurationError, match=r"column 'Queue', and so has .* --prefix"):
        check_names(plan, [field("Queue")])
    other = LandPlan("hub", "q", tmp_path, body="json", schema="x", prefix="msg_", by_date=True)
    check_names(other, [field("Queue")])
    with pytest.raises(ConfigurationError, match="column 'date' already"):
        check_names(other, [field("Date")])


@pytest.mark.parametrize("identified", [True, False])
def test_a_folder_goes_on_with_the_columns_that_it_was_begun_with(
    tmp_path: Path, identified: bool
) -> None:
    """With ``--no-proof`` or without; of ``drain``, which old versions had, also without."""
    plan = LandPlan("hub", "q", tmp_path, columns=("label", "body"), identified=identified)
    assert plan.going_on([]) is plan
    assert plan.going_on(["label", "body"]).kept == ("label", "body")
    assert plan.going_on([*IDENTITY, "label", "body"]).kept == (*IDENTITY, "label", "body")
    assert plan.going_on(["label"]) == plan


class Folder:
    """One folder, and plans that come to it one after another."""

    def __init__(self, to: Path) -> None:
        self.to = to

    def come(self, *fields: Field, **more: Any) -> None:
        plan = LandPlan("hub", "q", self.to, **{"body": "json", "schema": "x", **more})
        self.memory = LandMemory(plan)
        self.memory.prepare(fields if plan.body else None)

    def begin(self) -> None:
        """Spark plans its first batch, and it is landed."""
        offsets = self.memory.checkpoint / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").touch()
        self.memory.done(0, 1, 0)


def test_a_folder_keeps_its_plan_and_grows_by_columns(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t")
    assert began(folder.to) == []
    folder.come(ID)
    folder.begin()
    assert began(folder.to) == [*IDENTITY, "arrivedTime", "bodyCrc"]
    name = folder.memory.subscription
    folder.come(ID)
    folder.come(ID, PRICE, evolve=True)
    folder.come(ID, PRICE)
    assert folder.memory.subscription == name
    with pytest.raises(ConfigurationError, match="no column 'price' any more"):
        folder.come(ID)
    with pytest.raises(ConfigurationError, match="landed in with --format 'json', not ''"):
        folder.come(body="")
    with pytest.raises(ConfigurationError, match="landed in with the queues 'q', not 'r'"):
        LandMemory(LandPlan("hub", "r", folder.to, body="json")).prepare([ID, PRICE])


def test_a_schema_of_which_nothing_was_landed_is_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t")
    folder.come(ID, PRICE)
    folder.come(ID)
    folder.begin()
    with pytest.raises(ConfigurationError, match="--evolve"):
        folder.come(ID, PRICE)


def test_another_folder_is_another_query(tmp_path: Path) -> None:
    """Queries of one name would be told that another has read their queue already."""
    one, other = Folder(tmp_path / "one"), Folder(tmp_path / "other")
    one.come(ID)
    other.come(ID)
    assert one.memory.subscription != other.memory.subscription


def test_a_folder_that_was_drained_into_goes_on(tmp_path: Path) -> None:
    """Its plan was written by 0.2, and its checkpoint knows the name that the query had."""
    folder = Folder(tmp_path / "t")
    hidden = folder.to / "_onceq"
    (hidden / "checkpoint" / "offsets").mkdir(parents=True)
    (hidden / "checkpoint" / "offsets" / "4").touch()
    plan = {"format": 1, "queues": "q", "columns": ["body"], "by_date": False, "keep": False}
    (hidden / "plan.json").write_text(json.dumps(plan))
    (hidden / "done.json").write_text(json.dumps({"batch": 4, "total": 70}))
    folder.come(body="", columns=("body",))
    assert folder.memory.subscription == "onceq spark drain"
    assert (folder.memory.counts.batch, folder.memory.counts.total) == (4, 70)
    assert folder.memory.first


def test_a_batch_that_was_begun_ends_with_its_schema(tmp_path: Path) -> None:
    """By another one a row could stand in the table and in the error table."""
    folder = Folder(tmp_path / "t")
    folder.come(ID)
    offsets = folder.memory.checkpoint / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    with pytest.raises(ConfigurationError, match="batch 0 was begun with the schema as it was"):
        folder.come(ID, PRICE, evolve=True)
    folder.come(ID)
    folder.memory.done(0, 7, 1)
    folder.come(ID, PRICE, evolve=True)


def test_an_error_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t")
    (tmp_path / "t_errors").mkdir()
    (tmp_path / "t_errors" / "mine.txt").touch()
    with pytest.raises(ConfigurationError, match="t_errors has files already"):
        folder.come(ID)
