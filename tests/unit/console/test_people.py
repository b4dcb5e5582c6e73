"""The file that says who signs in at a provider, and as what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceq.console.guard import OPENID_BYTES_MAX, ROLES_MAX, SESSION_S
from onceq.console.people import People, check_url, read
from onceq.errors import AccessDenied, ConfigurationError
from onceq.model.tokens import SECRET_BYTES, text_of

TOKEN = text_of("operators", bytes(SECRET_BYTES))
GOOD = """
[openid]
issuer = "https://login.example.net/realms/one"
client_id = "onceq-console"
client_secret_file = "client.secret"
address = "https://Queues.example.net:8443/"
[groups]
operators = "a.token"
readers = "a.token"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("client.secret", "s3cret\n"), ("a.token", TOKEN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return tmp_path


def said(folder: Path, text: str = GOOD, mode: int = 0o644) -> People:
    path = folder / "people.toml"
    path.write_text(text)
    path.chmod(mode)
    return read(str(path))


def test_what_it_says(folder: Path) -> None:
    people = said(folder)
    assert (people.issuer, people.client_id) == (
        "https://login.example.net/realms/one", "onceq-console"
    )  # fmt: skip
    assert people.secret == "s3cret"
    assert people.address == "https://queues.example.net:8443"
    assert (people.names, people.secure) == (("queues.example.net:8443",), True)
    assert (people.groups_claim, people.name_claim) == ("groups", "preferred_username")
    assert people.session_s == SESSION_S
    assert list(people.roles) == ["operators", "readers"]
    assert people.roles["readers"] == str(folder / "a.token")
    assert "s3cret" not in repr(people)


@pytest.mark.parametrize(
    ("address", "name"),
    [("https://q.example:443", "q.example"), ("https://q.example:80", "q.example:80"),
     ("http://127.0.0.1:80/", "127.0.0.1"), ("http://[::1]:8181", "[::1]:8181")],
)  # fmt: skip
def test_a_port_that_browsers_leave_out_is_left_out(folder: Path, address: str, name: str) -> None:
    people = said(folder, GOOD.replace("https://Queues.example.net:8443/", address))
    assert people.names == (name,)


def test_little_is_needed(folder: Path) -> None:
    people = said(
        folder, '[openid]\nissuer = "http://127.0.0.1:1"\nclient_id = "x"\n[groups]\ng = "a.token"'
    )
    assert (people.secret, people.address, people.names, people.secure) == ("", "", (), False)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("issuer = ", "isuer = ", "no 'isuer' in \\[openid\\]; there are issuer"),
        ("[groups]", "[group]", "no 'group'"),
        ("[openid]", "[openid", "not TOML"),
        ('issuer = "https://login.example.net/realms/one"', "", "issuer is missing"),
        ('"https://login.example.net/realms/one"', "7", "issuer is a text"),
        ('"https://login.example.net/realms/one"', '""', "issuer is a text"),
        ("https://login", "http://login", "not reached by HTTPS"),
        ("https://login", "https://anna:secret@login", "no address"),
        ("https://Queues", "http://queues", "address: .*not reached by HTTPS"),
        (":8443/", ":8443/console", "address has no path"),
        (":8443/", ":many/", "no address"),
        ('"onceq-console"', '"a\\nb"', "client_id is a text"),
        ("[groups]", "session_minutes = 0\n[groups]", "from 1 to 720"),
        ("[groups]", "session_minutes = 721\n[groups]", "from 1 to 720"),
        ("[groups]", "session_minutes = true\n[groups]", "from 1 to 720"),
        ('operators = "a.token"\nreaders = "a.token"', "", "nobody could sign in"),
        ('operators = "a.token"', "operators = 7", "has the file of the token"),
        ('operators = "a.token"', 'operators = "b.token"', "group 'operators': .*b.token"),
        ('"client.secret"', '"other.secret"', "other.secret cannot be read"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, before: str, after: str, why: str) -> None:
    assert before in GOOD
    with pytest.raises(ConfigurationError, match=why):
        said(folder, GOOD.replace(before, after, 1))


def test_what_is_no_plain_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for path in (folder / "pipe", folder):
        with pytest.raises(ConfigurationError, match=r"no plain file|a directory"):
            read(str(path))


def test_too_much_is_refused(folder: Path) -> None:
    many = "".join(f'group{number} = "a.token"\n' for number in range(ROLES_MAX))
    with pytest.raises(ConfigurationError, match="at most 16 groups"):
        said(folder, GOOD + many)
    with pytest.raises(ConfigurationError, match="more than 65536 bytes"):
        said(folder, GOOD + "#" * OPENID_BYTES_MAX)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_change_is_refused(folder: Path, mode: int) -> None:
    with pytest.raises(AccessDenied, match="say who signs in"):
        said(folder, mode=mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root gives no file away")
def test_a_file_of_another_account_is_refused(folder: Path) -> None:
    said(folder)
    os.chown(folder / "people.toml", 4711, -1)
    with pytest.raises(AccessDenied, match="of 4711"):
        read(str(folder / "people.toml"))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620])
def test_a_secret_that_others_can_read_is_refused(folder: Path, mode: int) -> None:
    (folder / "client.secret").chmod(mode)
    with pytest.raises(AccessDenied, match="others may read"):
        said(folder)


@pytest.mark.parametrize("text", ["", "\n", "a\nb", "ä"])
def test_a_secret_is_one_line(folder: Path, text: str) -> None:
    (folder / "client.secret").write_text(text)
    with pytest.raises(ConfigurationError, match="in one line"):
        said(folder)


def test_a_token_that_others_can_read_is_refused(folder: Path) -> None:
    (folder / "a.token").chmod(0o644)
    with pytest.raises(ConfigurationError, match="group 'operators'"):
        said(folder)


@pytest.mark.parametrize(
    "url",
    ["", "x", "//login.example", "ftp://login.example", "javascript:alert(1)", "https://",
     "https://a\nb", "https://a#b", "http://10.0.0.7", "http://localhost.example"],
)  # fmt: skip
def test_what_others_could_read_or_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        check_url(url)


@pytest.mark.parametrize("url", ["https://a.example", "http://127.0.0.1:1/x", "http://[::1]:1"])
def test_addresses_that_are_good(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["readers"], "readers"), (["readers", "operators"], "operators"), (["else"], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_first_group_of_the_file_counts(
    folder: Path, groups: list[str], role: str | None
) -> None:
    assert said(folder).role_of(groups) == role
