"""Acts of administration in an audit: counted, all there, and named where they explain an end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from onceq.audit import command
from onceq.audit.acts import Acts
from onceq.audit.command import Wish
from onceq.audit.files import Coverage, FileNumbering, Told
from onceq.history.columns import ACT_COLUMNS, ADDED, META, Span
from onceq.model.marks import TRACE_BYTES
from tests.audit.administered import GONE, SLOW, administered
from tests.audit.days import Days, same
from tests.audit.histories import audited
from tests.audit.planting import Planter, Row
from tests.scratch import scratch


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "acts") as path:
        yield administered(path / "all")


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    shutil.copytree(lived, tmp_path / "here")
    return tmp_path / "here"


def faults(found: Row) -> dict[str, int]:
    return {one["fault"]: one["violations"] for one in found["checked"] if one["violations"]}


def test_who_did_what_is_counted_and_nothing_is_missing(lived: Path) -> None:
    found = json.loads(json.dumps(audited(lived)))
    assert found["verdict"].startswith("PROVEN: ")
    acts = found["acts"]
    assert (acts["count"], acts["refused"], acts["missing"], acts["added"]) == (8, 1, [], [])
    counts = {(one["manager"], one["actor"], one["action"]): (one["done"], one["refused"])
              for one in acts["by"]}  # fmt: skip
    assert counts == {
        ("A", "account:alice", "return"): (1, 0),
        ("B", "account:alice", "create queue"): (3, 0),
        ("B", "account:alice", "purge"): (1, 0),
        ("B", "account:bob", "delete queue"): (1, 0),
        ("B", "account:mallory", "purge"): (0, 1),
        ("B", "peer:gamma", "join"): (1, 0),
    }
    (no,) = acts["last_refused"]
    assert (no["actor"], no["action"], no["result"], no["address"]) == (
        "account:mallory", "purge", "access-denied", "local",
    )  # fmt: skip
    assert [one["act"] for one in acts["last"] if one["manager"] == "B"] == list(range(1, 8))
    (rule,) = [one for one in found["checked"] if one["fault"] == "act-missing"]
    assert (rule["invariant"], rule["looked_at"], rule["violations"]) == ("I28", 8, 0)


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("split", [False, True])
def test_an_act_that_was_removed_is_missed_wherever_it_stood(
    place: Path, number: int, split: bool
) -> None:
    b = Planter(place / "B")
    row = b.find("act", act=number)
    if split:  # a file of its own: then there is one that tells nothing
        later = [one["position"] for one in b.rows if one["position"] > row["position"]]
        b.split(row["position"], *([min(later)] if later else []))
    b.rows.remove(row)
    b.save()
    found = audited(place)
    assert faults(found) == {"act-missing": 1}
    assert found["acts"]["missing"] == [{"manager": "B", "first": number, "last": number}]
    assert found["verdict"] == "VIOLATED: 1 violation of I28"
    assert found["stories"] == []


def test_an_act_that_was_added_is_seen(place: Path) -> None:
    b = Planter(place / "B")
    b.again(b.find("act", act=7), act=8, actor="account:forged")
    b.again(b.find("act", act=3))
    b.save()
    found = audited(place)
    assert faults(found) == {"act-added": 2}
    assert [one["first"] for one in found["acts"]["added"]] == [3, 8]


def test_what_is_in_files_that_are_gone_is_not_missed(place: Path) -> None:
    """Nor what was done before the history began, or in files of before there were acts."""
    b = Planter(place / "B")
    at = [b.find("act", act=number)["position"] for number in (2, 4, 6)]
    b.split(*at)
    b.save()
    names = [span.name for span in b.spans]
    (place / "B" / names[0]).unlink()
    (place / "B" / names[2]).unlink()
    found = audited(place)
    assert "act-missing" not in faults(found)
    assert [one["act"] for one in found["acts"]["last"] if one["manager"] == "B"] == [2, 3, 6, 7]


def test_files_of_before_there_were_acts_tell_none(place: Path) -> None:
    for path in (place / "B").iterdir():
        table = pq.read_table(path)
        meta = json.loads(table.schema.metadata[META])
        del meta["acts"]
        old = table.filter(~pq.read_table(path)["event"].to_pandas().eq("act").to_numpy())
        old = old.drop_columns(list(ACT_COLUMNS)).replace_schema_metadata({META: json.dumps(meta)})
        pq.write_table(old, path)
    assert set(ACT_COLUMNS) <= ADDED
    found = audited(place)
    assert found["acts"]["count"] == 1
    assert found["violations"] == 0


def wronged(place: Path, queue: str) -> list[str]:
    """The stories of the messages of a queue of B, each of which has a fault planted."""
    b = Planter(place / "B")
    for row in b.rows:
        if row["event"] == "accepted" and row["queue"] == queue:
            row["bytes"] -= 40
    b.save()
    found = audited(place)
    assert set(faults(found)) == {"altered"}
    return [line for story in found["stories"] for line in story["rows"]]


def test_a_trace_that_was_cut_out_on_the_way_alters_nothing(place: Path) -> None:
    b = Planter(place / "B")
    for row in b.rows:
        if row["event"] == "accepted" and row["queue"] == SLOW:
            row["bytes"] -= TRACE_BYTES
    b.save()
    assert audited(place)["violations"] == 0


@pytest.mark.parametrize(
    ("queue", "messages", "end", "why"),
    [
        (SLOW, 2, "purged", "(act 4 of account:alice: purge ./PRIVATE$/slow)"),
        (GONE, 1, "deleted", r"(act 6 of account:bob: delete queue private$\gone)"),
    ],
)
def test_the_story_of_a_message_names_who_purged_it_or_deleted_its_queue(
    place: Path, queue: str, messages: int, end: str, why: str
) -> None:
    lines = [line for line in wronged(place, queue) if "(act " in line]
    assert len(lines) == messages, "nothing else of them was done by an operator"
    assert all(f" {end} " in line and line.endswith(why) for line in lines)


def test_the_story_of_a_dead_letter_that_went_home_names_who_returned_it(place: Path) -> None:
    a = Planter(place / "A")
    sent = [row for row in a.rows if row["event"] == "committed"]
    sent[-1]["bytes"] -= 40
    a.save()
    (story,) = audited(place)["stories"]
    (line,) = [line for line in story["rows"] if " committed " in line]
    assert line.endswith("(act 1 of account:alice: return 1 dead letter to "
                         "DIRECT=OS:B\\private$\\q)")  # fmt: skip


# ---- which act -----------------------------------------------------------------------------------


def act(number: int, at: int, action: str, about: str, **more: object) -> Told:
    values = {"actor": "account:a", "address": "", "result": "", "since": at, "at_us": 0, "life": 1}
    return Told(act=number, position=at, action=action, about=about, **(values | more))  # type: ignore[arg-type]


def acts_of(*told: Told, lives: int = 1) -> Callable[[str, int, str], str]:
    one = Coverage("A", "a", "", 0, 900, 0, lives=lives, acts=list(told))

    def why(event: str, position: int, queue: str) -> str:
        row = {"manager_id": "a", "event": event, "position": position, "queue": queue,
               "observed": False}  # fmt: skip
        return Acts([one]).why(row).partition(" of ")[0]

    return why


def test_a_long_purge_goes_on_behind_its_act() -> None:
    why = acts_of(
        act(1, 100, "purge", r"DIRECT=OS:a\private$\Q", since=90),
        act(2, 200, "purge", r"private$\other"),
        act(3, 300, "purge", r".\private$\q", result="access-denied"),
        act(4, 400, "delete queue", r"private$\q"),
    )
    assert why("purged", 90, r"private$\q") == "act 1", "at once"
    assert why("purged", 89, r"private$\q") == "", "before it"
    assert why("purged", 350, r"private$\q") == "act 1", "refused ones do nothing"
    assert why("purged", 350, r"private$\none") == ""
    assert why("received", 350, r"private$\q") == ""
    assert why("deleted", 500, r"private$\q") == "act 4"
    assert acts_of(act(1, 100, "purge", "q", since=90), lives=2)("purged", 95, "q") == ""


# ---- numbers -------------------------------------------------------------------------------------


def taken(*files: tuple[int, int, int, list[int]], life: int = 1) -> FileNumbering:
    numbering = FileNumbering()
    for start, end, to, numbers in files:
        numbering.take(Span(life, start, end), to, numbers)
    return numbering


@pytest.mark.parametrize(
    ("files", "missing", "added"),
    [
        ([(0, 10, 2, [1, 2]), (10, 20, 2, []), (20, 30, 3, [3])], [], []),
        ([(0, 10, 2, [2])], [[1, 1]], []),
        ([(0, 10, 3, [1])], [[2, 3]], []),
        ([(0, 10, 5, [1, 4, 5])], [[2, 3]], []),
        ([(0, 10, 2, [1, 2]), (10, 20, 4, [4])], [[3, 3]], []),
        ([(0, 10, 2, [1, 2]), (10, 10, 2, []), (10, 20, 3, [])], [[3, 3]], []),
        ([(5, 10, 7, [7]), (10, 20, 8, [8])], [], []),
        ([(5, 10, 7, [5, 7])], [[6, 6]], []),
        ([(5, 10, 7, [6])], [[7, 7]], []),
        ([(0, 10, 1, [1]), (15, 20, 9, [9])], [], []),
        ([(0, 10, -1, []), (10, 20, 9, [9])], [], []),
        ([(0, 10, 2, [1, 1, 2])], [], [[1, 1]]),
        ([(0, 10, 2, [1, 2, 3])], [], [[3, 3]]),
        ([(0, 10, 2, [1, 2]), (10, 20, 2, [2])], [], [[2, 2]]),
    ],
)
def test_numbers_rise_by_one(
    files: list[tuple[int, int, int, list[int]]], missing: list[list[int]], added: list[list[int]]
) -> None:
    found = taken(*files)
    assert (found.missing, found.added) == (missing, added)


def test_after_a_restored_backup_they_begin_again_at_those_of_the_backup() -> None:
    numbering = taken((0, 10, 9, [1, 2, 3, 4, 5, 6, 7, 8, 9]))
    numbering.take(Span(2, 4, 20), 6, [5, 6])
    assert (numbering.missing, numbering.added) == ([], [])
    numbering.take(Span(2, 20, 30), 8, [8])
    assert numbering.missing == [[7, 7]]


# ---- proofs and reports --------------------------------------------------------------------------


def test_a_proof_keeps_them_when_their_files_are_gone(lived: Path, tmp_path: Path) -> None:
    days = Days(lived, tmp_path / "here", tmp_path / "proof")
    while any(days.left(name) for name in days.names):
        for name in days.names:
            days.arrive(name, 2, forget=True)
        same(days.audited(), days.at_once())
    found = days.audited()
    assert found["acts"]["count"] == 8
    assert found["verdict"].startswith("PROVEN")


def test_a_proof_goes_on_to_tell_that_one_is_missing(place: Path, tmp_path: Path) -> None:
    b = Planter(place / "B")
    row = b.find("act", act=2)
    later = sorted({one["position"] for one in b.rows if one["position"] > row["position"]})
    b.rows.remove(row)
    b.split(later[0], later[3])
    b.save()
    days = Days(place, tmp_path / "there", tmp_path / "proof")
    days.arrive("A", 100, forget=False)
    while days.left("B"):
        days.arrive("B", 1, forget=True)
        found = days.audited()
        same(found, days.at_once())
        assert faults(found) == {"act-missing": 1}


def test_the_report_shows_them(place: Path, tmp_path: Path) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not installed: pip install onceq[audit]"
    )
    b = Planter(place / "B")
    b.rows.remove(b.find("act", act=2))
    b.find("act", act=4)["about"] = "<script>"
    b.save()
    html = tmp_path / "x.html"
    command.run([str(place)], Wish(html=str(html)), lambda _: None)
    page = unescape(html.read_text().split("<h2>Who did what</h2>")[1].split("</section>")[0])
    assert "B: acts 2 are not told, though the history around them is whole" in page
    assert "The last that were refused" in page
    assert "account:mallory" in page
    assert "<script>" not in html.read_text()
