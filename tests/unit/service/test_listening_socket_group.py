"""The Unix socket for other accounts: a group may pass through, and reads nothing."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

import pytest

from onceq.errors import AccessDenied, ConfigurationError
from onceq.service.listening import bound_for_owner, opened

GROUP = grp.getgrgid(os.getgid()).gr_name


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "a"
    made.mkdir(mode=0o700)
    for name, bits in (("STORE", 0o600), ("onceq.toml", 0o644), ("log.seg", 0o660)):
        (made / name).touch()
        (made / name).chmod(bits)
    (made / "tls").mkdir(mode=0o755)
    (made / "link").symlink_to("/etc/hostname")
    return made


def test_a_group_may_pass_through_and_nothing_is_readable(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = mode(Path("/etc/hostname"))
    number = opened(str(data), GROUP)
    assert number == os.getgid()
    assert mode(data) == 0o710
    assert data.stat().st_gid == number
    inside = {one.name: mode(one) for one in data.iterdir() if not one.is_symlink()}
    assert inside == {"STORE": 0o600, "onceq.toml": 0o600, "log.seg": 0o600, "tls": 0o700}
    assert mode(Path("/etc/hostname")) == before, "what a link leads to is somebody else's"
    assert "closed to others" in caplog.text
    assert "onceq.toml" in caplog.text
    made = bound_for_owner(str(data / "onceq.sock"), number)
    made.close()
    assert mode(data / "onceq.sock") == 0o660
    assert (data / "onceq.sock").stat().st_gid == number
    opened(str(data), GROUP)
    assert mode(data / "onceq.sock") == 0o660, "at a start that finds the socket of a crash"


def test_without_a_group_the_socket_and_the_directory_are_their_owners(data: Path) -> None:
    assert opened(str(data), "") is None
    assert mode(data) == 0o700
    made = bound_for_owner(str(data / "onceq.sock"))
    made.close()
    assert mode(data / "onceq.sock") == 0o600
    opened(str(data), GROUP)
    opened(str(data), "")
    assert mode(data) == 0o700, "closed again"
    data.chmod(0o750)
    opened(str(data), "")
    assert mode(data) == 0o750, "what others have done stays"


def test_a_group_that_is_not_there_is_named(data: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no group 'onceq-none'.*groupadd onceq-none"):
        opened(str(data), "onceq-none")
    assert mode(data) == 0o700


def test_a_group_that_this_account_is_not_in_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_permitted(*args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", not_permitted)
    with pytest.raises(ConfigurationError, match=r"not a member of .*usermod -aG"):
        opened(str(data), GROUP)
    assert mode(data) == 0o700


def test_what_cannot_be_closed_keeps_the_directory_closed(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_permitted(*args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", not_permitted)
    with pytest.raises(AccessDenied, match="belongs to another account: 'chmod go="):
        opened(str(data), GROUP)
    assert mode(data) == 0o700


def test_it_is_said_where_the_group_does_not_get_through(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed = tmp_path / "home"
    (closed / "a").mkdir(parents=True)
    closed.chmod(0o700)
    opened(str(closed / "a"), GROUP)
    assert "the group does not reach the socket" in caplog.text
    assert f"chmod o+x {closed}" in caplog.text
