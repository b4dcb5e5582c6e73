"""The queue manager, and the name, that a certificate is for."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model.identity import NO_GUID, guid_text
from onceq.tls.identity import guid_of, name_of, urn_of
from tests.certificates import ALPHA, BETA


@pytest.mark.parametrize(
    ("names", "guid"),
    [
        ([("URI", urn_of(ALPHA))], ALPHA),
        ([("DNS", "a"), ("URI", urn_of(ALPHA).upper()), ("URI", "urn:other:x")], ALPHA),
        ([("URI", urn_of(ALPHA)), ("URI", urn_of(BETA))], NO_GUID),
        ([("DNS", urn_of(ALPHA))], NO_GUID),
        ([("URI", "urn:onceq:qm:nonsense")], NO_GUID),
        ([("URI", f"x{urn_of(ALPHA)}")], NO_GUID),
        ([], NO_GUID),
    ],
)
def test_the_queue_manager_that_a_certificate_is_for(names: Any, guid: bytes) -> None:
    assert guid_of({"subjectAltName": tuple(names)}) == guid


def test_no_certificate_is_for_nobody() -> None:
    assert guid_of(None) == guid_of({}) == NO_GUID
    assert name_of(None) == name_of({}) == ""


def test_the_name_that_a_certificate_is_for() -> None:
    one = (("commonName", "billing"),)
    assert name_of({"subject": ((("countryName", "DE"),), one)}) == "billing"
    assert name_of({"subject": (one, one)}) == "", "of two names neither counts"
    assert urn_of(ALPHA) == f"urn:onceq:qm:{guid_text(ALPHA)}"
