"""What a GUID means at a queue manager before its owner has joined."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from onceq.core.state.peer_table import Binding, Bindings
from onceq.model.directory import Computer, Snapshot
from onceq.model.identity import guid_text
from onceq.model.patterns import queue_pattern
from onceq.model.policy import Policy
from onceq.model.rights import Grant, Right, SharedRights, actor_pattern
from onceq.service.membership import meaning_of
from tests.certificates import ALPHA, BETA

GRANT = Grant(
    actor_pattern(f"peer:{guid_text(BETA)}"), frozenset((Right.SEND,)), queue_pattern("*")
)


@pytest.fixture
def manager() -> Any:
    return SimpleNamespace(state=SimpleNamespace(bindings=Bindings(), policy=Policy()))


def test_a_guid_that_nothing_knows_means_nothing(manager: Any) -> None:
    manager.state.policy.grant(GRANT)
    manager.state.bindings.bind("os:beta", Binding(BETA, 7))
    directory = Snapshot([Computer("BETA", BETA)])
    assert meaning_of(manager, directory, ALPHA, "ALPHA") == ""
    assert meaning_of(manager, None, ALPHA, "BETA") == ""


@pytest.mark.parametrize("where", ["here", "in the directory"])
def test_a_guid_with_rights(manager: Any, where: str) -> None:
    if where == "here":
        manager.state.policy.grant(GRANT)
    else:
        manager.state.policy.shared = SharedRights(grants=(GRANT,))
    assert "has rights here" in meaning_of(manager, None, BETA, "BETA")


def test_a_guid_that_answers_under_a_name_is_for_that_name(manager: Any) -> None:
    manager.state.policy.grant(GRANT)
    manager.state.bindings.bind("os:beta", Binding(BETA, 7))
    assert meaning_of(manager, None, BETA, "Beta") == ""
    assert "answers under beta" in meaning_of(manager, None, BETA, "MALLORY")


def test_a_guid_of_the_directory_is_for_its_names(manager: Any) -> None:
    directory = Snapshot([Computer("BETA", BETA, addresses=("beta.example",))])
    assert meaning_of(manager, directory, BETA, "BETA.example") == ""
    assert "directory knows" in meaning_of(manager, directory, BETA, "MALLORY")
