"""Addresses of computers have one form, whatever spelling the system takes for them."""

from __future__ import annotations

import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onceq.model.addresses import AWAY, address_of, is_near, leads_home

LOOPBACK = (
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
    "017700000001", "::ffff:127.0.0.1", "[::ffff:7f00:1]",
)  # fmt: skip


@pytest.mark.parametrize("spelled", LOOPBACK)
def test_every_spelling_of_loopback_is_one(spelled: str) -> None:
    assert address_of(spelled) == "127.0.0.1"
    assert is_near(spelled)


@pytest.mark.parametrize(
    "near",
    [
        "::1", "0:0:0:0:0:0:0:1", "::", "0", "0.0.0.0", "0.1.2.3", "127.255.0.1", "169.254.169.254",
        "2852039166", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "[fe80::1]", "224.0.0.1",
        "ff02::1",
    ],
)  # fmt: skip
def test_what_leads_no_further_than_here_is_near(near: str) -> None:
    assert is_near(near)


@pytest.mark.parametrize("far", ["10.1.2.3", "8.8.8.8", "2001:db8::1", "::ffff:10.1.2.3"])
def test_other_computers_are_not_near(far: str) -> None:
    assert address_of(far)
    assert not is_near(far)


@pytest.mark.parametrize(
    "name", ["", "localhost", "beta", "1.2.3.4.5", "256.1", "1.256.1", "0x", "08", "4294967296"]
)
def test_names_are_no_addresses(name: str) -> None:
    assert address_of(name) == ("0.0.0.0" if name == "0x" else "")


pieces = st.integers(0, 300) | st.integers(0, 1 << 33)
forms = st.sampled_from(["{}", "0{:o}", "0x{:x}"])
part = st.builds(lambda form, value: form.format(value), forms, pieces)
spellings = st.lists(part, min_size=1, max_size=4).map(".".join)


@given(spellings | st.text("0123456789abcdefx.:[]%", max_size=30))
@example("0x7f.1")
def test_the_system_takes_no_spelling_for_an_address_that_is_none_here(text: str) -> None:
    """Or a name could hide an address from the rule."""
    try:
        found = socket.inet_ntoa(socket.inet_aton(text))
    except (OSError, UnicodeError):
        assert address_of(address_of(text)) == address_of(text)
    else:
        assert address_of(text) == found


def test_answers_go_to_their_homes_alone() -> None:
    assert leads_home(None, "127.0.0.1")
    assert not leads_home((), "10.0.0.2")
    assert leads_home(("10.0.0.2",), "::ffff:10.0.0.2")
    assert not leads_home(("10.0.0.2",), "10.0.0.3")
    assert leads_home((AWAY,), "10.0.0.3")
    for near in ("127.0.0.1", "fe80::1%eth0", "0.0.0.0"):
        assert not leads_home((AWAY, "10.0.0.2"), near)
    assert leads_home((AWAY, "127.0.0.2"), "127.0.0.2"), "an operator has named it"
    assert not leads_home((AWAY,), "localhost"), "what is no address is nowhere"
