"""The one answer to who somebody is, and for whom it may speak."""

from __future__ import annotations

import pytest

from onceq.model.identification import (
    ITSELF,
    ON_THIS_COMPUTER,
    SOMEBODY,
    SPEECH,
    Account,
    Claims,
    House,
    Identification,
    Over,
    Proof,
    Shown,
    certified,
    identify_application,
    identify_peer,
    why_not_guid,
    why_not_name,
)
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.rights import Actor, ActorKind

ALPHA, BETA = b"A" * 16, b"B" * 16
ROOT = Account("root", free=True)
SURE, BARE = House(identity=True), House()
PLAIN = House(identity=True, plain={"10.1.2.3": frozenset()})


def manager(guid: bytes = BETA, name: str = "BETA", *hosts: str) -> Identification:
    """With a certificate."""
    found = certified(Claims(guid, name, hosts))
    assert found is not None
    return found


def known(shown: Shown, house: House) -> Identification:
    """Somebody who is spoken with."""
    found = identify_peer(shown, house)
    assert isinstance(found, Identification)
    return found


# ---- who it is ---------------------------------------------------------------------------------


def test_each_proof_has_its_row() -> None:
    assert set(SPEECH) == set(Proof)


@pytest.mark.parametrize("over", [Over.TCP, Over.TLS, Over.HTTP, Over.HTTPS])
def test_no_account_speaks_over_tcp(over: Over) -> None:
    """What the system's table says of a connection that has ended is account 0."""
    assert identify_application(Shown(over, "127.0.0.1", account=ROOT)) == SOMEBODY


def test_an_application_has_its_token_or_its_certificate_or_its_account() -> None:
    claims = Claims(name="billing")
    both = Shown(Over.SOCKET, account=ROOT, claims=claims, token="t")
    assert identify_application(both).actor == Actor(ActorKind.TOKEN, "t")
    shown = Shown(Over.TLS, "10.1.1.1", claims)
    assert identify_application(shown).actor == Actor(ActorKind.CERTIFICATE, "billing")
    own = identify_application(Shown(Over.SOCKET, account=ROOT))
    assert (own.proof, own.actor) == (Proof.ACCOUNT, Actor(ActorKind.ACCOUNT, "root", free=True))
    assert identify_application(Shown(Over.SOCKET)) == SOMEBODY, "the system does not say"


def test_with_an_identity_no_address_of_loopback_is_believed() -> None:
    for over in (Over.TCP, Over.HTTP):
        assert known(Shown(over, "127.0.0.1"), BARE) == ON_THIS_COMPUTER
        assert "plain_peers" in str(identify_peer(Shown(over, "127.0.0.1"), SURE))
        assert known(Shown(over, "10.1.2.3"), PLAIN).proof is Proof.ADDRESS
    assert known(Shown(Over.HTTPS, "127.0.0.1"), BARE) == ON_THIS_COMPUTER
    assert known(Shown(Over.HTTPS, "127.0.0.1"), SURE) == SOMEBODY


def test_in_tls_a_queue_manager_shows_its_certificate() -> None:
    assert known(Shown(Over.TLS, "10.1.1.1", Claims(BETA)), SURE).guid == BETA
    for claims in (None, Claims(), Claims(name="billing")):
        assert "no certificate" in str(identify_peer(Shown(Over.TLS, "127.0.0.1", claims), SURE))


# ---- for whom it may speak ---------------------------------------------------------------------


def test_a_certificate_speaks_for_its_own_guid() -> None:
    assert why_not_guid(manager(), BETA, proven=True) == ""
    assert "its certificate is for" in why_not_guid(manager(), ALPHA)


def test_one_that_has_a_proof_is_believed_with_it_alone() -> None:
    plain = known(Shown(Over.TCP, "10.1.2.3"), PLAIN)
    for who in (plain, ON_THIS_COMPUTER):
        assert why_not_guid(who, BETA) == ""
        assert "over TLS alone" in why_not_guid(who, BETA, proven=True)
    assert why_not_guid(ITSELF, BETA, proven=True) == ""
    assert "nothing proves" in why_not_guid(SOMEBODY, BETA)


def test_an_address_is_one_queue_manager() -> None:
    plain = known(Shown(Over.TCP, "10.1.2.3"), PLAIN)
    assert why_not_guid(plain, BETA, before=(BETA,)) == ""
    assert "onceq peer forget 10.1.2.3" in why_not_guid(plain, ALPHA, before=(BETA,))
    named = House(plain={"10.1.2.3": frozenset((BETA,))})
    listed = known(Shown(Over.TCP, "10.1.2.3"), named)
    assert why_not_guid(listed, BETA, before=(ALPHA,)) == "", "the configuration goes before"
    assert guid_text(BETA) in why_not_guid(listed, ALPHA, before=(ALPHA,))
    two = House(plain={"10.1.2.3": frozenset((BETA,)), "10.1.2.4": frozenset()})
    other = known(Shown(Over.TCP, "10.1.2.4"), two)
    assert "another address by plain_peers" in why_not_guid(other, BETA)
    assert why_not_guid(other, ALPHA) == ""


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("BETA", ("BETA",)), ("beta.example.net", ("BETA",)), ("10.1.1.2", ("", "10.1.1.2")),
        ("Other", ("BETA", "other")), ("fd00::2", ("", "fd00::2")), ("[fd00::2]", ("", "fd00::2")),
    ],
)  # fmt: skip
def test_a_certificate_answers_for_the_names_in_it(host: str, names: tuple[str, ...]) -> None:
    assert why_not_name(manager(BETA, *names), BETA, host, b"") == ""


@pytest.mark.parametrize("host", ["ALPHA", "alpha.beta", "10.1.1.2", "beta2", "127.0.0.1"])
def test_and_for_no_other(host: str) -> None:
    who = manager(BETA, "BETA", "10", "10.1.1.20", "localhost", "127.0.0.1")
    assert "is not for" in why_not_name(who, BETA, host, b"")


def test_a_name_stays_with_its_queue_manager() -> None:
    mallory = manager(ALPHA, "BETA")
    assert "than before" in why_not_name(mallory, ALPHA, "BETA", BETA)
    renamed = manager(BETA, "GAMMA")
    assert why_not_name(renamed, BETA, "BETA", BETA) == "", "it is the one that was there"
    assert why_not_name(renamed, BETA, "", b"") == "", "a GUID was asked for"
    assert why_not_name(ON_THIS_COMPUTER, ALPHA, "BETA", BETA, pinned=False) == ""
    assert "than before" in why_not_name(ON_THIS_COMPUTER, ALPHA, "BETA", BETA)
    assert why_not_name(ON_THIS_COMPUTER, ALPHA, "BETA", b"") == "", "nothing is proven there"
    assert why_not_name(ITSELF, ALPHA, "BETA", BETA) == ""


def test_a_certificate_of_an_application_names_no_queue_manager() -> None:
    found = certified(Claims(name="billing"))
    assert found is not None
    assert found.guid == NO_GUID
    assert certified(Claims(name="*")) is None
