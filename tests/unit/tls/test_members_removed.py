"""Removed members: the lists, and which certificates they put out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceq.errors import ConfigurationError, InsufficientResources
from onceq.model.identity import guid_text
from onceq.tls import members
from onceq.tls import own as acts
from onceq.tls.members import (
    HERE,
    TOLD,
    MemberJudge,
    Removal,
    Removed,
    begins_of,
    parse,
    put_removed,
    read_removed,
)
from tests.certificates import ALPHA, BETA

WHOM = guid_text(BETA)


def certificate(guid: bytes, begins: str = "Jan  2 00:00:00 2026 GMT") -> dict[str, object]:
    return {"subjectAltName": (("URI", f"urn:onceq:qm:{guid_text(guid)}"),), "notBefore": begins}


def removals(moment: int, *, whom: str = WHOM) -> dict[str, Removal]:
    return {whom: Removal(whom, "BETA", moment)}


def test_a_removal_puts_out_what_was_made_before(tmp_path: Path) -> None:
    shown = certificate(BETA)
    begins_s = begins_of(shown)
    standing = MemberJudge(str(tmp_path))
    assert standing.why_not(shown, "") == ""
    put_removed(str(tmp_path), HERE, removals(begins_s))
    assert standing.removed.read_changes()
    assert standing.why_not(shown, "") == "", "it was made behind the removal"
    put_removed(str(tmp_path), TOLD, removals(begins_s + 1))
    assert standing.removed.read_changes()
    assert "BETA" in standing.why_not(shown, "")
    assert standing.why_not(certificate(ALPHA), "") == ""
    assert standing.why_not(None, "") == standing.why_not({}, "") == ""


def test_a_list_only_grows(tmp_path: Path) -> None:
    """Neither an older word nor a file that is gone brings somebody back."""
    own, both = str(tmp_path), Removed(str(tmp_path))
    put_removed(own, TOLD, removals(20))
    put_removed(own, TOLD, removals(10))
    put_removed(own, TOLD, removals(5, whom=guid_text(ALPHA)))
    assert {one.id: one.at_s for one in read_removed(own, TOLD).values()} == {
        WHOM: 20, guid_text(ALPHA): 5,
    }  # fmt: skip
    assert both.read_changes()
    assert not both.read_changes(), "nothing has changed"
    (tmp_path / TOLD).unlink()
    both.read_changes()
    assert both.of(BETA, 19) is not None
    assert both.of(BETA, 20) is None


@pytest.mark.parametrize(
    "said",
    [
        None, {}, "x", [1], [[]], [["x", "B", 1]], [[WHOM, 1, 1]], [[WHOM, "B", "1"]],
        [[WHOM, "B", True]], [[WHOM, "B", -1]], [[WHOM, "B", 1 << 41]], [[WHOM, "B" * 65, 1]],
        [[WHOM, "a\nb", 1]], [[WHOM, "B", 1, 2]], [[WHOM, "B", 1]] * 10_001,
    ],
)  # fmt: skip
def test_what_is_no_list_is_refused(tmp_path: Path, said: object) -> None:
    with pytest.raises(ValueError, match=r"list|entry|GUID|guid"):
        parse(said)
    (tmp_path / HERE).write_text(json.dumps(said))
    with pytest.raises(ConfigurationError, match="damaged"):
        Removed(str(tmp_path)).read_changes()


def test_a_list_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "REMOVALS_MAX", 1)
    put_removed(str(tmp_path), HERE, removals(1))
    put_removed(str(tmp_path), HERE, removals(2))
    with pytest.raises(InsufficientResources):
        put_removed(str(tmp_path), HERE, removals(1, whom=guid_text(ALPHA)))
    assert set(read_removed(str(tmp_path), HERE)) == {WHOM}


def test_acts_wait_in_order_and_nonsense_beside_them_is_left_out(tmp_path: Path) -> None:
    own = str(tmp_path)
    assert acts.left(own) == []
    for about in ("first", "second"):
        acts.leave(own, "remove member", about, 7)
    for name, text in (("7-00112233445566aa.json", "{"), ("8-00112233445566ab.json", "[]"),
                       ("notes.txt", "{}")):  # fmt: skip
        (tmp_path / acts.FOLDER / name).write_text(text)
    found = acts.left(own)
    assert [(one.what, one.about) for one in found] == [
        ("remove member", "first"), ("remove member", "second"),
    ]  # fmt: skip
    assert all(one.who.startswith("account:") for one in found)
