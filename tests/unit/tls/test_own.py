"""Files of an identity: what can be wrong with them has its own clear error."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from onceq.errors import ConfigurationError
from onceq.model.identity import NO_GUID
from onceq.tls import folder
from onceq.tls.contexts import IdentityFiles, client_context, server_context
from onceq.tls.own import read_own
from tests.certificates import ALPHA, BETA, HOSTS, LONG_AGO_S, Authority


def _locked(key: bytes) -> bytes:
    return load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )


@pytest.mark.parametrize(
    ("which", "change", "says"),
    [
        (folder.CERTIFICATE, lambda data: b"", "cannot be used for TLS"),
        (folder.CERTIFICATE, lambda data: data[: len(data) // 2], "cannot be used for TLS"),
        (folder.CERTIFICATE, lambda data: Authority().issue(ALPHA)[0], "mismatch"),
        (folder.KEY, lambda data: b"-----BEGIN PRIVATE KEY-----\nno\n", "cannot be used for TLS"),
        (folder.KEY, _locked, "onceq needs a key without a password"),
        (folder.AUTHORITIES, lambda data: b"", "holds no certificates of authorities"),
        (folder.AUTHORITIES, lambda data: b"\xff" * 100, "holds no certificates of authorities"),
    ],
)
def test_a_file_that_is_none_is_named(
    tmp_path: Path, which: str, change: Callable[[bytes], bytes], says: str
) -> None:
    files = Authority().identity(tmp_path, ALPHA)
    name = tmp_path / "tls" / which
    name.write_bytes(change(name.read_bytes()))
    with pytest.raises(ConfigurationError, match=says) as raised:
        read_own(files, ALPHA)
    assert str(name) in raised.value.text


@pytest.mark.parametrize("which", [folder.CERTIFICATE, folder.KEY, folder.AUTHORITIES])
def test_a_file_that_is_missing_or_none_is_named(tmp_path: Path, which: str) -> None:
    files = Authority().identity(tmp_path, ALPHA)
    name = tmp_path / "tls" / which
    name.unlink()
    with pytest.raises(ConfigurationError, match=f"{name} cannot be read: no such file"):
        server_context(files, peers=True)
    name.mkdir()
    with pytest.raises(ConfigurationError, match=f"{name} cannot be read: is a directory"):
        server_context(files, peers=True)


def test_what_the_own_certificate_says(tmp_path: Path) -> None:
    signs = Authority()
    found = read_own(signs.identity(tmp_path, ALPHA), ALPHA)
    assert (found.guid, found.hosts, found.problem) == (ALPHA, HOSTS, "")
    assert found.ends_s > signs.now_s
    assert found.serial


@pytest.mark.parametrize(("ago_s", "says"), [(LONG_AGO_S, "expired"), (-LONG_AGO_S, "not yet")])
def test_a_certificate_whose_time_is_not_now_keeps_nobody_from_starting(
    tmp_path: Path, ago_s: int, says: str
) -> None:
    found = read_own(Authority().identity(tmp_path, ALPHA, ago_s=ago_s), ALPHA)
    assert (found.guid, found.ends_s) == (NO_GUID, 0)
    assert says in found.problem
    assert folder.CERTIFICATE in found.problem


def test_the_certificate_of_another_queue_manager_is_none(tmp_path: Path) -> None:
    files = Authority().identity(tmp_path, BETA)
    with pytest.raises(ConfigurationError, match=r"is for queue manager 42424242-.*URI:urn:onceq"):
        read_own(files, ALPHA)


def test_an_authority_is_the_identity_of_no_queue_manager(tmp_path: Path) -> None:
    signs = Authority()
    files = signs.identity(tmp_path, ALPHA)
    Path(files.certificate).write_bytes(signs.certificate)
    Path(files.key).write_bytes(signs.key)
    with pytest.raises(ConfigurationError):
        read_own(files, ALPHA)


def test_who_can_read_the_key_can_speak_as_the_queue_manager(tmp_path: Path) -> None:
    files = Authority().identity(tmp_path, ALPHA)
    assert stat.S_IMODE(os.stat(files.key).st_mode) == 0o600
    os.chmod(files.key, 0o640)
    with pytest.raises(ConfigurationError, match=r"mode 640.*chmod 600"):
        folder.files_of(str(tmp_path))
    named = {"certificate": files.certificate, "authorities": files.authorities, "key": files.key}
    assert folder.files_of("", **named) == files, "a group may share the key that is named"
    os.chmod(files.key, 0o604)
    with pytest.raises(ConfigurationError, match="others may read"):
        folder.files_of("", **named)


def test_without_a_certificate_there_is_no_identity(tmp_path: Path) -> None:
    files = Authority().identity(tmp_path, ALPHA)
    assert folder.files_of(str(tmp_path), minimum="1.2") == IdentityFiles(
        files.certificate, files.key, files.authorities, "1.2"
    )
    os.unlink(files.certificate)
    assert folder.files_of(str(tmp_path)) is None
    assert folder.files_of("") is None


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    name = str(tmp_path / "tls" / "x")
    folder.write(name, b"one")
    folder.write(name, b"two")
    assert folder.read(name) == b"two"
    assert os.listdir(tmp_path / "tls") == ["x"]
    with pytest.raises(ConfigurationError, match="cannot be read"):
        folder.read(name + "y")


def test_a_version_that_is_not_spoken_is_named(tmp_path: Path) -> None:
    files = Authority().identity(tmp_path, ALPHA)
    with pytest.raises(ConfigurationError, match=r"1\.1.*it is 1\.3 or 1\.2"):
        client_context(files.authorities, minimum="1.1")
