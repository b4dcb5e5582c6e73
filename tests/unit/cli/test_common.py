"""Every command that destroys asks first, and has --yes and --dry-run."""

from __future__ import annotations

import pytest

from onceq.cli import common
from onceq.cli.commands import everything
from onceq.errors import UsageError

DESTROYING = (
    "context remove", "damage drop", "dead purge", "job cancel", "journal purge", "list drop",
    "outgoing remove",
    "peer accept", "peer forget", "qm tidy", "queue delete", "queue purge", "spark forget",
    "stream reset", "token revoke", "tx abort", "tx commit", "tx forget", "tx forget-group",
)  # fmt: skip
"""What they do cannot be undone."""
VERBS = ("abort", "delete", "drop", "forget", "forget-group", "purge", "reset")
"""What has one of these for its name is one of them."""


def test_each_can_be_tried_and_can_go_unasked() -> None:
    having = {path: {opt for one in made.params for opt in one.opts} for path, made in everything()}
    for path in DESTROYING:
        assert {"--yes", "--dry-run"} <= having[path], path
    assert {path for path in having if path.rpartition(" ")[2] in VERBS} <= set(DESTROYING)


def test_who_is_not_there_has_not_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="not a terminal: confirm with --yes"):
        common.agreed("remove it?", yes=False)
    common.agreed("remove it?", yes=True)


@pytest.mark.parametrize(
    ("answers", "agrees"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_only_a_yes_is_a_yes(monkeypatch: pytest.MonkeyPatch, answers: str, agrees: bool) -> None:
    given = iter(answers.splitlines())

    def ask(prompt: object) -> str:
        try:
            return next(given)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("click.termui.visible_prompt_func", ask)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    if agrees:
        common.agreed("remove it?", yes=False)
        return
    with pytest.raises(UsageError, match="nothing was changed"):
        common.agreed("remove it?", yes=False)
