"""Two tiers of tests: what finds bugs quickly, and the rest.

``make test`` runs the tier QUICK: everything that finds bugs in seconds, and a small sample of each
programme that takes minutes. ``make test-all`` runs the tier REST: those programmes in full, the
same cases on real processes, clusters, browsers, all of Spark. Each test belongs to one of the two,
so that both together are the whole suite and nothing runs twice.

The tier of a test is that of the first rule that is about it: a mark ``tier`` on the test or its
module, then the kind of world (conformance on real processes), then its file or folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

QUICK: Final = "quick"
REST: Final = "rest"
TIERS: Final = (QUICK, REST)

FOLDERS: Final = {
    "audit": QUICK,
    "budgets": QUICK,
    "conformance": QUICK,
    "crash": QUICK,
    "daemon": QUICK,
    "docs": QUICK,
    "foreign": REST,
    "fuzz": QUICK,
    "history": QUICK,
    "interop": QUICK,
    "matrix": QUICK,
    "model": QUICK,
    "packages": REST,
    "partners": REST,
    "planted": REST,
    "property": QUICK,
    "simulation": REST,
    "spark": REST,
    "tidy": QUICK,
    "traces": QUICK,
    "unit": QUICK,
}
"""Every folder of tests. A new one must be named here before a test in it can be run."""

FILES: Final = {
    "crash/test_planted_in_store.py": REST,
    "crash/test_store_disk_errors.py": REST,
    "daemon/test_backup.py": REST,
    "daemon/test_backup_programme.py": REST,
    "daemon/test_before_names.py": REST,
    "daemon/test_bench.py": REST,
    "daemon/test_bench_loss.py": REST,
    "daemon/test_bench_pauses.py": REST,
    "daemon/test_bench_peers.py": REST,
    "daemon/test_bench_tls.py": REST,
    "daemon/test_cli_kill.py": REST,
    "daemon/test_cli_top.py": REST,
    "daemon/test_client_away.py": REST,
    "daemon/test_client_groups.py": REST,
    "daemon/test_client_lost.py": REST,
    "daemon/test_console.py": REST,
    "daemon/test_console_browser.py": REST,
    "daemon/test_demo.py": REST,
    "daemon/test_identity_faults.py": REST,
    "daemon/test_liar.py": REST,
    "daemon/test_shared_rights.py": REST,
    "daemon/test_slow_readers.py": REST,
    "daemon/test_tls.py": REST,
    "daemon/test_tls_reload.py": REST,
    "daemon/test_tokens.py": REST,
    "daemon/test_tracking.py": REST,
    "docs/test_site.py": REST,
    "history/test_function_of_the_log.py": REST,
    "history/test_starts.py": REST,
    "spark/test_spark_access.py": QUICK,
    "spark/test_spark_pool.py": QUICK,
}
"""Files that are not of the tier of their folder: whole demos, benchmarks and sites, mistakes that
are planted in the store, what starts, kills or cuts off real processes many times, and tests of the
Spark reader that start a queue manager, but no Spark."""

PROCESSES: Final = "processes"
"""Parameter of the conformance cases that run on real processes: nineteen times as slow as the same
case inside one process, and of the same logic."""

TIMEOUT_S: Final = {QUICK: 120, REST: 600}
"""A test that hangs fails after this time, if it has no limit of its own; on a busy machine a test
takes four times as long as on a quiet one."""


def tier_of(item: pytest.Item, root: Path) -> str:
    """The tier of one test.

    Args:
        root: The folder ``tests``.

    Raises:
        pytest.UsageError: Its folder or its mark names no tier.
    """
    mark = item.get_closest_marker("tier")
    if mark is not None:
        if mark.args not in ((QUICK,), (REST,)):
            raise pytest.UsageError(f"{item.nodeid}: a mark tier says one of {', '.join(TIERS)}")
        return str(mark.args[0])
    parts = item.path.relative_to(root).parts
    if len(parts) < 2 or parts[0] not in FOLDERS:
        raise pytest.UsageError(
            f"{item.nodeid}: its folder stands in no tier; name it in tests/tiers.py"
        )
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    if parts[0] == "conformance" and PROCESSES in map(str, values):
        return REST
    return FILES.get("/".join(parts), FOLDERS[parts[0]])


def chosen(items: Sequence[pytest.Item], tier: str, root: Path) -> tuple[list[pytest.Item], int]:
    """The tests of a tier, in their order, and how many others there are; "" chooses all."""
    kept = [item for item in items if tier_of(item, root) == tier or not tier]
    return kept, len(items) - len(kept)


def limit(items: Iterable[pytest.Item], root: Path) -> None:
    """Give each test the time limit of its tier, unless it has one of its own."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S[tier_of(item, root)]))
