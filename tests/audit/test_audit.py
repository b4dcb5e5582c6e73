"""``onceq audit`` on true histories, and on the same ones with faults planted by hand.

Each planted fault has a message of its own, so one audit must find all of them, name each, and
say nothing of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onceq.audit import command, files
from onceq.audit.command import StageProgress, Wish
from onceq.errors import ConfigurationError
from onceq.history.columns import Span
from tests.audit.histories import MESSAGES, audited, hostile, peopled
from tests.audit.planting import Plants, Row, bury, copy_of
from tests.scratch import scratch


def plant(path: Path) -> dict[tuple[str, str], str]:
    """Change the histories; what must be found, and for which copy."""
    plants = Plants(path)
    plant_ways(plants)
    plant_ends(plants)
    plant_letters(plants)
    plants.save()
    return plants.expected


def plant_ways(plants: Plants) -> None:
    """What goes wrong on the way: twice, never, in the wrong order, from nowhere."""
    a, b, mine, of = plants.a, plants.b, plants.mine, plants.of
    b.again(b.find("accepted", **mine(2)))
    of(2, "I4", "accepted-twice")
    b.again(b.find("received", **mine(4)))
    of(4, "I4", "received-twice")
    b.drop("accepted", "received", **mine(6))
    plants.mute(6)
    of(6, "I10", "released-unaccepted")
    a.drop("acknowledged", "confirmed", **mine(8))
    b.drop("accepted", "received", **mine(8))
    plants.mute(8)
    of(8, "I6", "gap")
    one, other = b.find("accepted", **mine(10)), b.find("accepted", **mine(11))
    for name in ("position", "ordinal"):
        one[name], other[name] = other[name], one[name]
    of(10, "I5", "out-of-order")
    a.drop("committed", **mine(18))
    of(18, "I3", "phantom")
    b.find("accepted", **mine(20))["message"] = 7_777
    b.find("received", **mine(20))["message"] = 7_777
    plants.mute(20)
    of(20, "I7", "number-reused")
    b.drop("accepted", **mine(26))
    plants.mute(26)
    of(26, "I3", "from-nowhere")


def plant_ends(plants: Plants) -> None:
    """Ends that do not go together, and acknowledgments that are not true."""
    a, b, mine, of = plants.a, plants.b, plants.mine, plants.of
    b.again(b.find("received", **mine(14)), event="expired", className=None)
    b.again(b.find("received", **mine(14)), event="purged")
    b.drop("received", **mine(14))
    plants.mute(14, 0x4000)
    a.drop("confirmed", **mine(14))
    of(14, "I11", "two-ends")
    out = a.find("acknowledged", **mine(16))
    a.drop("confirmed", **mine(16))
    a.again(out, event="not-delivered", **{"class": 0x8002, "className": "planted"})
    bury(a, out, 1_000)
    of(16, "I11", "accepted-after-not-delivered")
    b.again(b.find("accepted", **mine(22)), event="refused", kind=None, queue=None, place=None,
            lookupId=None, **{"class": 0x8003})  # fmt: skip
    of(22, "I11", "accepted-and-refused")
    b.again(
        b.find("told", message=plants.message(24), className="ack-reach-queue"), **{"class": 0x8003}
    )
    of(24, "I13", "contradiction")
    b.drop("received", **mine(28))
    of(28, "I13", "untrue-receive")


def plant_letters(plants: Plants) -> None:
    """Dead letters and journal copies that are missing, there twice, or for no reason."""
    a, b = plants.a, plants.b
    bury(a, a.find("acknowledged", **plants.mine(30)), 2_000)
    plants.of(30, "I12", "dead-letter-unfounded")
    letters = [r for r in a.rows if r["event"] == "dead-lettered"]
    late, later = (r for r in letters if r["className"] == "nack-reach-queue-timeout")
    a.rows.remove(late)
    plants.expected["I12", "dead-letter-missing"] = copy_of(late)
    a.again(later, lookupId=later["lookupId"] + 500)
    plants.expected["I12", "dead-letter-twice"] = copy_of(later)
    journal = next(r for r in b.rows if r["event"] == "journaled")
    b.again(journal, lookupId=journal["lookupId"] + 500)
    plants.expected["I14", "journal-twice"] = copy_of(journal)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "audit") as path:
        peopled(path / "true")
        yield path


@pytest.fixture(scope="module")
def heard() -> list[StageProgress]:
    """What the audit of the true histories has told of its stages."""
    return []


@pytest.fixture(scope="module")
def clean(place: Path, heard: list[StageProgress]) -> Row:
    """What it says of them."""
    wish = Wish(html=str(place / "clean.html"), to=str(place / "tables"), stuck_s=100)
    return command.run([str(place / "true")], wish, heard.append)


@pytest.mark.tier("rest")
def test_its_stages_are_told(clean: Row, heard: list[StageProgress], place: Path) -> None:
    names = [told.stage for told in heard]
    assert names[0].startswith("reading ")
    assert names[0].endswith(" MiB of 3 queue managers")
    assert names[1].startswith("following messages through ")
    assert names[2:] == [
        f"judging {clean['messages']} messages and their streams",
        "counting ends, latencies, resends and stuck streams",
        f"writing tables into {place / 'tables'}",
        f"writing the report {place / 'clean.html'}",
        "done",
    ]
    assert [told.seconds for told in heard] == sorted(told.seconds for told in heard)


def test_true_histories_are_clean(clean: Row) -> None:
    assert clean["violations"] == 0, clean["stories"]
    assert clean["verdict"].startswith("PROVEN")
    assert clean["states"] == {
        "received by an application": MESSAGES + 3 + 2 + 1,
        "on its way": 1,
        "expired in its queue": 1,
        "purged from its queue by an operator": 2,
        "refused by the receiver, told to the sender": 1,
        "not delivered, told to the sender": 2,
    }


def test_latencies_stuck_streams_and_routes_are_told(clean: Row) -> None:
    routes = {(r["route"], r["from"]): r for r in clean["latencies"]}
    way = routes[r"A → B\private$\q", "commit"]
    assert way["messages"] == MESSAGES
    assert 0 <= way["p50_s"] <= way["p99_s"] <= way["max_s"]
    (stuck,) = clean["stuck"]
    assert (stuck["messages"], stuck["route"]) == (1, r"A → B\private$\q")
    assert stuck["waits_s"] > 100
    assert [m["manager"] for m in clean["managers"]] == ["A", "B", "C"]


def test_the_tables_are_parquet(clean: Row, place: Path) -> None:
    assert clean["written"] == [str(place / "tables"), str(place / "clean.html")]
    messages = pq.read_table(place / "tables" / "messages")
    assert messages.num_rows == clean["messages"]
    assert pq.read_table(place / "tables" / "violations").num_rows == 0
    assert sum(pq.read_table(place / "tables" / "traffic")["messages"].to_pylist()) > 2 * MESSAGES


def test_each_planted_fault_is_found_and_named(place: Path) -> None:
    path = peopled(place / "planted")
    expected = plant(path)
    found = audited(path)
    named = {
        (fault["invariant"], fault["fault"]): story["title"]
        for story in found["stories"] for fault in story["faults"]
    }  # fmt: skip
    missing = set(expected) - set(named)
    assert not missing, (missing, set(named))
    for fault, copy in expected.items():
        _, stream, number = copy.split("/")
        assert f"of A, number {number} of stream {stream} " in named[fault], fault
    accused = {tuple(re.findall(r"number (\d+) of stream (\d+)", s["title"])[0])
               for s in found["stories"]}  # fmt: skip
    meant = {(copy.split("/")[2], copy.split("/")[1]) for copy in expected.values()}
    assert accused == meant, "only what was planted is accused"
    assert all(story["rows"] for story in found["stories"]), "a story has lines"


def without_oldest(path: Path) -> Path:
    """Managers whose oldest files have gone."""
    for folder in path.iterdir():
        known = sorted(folder.iterdir())
        for file in known[: len(known) // 2]:
            file.unlink()
    return path


def without_receiver(path: Path, name: str) -> Path:
    """A manager whose history nobody has."""
    for file in (path / name).iterdir():
        file.unlink()
    return path


@pytest.mark.tier("rest")
def test_crashes_and_histories_that_are_cut_off_or_missing_are_no_violation(
    tmp_path: Path,
) -> None:
    paths = [
        without_oldest(peopled(tmp_path / "cut", "CUT1", "CUT2", "CUT3")),
        without_receiver(peopled(tmp_path / "alone", "ONE1", "ONE2", "ONE3"), "ONE2"),
        hostile(tmp_path / "hostile", (3, 6)),
    ]
    found = audited(*paths, settled=True)
    assert found["violations"] == 0, found["stories"]
    assert found["messages"] > 600
    assert "CUT2: its beginning is cut off" in " ".join(found["notes"])
    assert any("no history of the receiver of DIRECT=OS:ONE2" in note for note in found["notes"])
    assert "as far as the histories tell" in found["verdict"]


def test_what_is_no_history_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no history in"):
        files.find([str(tmp_path)])
    with pytest.raises(ConfigurationError, match="there is no folder"):
        files.find([str(tmp_path / "none")])
    (tmp_path / "a.parquet").touch()
    with pytest.raises(ConfigurationError, match="is a file, and histories are folders"):
        files.find([str(tmp_path / "a.parquet")])
    fake = tmp_path / Span(1, 0, 8).name
    pq.write_table(pa.table({"x": [1]}), fake)
    with pytest.raises(ConfigurationError, match="no file of a history"):
        files.find([str(tmp_path)])
    fake.write_bytes(b"nothing")
    with pytest.raises(ConfigurationError, match="no Parquet file"):
        files.find([str(tmp_path)])
    with pytest.raises(ConfigurationError, match="both histories of A"):
        files.find([str(place / "true" / "A"), str(place / "true" / "*"), str(other(place))])


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_file_that_is_not_whole_is_refused(place: Path, tmp_path: Path, share: float) -> None:
    """Also in the middle of a history, where an empty one could be taken for none: all that it
    told would count as lost."""
    for file in sorted((place / "true" / "A").iterdir()):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    middle = sorted(tmp_path.iterdir())[1]
    assert len(list(tmp_path.iterdir())) > 2
    middle.write_bytes(middle.read_bytes()[: int(middle.stat().st_size * share)])
    with pytest.raises(ConfigurationError, match="only half of one") as refused:
        files.find([str(tmp_path)])
    assert str(middle) in refused.value.text
    middle.unlink()
    (one,) = files.find([str(tmp_path)])
    assert one.gaps, "it is a part that is missing, which the audit knows"


def copied(place: Path, to: Path) -> list[Path]:
    """The history of the receiver, file by file."""
    to.mkdir()
    for file in sorted((place / "true" / "B").iterdir()):
        (to / file.name).write_bytes(file.read_bytes())
    return sorted(to.iterdir())


@pytest.mark.tier("rest")
def test_bytes_that_changed_inside_a_file_change_no_finding(place: Path, tmp_path: Path) -> None:
    """Pages have checksums: what is read is refused, and what is not read decides nothing."""
    largest = max(copied(place, tmp_path / "B"), key=lambda file: file.stat().st_size)
    told = without_place(audited(tmp_path))
    whole, named = largest.read_bytes(), 0
    for at in range(8, len(whole) - 2_000, 97):
        changed = bytes(byte ^ 0x40 for byte in whole[at : at + 8])
        largest.write_bytes(whole[:at] + changed + whole[at + 8 :])
        try:
            found = audited(tmp_path)
        except ConfigurationError as error:
            named += str(largest) in error.text
        else:
            assert without_place(found) == told, at
    assert named > 10


def without_place(found: Row) -> Row:
    return {name: value for name, value in found.items() if name != "made"}


def test_a_file_under_the_name_of_another_part_is_refused(place: Path, tmp_path: Path) -> None:
    first, second, *_ = copied(place, tmp_path / "B")
    second.write_bytes(first.read_bytes())
    with pytest.raises(ConfigurationError, match="written as another part") as refused:
        audited(tmp_path)
    assert second.name in refused.value.text


def test_what_came_into_a_queue_before_a_part_that_is_missing_is_told(
    place: Path, tmp_path: Path
) -> None:
    """Nobody knows what became of it: it is not called waiting."""
    found = audited(place / "true")
    for file in copied(place, tmp_path / "B"):
        rows = pq.read_table(file, columns=["event"])["event"].to_pylist()
        if "received" in rows:
            file.unlink()
            break
    peer = tmp_path / "A"
    peer.symlink_to(place / "true" / "A")
    limited = audited(tmp_path)
    assert limited["violations"] == 0, limited["stories"]
    untold = limited["states"][
        "arrived; what came then is in a part of the history that is missing"
    ]
    before = found["states"]["received by an application"]
    assert untold > 0
    assert limited["states"]["received by an application"] + untold >= before - 3
    assert "waiting in its queue" not in limited["states"]
    assert "as far as the histories tell" in limited["verdict"]


def test_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> list[Span]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(files, "_spans", refuse)
    with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
        files.find([str(tmp_path)])


def other(place: Path) -> Path:
    """A copy of one history."""
    copy = place / "copy"
    copy.mkdir(exist_ok=True)
    for file in (place / "true" / "A").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy
