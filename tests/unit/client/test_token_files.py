"""A file with a token for each of several queue managers: which one is shown to whom."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from onceq.client.address import ManagerAddress
from onceq.client.credentials import TOKEN, TOKEN_FILE, Credentials
from onceq.client.token_files import FoundToken, TokenFile
from onceq.errors import AccessDenied, ConfigurationError, OnceqError
from onceq.model.identity import guid_text
from onceq.model.limits import TOKEN_LINES_MAX
from onceq.model.tokens import SECRET_BYTES, text_of
from onceq.tls.identity import urn_of
from tests.proofs import token_of

ONE, TWO, THREE = (text_of("billing", bytes([n]) * SECRET_BYTES) for n in (1, 2, 3))
HUB, SPOKE = b"H" * 16, b"S" * 16
SECURE = ManagerAddress(host="hub.example", port=1802, tls=True)
PLAIN = ManagerAddress(host="127.0.0.1", port=1802)
PEER = "10.1.2.3"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN, TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)


class File:
    """A file of tokens, and what is shown by it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "tokens"

    def __call__(self, *lines: str, mode: int = 0o600) -> File:
        self.path.write_text("\n".join(lines))
        self.path.chmod(mode)
        return self

    def shown(
        self, address: ManagerAddress, guid: bytes | None = None, *, aside: bool = False
    ) -> str:
        """By the hello of a connection, in which a queue manager has proven who it is."""
        proof: dict[str, Any] | None = None
        if guid is not None:
            proof = {"subjectAltName": (("DNS", "h"), ("URI", urn_of(guid)))}
        peer = "" if address.path else PEER if address.tls else address.host
        shown = Credentials(token_file=self.path, aside=aside)
        return token_of(shown.greeting(address, peer, proof))

    def refused(self, address: ManagerAddress = SECURE, guid: bytes | None = None) -> str:
        """Why nothing can be shown; it repeats no secret."""
        with pytest.raises(ConfigurationError) as caught:
            self.shown(address, guid)
        text = str(caught.value)
        assert str(self.path) in text
        assert not any(one.rpartition("_")[2] in text for one in (ONE, TWO, THREE))
        return text


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


def test_each_queue_manager_is_shown_its_own_and_no_other(file: File, tmp_path: Path) -> None:
    data = tmp_path / "spoke"
    file(
        "# for whom   which", "", f"tls://hub.example:1802  {ONE}", f"\t127.0.0.1:1802 {TWO}  ",
        f"{data} {THREE}", f"{guid_text(SPOKE)} {TWO}", "tls://open.example:1 -",
    )  # fmt: skip
    assert file.shown(SECURE) == ONE
    assert file.shown(ManagerAddress(host="HUB.Example", port=1802, tls=True)) == ONE
    assert file.shown(PLAIN) == TWO
    assert file.shown(ManagerAddress(path=str(data / "onceq.sock"))) == THREE
    assert file.shown(ManagerAddress(path=str(data))) == THREE
    assert file.shown(ManagerAddress(path=os.path.relpath(data / "onceq.sock"))) == THREE
    assert file.shown(ManagerAddress(host="10.9.9.9", port=5, tls=True), SPOKE) == TWO
    assert file.shown(ManagerAddress(host="open.example", port=1, tls=True)) == ""


@pytest.mark.parametrize(
    "address",
    [
        ManagerAddress(host="hub.example", port=1803, tls=True),
        ManagerAddress(host="other.example", port=1802, tls=True),
        ManagerAddress(host="hub.example", port=1802),
        ManagerAddress(path="/hub.example:1802"),
    ],
)
def test_who_has_no_line_is_shown_nothing_and_the_line_is_told(
    file: File, address: ManagerAddress
) -> None:
    file(f"tls://hub.example:1802 {ONE}")
    text = file.refused(address)
    assert f"has no line for {address}: add '{address} TOKEN'" in text
    assert f"'{address} -' if no token shall be shown to it" in text
    assert "GUID" not in text


def test_a_guid_counts_where_it_is_proven(file: File) -> None:
    file(f"{guid_text(HUB).upper()} {ONE}", f"{{{guid_text(SPOKE)}}} {TWO}")
    assert file.shown(SECURE, HUB) == ONE
    assert file.shown(SECURE, SPOKE) == TWO
    assert f"(queue manager {guid_text(b'X' * 16)})" in file.refused(SECURE, b"X" * 16)
    for nobody in (SECURE, PLAIN, ManagerAddress(path="/hub/onceq.sock")):
        assert "lines by GUID count where the queue manager proves it" in file.refused(nobody)


def test_an_address_without_a_scheme_is_one_by_either(file: File) -> None:
    file(f"hub.example:1802 {ONE}", f"[::1]:1802 {TWO}", f"onceq://127.0.0.1:1802 {THREE}")
    assert file.shown(SECURE) == ONE
    assert file.shown(ManagerAddress(host="::1", port=1802)) == TWO
    assert file.shown(PLAIN) == THREE
    assert "no line" in file.refused(ManagerAddress(host="127.0.0.1", port=1802, tls=True))


