"""For whom an authority may speak that is limited, and which one may name applications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ConfigurationError
from onceq.model.identity import guid_text
from onceq.service.config import parse
from onceq.tls.identity import Scope, fingerprint_of
from onceq.tls.members import MemberJudge
from onceq.tls.own import read_own
from tests.certificates import ALPHA, BETA, Authority

OURS, PARTNER = "a" * 64, "b" * 64
OF_BETA = f"peer:{guid_text(BETA)}"


def certificate(name: str, *hosts: str, guid: bytes = b"") -> dict[str, Any]:
    said = [("DNS", host) for host in hosts]
    if guid:
        said.append(("URI", f"urn:onceq:qm:{guid_text(guid)}"))
    return {"subject": ((("commonName", name),),), "subjectAltName": tuple(said)}


@pytest.mark.parametrize(
    ("shown", "outside"),
    [
        (certificate("BETA", "beta.partner.example", "localhost", guid=BETA), ""),
        (certificate("beta", guid=BETA), ""),
        (certificate("BETA", guid=ALPHA), guid_text(ALPHA)),
        (certificate("ALPHA", guid=BETA), "'ALPHA'"),
        (certificate("BETA", "alpha.example", guid=BETA), "'alpha.example'"),
        (certificate("BETA", "partner.example.org", guid=BETA), "'partner.example.org'"),
        (certificate("spark-7"), ""),
        (certificate("billing"), "'billing'"),
        (certificate(""), "''"),
    ],
)
def test_a_certificate_is_within_a_scope_if_each_of_its_names_is(
    tmp_path: Path, shown: dict[str, Any], outside: str
) -> None:
    scope = Scope.of([OF_BETA, "name:BETA", "name:*.partner.example", "certificate:spark-*"])
    assert scope.why_not(shown) == "" if not outside else outside in scope.why_not(shown)
    standing = MemberJudge(str(tmp_path))
    standing.limit({PARTNER: scope}, None)
    assert standing.why_not(shown, OURS) == ""
    assert outside in standing.why_not(shown, PARTNER)
    assert bool(standing.why_not(shown, PARTNER)) is bool(outside)


def test_of_several_authorities_the_own_one_names_applications(tmp_path: Path) -> None:
    standing = MemberJudge(str(tmp_path))
    standing.limit({}, OURS)
    assert standing.why_not(certificate("billing"), OURS) == ""
    assert "[authorities]" in standing.why_not(certificate("billing"), PARTNER)
    assert standing.why_not(certificate("BETA", guid=BETA), PARTNER) == ""
    standing.limit({PARTNER: Scope.of(["certificate:billing"])}, OURS)
    assert standing.why_not(certificate("billing"), PARTNER) == ""
    assert "may not speak" in standing.why_not(certificate("other"), PARTNER)
    assert "may not speak" in standing.why_not(certificate("BETA", guid=BETA), PARTNER)


def test_a_scope_is_written_in_the_configuration() -> None:
    shown = "AB:" * 31 + "AB"
    found = parse({"authorities": {shown: [OF_BETA, "name:*"]}}).authorities
    assert found == {fingerprint_of(shown): Scope(frozenset((guid_text(BETA),)), ("*",))}
    wrong: Any
    for wrong in (
        {"xy": []}, {shown: "peer:*"}, {shown: ["peer:x"]}, {shown: ["name"]}, {shown: ["name:"]},
        {shown: ["name:a*b"]}, {shown: ["account:x"]}, {shown: [7]}, [shown],
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="authorities"):
            parse({"authorities": wrong})


def test_the_authority_of_the_own_certificate_is_known(tmp_path: Path) -> None:
    signs, other = Authority(), Authority("OTHER")
    files = signs.identity(tmp_path, ALPHA, trusts=other.certificate + signs.certificate)
    found = read_own(files, ALPHA).authority
    from onceq.tls.authority import fingerprint

    assert found == fingerprint(signs.certificate).hex()
    files = signs.identity(tmp_path, ALPHA, trusts=other.certificate)
    assert read_own(files, ALPHA).authority == ""
