"""``onceq audit --proof``: day by day it says what an audit of everything says."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pyarrow.parquet as pq
import pytest

from onceq.audit import command, kept, proof
from onceq.audit.command import Wish
from onceq.audit.copies import Copies
from onceq.audit.events import Events
from onceq.audit.judge import Verdicts, judge
from onceq.audit.landed import Landed
from onceq.audit.progress import StageProgress
from onceq.audit.proof import FORMAT, LOCK, NAME
from onceq.errors import ConfigurationError, StoreLocked
from onceq.history.columns import Span
from onceq.testing.disk import PowerCut
from tests.audit.corruptions import corrupt
from tests.audit.days import Days, cut, same
from tests.audit.histories import hostile, peopled
from tests.audit.planting import Plants, bury


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is finished is put aside at once, so that more comes back than ever would."""
    monkeypatch.setattr(kept, "MARGIN_US", 0)


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return peopled(tmp_path_factory.mktemp("days") / "true")


def copy(place: Path, to: Path) -> Path:
    for file in place.glob("*/*"):
        (to / file.parent.name).mkdir(parents=True, exist_ok=True)
        (to / file.parent.name / file.name).write_bytes(file.read_bytes())
    return to


def live(days: Days, rng: random.Random) -> list[int]:
    """Day by day to the end; how many rows were in hand each day."""
    in_hand = []
    while any(days.left(name) for name in days.names):
        for name in days.names:
            files = rng.choice((0, 1, 2)) if days.taken.get(name) else 1
            days.arrive(name, files, forget=rng.random() < 0.5)
        same(days.audited(), days.at_once())
        in_hand.append(sum(1 for _ in days.proof.glob("g*-closed-*")))
    return in_hand


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.tier("rest")) for seed in range(1, 4))]
"""One of them in each quick run."""


