"""Every target of the Makefile runs in the tests: in tests of its own, or small and drawn here.

A programme that no test runs is broken by the next change, and nobody hears of it (finding U9).
Some targets are drawn each time, by the commit, so that none stays broken for long.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
MAKEFILE: Final = (ROOT / "Makefile").read_text()
SMOKE: Final[dict[str, tuple[str, ...]]] = {
    "bank": (),
    "bench": ("ARGS=--quick",),
    "bench-against": ("TREE=.", "ARGS=--quick --rounds 1"),
    "bench-breadth": ("ARGS=10 --messages 200 --destinations 2",),
    "bench-depth": ("ARGS=100 1000",),
    "bench-loss": ("ARGS=--messages 2000 --rounds 1 --one-in 200",),
    "bench-pauses": ("SECONDS=3", "MESSAGES=4000", "ARGS=--queues 16"),
    "bench-peers": ("ARGS=--quick --no-fetch --only onceq,onceq-embedded,onceq-two",),
    "bench-tenants": ("ARGS=--count 20 --commits 5 --slices 4 --pause 0.001",),
    "bench-tls": ("ARGS=--quick",),
    "calls": (),
    "crash": ("IMAGES=40",),
    "sim": ("SEEDS=2",),
    "two-phase": ("CASES=2",),
}
"""What make is given so that a target is done in seconds."""
MAY_MISS: Final = {"bench-against", "bench-loss", "bench-pauses", "bench-tls"}
"""Targets that say by their exit code 1 that a goal in time was missed: no test asks for a time."""
TESTED: Final = {
    "backup": "tests/daemon/test_backup_programme.py",
    "check": "tests/unit/tools/test_check.py",
    "conformance": "tests/conformance/test_turns.py",
    "consumer-kill": "tests/daemon/test_consumer_kill.py",
    "demo": "tests/daemon/test_demo.py",
    "dist": "tests/packages/test_dist.py",
    "docs": "tests/docs/test_docs.py",
    "fuzz": "tests/fuzz/test_packets.py",
    "hosts": "tests/hosts/test_bed.py",
    "kill": "tests/daemon/test_kill.py",
    "liar": "tests/daemon/test_liar.py",
    "networks": "tests/spark/test_spark_networks.py",
    "pictures": "tests/docs/test_pictures.py",
    "planted": "tests/planted/test_planted.py",
    "site": "tests/docs/test_site.py",
    "spark-cluster": "tests/spark/test_spark_cluster.py",
    "spark-kill": "tests/spark/test_spark_kill.py",
    "spark-land": "tests/spark/test_spark_land_kill.py",
    "traces": "tests/traces/test_traces.py",
}
"""Targets that a file of tests runs, or whose work it does."""
NOT_RUN: Final = {
    "help": "prints this list",
    "setup": "has made the environment of this run",
    "test": "is this run",
    "test-all": "is this run",
    "format": "changes files of the checkout",
    "clean": "removes the environment of this run",
    "spark-tables": "downloads another Spark",
    "bench-spark": "takes minutes for any number of rows; tests/unit/proof has its verdicts",
    "bench-two-phase": "needs PostgreSQL; its transactions are those of tests/partners",
}
"""Why a target is not run by a test."""
DRAWN: Final = 3


def outside_of_make() -> dict[str, str]:
    """The environment without what `make test` passes to a make in it, which then says more."""
    return {name: said for name, said in os.environ.items() if not name.startswith("MAKE")}


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?! [A-Z]+ =)", MAKEFILE, re.M))


def test_every_target_is_run_or_says_why_not() -> None:
    lists = (set(SMOKE), set(TESTED), set(NOT_RUN))
    assert set.union(*lists) == targets()
    assert sum(map(len, lists)) == len(targets()), "each stands in one list"
    gone = [file for file in TESTED.values() if not (ROOT / file).is_file()]
    assert gone == []


def test_every_target_is_phony_and_is_explained() -> None:
    phony = set(re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.M)[0].split())
    assert phony == targets()
    page = (ROOT / "docs" / "hacking.md").read_text()
    missing = [one for one in targets() - {"help"} if not re.search(rf"`make {one}[ `]", page)]
    assert missing == []


def test_no_test_waits_for_a_switch() -> None:
    """What this machine can run belongs to a tier; a test is skipped for what is not there."""
    switched = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"skipif\(\s*(not )?os\.(environ|getenv)", path.read_text())
    ]
    assert switched == []


@pytest.mark.slow
@pytest.mark.search("targets", few=DRAWN)
@pytest.mark.parametrize("target", sorted(SMOKE))
def test_it_runs_small(target: str) -> None:
    """By the line that make would run, without asking whether the environment is new."""
    plan = subprocess.run(
        ["make", "-n", "-o", ".venv/bin/.ready", target, *SMOKE[target]],
        cwd=ROOT, capture_output=True, text=True, check=True, env=outside_of_make(),
    )  # fmt: skip
    for line in plan.stdout.splitlines():
        done = subprocess.run(
            shlex.split(line), cwd=ROOT, capture_output=True, text=True, check=False
        )
        said = f"{line}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert done.returncode in ((0, 1) if target in MAY_MISS else (0,)), said
        assert "Traceback" not in done.stderr, said
