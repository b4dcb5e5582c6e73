"""Tokens: what a holder shows, and what is kept of it."""

from __future__ import annotations

import hashlib
import json

import pytest

from onceq.errors import InvalidParameter
from onceq.model import limits, requests
from onceq.model.tokens import (
    NONCE_BYTES,
    SALT_BYTES,
    SECRET_BYTES,
    TEXT_CHARS_MAX,
    Token,
    TokenExchange,
    Tokens,
    digest_of,
    read,
    salt_of,
    text_of,
    token_name,
)

SALT, SECRET = b"salt" * 4, bytes(range(SECRET_BYTES))
LONGEST = "n" * limits.TOKEN_NAME_CHARS_MAX


def made(name: str = "billing", expires_s: int = 0) -> tuple[Tokens, Token]:
    tokens = Tokens()
    token = Token(name, SALT, digest_of(SALT, SECRET), 100, expires_s)
    tokens.put(token)
    return tokens, token


def test_a_secret_has_256_bits_and_its_salted_hash_is_kept() -> None:
    assert SECRET_BYTES * 8 == 256
    tokens, token = made()
    assert token.digest == hashlib.sha256(SALT + SECRET).digest()
    assert SECRET.hex() not in json.dumps(tokens.dump())


@pytest.mark.parametrize("name", ["a", "a_b", "a__b_", "A.b-c", LONGEST])
def test_what_a_holder_shows_is_read_back(name: str) -> None:
    text = text_of(name, SECRET)
    assert read(text) == (name, SECRET)
    assert len(text) <= TEXT_CHARS_MAX
    tokens, token = made(name)
    assert tokens.proven(name, SECRET, 0) is token


@pytest.mark.parametrize(
    "shown",
    [
        "", "onceqt", "onceqt__", text_of("billing", bytes(32)), text_of("Billing", SECRET),
        text_of("", SECRET), text_of("billing", SECRET[:-1]), text_of("billing", SECRET) + "\n",
        text_of(LONGEST + "n", SECRET), "x" * 100_000, "onceqt_billing_" + "é" * 64,
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_nothing_else_is_a_token(shown: str) -> None:
    tokens, _ = made()
    found = read(shown)
    assert found is None or tokens.proven(*found, 0) is None


def test_a_token_is_good_until_its_second() -> None:
    tokens, token = made(expires_s=200)
    assert tokens.proven(token.name, SECRET, 199) is token
    assert tokens.proven(token.name, SECRET, 200) is None
    tokens.drop(token.name)
    assert tokens.proven(token.name, SECRET, 0) is None


def test_as_much_is_hashed_for_a_name_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time would tell which names there are."""
    hashed: list[int] = []
    real = digest_of

    def count(salt: bytes, secret: bytes) -> bytes:
        hashed.append(len(salt) + len(secret))
        return real(salt, secret)

    monkeypatch.setattr("onceq.model.tokens.digest_of", count)
    tokens, _ = made()
    for name, secret in (("billing", bytes(32)), ("nobody", SECRET), ("", SECRET)):
        tokens.proven(name, secret, 0)
    assert hashed == [48] * 3


@pytest.mark.parametrize("name", ["", "-a", "a b", "a:b", "a*", "é", "a\n", LONGEST + "n"])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(InvalidParameter, match="name of a token"):
        token_name(name)
    with pytest.raises(InvalidParameter):
        requests.CreateToken(name).check()
    with pytest.raises(InvalidParameter):
        requests.RevokeToken(name).check()


@pytest.mark.parametrize("age_s", [-1, limits.TOKEN_AGE_S_MAX + 1])
def test_ages_are_bounded(age_s: int) -> None:
    with pytest.raises(InvalidParameter, match="good for"):
        requests.CreateToken("a", age_s).check()


def test_grants_of_a_token_are_checked_with_it() -> None:
    with pytest.raises(InvalidParameter, match="'fly' is not a valid Right"):
        requests.CreateToken("a", 0, [("fly", "q")]).check()
    with pytest.raises(InvalidParameter, match="needs the name of a queue"):
        requests.CreateToken("a", 0, [("send", "")]).check()
    many = [("send", "q")] * (limits.TOKEN_GRANTS_MAX + 1)
    with pytest.raises(InvalidParameter, match="more than"):
        requests.CreateToken("a", 0, many).check()


def test_no_secret_stands_in_a_text_of_ours() -> None:
    asked = requests.CreateToken("a", secret=SECRET)
    assert repr(SECRET) not in repr(asked)


def test_they_come_back_from_a_checkpoint() -> None:
    tokens, _ = made(expires_s=7)
    other = Tokens()
    other.load(json.loads(json.dumps(tokens.dump())))
    assert other.all() == tokens.all()


# ---- without saying it --------------------------------------------------------------------------

OURS, THEIRS = b"o" * NONCE_BYTES, b"t" * NONCE_BYTES
DIGEST = digest_of(SALT, SECRET)


def test_who_knows_the_digest_uncovers_the_secret() -> None:
    talk = TokenExchange(THEIRS, OURS, b"here")
    covered = talk.covered(DIGEST, SECRET)
    assert covered != SECRET
    assert talk.covered(DIGEST, covered) == SECRET


@pytest.mark.parametrize(
    "other",
    [
        TokenExchange(OURS, OURS, b"here"), TokenExchange(THEIRS, THEIRS, b"here"),
        TokenExchange(THEIRS, OURS, b"there"), TokenExchange(OURS, THEIRS, b"here"),
    ],
    ids=["nonce", "its nonce", "connection", "roles"],
)  # fmt: skip
def test_what_was_said_is_good_on_one_connection(other: TokenExchange) -> None:
    talk = TokenExchange(THEIRS, OURS, b"here")
    assert other.known(DIGEST) != talk.known(DIGEST)
    assert other.covered(DIGEST, talk.covered(DIGEST, SECRET)) != SECRET


def test_what_one_side_says_is_not_what_the_other_one_would() -> None:
    """Nobody proves something by saying it back."""
    talk = TokenExchange(THEIRS, OURS, b"here")
    assert talk.covered(DIGEST, talk.known(DIGEST)) != SECRET
    assert talk.covered(DIGEST, bytes(SECRET_BYTES)) != talk.known(DIGEST)


def test_a_salt_follows_from_the_manager_and_the_name() -> None:
    one = salt_of(b"A" * 16, "billing")
    assert len(one) == SALT_BYTES
    assert salt_of(b"A" * 16, "billing") == one
    assert len({one, salt_of(b"B" * 16, "billing"), salt_of(b"A" * 16, "other")}) == 3
