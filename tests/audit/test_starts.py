"""Restarts in an audit: found in the histories, kept by a proof, shown in the report."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from onceq.audit import command, report
from onceq.audit.command import Wish
from onceq.audit.report import Mark
from onceq.history.columns import META
from tests.audit.days import Days, same
from tests.audit.histories import LOCAL, Q, audited
from tests.audit.planting import Row
from tests.conformance.clocks import START_S
from tests.history.worlds import Kept, save

SECOND_US = 1_000_000
Told = dict[str, list[tuple[int, bool | None]]]
"""Time of each start, and how the life before had ended."""


def restarted(path: Path) -> tuple[Path, Told]:
    """Two managers, one of which is killed and stopped again and again; and their starts."""
    world = Kept("A", "B")
    a, b = world["A"], world["B"]
    now = START_S * SECOND_US + world.now_us
    told: Told = {"A": [(now, None)], "B": [(now, None)]}
    b.create("q")
    for at in range(8):
        a.once(Q, b"%d" % at)
        world.run(20)
        b.receive(LOCAL)
        world.run(20)
        if at in (1, 4, 6):
            if at == 4:
                b.running.stop()
                b._die()
            else:
                b.kill()
            world.run(3)
            told["B"].append((START_S * SECOND_US + world.now_us, at == 4))
            b.start()
    world.run(400)
    for name in "AB":
        save(world.told(name), path / name)
    return path, told


@pytest.fixture(scope="module")
def lived(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Told]:
    return restarted(tmp_path_factory.mktemp("starts") / "all")


def found_in(findings: Row) -> Told:
    return {one["manager"]: [(start["at_us"], start["orderly"]) for start in one["starts"]]
            for one in findings["managers"]}  # fmt: skip


def test_the_findings_tell_each_start(
    lived: tuple[Path, Told],
) -> None:
    path, told = lived
    findings = json.loads(json.dumps(audited(path)))
    assert found_in(findings) == told
    assert [[start["again"] for start in one["starts"]] for one in findings["managers"]] == [
        [False], [False, True, True, True]
    ]  # fmt: skip
    assert {one["files_without_starts"] for one in findings["managers"]} == {0}
    assert findings["verdict"].startswith("PROVEN: "), "a restart limits nothing"


def test_the_report_shows_them(lived: tuple[Path, Told], tmp_path: Path) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not installed: pip install onceq[audit]"
    )
    path, _ = lived
    command.run([str(path)], Wish(html=str(tmp_path / "x.html")), lambda _: None)
    page = (tmp_path / "x.html").read_text()
    assert '<div class="tile"><b>3</b><span>restarts</span></div>' in page
    section = page.split("<h2>Traffic by route</h2>")[1].split("</section>")[0]
    pictures = re.findall(r"<svg.*?</svg>", section, re.S)
    assert len(pictures) >= 6, "three events, wide and narrow"
    for picture in pictures:
        names = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
        assert [name for name in names if name in ("A", "B")] == ["B"] * 3, names
        assert picture.count("stroke: #c94f5c; stroke-width: 0.9") == 2, "after a kill"
    assert "started after it was killed, or had failed" in section
    starts = unescape(page.split("<h3>Starts</h3>")[1].split("</table>")[0])
    ends = re.findall(r"<td>(none|ended in order|killed, or failed|not known)</td>", starts)
    assert ends == ["none", "none", "killed, or failed", "ended in order", "killed, or failed"]


def test_files_of_earlier_versions_do_not_tell_them_and_the_report_says_so(
    lived: tuple[Path, Told], tmp_path: Path
) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not installed: pip install onceq[audit]"
    )
    path, told = lived
    here = tmp_path / "old"
    for name in "AB":
        (here / name).mkdir(parents=True)
        files = sorted((path / name).iterdir())
        for at, file in enumerate(files):
            table = pq.read_table(file)
            meta = json.loads(table.schema.metadata[META])
            if name == "A" or at < len(files) // 2:
                del meta["starts"]
            table = table.replace_schema_metadata({META: json.dumps(meta)})
            pq.write_table(table, here / name / file.name)
    html = tmp_path / "x.html"
    findings = command.run([str(here)], Wish(html=str(html)), lambda _: None)
    assert found_in(findings)["A"] == []
    assert 0 < len(found_in(findings)["B"]) < len(told["B"])
    assert all(one["files_without_starts"] for one in findings["managers"])
    page = html.read_text()
    assert re.search(r"<b>\d\+</b><span>restarts</span>", page)
    assert '<td class="n">not told</td>' in page
    assert re.search(r'<td class="n">\d\+</td>', page)


def test_a_proof_keeps_them_when_their_files_are_gone(
    lived: tuple[Path, Told], tmp_path: Path
) -> None:
    path, told = lived
    days = Days(path, tmp_path / "here", tmp_path / "proof")
    seen = []
    while any(days.left(name) for name in days.names):
        for name in days.names:
            days.arrive(name, 4, forget=True)
        found = days.audited()
        same(found, days.at_once())
        seen.append(len(found_in(found)["B"]))
    assert seen[0] < seen[-1] == len(told["B"])
    assert found_in(days.audited()) == told
    for name in days.names:
        days.taken[name] = 0
        days.arrive(name, 100, forget=False)
    assert found_in(days.audited()) == told, "files that are back are not counted again"


# ---- pictures ------------------------------------------------------------------------------------


def points(*routes: str) -> list[dict[str, object]]:
    return [
        {"route": route, "event": "committed", "second": 15 * step, "messages": 40 + step % 7}
        for route in routes for step in range(40)
    ]  # fmt: skip


def test_four_equal_routes_are_four_lines_in_turn() -> None:
    plots_of = report.traffic(points("A", "B", "C", "D"), "committed", narrow=False)
    lines = re.findall(
        r'<path d="[^"]*"[^>]*style="([^"]*stroke: (?:#2f6fde|#e0862f|#2f9e62|#a24fc4)[^"]*)"',
        plots_of,
    )
    broken = [re.search(r"dasharray: ([\d.]+),([\d.]+); stroke-dashoffset: ([\d.]+)", one)
              for one in lines]  # fmt: skip
    assert broken[0] is None
    parts = [tuple(float(part) for part in one.groups()) for one in broken[1:] if one is not None]
    assert len(parts) == 3
    on, off, _ = parts[0]
    assert off == pytest.approx(3 * on)
    offsets = [offset for *_, offset in parts]
    assert offsets == pytest.approx([3 * on, 2 * on, on]), "no two are there at one place"


def test_starts_close_to_each_other_have_one_text() -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not installed: pip install onceq[audit]"
    )
    marks = [Mark(100.0, "$A_1$", None), Mark(101.0, "B<", False), Mark(101.5, "B<", False),
             Mark(400.0, "C", True)]  # fmt: skip
    drawn = report.traffic(points("A"), "committed", narrow=False, marks=marks)
    names = [unescape(one) for one in re.findall(r"<text[^>]*>([^<]*)</text>", drawn)]
    assert [name for name in names if name[0] in "$BC"] == ["$A_1$, B<", "C"]
    assert drawn.count("stroke-width: 0.9") >= 4, "each has its line"


def test_a_picture_of_latencies_names_routes_and_times() -> None:
    row = {"route": r"A → B\private$\q_1$", "from": "commit", "to": "acceptance", "messages": 3,
           "p50_s": 6.0, "p90_s": 7.0, "p99_s": 8.0, "max_s": 9.5}  # fmt: skip
    for narrow in (False, True):
        drawn = report.latency([row], narrow=narrow)
        texts = [unescape(one) for one in re.findall(r"<text[^>]*>([^<]*)</text>", drawn)]
        assert row["route"] in texts
        assert "8 s" in texts
        far = report.latency([{**row, "max_s": 4_000.0}], narrow=narrow)
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", far)
        assert "8 s" not in texts
        assert "100 s" in texts