@pytest.mark.parametrize("seed", SEEDS)
def test_true_histories_day_by_day(true: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    whole = copy(true, tmp_path / "whole")
    for folder in whole.iterdir():
        cut(folder, rng, 5)
    days = Days(whole, tmp_path / "here", tmp_path / "proof")
    assert max(live(days, rng)) >= 1, "something was put aside"
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
    found = []
    while any(days.left(name) for name in days.names):
        for name in days.names:
            days.arrive(name, 3 if name == "A" else 1, forget=False)
        same(days.audited(), days.at_once())
        found.append(len(list(days.proof.glob("g*-closed-*"))))
    assert found[-1] > found[0] >= 0, found


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
    """An event of message 5, which was finished and put aside, once more."""

    def plant(plants: Plants) -> None:
        planter = plants.a if what in ("committed", "acknowledged") else plants.b
        planter.again(planter.find(what, **plants.mine(5)), **more)

    return plant


def told_again(plants: Plants) -> None:
    message = plants.message(5)
    plants.b.again(plants.b.find("told", message=message, className="ack-reach-queue"))


def buried(plants: Plants) -> None:
    bury(plants.a, plants.a.find("acknowledged", **plants.mine(5)), 3_000)


def another_at_its_place(plants: Plants) -> None:
    """A new message, where one stood that was received."""
    accepted = plants.b.find("accepted", **plants.mine(5))
    plants.b.again(accepted, stream=77, number=1, message=9_999)


LATE: Final[dict[str, tuple[Late, str]]] = {
    "received": (repeated("received"), "received-twice"),
    "accepted": (repeated("accepted"), "accepted-twice"),
    "elsewhere": (repeated("accepted", place=900, queue=r"private$\slow"), "accepted-twice"),
    "under a new number": (repeated("accepted", number=900, lookupId=1 << 50), "number-missing"),
    "expired": (repeated("received", event="expired"), "two-ends"),
    "released": (repeated("acknowledged"), "released-twice"),
    "committed": (repeated("committed", message=9_999), "number-reused"),
    "torn": (repeated("committed", stream=77, number=1, transaction=1), "torn-send"),
    "refused": (repeated("accepted", event="refused", kind=None, queue=None, place=None,
                         lookupId=None), "accepted-and-refused"),
    "told": (told_again, "told-twice"),
    "buried": (buried, "dead-letter-unfounded"),
    "at its place": (another_at_its_place, "place-shared"),
    "before all": (repeated("committed", number=0, message=9_999, lookupId=1),
                   "numbered-out-of-order"),
}  # fmt: skip
"""What a later file tells of messages that were put aside, and what must be said of it."""


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
def test_what_is_told_later_of_messages_that_were_put_aside(
    true: Path, tmp_path: Path, name: str
) -> None:
    plant, fault = LATE[name]
    days = two_days(true, tmp_path, plant)
    found = days.audited()
    same(found, days.at_once())
    named = {one["fault"] for one in found["checked"] if one["violations"]}
    assert fault in named
    same(days.audited(), days.at_once())


def test_a_quiet_day_reads_what_goes_on_alone(
    true: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = two_days(true, tmp_path, None)
    looked: list[int] = []

    def judged(events: Events, copies: Copies, *, settled: bool) -> list[Verdicts]:
        looked.append(len(events))
        return judge(events, copies, settled=settled)

    monkeypatch.setattr(kept, "judge", judged)
    found = days.audited()
    same(found, days.at_once())
    assert looked
    assert max(looked) < found["events"] / 3


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


def test_a_proof_of_the_first_format_goes_on(true: Path, tmp_path: Path) -> None:
    """It kept the longest times to three digits, and less of what is summed now."""
    days = two_days(true, tmp_path, None)
    name = days.proof / NAME
    plain = json.loads(name.read_text())
    assert plain["format"] == FORMAT
    base = plain["base"]
    plain["format"], base["messages"] = 1, sum(base["states"].values())
    base["took"] = [row[:5] for row in base["took"]]
    for added in ("late", "traffic_s", "untold", "blind"):
        del base[added]
    name.write_text(json.dumps(plain))
    found, whole = days.audited(), days.at_once()
    for one, other in zip(found["latencies"], whole["latencies"], strict=True):
        for percentile in ("p50_s", "p90_s", "p99_s", "max_s"):
            assert one.pop(percentile) == pytest.approx(other.pop(percentile), rel=0.005)
    same(found, whole)
    assert json.loads(name.read_text())["format"] == FORMAT


@pytest.mark.parametrize("kind", ["", "proof", "landed"])
def test_more_than_fits_is_refused_with_what_to_do(
    true: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    limit = "AUDIT_PROOF_EVENTS_MAX" if kind == "proof" else "AUDIT_EVENTS_MAX"
    monkeypatch.setattr(command, limit, 10)
    wish, words = {
        "": (Wish(), "use onceq spark audit, or fewer managers at a time"),
        "proof": (Wish(proof=str(tmp_path / "proof")), "the oldest first, .* the same --proof"),
        "landed": (Wish(landed=(cast("Landed", object()),)), "judges no landed table: name only"),
    }[kind]
    with pytest.raises(ConfigurationError, match=f"events, and 10 fit into memory.*{words}"):
        command.run([str(true)], wish, lambda _: None)
    assert not (tmp_path / "proof" / NAME).exists()


@pytest.mark.parametrize("part", ["open-01", "past"])
def test_a_proof_that_lacks_a_file_is_refused(true: Path, tmp_path: Path, part: str) -> None:
    days = two_days(true, tmp_path, None)
    next(days.proof.glob(f"g*-{part}*")).unlink()
    refused(days, "of the proof is gone or damaged")


def test_what_is_no_proof_is_refused(true: Path, tmp_path: Path) -> None:
    days = two_days(true, tmp_path, None)
    name = days.proof / NAME
    name.write_text("{}")
    refused(days, "cannot be read")
    name.write_text('{"format": 99}')
    refused(days, "newer onceq")
    name.unlink()
    refused(days, "is no proof, and not empty")


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
        assert [path.name for path in days.proof.iterdir()] == [LOCK]
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
        assert set(kept_now.managers)


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


def test_a_crash_while_it_is_written_leaves_the_one_before(
    true: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each step of the writing in turn; what was begun is removed by the next."""
    days = two_days(true, tmp_path, None)
    synced, died = proof._sync, 0
    for step in range(100):
        left = iter(range(step))

        def sync(path: Path, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise PowerCut
            synced(path)

        before = copy_of(days.proof)
        monkeypatch.setattr(proof, "_sync", sync)
        try:
            days.audited()
        except PowerCut:
            died += 1
            assert (days.proof / NAME).read_bytes() in (before[NAME], *new(days, before))
        else:
            break
    monkeypatch.setattr(proof, "_sync", synced)
    assert died > 4
    same(days.audited(), days.at_once())
    named = (days.proof / NAME).read_text()
    assert all(path.name in named for path in days.proof.glob("g*"))


def copy_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def new(days: Days, before: dict[str, bytes]) -> list[bytes]:
    """The new one, if all of its files are there."""
    text = (days.proof / NAME).read_bytes()
    return [text] if text != before[NAME] and proof.read(str(days.proof)).rows([]) is None else []
