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
        "# What a restored queue manager does by itself\n\n" + note + "A queue manager does things "
        "that nobody asks it for each time. A store that was [put back]"
        "(../how-to/backup-and-restore.md) goes on with some of them, and with others it must not. "
        "The second column is for a restore with the same identity, and for a copy of the files of "
        "a queue manager that was stopped, which is the same one as well. The third one is for "
        "`--new-identity`: the original lives on beside the copy.\n\n"
        "| it does | the same identity | a new identity |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n\n"
        "A copy says in its log at its first start, and in `onceq qm status`, how many messages it "
        "has set aside, how many jobs have ended, how many promises are undone and how many tokens "
        f"are not good. Each line has a case for either identity in `{CASES}`; a test holds that "
        "each durable table, and each timer, belongs to a line.\n"
    )
