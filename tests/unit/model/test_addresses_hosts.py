"""Names of computers."""

from __future__ import annotations

import pytest

from onceq.model.addresses import AddressBook, is_one_of, means_itself, name_for_others

EVERYBODY = [
    ".", "localhost", "LOCALHOST", "localhost.localdomain", "localhost6", "db.localhost",
    "ip6-loopback", "127.0.0.1", "127.1", "127.0.0.7", "::1", "[::1]", "::ffff:127.0.0.1",
    "0.0.0.0", "0", "::",
]  # fmt: skip
OWN = ["ALPHA", "localhosts", "mylocalhost", "127", "127.example", "10.0.0.7", "alpha.example", ""]


@pytest.mark.parametrize("index", range(len(EVERYBODY)))
def test_names_that_each_computer_has_for_itself(index: int) -> None:
    assert means_itself(EVERYBODY[index])


@pytest.mark.parametrize("index", range(len(OWN)))
def test_names_that_mean_one_computer(index: int) -> None:
    assert not means_itself(OWN[index])


def test_what_others_read() -> None:
    assert name_for_others("ALPHA", ["other"]) == "ALPHA"
    assert name_for_others("LOCALHOST", ["127.0.0.1", "wide", "alpha"]) == "alpha"
    assert name_for_others("LOCALHOST", ["127.0.0.1"]) == "LOCALHOST", "nothing better is known"


def test_a_name_with_its_domain_is_the_same_computer() -> None:
    assert is_one_of("Beta", {"beta"})
    assert is_one_of("beta.example.", {"beta"})
    assert is_one_of("a.example", {"a.example"})
    assert not is_one_of("accounts", {"beta"})
    assert not is_one_of("a.example", {"a.other"})


def test_the_configuration_goes_before_the_directory() -> None:
    book = AddressBook.of({"Beta": "h:1", "{AB}": "h:2"}, {"beta": "d:1", "gamma": "d:2"})
    assert book.find("BETA") == ("h:1", "[peers] of onceq.toml")
    assert book.find("ab") == ("h:2", "[peers] of onceq.toml")
    assert book.find("Gamma") == ("d:2", "the directory")
    assert book.find("delta") == ("", "")
