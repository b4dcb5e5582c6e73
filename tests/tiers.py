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
    "fuzz": REST,
    "history": QUICK,
    "hosts": QUICK,
    "interop": QUICK,
    "matrix": QUICK,
    "model": QUICK,
    "packages": REST,
    "partners": REST,
    "planted": REST,
    "property": REST,
    "simulation": REST,
    "spark": REST,
    "tidy": QUICK,
    "traces": QUICK,
    "unit": QUICK,
}
"""Every folder of tests. A new one must be named here before a test in it can be run."""

FILES: Final = {
    "audit/test_acts.py": REST,
    "audit/test_kept.py": REST,
    "audit/test_landed.py": REST,
    "audit/test_limits.py": REST,
    "audit/test_planted.py": REST,
    "audit/test_report_text.py": REST,
    "audit/test_starts.py": REST,
    "conformance/test_group_5_killed.py": REST,
    "conformance/test_group_7_http_chance.py": REST,
    "crash/test_groups.py": REST,
    "crash/test_planted_in_store.py": REST,
    "crash/test_store_damage.py": REST,
    "crash/test_store_disk_errors.py": REST,
    "crash/test_store_images.py": REST,
    "daemon/test_backup.py": REST,
    "daemon/test_backup_programme.py": REST,
    "daemon/test_before_names.py": REST,
    "daemon/test_bench_peers.py": REST,
    "daemon/test_cli_asking.py": REST,
    "daemon/test_cli_directory.py": REST,
    "daemon/test_cli_kill.py": REST,
    "daemon/test_cli_management.py": REST,
    "daemon/test_cli_settings.py": REST,
    "daemon/test_cli_top.py": REST,
    "daemon/test_client_away.py": REST,
    "daemon/test_client_groups.py": REST,
    "daemon/test_client_lost.py": REST,
    "daemon/test_client_readers.py": REST,
    "daemon/test_client_requests.py": REST,
    "daemon/test_console.py": REST,
    "daemon/test_console_browser.py": REST,
    "daemon/test_consumer_kill.py": REST,
    "daemon/test_demo.py": REST,
    "daemon/test_http.py": REST,
    "daemon/test_identity_faults.py": REST,
    "daemon/test_kill.py": REST,
    "daemon/test_letters.py": REST,
    "daemon/test_liar.py": REST,
    "daemon/test_liar_finds.py": REST,
    "daemon/test_reload.py": REST,
    "daemon/test_same_answers.py": REST,
    "daemon/test_shared_rights.py": REST,
    "daemon/test_slow_readers.py": REST,
    "daemon/test_strangers.py": REST,
    "daemon/test_supervised.py": REST,
    "daemon/test_targets.py": REST,
    "daemon/test_tls.py": REST,
    "daemon/test_tls_reload.py": REST,
    "daemon/test_tokens.py": REST,
    "daemon/test_told_truly.py": REST,
    "daemon/test_tracking.py": REST,
    "daemon/test_watching.py": REST,
    "docs/test_site.py": REST,
    "fuzz/test_rights_file.py": QUICK,
    "fuzz/test_wrong_arguments.py": QUICK,
    "history/test_disk_errors.py": REST,
    "history/test_function_of_the_log.py": REST,
    "history/test_killed.py": REST,
    "history/test_starts.py": REST,
    "property/test_consuming.py": QUICK,
    "property/test_places.py": QUICK,
    "property/test_store.py": QUICK,
    "property/test_whole.py": QUICK,
    "spark/test_spark_access.py": QUICK,
    "spark/test_spark_pool.py": QUICK,
    "unit/testing/test_daemons.py": REST,
    "unit/testing/test_pytest.py": REST,
}
"""Files that are not of the tier of their folder: whole demos, benchmarks and sites, mistakes that
are planted in the store or in histories, what starts, kills or cuts off real processes many times,
and searches that take more than some seconds. Of what is drawn at random a sample is quick."""

LONGEST: Final = (
    "spark/", "partners/", "simulation/", "crash/test_store_images.py",
    "crash/test_planted_in_store.py", "crash/test_store_disk_errors.py", "planted/test_mistakes.py",
    "planted/test_planted.py", "conformance/", "matrix/", "daemon/test_demo.py",
    "daemon/test_liar_finds.py", "daemon/test_liar.py", "daemon/test_targets.py",
    "daemon/test_kill.py", "daemon/test_console_browser.py", "packages/", "fuzz/", "property/",
)  # fmt: skip
"""What takes minutes begins first, in this order: else the last one runs alone at the end, and one
of the two processes has nothing to do."""

EXAMPLES: Final = {QUICK: 60, REST: 200}
"""How many examples Hypothesis draws. They are the same in each run, and a mistake is found by the
first dozens of them or by ``make fuzz``, which draws others each time."""

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


def holds(path: Path, tier: str, root: Path) -> bool:
    """Whether a test of the tier may stand in a file; without reading in what it imports.

    Args:
        path: A file of tests below ``root``.
    """
    parts = path.relative_to(root).parts
    if parts[0] not in FOLDERS or parts[0] == "conformance" or "mark.tier(" in path.read_text():
        return True
    return FILES.get("/".join(parts), FOLDERS[parts[0]]) == tier


def chosen(items: Sequence[pytest.Item], tier: str, root: Path) -> tuple[list[pytest.Item], int]:
    """The tests of a tier, in their order, and how many others there are; "" chooses all."""
    kept = [item for item in items if tier_of(item, root) == tier or not tier]
    return kept, len(items) - len(kept)


def longest_first(items: Iterable[pytest.Item], root: Path) -> list[pytest.Item]:
    """The same tests, those that take long before the others."""

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(root).as_posix()
        found = (place for place, begin in enumerate(LONGEST) if path.startswith(begin))
        return next(found, len(LONGEST))

    return sorted(items, key=rank)


def limit(items: Iterable[pytest.Item], root: Path) -> None:
    """Give each test the time limit of its tier, unless it has one of its own."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S[tier_of(item, root)]))
