"""The configuration file: what it may say, and what a mistake in it is answered with."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from onceq.errors import ConfigurationError
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.identity import guid_text
from onceq.model.settings import Settings
from onceq.service.config import Configuration, load, parse, plain_peers, split_address

WHOLE = """\
# all of it
name = "ALPHA"
listen = "0.0.0.0:1801"
client_listen = "127.0.0.1:1802"
addresses = ["alpha.example", "10.0.0.7"]
log_level = "DEBUG"

[peers]
BETA = "10.0.0.8:1801"
"10.0.0.9" = "[::1]:1803"
GAMMA = "gamma.example"

[routes]
"11111111-2222-3333-4444-555555555555" = "BETA"

[settings]
connect_retry_s = 1
session_window_messages = 64
remote_transactional_receive = false
"""


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert load(str(tmp_path)) == Configuration()
    assert Configuration().listen == "127.0.0.1:1801", "loopback unless told otherwise"
    assert Configuration().client_listen == ""


def test_all_keys(tmp_path: Path) -> None:
    (tmp_path / CONFIGURATION_FILE).write_text(WHOLE)
    found = load(str(tmp_path))
    assert found == Configuration(
        name="ALPHA",
        listen="0.0.0.0:1801",
        client_listen="127.0.0.1:1802",
        peers={"BETA": "10.0.0.8:1801", "10.0.0.9": "[::1]:1803", "GAMMA": "gamma.example"},
        routes={"11111111-2222-3333-4444-555555555555": "BETA"},
        addresses=("alpha.example", "10.0.0.7"),
        log_level="debug",
        settings=Settings(
            connect_retry_s=1.0, session_window_messages=64, remote_transactional_receive=False
        ),
    )


@pytest.mark.parametrize(
    ("line", "wrong", "place", "says"),
    [
        (4, 'client_lisen = "127.0.0.1:1802"', "client_lisen", "did you mean 'client_listen'"),
        (4, "zzz = 1", "zzz", "the keys are name, listen, "),
        (2, "name = 5", "name", "must be text in quotes, not 5"),
        (3, 'listen = "1801"', "listen", "'1801' is not an address such as 127.0.0.1:1801"),
        (3, 'listen = "host:70000"', "listen", "not an address"),
        (3, "listen = 1801", "listen", "text in quotes"),
        (5, 'addresses = "one"', "addresses", "must be a list"),
        (5, "addresses = [1]", "addresses", "text in quotes"),
        (6, 'log_level = "loud"', "log_level", "one of debug, info, warning, error"),
        (9, "BETA = 1801", "peers.BETA", "text in quotes"),
        (9, 'BETA = "a b:1"', "peers.BETA", "not an address"),
        (14, '"no guid" = "BETA"', "routes.no guid", ""),
        (17, "connect_retry = 1", "settings.connect_retry", "did you mean 'connect_retry_s'"),
        (17, 'connect_retry_s = "1"', "settings.connect_retry_s", "a number, more than 0"),
        (17, "connect_retry_s = 0", "settings.connect_retry_s", "more than 0"),
        (17, "connect_retry_s = -1", "settings.connect_retry_s", "more than 0"),
        (17, "connect_retry_s = inf", "settings.connect_retry_s", "not inf"),
        (17, "connect_retry_s = nan", "settings.connect_retry_s", "not nan"),
        (17, "connect_retry_s = true", "settings.connect_retry_s", "a number"),
        (18, "session_window_messages = 1.5", "settings.session_window_messages", "whole"),
        (17, "log_segment_bytes = 4096", "settings.log_segment_bytes", "from 262144 to 268435456"),
        (19, "remote_transactional_receive = 1", "settings.remote_transactional_receive",
         "true or false"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_its_cure(
    tmp_path: Path, line: int, wrong: str, place: str, says: str
) -> None:
    lines = WHOLE.splitlines()
    lines[line - 1] = wrong
    (tmp_path / CONFIGURATION_FILE).write_text("\n".join(lines))
    with pytest.raises(ConfigurationError) as caught:
        load(str(tmp_path))
    assert caught.value.text.startswith(f"{tmp_path / CONFIGURATION_FILE}:{line}: {place}: ")
    assert says in caught.value.text


def test_plain_peers_may_say_who_is_there(tmp_path: Path) -> None:
    one, other = guid_text(b"1" * 16), guid_text(b"2" * 16)
    entries = ["10.1.2.3", f"10.1.2.4={one}", f"10.1.2.4 = {other.upper()}", "::0:1"]
    (tmp_path / CONFIGURATION_FILE).write_text(f"plain_peers = {entries}".replace("'", '"'))
    kept = load(str(tmp_path)).plain_peers
    assert kept == ("10.1.2.3", f"10.1.2.4={one}", f"10.1.2.4={other}", "::1")
    assert plain_peers(kept) == {
        "10.1.2.3": frozenset(), "10.1.2.4": frozenset((b"1" * 16, b"2" * 16)), "::1": frozenset(),
    }  # fmt: skip
    for wrong in ("host", "10.1.2.3=BETA", "0.0.0.0", f"={one}"):
        (tmp_path / CONFIGURATION_FILE).write_text(f'plain_peers = ["{wrong}"]')
        with pytest.raises(ConfigurationError, match="plain_peers: must be"):
            load(str(tmp_path))


def test_a_table_that_is_none(tmp_path: Path) -> None:
    for text, place in (("peers = 1", "peers"), ("\nsettings = []", "settings")):
        (tmp_path / CONFIGURATION_FILE).write_text(text)
        with pytest.raises(ConfigurationError, match=f":{text.count(chr(10)) + 1}: {place}: must"):
            load(str(tmp_path))


@pytest.mark.parametrize("text", [b"name = ", b"\xff\xfe", b"name = 'a'\nname = 'b'"])
def test_what_is_not_toml_at_all(tmp_path: Path, text: bytes) -> None:
    (tmp_path / CONFIGURATION_FILE).write_bytes(text)
    with pytest.raises(ConfigurationError, match=CONFIGURATION_FILE):
        load(str(tmp_path))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / CONFIGURATION_FILE).mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load(str(tmp_path))


def test_values_without_their_text_are_named_without_a_line() -> None:
    with pytest.raises(ConfigurationError, match=r"^onceq.toml: settings.x: there is no such key"):
        parse({"settings": {"x": 1}})


@pytest.mark.parametrize("name", [field.name for field in fields(Settings)])
def test_every_setting_can_be_set_to_its_default(name: str) -> None:
    value = getattr(Settings(), name)
    assert parse({"settings": {name: value}}).settings == Settings()


@pytest.mark.parametrize(
    ("text", "port", "wanted"),
    [
        ("127.0.0.1:1801", None, ("127.0.0.1", 1801)),
        ("host.example", 1801, ("host.example", 1801)),
        ("[::1]:7", None, ("::1", 7)),
        ("[::1]", 1801, ("::1", 1801)),
        ("host:0", None, ("host", 0)),
    ],
)
def test_addresses(text: str, port: int | None, wanted: tuple[str, int]) -> None:
    assert split_address(text, port) == wanted


@pytest.mark.parametrize("text", ["", ":1", "host", "host:", "host:x", "host:65536", "::1:7",
                                  "ho st:1", "host:1 ", "host:-1", "host:\u0661"])  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not an address"):
        split_address(text, None)
