"""Who listens at a socket, what a connection is, and whose a directory is that nobody has named."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from onceq.client import credentials
from onceq.client.address import ManagerAddress, check_whose
from onceq.client.credentials import check_listener
from onceq.errors import ConfigurationError, WrongAddress
from onceq.sockets.both_ends import bound_to, listener

SOMEBODY = 65_534


def test_the_system_says_who_listens(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen()
    with listening, socket.socket(socket.AF_UNIX) as own:
        own.connect(str(tmp_path / "s"))
        assert listener(own) == os.geteuid()
        check_listener(ManagerAddress(path=str(tmp_path / "s")), own)


@pytest.mark.parametrize("named", ["plain", "link"])
def test_the_account_of_the_directory_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """Or root, or one's own; also where a link leads there."""
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a" / "s")
    path = tmp_path / ("link" if named == "link" else "a/s")
    owner = os.stat(tmp_path / "a").st_uid
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY - 1)
    for account in (0, owner, SOMEBODY - 1, None):
        monkeypatch.setattr(credentials, "listener", lambda own, account=account: account)
        check_listener(ManagerAddress(path=str(path)), None)
    monkeypatch.setattr(credentials, "listener", lambda own: SOMEBODY)
    with pytest.raises(WrongAddress, match="the directory is not its own"):
        check_listener(ManagerAddress(path=str(path)), None)
    with pytest.raises(WrongAddress):
        check_listener(ManagerAddress(path=str(tmp_path / "none" / "s")), None)


def test_a_directory_that_nobody_has_named_is_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_whose(str(tmp_path), "--qm .")
    owner = os.stat(tmp_path).st_uid
    if owner == 0:
        check_whose("/", "--qm .")
        os.chown(tmp_path, SOMEBODY, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    with pytest.raises(ConfigurationError, match=r"say --qm \. if it is"):
        check_whose(str(tmp_path), "--qm .")


def test_both_ends_of_a_connection_say_the_same_of_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        with socket.create_connection(address) as own:
            peer, _ = listening.accept()
            with peer:
                said = bound_to(None, own.getpeername())
                assert said == bound_to(None, peer.getsockname())
                assert said == f"tcp\x00127.0.0.1\x00{address[1]}".encode()
    assert bound_to(None, ("::ffff:127.0.0.1", 7, 0, 0)) == b"tcp\x00127.0.0.1\x007"
    assert bound_to(None, ("fe80::1%eth0", 7, 0, 2)) == b"tcp\0fe80::1\x007"
    assert bound_to(None, "") == bound_to(None, "/run/a.sock") == b"unix\0"