@pytest.mark.parametrize(
    ("lines", "numbers"),
    [
        ((f"hub.example:1802 {ONE}", "#", f"HUB.example:1802 {TWO}"), "lines 1 and 3"),
        ((f"tls://hub.example:1802 {ONE}", f"tls://hub.example:1802/ {ONE}"), "lines 1 and 2"),
        ((f"hub.example:1802 {ONE}", f"tls://hub.example:1802 {ONE}"), "lines 1 and 2"),
        ((f"hub.example:1802 {ONE}", "-:1 -", f"{guid_text(HUB)} {TWO}"), "lines 1 and 3"),
        ((f"hub.example:1802 {ONE}", f"/a {TWO}", f"unix:///a/ {TWO}"), "lines 2 and 3"),
    ],
)
def test_two_lines_for_one_are_refused_whichever_is_meant(
    file: File, lines: tuple[str, ...], numbers: str
) -> None:
    assert numbers in file(*lines).refused(SECURE, HUB)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (ONE, "is not '<address or GUID"),
        (f"hub.example:1802 {ONE} {ONE}", "is not '<address or GUID"),
        (f"{ONE} hub.example:1802", "has its token first"),
        ("hub.example:1802 hunter2", "the token in line 2 of .* is none"),
        (f"hub.example {ONE}", "does not begin with the address"),
        (f"hub.example:99999 {ONE}", "does not begin with the address"),
        (f"./hub {ONE}", "does not begin with the address"),
        (f"unix:hub {ONE}", "does not begin with the address"),
        (f"https://hub.example:1802 {ONE}", "does not begin with the address"),
        (f"58a1c6de-92a7-4a8e-8a2c-0f6d7b1e2c3 {ONE}", "does not begin with the address"),
    ],
)
def test_a_line_that_says_nothing_is_named_and_not_repeated(
    file: File, line: str, words: str
) -> None:
    """Also for whoever has a line that is good: the file says something that is not meant."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        file(f"tls://good.example:1 {TWO}", line).shown(
            ManagerAddress(host="good.example", port=1, tls=True)
        )
    text = str(caught.value)
    assert "line 2 of" in text
    assert "hunter2" not in text
    assert ONE.rpartition("_")[2] not in text
    with pytest.raises(ConfigurationError):
        Credentials(token_file=file.path).check()


def test_one_token_alone_is_for_whoever_is_asked(file: File) -> None:
    for lines in ((ONE,), ("", f"  {ONE} ", ""), ("# of billing", ONE)):
        file(*lines)
        assert file.shown(SECURE, HUB) == file.shown(PLAIN) == ONE
        assert file.shown(SECURE, HUB, aside=True) == ""


def test_aside_only_what_says_for_whom_it_is(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file(f"hub.example:1802 {ONE}")
    assert file.shown(SECURE, aside=True) == ONE
    monkeypatch.setenv(TOKEN_FILE, str(file.path))
    assert token_of(Credentials(aside=True).greeting(SECURE, PEER)) == ONE
    monkeypatch.delenv(TOKEN_FILE)
    monkeypatch.setenv(TOKEN, TWO)
    assert token_of(Credentials(aside=True).greeting(SECURE, PEER)) == ""
    assert token_of(Credentials().greeting(SECURE, PEER)) == TWO


def test_there_are_so_many_lines_and_no_more(file: File) -> None:
    lines = [f"h:{number} {ONE}" for number in range(1, TOKEN_LINES_MAX + 1)]
    file(*lines)
    assert file.shown(ManagerAddress(host="h", port=TOKEN_LINES_MAX, tls=True)) == ONE
    file(*lines, f"more:1 {TWO}")
    assert f"more than {TOKEN_LINES_MAX} lines" in file.refused()


def test_a_file_of_lines_is_as_secret_as_one_token(file: File) -> None:
    file(f"hub.example:1802 {ONE}", mode=0o644)
    with pytest.raises(AccessDenied, match="chmod 600"):
        file.shown(SECURE)


def test_a_token_is_not_shown_where_others_can_read_it(file: File) -> None:
    file(f"far:1 {ONE}", "near:1 -")
    with pytest.raises(ConfigurationError, match=r"the token in line 1 of .*tls://host:port"):
        Credentials(token_file=file.path).greeting(ManagerAddress(host="far", port=1), PEER)
    away = Credentials(token_file=file.path).greeting(ManagerAddress(host="near", port=1), PEER)
    assert token_of(away) == ""


def test_what_is_refused_is_named_by_its_line(file: File) -> None:
    file("#", f"hub.example:1802 {ONE}")
    hello = Credentials(token_file=file.path).greeting(SECURE, PEER)
    told: OnceqError = hello._refused(AccessDenied("access denied"))
    assert f"does not take the token in line 2 of {file.path}" in told.text
    read = TokenFile(str(file.path))
    found = read.shown_to(SECURE)
    assert isinstance(found, FoundToken)
    for one in (read, found, read._lines):
        assert ONE.rpartition("_")[2] not in repr(one)
