"""Codes of invitations, and that each is used once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceq.errors import AccessDenied, ConfigurationError, InvalidParameter
from onceq.model.limits import INVITE_S_MAX
from onceq.tls import invitations
from onceq.tls.invitations import InvitationCode, Invited, Invites
from tests.certificates import ALPHA

CODE = InvitationCode("alpha.example:1801", ALPHA, b"s" * 16, b"f" * 32, 1_900_000_000)
NOW_S = 1_800_000_000
BETA = Invited("BETA", ("beta.example",))


def test_a_code_says_what_it_was_made_of() -> None:
    assert InvitationCode.parse(str(CODE)) == CODE
    text = str(CODE)
    assert InvitationCode.parse(f"  {text[:40]}\n{text[40:]} ") == CODE, (
        "as a mail may have broken it"
    )


@pytest.mark.parametrize(
    "text", ["", "onceq1-", str(CODE)[:-1], str(CODE)[7:], f"{CODE}x", "onceq1-" + "A" * 200]
)
def test_a_part_of_a_code_is_none(text: str) -> None:
    with pytest.raises(InvalidParameter, match="no invitation, or a part of one"):
        InvitationCode.parse(text)


def test_every_mistake_in_copying_is_noticed() -> None:
    text = str(CODE)
    for at in range(7, len(text) - 1):  # the last digit has bits that say nothing
        other = "A" if text[at] != "A" else "B"
        with pytest.raises(InvalidParameter):
            InvitationCode.parse(text[:at] + other + text[at + 1 :])


def test_no_error_shows_the_secret() -> None:
    assert "secret" not in repr(CODE)
    assert str(b"s" * 16) not in repr(CODE)


def test_an_invitation_is_used_once(tmp_path: Path) -> None:
    out = Invites(str(tmp_path))
    assert not out.expected(NOW_S)
    assert out.make(BETA, CODE.secret, NOW_S, 60) == NOW_S + 60
    assert out.open(NOW_S) == [NOW_S + 60]
    assert out.take(CODE.secret, NOW_S + 59) == BETA
    assert out.open(NOW_S) == []
    with pytest.raises(AccessDenied, match="used already"):
        out.take(CODE.secret, NOW_S)
    assert out.expected(NOW_S + 59), "whoever comes again is told why not"
    assert not out.expected(NOW_S + 60)


def test_an_invitation_is_good_for_its_time(tmp_path: Path) -> None:
    out = Invites(str(tmp_path))
    out.make(BETA, CODE.secret, NOW_S, 60)
    with pytest.raises(AccessDenied, match="has expired"):
        out.take(CODE.secret, NOW_S + 60)
    assert not out.expected(NOW_S + 60)
    with pytest.raises(AccessDenied, match="no such invitation"):
        out.take(b"t" * 16, NOW_S)


def test_nothing_that_is_kept_can_be_used(tmp_path: Path) -> None:
    Invites(str(tmp_path)).make(BETA, CODE.secret, NOW_S, 60)
    (name,) = os.listdir(tmp_path / "invites")
    kept = name.encode() + (tmp_path / "invites" / name).read_bytes()
    assert CODE.secret not in kept
    assert CODE.secret.hex().encode() not in kept
    assert (tmp_path / "invites" / name).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("seconds", [0, -1, INVITE_S_MAX + 1])
def test_an_invitation_that_would_be_good_too_long_is_none(tmp_path: Path, seconds: int) -> None:
    with pytest.raises(ConfigurationError, match="everybody who reads it"):
        Invites(str(tmp_path)).make(BETA, CODE.secret, NOW_S, seconds)


def test_invitations_are_few_and_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invitations, "INVITES_MAX", 2)
    out = Invites(str(tmp_path))
    for number in range(2):
        out.make(BETA, bytes([number]) * 16, NOW_S, 60)
    with pytest.raises(ConfigurationError, match="2 invitations already"):
        out.make(BETA, CODE.secret, NOW_S, 60)
    out.make(BETA, CODE.secret, NOW_S + 60 + INVITE_S_MAX, 60)
    assert len(os.listdir(tmp_path / "invites")) == 1
