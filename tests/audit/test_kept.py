"""``onceq audit --proof``: day by day it says what an audit of everything says."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onceq.audit import command, proof
from onceq.audit import files as events
from onceq.audit.command import StageProgress, Wish
from onceq.audit.files import HistoryFile
from onceq.audit.proof import FORMAT, FORMER, LOCK, NAME
from onceq.errors import ConfigurationError, StoreLocked
from onceq.history.columns import Span
from tests.audit.corruptions import corrupt
from tests.audit.days import Days, cut, same
from tests.audit.histories import hostile, peopled
from tests.audit.planting import Plants


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return peopled(tmp_path_factory.mktemp("days") / "true")


def copy(place: Path, to: Path) -> Path:
    for file in place.glob("*/*"):
        (to / file.parent.name).mkdir(parents=True, exist_ok=True)
        (to / file.parent.name / file.name).write_bytes(file.read_bytes())
    return to


def live(days: Days, rng: random.Random) -> None:
    """Day by day to the end."""
    while any(days.left(name) for name in days.names):
        for name in days.names:
            files = rng.choice((0, 1, 2)) if days.taken.get(name) else 1
            days.arrive(name, files, forget=rng.random() < 0.5)
        same(days.audited(), days.at_once())


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.tier("rest")) for seed in range(1, 4))]
"""One of them in each quick run."""


@pytest.mark.parametrize("seed", SEEDS)
def test_true_histories_day_by_day(true: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    whole = copy(true, tmp_path / "whole")
    for folder in whole.iterdir():
        cut(folder, rng, 5)
    days = Days(whole, tmp_path / "here", tmp_path / "proof")
    live(days, rng)
    same(days.audited(), days.at_once())
    same(days.audited(settled=True), days.at_once(settled=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_faults_across_the_cuts(true: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    whole = copy(true, tmp_path / "whole")
    corrupt(whole)
    for folder in whole.iterdir():
        cut(folder, rng, 5)
    days = Days(whole, tmp_path / "here", tmp_path / "proof")
    live(days, rng)
    assert days.audited()["violations"] > 20


def test_a_history_whose_beginning_is_gone(true: Path, tmp_path: Path) -> None:
    """What is certain about a stream there depends on the first message that is told of."""
    whole = copy(true, tmp_path / "whole")
    for name in "AB":
        cut(whole / name, random.Random(1), 9)
    first, second, *_ = sorted((whole / "B").iterdir())
    first.unlink()
    second.unlink()
    days = Days(whole, tmp_path / "here", tmp_path / "proof")
    while any(days.left(name) for name in days.names):
        for name in days.names:
            days.arrive(name, 3 if name == "A" else 1, forget=False)
        same(days.audited(), days.at_once())
    assert any("its beginning is cut off" in note for note in days.audited()["notes"])


@pytest.mark.tier("rest")
@pytest.mark.parametrize("seed", [3, 6])
def test_hostile_worlds_day_by_day(tmp_path: Path, seed: int) -> None:
    """Crashes, repetitions and arrivals out of order, and what follows days later."""
    rng = random.Random(seed)
    whole = hostile(tmp_path / "whole", (seed,))
    for folder in whole.iterdir():
        cut(folder, rng, 6)
    live(Days(whole, tmp_path / "here", tmp_path / "proof"), rng)


# ---- what comes too late -------------------------------------------------------------------------

Late = Callable[[Plants], object]


def repeated(what: str, **more: Any) -> Late:
    """An event of message 5, which was judged the day before, once more."""

    def plant(plants: Plants) -> None:
        planter = plants.a if what in ("committed", "acknowledged") else plants.b
        planter.again(planter.find(what, **plants.mine(5)), **more)

    return plant


def told_again(plants: Plants) -> None:
    message = plants.message(5)
    plants.b.again(plants.b.find("told", message=message, className="ack-reach-queue"))


def another_at_its_place(plants: Plants) -> None:
    """A new message, where one stood that was received."""
    accepted = plants.b.find("accepted", **plants.mine(5))
    plants.b.again(accepted, stream=77, number=1, message=9_999)


LATE: Final[dict[str, tuple[Late, str]]] = {
    "received": (repeated("received"), "received-twice"),
    "under a new number": (repeated("accepted", number=900, lookupId=1 << 50), "number-missing"),
    "torn": (repeated("committed", stream=77, number=1, transaction=1), "torn-send"),
    "told": (told_again, "told-twice"),
    "at its place": (another_at_its_place, "place-shared"),
    "before all": (repeated("committed", number=0, message=9_999, lookupId=1),
                   "numbered-out-of-order"),
}  # fmt: skip
"""What a later file tells of messages that were judged, and what must be said of it."""


def two_days(true: Path, tmp_path: Path, plant: Late | None) -> Days:
    """Everything on the first day; on the second a file with what is planted, the first gone."""
    whole = copy(true, tmp_path / "whole")
    plants = Plants(whole)
    if plant is not None:
        plant(plants)
    for planter in (plants.a, plants.b, plants.c):
        end = planter.span.end
        planter.span = Span(1, 0, 1 << 41)
        planter.meta["to"] = 1 << 41
        planter.split(end)
        planter.save()
    days = Days(whole, tmp_path / "here", tmp_path / "proof")
    for name in days.names:
        days.arrive(name, 1, forget=False)
    assert not days.audited()["violations"]
    for name in days.names:
        days.arrive(name, 1, forget=True)
    return days


@pytest.mark.parametrize("name", LATE)
def test_what_is_told_later_of_messages_that_were_judged(
    true: Path, tmp_path: Path, name: str
) -> None:
    plant, fault = LATE[name]
    days = two_days(true, tmp_path, plant)
    found = days.audited()
    same(found, days.at_once())
    named = {one["fault"] for one in found["checked"] if one["violations"]}
    assert fault in named
    same(days.audited(), days.at_once())


def test_a_quiet_day_reads_what_is_new_alone(
    true: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = two_days(true, tmp_path, None)
    looked: list[str] = []

    def read(files: Sequence[HistoryFile]) -> Iterator[pa.Table]:
        looked.extend(one.path for one in files)
        return events.read(files)

    monkeypatch.setattr(proof, "read", read)
    same(days.audited(), days.at_once())
    assert sum(str(days.here) + os.sep in path for path in looked) == 3, "one new file of each"
    looked.clear()
    same(days.audited(), days.audited())
    assert not looked


# ---- a proof that does not belong ----------------------------------------------------------------


def refused(days: Days, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        days.audited()


def test_a_proof_of_other_managers_is_refused(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    for file in (days.here / "C").iterdir():
        file.unlink()
    refused(days, "is one of A, B, C, and these are histories of A, B")


def test_a_file_that_has_changed_is_refused(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    days.audited()
    (file,) = (days.here / "B").iterdir()
    table = pq.read_table(file)
    pq.write_table(table, file, compression="gzip")
    refused(days, f"{file.name} has changed since it was judged")


def test_a_part_that_was_missing_and_is_there_is_refused(true: Path, tmp_path: Path) -> None:
    whole = copy(true, tmp_path / "whole")
    cut(whole / "B", random.Random(1), 3)
    days = Days(whole, tmp_path / "here", tmp_path / "proof")
    for name in days.names:
        days.arrive(name, 9, forget=False)
    middle = sorted((days.here / "B").iterdir())[1]
    kept_aside = middle.read_bytes()
    middle.unlink()
    assert any("part(s) of it are missing" in note for note in days.audited()["notes"])
    middle.write_bytes(kept_aside)
    refused(days, f"{middle.name} is of a part that was missing when the rest was judged")


def test_a_proof_of_another_form_is_refused(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    with duckdb.connect(str(days.proof / NAME)) as connection:
        connection.execute(f"UPDATE proof SET format = {FORMAT + 1}")
    refused(days, "was written by a newer onceq")
    days.proof = tmp_path / "former"
    days.proof.mkdir()
    (days.proof / FORMER).write_text('{"format": 3}')
    refused(days, "in a form that is no more: begin another proof")


def test_a_damaged_proof_is_refused(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    whole = (days.proof / NAME).read_bytes()
    for part in (b"{}", whole[:5_000], bytes(100) + whole[100:]):
        (days.proof / NAME).write_bytes(part)
        refused(days, "is damaged, or no proof")
    (days.proof / NAME).write_bytes(whole)
    same(days.audited(), days.at_once())


HOLDER = """
import sys
from onceq.audit import proof
with proof.held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_audit_of_the_same_proof_is_told_who_has_it(true: Path, tmp_path: Path) -> None:
    """Also with a folder that is new; and a crash leaves nothing to clear away."""
    days = Days(true, tmp_path / "here", tmp_path / "proof")
    for name in days.names:
        days.arrive(name, 9, forget=False)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(days.proof)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreLocked, match=rf"process {holder.pid} goes on from the proof in "):
            days.audited()
        names = {path.name for path in days.proof.iterdir()}
        assert {LOCK, NAME} <= names <= {LOCK, NAME, f"{NAME}.wal"}
        holder.kill()
    same(days.audited(), days.at_once())


