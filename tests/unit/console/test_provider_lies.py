"""Each lie that a provider, or somebody in its place, can tell; keys that change; a provider that
is away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.testclient import TestClient

from onceq.console import provider as asking
from onceq.console.guard import (
    KEYS_AGAIN_S,
    PROVIDER_AGAIN_S,
    PROVIDER_BYTES_MAX,
    PROVIDER_KEPT_S,
    SKEW_S,
    TOKEN_AGE_S_MAX,
)
from onceq.console.sign_in import BEGIN
from onceq.errors import ConfigurationError
from tests.openid import CLIENT, Key, OpenId, by_public_key, provider, unsigned
from tests.unit.console.signing_in import House, is_in, refused, signed_in

# ---- lies of the provider, or of somebody in its place -------------------------------------------

Lie = Callable[[OpenId], None]


def _claims(**said: Any) -> Lie:
    return lambda openid: openid.claims.update(said)


def _in(seconds: int) -> int:
    return int(time.time()) + seconds


def _times(**seconds: int) -> Lie:
    """Claims that are times, from when the lie is told: tests are collected long before."""
    return lambda openid: openid.claims.update({name: _in(s) for name, s in seconds.items()})


LIES: dict[str, tuple[Lie, str]] = {
    "no signature": (lambda o: setattr(o, "sign", unsigned), "signed by .*none.*proves nothing"),
    "its public key as a secret": (
        lambda o: setattr(o, "sign", by_public_key(o.key)), "signed by .*HS256.*proves nothing",
    ),
    "another issuer": (_claims(iss="https://evil.example"), "(?i)issuer"),
    "the issuer and more": (
        lambda o: o.claims.update(iss=o.issuer + "/"), "(?i)issuer",
    ),
    "no issuer": (_claims(iss=None), "iss"),
    "another audience": (_claims(aud="another-client"), "(?i)audience"),
    "no audience": (_claims(aud=None), "aud"),
    "audiences without a party": (_claims(aud=[CLIENT, "other"]), "another application"),
    "another party": (_claims(aud=[CLIENT, "other"], azp="other"), "another application"),
    "it is over": (_times(exp=-SKEW_S - 60), "(?i)expired"),
    "no end": (_claims(exp=None), "exp"),
    "no time": (_claims(iat=None), "iat"),
    "made before": (_times(iat=-TOKEN_AGE_S_MAX - SKEW_S - 60), "sign-in of before"),
    "made later": (_times(iat=SKEW_S + 3600), "not yet valid"),
    "not yet": (_times(nbf=SKEW_S + 3600), "not yet valid"),
    "another nonce": (_claims(nonce="of another sign-in"), "of another sign-in"),
    "no nonce": (_claims(nonce=None), "of another sign-in"),
    "a nonce that is no text": (_claims(nonce=7), "of another sign-in"),
    "nobody": (_claims(sub=None), "sub"),
    "an empty subject": (_claims(sub=""), "(?i)whom it is about"),
    "a long subject": (_claims(sub="x" * 256), "whom it is about"),
    "a subject on two lines": (_claims(sub="a\nb"), "in ASCII"),
    "critical headers that nobody knows": (
        lambda o: o.headers.update(crit=["trust"], trust=True), "not believed",
    ),
    "two keys of one name": (
        lambda o: o.published.append(o.published[0]), "which of the provider",
    ),
    "a key for encryption": (
        lambda o: setattr(o, "published", [Key(o.key.private, "RS256", o.key.kid,
                                               {"use": "enc"})]), "does not publish",
    ),
    "a key of another algorithm": (
        lambda o: setattr(o, "published", [Key(o.key.private, "RS256", o.key.kid,
                                               {"alg": "RS512"})]), "does not publish",
    ),
    "no ID token": (
        lambda o: o.answer.update({"/token": lambda: JSONResponse({"access_token": "x"})}),
        "no ID token",
    ),
    "a token that is none": (
        lambda o: setattr(o, "sign", lambda *_: "a.b.c"), "no token",
    ),
    "a token that is too long": (
        _claims(more="x" * 65536), "more than",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_the_provider_says_is_not_believed(
    house: House, browser: TestClient, lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    tell, why = LIES[lie]
    tell(house.openid)
    with caplog.at_level(logging.INFO, "onceq.console"):
        refused(signed_in(browser), why)
    assert not is_in(browser)
    assert "an ID token was refused" in caplog.text


def test_a_clock_may_differ_a_little(house: House, browser: TestClient) -> None:
    house.openid.claims.update(exp=_in(-1), iat=_in(-SKEW_S), nbf=_in(SKEW_S // 2))
    signed_in(browser)
    assert is_in(browser)


def test_a_token_of_another_key_is_not_believed(
    house: House, browser: TestClient, keys: tuple[Key, Key]
) -> None:
    """The key has the right name, and is another one."""
    forged = Key(keys[1].private, "RS256", house.openid.key.kid)
    house.openid.sign = forged.sign
    refused(signed_in(browser), "(?i)signature")


def test_a_token_that_was_changed_is_not_believed(house: House, browser: TestClient) -> None:
    def changed(claims: dict[str, Any], headers: dict[str, Any]) -> str:
        head, _, sign = house.openid.key.sign(claims, headers).split(".")
        claims = {**claims, "groups": ["operators"]}
        return ".".join((head, unsigned(claims, {}).split(".")[1], sign))

    house.openid.groups = ["strangers"]
    house.openid.sign = changed
    refused(signed_in(browser), "(?i)signature")


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
def test_a_short_key_is_not_believed(house: House, browser: TestClient) -> None:
    house.openid.key = Key.made(bits=1024)
    house.openid.published = [house.openid.key]
    refused(signed_in(browser), "1024 bits")


def test_a_key_that_the_token_does_not_name_counts_if_it_is_the_only_one(
    house: House, browser: TestClient, keys: tuple[Key, Key]
) -> None:
    def unnamed(claims: dict[str, Any], headers: dict[str, Any]) -> str:

        return jwt.encode(claims, keys[0].private, "RS256")

    house.openid.sign = unnamed
    signed_in(browser)
    assert is_in(browser)
    house.openid.published = [*keys]
    house.at += PROVIDER_KEPT_S
    with house.browser() as other:
        refused(signed_in(other), "which of the provider")


# ---- keys change ---------------------------------------------------------------------------------


def test_new_keys_are_asked_for_when_a_token_names_one(house: House) -> None:
    for algorithm in ("RS256", "ES256"):
        with house.browser() as browser:
            signed_in(browser)
            assert is_in(browser)
        house.openid.change_keys(algorithm)
        house.at += KEYS_AGAIN_S
    assert house.openid.asked["/jwks"] == 2


def test_unknown_keys_do_not_have_it_asked_again_and_again(
    house: House, keys: tuple[Key, Key]
) -> None:
    house.openid.key = keys[1]
    with house.browser() as browser:
        for _ in range(4):
            refused(signed_in(browser), "does not publish")
        assert house.openid.asked["/jwks"] == 2
        house.at += KEYS_AGAIN_S
        refused(signed_in(browser), "does not publish")
        assert house.openid.asked["/jwks"] == 3


def test_a_key_that_is_not_published_any_more_is_not_believed_for_long(
    house: House, keys: tuple[Key, Key]
) -> None:
    with house.browser() as browser:
        signed_in(browser)
        assert is_in(browser)
    house.openid.published = [keys[1]]
    house.at += PROVIDER_KEPT_S
    with house.browser() as browser:
        refused(signed_in(browser), "does not publish")


# ---- the provider is away, or none ---------------------------------------------------------------


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks", "/token"])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: PlainTextResponse("down", 500), "answers 500"),
        (lambda: PlainTextResponse("<html>"), "not JSON"),
        (lambda: JSONResponse(["x"]), "not JSON"),
        (lambda: PlainTextResponse("[" * 100_000), "not JSON"),
        (lambda: RedirectResponse("http://127.0.0.1:9/"), "answers 307"),
        (lambda: PlainTextResponse("x" * (PROVIDER_BYTES_MAX + 1)), "too much"),
    ],
    ids=["error", "page", "list", "deep", "elsewhere", "long"],
)
def test_a_provider_that_is_none_is_told_as_away(
    house: House, browser: TestClient, path: str, answer: Callable[[], Response], why: str
) -> None:
    house.openid.answer[path] = answer
    if path.startswith("/."):
        refused(browser.get(BEGIN), why, 503)
    else:
        refused(signed_in(browser), why, 503)
    assert not is_in(browser)
    house.openid.answer.clear()
    house.at += PROVIDER_AGAIN_S
    signed_in(browser)
    assert is_in(browser), "and once it is back, all is well"


def test_a_provider_that_does_not_run_is_told_as_away(tmp_path: Path) -> None:
    with provider() as gone:
        house = House(tmp_path, gone)
    with house.browser() as browser:
        refused(browser.get(BEGIN), "is away", 503)
        assert "without --openid" in browser.get(BEGIN).text


def test_a_provider_is_believed_by_its_certificate(tmp_path: Path) -> None:
    """By an authority that the file names; else by those of the system alone."""
    authority = trustme.CA()
    own = tmp_path / "own.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(own))
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    with provider(str(own)) as openid:
        with House(tmp_path, openid, 'authorities = "authority.pem"').browser() as browser:
            signed_in(browser)
            assert is_in(browser)
        with House(tmp_path, openid).browser() as browser:
            refused(browser.get(BEGIN), "(?i)certificate", 503)
        with pytest.raises(ConfigurationError, match=r"people\.toml has no certificates"):
            House(tmp_path, openid, 'authorities = "people.toml"')


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"issuer": "https://evil.example"}, "another name"),
        ({"issuer": None}, "another name"),
        ({"token_endpoint": "http://evil.example/token"}, "not reached by HTTPS"),
        ({"jwks_uri": "http://evil.example/jwks"}, "not reached by HTTPS"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"jwks_uri": None}, "jwks_uri"),
        ({"token_endpoint": ["x"]}, "token_endpoint"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri"),
    ],
)
def test_a_description_that_lies_is_not_believed(
    house: House, browser: TestClient, said: dict[str, Any], why: str
) -> None:
    house.openid.described.update(said)
    refused(browser.get(BEGIN), why, 503)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks", "/token"])
def test_a_provider_that_goes_on_and_on_is_not_waited_for(
    house: House, browser: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(3600)

    monkeypatch.setattr(asking, "PROVIDER_S_MAX", 0.5)
    house.openid.answer[path] = lambda: StreamingResponse(silent())
    refused(browser.get(BEGIN) if path.startswith("/.") else signed_in(browser), "within", 503)


def test_few_ask_the_provider_at_a_time(
    tmp_path: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PROVIDER_ASKS_MAX", 0)
    with House(tmp_path, openid).browser() as browser:
        refused(browser.get(BEGIN), "others ask it already", 503)
    assert openid.asked == {}


def test_who_knocks_often_has_a_provider_that_is_away_asked_once(
    house: House, browser: TestClient
) -> None:
    path = "/.well-known/openid-configuration"
    house.openid.answer[path] = lambda: PlainTextResponse("down", 500)
    for _ in range(3):
        refused(browser.get(BEGIN), "answers 500", 503)
    assert house.openid.asked == {path: 1}
    house.at += PROVIDER_AGAIN_S
    refused(browser.get(BEGIN), "answers 500", 503)
    assert house.openid.asked == {path: 2}


def test_who_knocks_often_has_the_provider_asked_once(house: House, browser: TestClient) -> None:
    for _ in range(5):
        browser.get(BEGIN)
    assert house.openid.asked == {"/.well-known/openid-configuration": 1}
