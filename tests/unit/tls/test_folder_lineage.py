"""The authorities that a member is told, and what it makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceq.errors import ConfigurationError
from onceq.tls import folder
from tests.certificates import Authority

OLD, NEW, PARTNER = (Authority(name) for name in ("OLD", "NEW", "PARTNER"))


@pytest.fixture
def own(tmp_path: Path) -> str:
    both = OLD.certificate + PARTNER.certificate
    (tmp_path / folder.AUTHORITIES).write_bytes(both)
    joined = {"address": "127.0.0.1:1801", "guid": "x"}  # as an earlier version has written it
    (tmp_path / folder.JOINED).write_text(json.dumps(joined))
    return str(tmp_path)


def believed(own: str) -> set[str]:
    return set(folder.split((Path(own) / folder.AUTHORITIES).read_text()))


def known(*authorities: Authority) -> set[str]:
    return {one for each in authorities for one in folder.split(each.certificate.decode())}


def test_one_takes_the_place_of_another_and_those_of_others_stay(own: str) -> None:
    both = (OLD.certificate + NEW.certificate).decode()
    assert not folder.follow(own, OLD.certificate.decode())
    assert folder.follow(own, both)
    assert believed(own) == known(OLD, NEW, PARTNER)
    assert not folder.follow(own, both)
    assert folder.follow(own, NEW.certificate.decode())
    assert believed(own) == known(NEW, PARTNER)
    assert folder.read_joined(own)["lineage"] == list(known(NEW))


NONSENSE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"


@pytest.mark.parametrize("pem", ["", "nonsense", NONSENSE, NEW.certificate.decode()[:300]])
def test_what_is_no_authority_changes_nothing(own: str, pem: str) -> None:
    before = believed(own)
    with pytest.raises(ConfigurationError, match="are none"):
        folder.follow(own, pem)
    assert believed(own) == before
    assert folder.read_joined(own)["lineage"] == []


def test_more_than_a_rotation_needs_is_refused(own: str) -> None:
    many = "".join(Authority(str(one)).certificate.decode() for one in range(5))
    with pytest.raises(ConfigurationError, match="too many"):
        folder.follow(own, many)