def test_a_proof_is_held_until_it_is_kept(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    stages = []

    def say(told: StageProgress) -> None:
        stages.append(told.stage)
        if told.stage != "done":
            with pytest.raises(StoreLocked), proof.held(str(days.proof)):
                pass

    command.run([str(days.here)], Wish(proof=str(days.proof)), say)
    assert f"keeping the proof in {days.proof}" in stages
    with proof.held(str(days.proof)) as kept_now:
        assert len(kept_now.managers) == 3


def test_a_folder_of_something_else_gets_no_lock(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"")
    days.proof = other
    refused(days, "is no proof, and not empty")
    days.proof = other / "cat.jpg" / "proof"
    refused(days, "the proof cannot be kept in .*: Not a directory")
    assert [path.name for path in other.iterdir()] == ["cat.jpg"]


@pytest.mark.parametrize("stage", ["following", "judging", "counting", "keeping"])
def test_an_audit_that_is_given_up_leaves_the_proof_before(
    true: Path, tmp_path: Path, stage: str
) -> None:
    days = two_days(true, tmp_path, None)

    def give_up(told: StageProgress) -> None:
        if told.stage.startswith(stage):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command.run([str(days.here)], Wish(proof=str(days.proof)), give_up)
    same(days.audited(), days.at_once())


KILLED = """
import os, sys
from onceq.audit import command, proof
proof.ends_of = lambda path: os._exit(9)
command.run([sys.argv[1]], command.Wish(proof=sys.argv[2]), lambda _: None)
"""


def test_a_kill_while_it_is_kept_leaves_the_one_before(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(days.here), str(days.proof)], check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert killed.returncode == 9
    same(days.audited(), days.at_once())
