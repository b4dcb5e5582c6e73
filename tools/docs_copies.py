"""docs/reference/copies.md: what a queue manager does by itself, and what becomes of it in a store
that was put back.

It is made from ``core/management/copies.py``.
"""

from __future__ import annotations

from onceq.core.management.copies import TABLE

CASES = "tests/conformance/test_by_itself.py"


def page(note: str) -> str:
    """The whole page."""
    rows = [f"| {one.what} | {one.same} | {one.copy} |" for one in TABLE]
    return (
        "# What a restored queue manager does by itself\n\n" + note + "What becomes of the "
        "work of a queue manager after a [restore](../how-to/backup-and-restore.md). *The same "
        "identity* is also a copy of the files of a stopped queue manager; *a new identity* is "
        "`--new-identity`, beside the original.\n\n"
        "| | the same identity | a new identity |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "The log of a copy's first start, and `onceq qm status`, count the messages set aside, "
        "ended jobs, undone promises and void tokens. Each line has a case for either identity in "
        f"`{CASES}`.\n"
    )
