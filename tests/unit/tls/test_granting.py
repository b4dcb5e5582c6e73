"""What the side that gives certificates answers, byte by byte."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from onceq.model.identity import guid_text
from onceq.model.limits import HANDSHAKE_BYTES_MAX
from onceq.tls import authority, folder
from onceq.tls.granting import Asking, Granting, Signed, note_issued, read_issued
from onceq.tls.invites import Invited, Invites
from onceq.tls.own import look
from tests.certificates import ALPHA, BETA, Authority

SECRET = b"s" * 16
FROM = "10.0.0.7"


class Inviter:
    """ALPHA, which has invited somebody as BETA."""

    def __init__(self, path: Path) -> None:
        self.signs = Authority()
        self.path = path
        self.own = str(path / "tls")
        self.signs.identity(path, ALPHA)
        folder.write(f"{self.own}/{folder.AUTHORITY}", self.signs.certificate)
        folder.write(f"{self.own}/{folder.AUTHORITY_KEY}", self.signs.key)
        Invites(self.own).make(Invited("BETA", ("beta.example",)), SECRET, self.signs.now_s, 60)
        self.notes: list[dict[str, object]] = []
        self.signed: list[Signed | None] = []

    def ask(self, raw: bytes, guid: bytes = bytes(16)) -> bytes:
        granting = Granting(
            self.own, ALPHA, Asking(FROM, guid), self.signs.now_s,
            lambda **values: self.notes.append(values),
        )  # fmt: skip
        answer = granting.data(raw)
        self.signed.append(granting.signed)
        return answer

    def asked(self, guid: bytes = bytes(16), **said: object) -> Any:
        return json.loads(self.ask(json.dumps(said).encode() + b"\n", guid))

    def join(self, guid: bytes = BETA, *hosts: str, secret: bytes = SECRET) -> Any:
        csr = authority.make_request(authority.make_key(), guid, "B", hosts)
        return self.asked(want="certificate", request=csr.decode(), secret=coded(secret))


def coded(secret: bytes) -> str:
    return base64.b64encode(secret).decode()


@pytest.fixture
def inviter(tmp_path: Path) -> Inviter:
    return Inviter(tmp_path)


def test_who_is_invited_gets_a_certificate_for_his_guid_and_no_foreign_host(
    inviter: Inviter, tmp_path: Path
) -> None:
    assert inviter.asked(want="authority") == {"authority": inviter.signs.certificate.decode()}
    key = authority.make_key()
    wanted = ["BETA", "beta.example", FROM, "localhost", "alpha.example", "10.0.0.8"]
    csr = authority.make_request(key, BETA, "B", wanted)
    answer = inviter.asked(want="certificate", request=csr.decode(), secret=coded(SECRET))
    for name, data in (
        (folder.KEY, key), (folder.AUTHORITIES, answer["authority"].encode()),
        (folder.CERTIFICATE, answer["certificate"].encode()),
    ):  # fmt: skip
        folder.write(str(tmp_path / "b" / "tls" / name), data)
    files = folder.files_of(str(tmp_path / "b"))
    assert files is not None
    assert look(files, BETA).hosts == ("BETA", "beta.example", "localhost", FROM)
    assert read_issued(inviter.own)[guid_text(BETA)]["name"] == "BETA"
    assert inviter.notes == [{"result": "signed", "name": "BETA", "peer": guid_text(BETA)}]


def test_a_code_that_was_used_is_refused_whoever_comes(inviter: Inviter) -> None:
    assert "certificate" in inviter.join()
    assert "used already" in inviter.join()["error"]
    assert "used already" in inviter.join(b"C" * 16)["error"]


def test_a_wrong_secret_is_refused_and_the_right_one_still_good(inviter: Inviter) -> None:
    for secret in (b"t" * 16, b"", b"s", SECRET + b"s"):
        assert "no such invitation" in inviter.join(secret=secret)["error"]
    assert "certificate" in inviter.join()


def test_nobody_joins_as_the_one_that_invites(inviter: Inviter) -> None:
    assert "a copy of its data" in inviter.join(ALPHA)["error"]
    assert "certificate" in inviter.join(), "and the invitation is still good"


def test_a_guid_stays_with_its_name(inviter: Inviter) -> None:
    """Who is invited as MALLORY does not become the BETA that is there."""
    assert "certificate" in inviter.join()
    for name, secret, good in (("MALLORY", b"m" * 16, False), ("BETA", b"b" * 16, True)):
        Invites(inviter.own).make(Invited(name), secret, inviter.signs.now_s, 60)
        answer = inviter.join(secret=secret)
        assert ("certificate" in answer) is good
        assert good or "has joined as BETA before" in answer["error"]


def test_who_has_a_certificate_renews_his_own_and_no_other(inviter: Inviter) -> None:
    inviter.join(BETA, "beta.example")
    for shown, says in ((BETA, ""), (b"C" * 16, "renews its own"), (ALPHA, "renews its own")):
        csr = authority.make_request(authority.make_key(), BETA, "B", ["beta.example"])
        answer = inviter.asked(shown, want="certificate", request=csr.decode())
        assert says in answer.get("error", "")
        assert bool(says) is ("certificate" not in answer)
    results = [note["result"] for note in inviter.notes]
    assert results == ["signed", "renewed", "refused", "refused"]
    made = [Signed("BETA", guid_text(BETA), joined) for joined in (True, False)]
    assert inviter.signed == [*made, None, None], "what the trail is told before the answer"
    csr = authority.make_request(authority.make_key(), b"C" * 16, "C", [])
    answer = inviter.asked(b"C" * 16, want="certificate", request=csr.decode())
    assert "has not signed for this queue manager" in answer["error"]


@pytest.mark.parametrize(
    "raw",
    [
        b"\n", b"nonsense\n", b"[]\n", b'"x"\n', b"{}\n", b'{"want": "all"}\n', b"[" * 9000 + b"\n",
        b'{"want": "certificate", "secret": 7}\n', b'{"want": "certificate", "request": "x"}\n',
        b'{"want": "certificate", "request": "\xc3\xbc"}\n', b'{"want": ["authority"]}\n',
        b"x" * (HANDSHAKE_BYTES_MAX + 1), b"\x10\x02LIOR" * 10 + b"\n",
    ],
)  # fmt: skip
def test_what_is_no_request_gets_one_sentence(inviter: Inviter, raw: bytes) -> None:
    assert "no request" in json.loads(inviter.ask(raw))["error"]
    assert "certificate" in inviter.join(), "and nothing is used up by it"


def test_an_answer_comes_once_all_is_there_and_only_once(inviter: Inviter) -> None:
    granting = Granting(inviter.own, ALPHA, Asking(FROM), inviter.signs.now_s, lambda **_: None)
    asked = b'{"want": "authority"}\n'
    for at in range(len(asked) - 1):
        assert granting.data(asked[at : at + 1]) == b""
    assert granting.data(asked[-1:]).endswith(b"\n")
    assert granting.data(asked) == b""


def test_an_authority_that_cannot_sign_says_why_in_its_log_alone(inviter: Inviter) -> None:
    folder.write(f"{inviter.own}/{folder.AUTHORITY_KEY}", b"nonsense")
    answer = inviter.join()
    assert "its log says why" in answer["error"]
    (note,) = inviter.notes
    assert "files of the authority" in str(note["reason"])
    assert "nonsense" not in str(note)


def test_a_request_that_is_not_for_one_queue_manager_is_refused(inviter: Inviter) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "B")])
    uri = x509.UniformResourceIdentifier
    for uris, says in (
        ([uri("urn:other")], "not for one queue manager"),
        ([uri(f"urn:onceq:qm:{guid_text(g)}") for g in (ALPHA, BETA)], "not for one queue"),
        ([uri(f"urn:onceq:qm:{guid_text(BETA)}")], "none of the kind"),
    ):
        key = rsa.generate_private_key(65537, 1024)
        csr = x509.CertificateSigningRequestBuilder().subject_name(name)
        csr = csr.add_extension(x509.SubjectAlternativeName(uris), critical=False)
        pem = csr.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
        answer = inviter.asked(want="certificate", request=pem, secret=coded(SECRET))
        assert says in answer["error"]
    assert "certificate" in inviter.join()


def test_what_was_signed_is_kept_beside_what_was_signed_before(inviter: Inviter) -> None:
    csr = authority.make_request(authority.make_key(), ALPHA, "A", ["a"])
    note_issued(inviter.own, authority.read_request(csr), "ALPHA", 7)
    inviter.join()
    assert set(read_issued(inviter.own)) == {guid_text(ALPHA), guid_text(BETA)}
