"""The door for tokens: what wrong ones cost, and who is known by what."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.errors import AccessDenied, ServiceNotAvailable
from onceq.model.limits import (
    LOG_LINES_AT_ONCE,
    TOKEN_ADDRESSES_MAX,
    WRONG_TOKENS_A_S,
    WRONG_TOKENS_AT_ONCE,
)
from onceq.model.rights import Actor, ActorKind, Policy
from onceq.model.time import Now
from onceq.model.tokens import SECRET_BYTES, Token, Tokens, digest_of, text_of
from onceq.service.identities import certified, is_private
from onceq.service.rates import Rates
from onceq.service.tokens import TokenDoor, actor_of
from onceq.tls.identity import urn_of

SALT, SECRET = b"s" * 16, bytes(range(SECRET_BYTES))
GOOD, WRONG = text_of("billing", SECRET), text_of("billing", bytes(SECRET_BYTES))
HERE, THERE = "10.1.1.1", "10.1.1.2"


class Door:
    """One with a clock in the hands of the test."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        tokens = Tokens()
        tokens.put(Token("billing", SALT, digest_of(SALT, SECRET), 0))
        state = SimpleNamespace(tokens=tokens, policy=Policy())
        clock: Any = SimpleNamespace(read=lambda: Now(self.now_us, self.now_us))
        manager: Any = SimpleNamespace(state=state)
        self.door = TokenDoor(manager, clock, Rates(clock))

    def shows(self, text: str, address: str = HERE, *, private: bool = True) -> str:
        """What comes of it."""
        try:
            found = self.door.proven(text, address, private=private)
        except AccessDenied:
            return "denied"
        except ServiceNotAvailable:
            return "later"
        assert actor_of(found) == Actor(ActorKind.TOKEN, "billing")
        return "good"


@pytest.fixture
def door() -> Door:
    return Door()


def test_good_ones_are_not_counted(door: Door) -> None:
    for _ in range(10 * WRONG_TOKENS_AT_ONCE):
        assert door.shows(GOOD) == "good"
    assert not door.door._wrong


def test_wrong_ones_cost_only_so_much(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []

    def count(salt: bytes, secret: bytes) -> bytes:
        hashed.append(salt)
        return digest_of(salt, secret)

    monkeypatch.setattr("onceq.model.tokens.digest_of", count)
    said = [door.shows(WRONG) for _ in range(WRONG_TOKENS_AT_ONCE + 5)]
    assert said == ["denied"] * WRONG_TOKENS_AT_ONCE + ["later"] * 5
    assert len(hashed) == WRONG_TOKENS_AT_ONCE, "above that nothing is hashed"
    assert door.shows(GOOD) == "later", "nobody knows that it is good"
    assert door.shows(GOOD, THERE) == "good", "others do not pay for it"
    hashed.clear()
    for _ in range(100):
        door.now_us += 100_000
        door.shows(WRONG)
    assert len(hashed) <= 10 * WRONG_TOKENS_A_S + 1, "in ten seconds"
    door.now_us += 1_000_000
    assert door.shows(GOOD) == "good", "forgiven soon"


def test_they_are_forgiven_one_by_one(door: Door) -> None:
    for _ in range(WRONG_TOKENS_AT_ONCE):
        door.shows(WRONG)
    door.now_us += int(1_000_000 / WRONG_TOKENS_A_S)
    assert door.shows(WRONG) == "denied"
    assert door.shows(WRONG) == "later"
    door.now_us += 3_600_000_000
    assert door.shows(GOOD) == "good"
    assert not door.door._wrong, "nothing is kept of who is forgiven"


def test_what_is_remembered_of_addresses_is_bounded(door: Door) -> None:
    for n in range(TOKEN_ADDRESSES_MAX + 50):
        door.shows(WRONG, f"2001:db8::{n:x}")
    assert len(door.door._wrong) == TOKEN_ADDRESSES_MAX
    assert "2001:db8::0" not in door.door._wrong


def test_one_that_others_could_read_is_not_even_hashed(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceq.model.tokens.digest_of", lambda salt, secret: 1 / 0)
    assert door.shows(GOOD, private=False) == "denied"


def test_they_are_logged_as_a_rate_and_without_their_text(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for n in range(3 * LOG_LINES_AT_ONCE):
            door.shows(text_of("billing", bytes([n]) * SECRET_BYTES), f"10.1.2.{n}")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == LOG_LINES_AT_ONCE
    assert all(line.startswith("wrong token: address=10.1.2.") for line in lines)
    assert not any("onceqt" in line or "billing" in line for line in lines)


# ---- certificates -------------------------------------------------------------------------------


def _certificate(*names: str, uris: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "subject": tuple((("commonName", name),) for name in names),
        "subjectAltName": tuple(("URI", uri) for uri in uris),
    }


def test_a_certificate_says_by_its_common_name_who_it_is() -> None:
    assert certified(_certificate("billing")) == Actor(ActorKind.CERTIFICATE, "billing")


def test_one_of_a_queue_manager_is_not_taken_for_an_application() -> None:
    """Whoever asks for it may choose its common name."""
    guid = bytes(range(16))
    found = certified(_certificate("billing", uris=(urn_of(guid),)))
    assert found is not None
    assert found.kind is ActorKind.PEER
    assert found.name == urn_of(guid).rpartition(":")[2]


@pytest.mark.parametrize(
    "certificate",
    [
        None, {}, _certificate(), _certificate("a", "b"), _certificate("*"), _certificate("a*"),
        _certificate("a b"), _certificate("a\n"), _certificate("x" * 129), _certificate(""),
    ],
    ids=str,
)  # fmt: skip
def test_a_name_that_is_none_or_could_be_a_pattern_is_nobodys(certificate: Any) -> None:
    """Who makes a queue is granted rights by his name: as a pattern it would grant them to all."""
    assert certified(certificate) is None


class Transport:
    """Of asyncio, as far as it is asked."""

    def __init__(self, peer: str | None, *, tls: bool = False) -> None:
        self._known = {
            "socket": SimpleNamespace(getpeername=self._name), "ssl_object": tls or None
        }  # fmt: skip
        self._peer = peer

    def _name(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError(107, "not connected")
        return self._peer, 1

    def get_extra_info(self, name: str) -> object:
        return self._known[name]


@pytest.mark.parametrize(
    ("peer", "tls", "private"),
    [
        ("127.0.0.1", False, True), ("::1", False, True), ("10.1.1.1", True, True),
        ("10.1.1.1", False, False), ("fe80::1%lo", False, False), (None, False, False),
    ],
)  # fmt: skip
def test_where_a_token_may_be_shown(peer: str | None, tls: bool, private: bool) -> None:
    transport: Any = Transport(peer, tls=tls)
    assert is_private(transport) is private
    assert not is_private(None)
