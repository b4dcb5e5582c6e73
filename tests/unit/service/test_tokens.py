"""The door for tokens: what wrong ones cost, and who is known by what."""

from __future__ import annotations

import logging
import os
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.errors import AccessDenied, MalformedPacket, ServiceNotAvailable
from onceq.model.identification import Over, Shown, identify_application, is_private
from onceq.model.limits import (
    LOG_LINES_AT_ONCE,
    TOKEN_ADDRESSES_MAX,
    WRONG_TOKENS_A_S,
    WRONG_TOKENS_AT_ONCE,
)
from onceq.model.marks import Now
from onceq.model.policy import Policy
from onceq.model.rights import NOBODY, Actor, ActorKind
from onceq.model.tokens import (
    NONCE_BYTES,
    SALT_BYTES,
    SECRET_BYTES,
    Token,
    Tokens,
    digest_of,
    salt_of,
    text_of,
)
from onceq.service.pacing import Rates
from onceq.service.tokens import Challenge, TokenDoor, actor_of
from onceq.tls.identity import claims_of, urn_of
from tests.proofs import NONCE, asks, proof_of

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
        manager: Any = SimpleNamespace(state=state, identity=SimpleNamespace(guid=b"A" * 16))
        self.door = TokenDoor(manager, clock, Rates(clock))

    def shows(self, text: str, address: str = HERE, *, private: bool = True) -> str:
        """What comes of it."""
        try:
            challenge = self.door.challenge(
                (asked := asks(text)).token, asked.nonce, address, private=private, bound=b"here",
                random=os.urandom,
            )  # fmt: skip
            found = self.door.proven(challenge, proof_of(text, challenge.known, b"here"))
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


def test_one_that_others_could_read_counts_for_nothing(door: Door) -> None:
    assert door.shows(GOOD, private=False) == "denied"
    with pytest.raises(AccessDenied):
        door.door.check_clear(GOOD, HERE, private=False)


def challenged(door: Door, name: str, nonce: bytes = NONCE) -> Challenge:
    return door.door.challenge(name, nonce, HERE, private=True, bound=b"here", random=os.urandom)


def test_a_name_that_there_is_is_answered_as_one_that_there_is_not(door: Door) -> None:
    """Both always in the same way, with something that nobody can calculate."""
    said = {name: challenged(door, name).known for name in ("billing", "never", "", "x" * 9_999)}
    assert {tuple(map(len, (one.salt, one.nonce, one.proof))) for one in said.values()} == {
        (SALT_BYTES, NONCE_BYTES, SECRET_BYTES)
    }
    assert len({one.proof for one in said.values()}) == len(said)
    for name, known in said.items():
        assert challenged(door, name).known.salt == known.salt
    made = salt_of(b"A" * 16, "never")
    assert said["never"].salt == made, "as one that is made under that name"


def test_who_does_not_go_on_counts_as_one_that_was_wrong(door: Door) -> None:
    for _ in range(WRONG_TOKENS_AT_ONCE):
        assert isinstance(door.door.missed(challenged(door, "billing")), AccessDenied)
    assert door.shows(GOOD) == "later"


@pytest.mark.parametrize("proof", ["", "00", "zz" * 32, "00" * 32, "00" * 33, "é" * 64])
def test_nothing_else_is_a_proof(door: Door, proof: str) -> None:
    with pytest.raises(AccessDenied):
        door.door.proven(challenged(door, "billing"), proof)
    with pytest.raises(AccessDenied):
        door.door.proven(challenged(door, "never"), proof)


@pytest.mark.parametrize("size", [0, NONCE_BYTES - 1, NONCE_BYTES + 1])
def test_a_nonce_has_its_size(door: Door, size: int) -> None:
    with pytest.raises(MalformedPacket, match="a nonce has"):
        challenged(door, "billing", bytes(size))


def test_what_is_kept_lets_nobody_in(door: Door) -> None:
    """Who has read the digest, in a backup, knows no secret to cover."""
    challenge = challenged(door, "billing")
    digest = digest_of(SALT, SECRET)
    for guess in (digest, bytes(SECRET_BYTES), challenge.known.proof):
        with pytest.raises(AccessDenied):
            door.door.proven(challenge, challenge.talk.covered(digest, guess).hex())
    assert repr(digest) not in repr(challenge)


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


def _holder(certificate: Any) -> Actor:
    return identify_application(Shown(Over.TLS, THERE, claims_of(certificate))).actor


def test_a_certificate_says_by_its_common_name_who_it_is() -> None:
    assert _holder(_certificate("billing")) == Actor(ActorKind.CERTIFICATE, "billing")


def test_one_of_a_queue_manager_is_not_taken_for_an_application() -> None:
    """Whoever asks for it may choose its common name."""
    guid = bytes(range(16))
    found = _holder(_certificate("billing", uris=(urn_of(guid),)))
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
    assert _holder(certificate) == NOBODY


@pytest.mark.parametrize(
    ("peer", "over", "private"),
    [
        ("127.0.0.1", Over.TCP, True), ("::1", Over.HTTP, True), ("10.1.1.1", Over.TLS, True),
        ("10.1.1.1", Over.HTTPS, True), ("", Over.SOCKET, True), ("10.1.1.1", Over.TCP, False),
        ("10.1.1.1", Over.HTTP, False), ("fe80::1", Over.TCP, False), ("", Over.TCP, False),
    ],
)  # fmt: skip
def test_where_a_token_may_be_shown(peer: str, over: Over, private: bool) -> None:
    assert is_private(Shown(over, peer)) is private
