"""The commands of the pages about Spark and audits, typed one after the other as they stand."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")
from pyspark.sql.readwriter import DataFrameReader

from onceq.cli.main import run
from onceq.testing.daemons import Daemon
from tests.scratch import scratch

pytestmark = pytest.mark.spark

HOW_TO: Final = Path(__file__).parents[2] / "docs" / "how-to"
ELSEWHERE: Final = ("onceq tls", "onceq qm run", "onceq --token-file")
"""Are about computers that are not here; tests/spark/test_spark_secured.py does the like."""
STOPPED: Final = 130
ROWS: Final = [
    {"id": 1, "customer": "ann", "price": 2.5, "lines": [{"item": "nut", "count": 3}]},
    {"id": 2, "customer": "bob"},
    {"customer": "no id"},
]
"""The last one is a bad row."""
COMMAND: Final = r"^(?:\$ )?(onceq [^\n]*)|`(onceq\s[^`]*--to '[^`]*|onceq audit [a-z]+)`"


def commands(page: str) -> list[str]:
    """The commands of a page in their order: in blocks, and whole ones in sentences."""
    text = re.sub(r" \\\n +", " ", (HOW_TO / page).read_text())
    found = re.findall(COMMAND, text, re.M)
    typed = [" ".join((line or sentence).split()) for line, sentence in found]
    return [one for one in typed if not one.startswith(ELSEWHERE)]


@pytest.fixture
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One of two queue managers with histories that stand in one folder."""
    with scratch(tmp_path_factory, "pages") as folder, contextlib.ExitStack() as stack:
        both = [stack.enter_context(Daemon(folder / n, n.upper())) for n in ("alpha", "beta")]
        for one in both:
            one.stop()
            with (Path(one.where) / "onceq.toml").open("a") as configuration:
                configuration.write("history = true\n")
            one.start()
        yield both[0]


class Stderr(io.StringIO):
    """What a command says; one that goes on with what comes is stopped behind its first batch."""

    def __init__(self, *, follows: bool) -> None:
        super().__init__()
        self._follows = follows

    def write(self, text: str) -> int:
        if self._follows and text.startswith("batch "):
            self._follows = False
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


def typed(command: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Type a command; its exit code."""
    arguments = shlex.split(command, comments=True)[1:]
    follows = arguments[:2] == ["spark", "land"] and "--until-empty" not in arguments
    told = Stderr(follows=follows)
    with monkeypatch.context() as patch:
        patch.setattr(
            "onceq.spark.runtime.quiet_session",
            lambda master, name, heard: contextlib.nullcontext(spark),
        )
        # The Java of a command works in the folder where it is typed; that of the tests does not.
        load = DataFrameReader.load
        patch.setattr(
            DataFrameReader, "load", lambda self, path: load(self, str(Path(path).absolute()))
        )
        patch.setattr("sys.stderr", told)
        code = run(arguments)
    assert code in (0, STOPPED), f"{command}\n{told.getvalue()}"
    return code


@pytest.mark.slow
def test_the_commands_of_the_pages_end_well(
    spark: Any, alpha: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit ends well only where it proves what the landings have done (finding P3)."""
    for package in ("deltalake", "pyiceberg", "matplotlib"):
        pytest.importorskip(package, reason=f"{package} is not installed: make setup")
    monkeypatch.setenv("ONCEQ_QM", alpha.where)
    manager = alpha.connect()
    for name in ("orders", "again", "events"):
        manager.create_queue(f"private$/{name}", transactional=True)
    page = (HOW_TO / "land.md").read_text()
    (schema,) = re.findall(r"^```\n(id BIGINT [^\n]*\n)```", page, re.M)
    # What spark.md lands in "orders" is another table than that of land.md.
    here, there = Path(alpha.where).parent, tmp_path / "there"
    there.mkdir()
    (here / "orders.sql").write_text(schema)
    (there / "events.csv").write_text("at,body\n2026-01-01 10:00:00,a\n2026-01-01 10:00:06,b\n")
    codes: dict[str, list[int]] = {}
    for name in ("land.md", "audit.md", "spark.md", "spark-pipeline.md"):
        monkeypatch.chdir(there if name.startswith("spark") else here)
        if name == "audit.md":
            # A history is written in files, one a minute, and the last one at the end.
            manager.close()
            alpha.stop()
            alpha.start()
            manager = alpha.connect()
        for command in commands(name):
            if command.startswith("onceq spark land"):
                manager.send_many("private$/orders", map(json.dumps, ROWS), transactional=True)
            codes.setdefault(name, []).append(typed(command, spark, monkeypatch))
    assert codes == {
        "land.md": [STOPPED, STOPPED, STOPPED], "audit.md": [0, 0, 0, 0], "spark.md": [0, 0, 0],
    }  # fmt: skip
    left = {name: manager.queue(f"private$/{name}").messages for name in ("again", "events")}
    assert left == {"again": len(ROWS), "events": 2}
    more = [here / "orders_delta", here / "orders_iceberg", there / "orders"]
    named = [word for table in more for word in ("--landed", str(table))]
    assert run(["audit", alpha.where, *named]) == 0
