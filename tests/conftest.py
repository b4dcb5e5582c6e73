"""What all tests share: how Hypothesis draws, where Spark's tests run, failures told at once, and
an end of every test, whatever hangs.

Examples of Hypothesis follow from the test itself, so that a run can be repeated; ``make fuzz``
asks for more of them with HYPOTHESIS_PROFILE=fuzz, freshly drawn.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests import searches, tiers
from tests.closed_port import close_port

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every process that a test starts would
    # inherit it: a test of Ctrl-C would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["LOCALDOMAIN"] = "invalid"
"""What a test calls BETA, and has not started, is nobody's name: without the machine's own search
list no computer of a network is found under it (finding U8)."""
close_port()
HERE = Path(__file__).parent
STUCK_S = 600
"""A process that is at one test for so long, fixtures included, says where and ends. The time-out
of pytest-timeout is half of it, but ends with the first failure: what hangs after that, when
fixtures are taken down, nobody would notice."""

for tier, examples in tiers.EXAMPLES.items():
    settings.register_profile(
        tier,
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.register_profile(
    "fuzz", deadline=None, max_examples=20_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", tiers.REST))


class _Grouped(LoadScopeScheduling):  # type: ignore[misc]
    """Tests of a folder that need one slow thing (Spark, a database server, many worlds) run in one
    process."""

    GROUPS: ClassVar = {
        "spark": "spark", "partners": "servers", "foreign": "servers", "simulation": "worlds",
    }  # fmt: skip

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.split("/")[1:2]
        if folder and folder[0] in self.GROUPS:
            return self.GROUPS[folder[0]]
        if folder == ["unit"]:
            return nodeid
        return nodeid if "spark" not in nodeid.rpartition("::")[0] else "spark"

    def remove_node(self, node: Any) -> Any:
        """A process is gone: what it was at has failed, and is not tried again and again."""
        crashed = super().remove_node(node)
        for scope, unit in list(self.workqueue.items()):
            if crashed in unit:
                unit[crashed] = True
                if all(unit.values()):
                    del self.workqueue[scope]
        return crashed


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups by path: those by mark get lost between the locked versions of pytest and xdist."""
    return _Grouped(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Before a test is read: its examples are those of its tier, if nobody has said otherwise."""
    if config.getoption("--tier") and "HYPOTHESIS_PROFILE" not in os.environ:
        settings.load_profile(config.getoption("--tier"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which tier runs; without the option all tests do."""
    parser.addoption("--tier", choices=tiers.TIERS, default="", help="run this tier of tests only")
    parser.addoption("--all", action="store_true", help="run all of each search, not a few")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """To read in all tests takes a quarter of a minute; those of the other tier are left out."""
    tier = config.getoption("--tier")
    if not tier or not collection_path.name.startswith("test_") or not collection_path.is_file():
        return None
    return None if tiers.holds(collection_path, tier, HERE) else True


def _names_tests(config: pytest.Config) -> bool:
    """Whether a test is named: it runs, also if the commit does not draw it."""
    return any("::" in argument for argument in config.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests with Spark can be left out by their mark; every test has a tier, and its limit."""
    for item in items:
        if HERE / "spark" in item.path.parents:
            item.add_marker(pytest.mark.spark)
    tiers.limit(items, HERE)
    kept, _ = tiers.chosen(items, config.getoption("--tier"), HERE)
    if not (config.getoption("--all") or config.getoption("-k") or _names_tests(config)):
        left = set(map(id, searches.drawn(kept)))
        kept = [item for item in kept if id(item) not in left]
    if len(kept) < len(items):
        here = set(map(id, kept))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in here])
    items[:] = tiers.longest_first(kept, HERE)


_seconds: dict[str, float] = defaultdict(float)
"""Time that the tests of each folder have taken, set-up included; processes beside each other
count each for itself."""
_counts: Counter[str] = Counter()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each group of tests has cost: whoever adds to one sees it grow."""
    if len(_seconds) < 2:
        return
    terminalreporter.section("time of each group")
    for group, seconds in sorted(_seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{group:24} {_counts[group]:6} tests {seconds:8.1f} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a process that a test has locked up; the others go on, and the test has failed."""
    where = item.config.stash.get(fault_handler_stderr_fd_key, 2)
    faulthandler.dump_traceback_later(STUCK_S, exit=True, file=where)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure when it happens: a run that is stopped later has told of it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        group = "/".join(report.nodeid.split("::")[0].split("/")[1:2])
        _seconds[group] += report.duration
        _counts[group] += report.when == "call"
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        seconds = f"{report.duration:.1f} s"
        last = str(report.longrepr).strip().splitlines()[-1:]
        sys.stdout.write(f"\nFAILED {report.nodeid} ({report.when}, {seconds}) {' '.join(last)}\n")
        sys.stdout.flush()
