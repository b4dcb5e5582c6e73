"""Where a queue manager is, as people write it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from onceq.client.address import ManagerAddress, is_data_directory, parse
from onceq.embedded import data_directory
from onceq.errors import AccessDenied, ConfigurationError, ServiceNotAvailable


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("onceq://host:1802/", ManagerAddress(host="host", port=1802)),
        ("[::1]:1802", ManagerAddress(host="::1", port=1802)),
        ("unix:///run/a", ManagerAddress(path="/run/a")),
    ],
)
def test_addresses_of_every_form_are_read(text: str, address: ManagerAddress) -> None:
    assert parse(text) == address


@pytest.mark.parametrize("text", ["host", "host:", ":1802", "host:65536", "onceq://host"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="neither a directory nor an address"):
        parse(text)


def test_a_directory_says_what_it_lacks(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    (tmp_path / "a").mkdir()
    with pytest.raises(ConfigurationError, match="onceq qm init"):
        parse(path)
    assert not is_data_directory(path)
    data_directory.init(path, name="A")
    assert is_data_directory(path)
    with pytest.raises(ServiceNotAvailable, match="onceq qm run"):
        parse(path)
    (tmp_path / "a" / "onceq.sock").touch()
    assert parse(path) == ManagerAddress(path=f"{path}/onceq.sock")


def test_who_is_not_let_in_hears_how_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.stat

    def stat(path: str, *args: Any, **more: Any) -> os.stat_result:
        if str(path).endswith("onceq.sock"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        with pytest.raises(AccessDenied, match="socket_group"):
            parse(str(tmp_path))
