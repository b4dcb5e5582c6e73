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
from onceq.tls.invitations import Asking, Granting, Invited, Invites, Signed
from onceq.tls.members import HERE, Member, Removal, put_member, put_removed, read_members
from onceq.tls.own import read_own
from tests.certificates import ALPHA, BETA, Authority

SECRET = b"s" * 16
FROM = "10.0.0.7"


class Inviter:
    """ALPHA, which has invited somebody as BETA."""

    def __init__(self, path: Path) -> None:
        self.signs = Authority()
        self.authority = authority.fingerprint(self.signs.certificate).hex()
        self.path = path
        self.own = str(path / "tls")
        self.signs.identity(path, ALPHA)
        folder.write(f"{self.own}/{folder.AUTHORITY}", self.signs.certificate)
        folder.write(f"{self.own}/{folder.AUTHORITY_KEY}", self.signs.key)
        Invites(self.own).make(Invited("BETA", ("beta.example",)), SECRET, self.signs.now_s, 60)
        self.notes: list[dict[str, object]] = []
        self.signed: list[Signed | None] = []
        self.meanings: dict[bytes, str] = {}
        """What a GUID means at ALPHA already."""

    authority = ""
    """Whose certificate somebody shows; ALPHA's own, if he shows one."""
    begins_s = 0
    """From when the certificate is good that somebody shows."""

    def granting(self, guid: bytes = bytes(16)) -> Granting:
        return Granting(
            self.own, ALPHA, Asking(FROM, guid, self.begins_s, self.authority), self.signs.now_s,
            note=lambda **values: self.notes.append(values),
            known=lambda guid, name: self.meanings.get(guid, ""),
        )  # fmt: skip

    def invite(self, name: str, *hosts: str, secret: bytes, guid: bytes = b"") -> None:
        whom = Invited(name, hosts, guid_text(guid) if guid else "")
        Invites(self.own).make(whom, secret, self.signs.now_s, 60)

    def ask(self, raw: bytes, guid: bytes = bytes(16)) -> bytes:
        granting = self.granting(guid)
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


def common_name(pem: str) -> str:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_pem_x509_certificate(pem.encode()).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


@pytest.fixture
def inviter(tmp_path: Path) -> Inviter:
    return Inviter(tmp_path)


def test_the_names_in_a_certificate_are_those_of_the_invitation(
    inviter: Inviter, tmp_path: Path
) -> None:
    assert inviter.asked(want="authority") == {"authority": inviter.signs.certificate.decode()}
    key = authority.make_key()
    wanted = [FROM, "localhost", "127.0.0.1", "alpha.example", "10.0.0.8", "ALPHA"]
    csr = authority.make_request(key, BETA, "ALPHA", wanted)
    answer = inviter.asked(want="certificate", request=csr.decode(), secret=coded(SECRET))
    for name, data in (
        (folder.KEY, key), (folder.AUTHORITIES, answer["authority"].encode()),
        (folder.CERTIFICATE, answer["certificate"].encode()),
    ):  # fmt: skip
        folder.write(str(tmp_path / "b" / "tls" / name), data)
    files = folder.files_of(str(tmp_path / "b"))
    assert files is not None
    found = read_own(files, BETA)
    assert found.hosts == ("BETA", "beta.example")
    assert common_name(answer["certificate"]) == "BETA"
    kept = read_members(inviter.own)[guid_text(BETA)]
    assert (kept.name, kept.hosts, kept.serial) == ("BETA", ("beta.example",), found.serial)
    assert kept.ends_s == found.ends_s
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
    granting = inviter.granting()
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
    first = Member(guid_text(ALPHA), "ALPHA", ("a",), 7, "0A", 8)
    put_member(inviter.own, first)
    inviter.join()
    found = read_members(inviter.own)
    assert set(found) == {guid_text(ALPHA), guid_text(BETA)}
    assert found[guid_text(ALPHA)] == first


@pytest.mark.parametrize(
    "meaning", ["queue manager X has rights here", "queue manager X answers under gamma"]
)
def test_a_guid_that_means_something_is_signed_for_by_name_alone(
    inviter: Inviter, meaning: str
) -> None:
    """And a code that is refused for its GUID is good for the right one."""
    inviter.meanings[b"C" * 16] = meaning
    said = inviter.join(b"C" * 16)["error"]
    assert meaning in said
    assert f"onceq tls invite BETA --guid {guid_text(b'C' * 16)}" in said
    assert guid_text(b"C" * 16) not in read_members(inviter.own)
    assert "certificate" in inviter.join(BETA)
    inviter.invite("GAMMA", secret=b"g" * 16, guid=b"C" * 16)
    assert "is for queue manager" in inviter.join(b"D" * 16, secret=b"g" * 16)["error"]
    assert "certificate" in inviter.join(b"C" * 16, secret=b"g" * 16)
    inviter.meanings[BETA] = meaning
    inviter.invite("BETA", secret=b"b" * 16)
    assert "certificate" in inviter.join(BETA, secret=b"b" * 16), "it has joined before"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "0.0.0.0", "alpha", "10.0.0.1"])
def test_a_certificate_has_no_name_that_is_shared_or_of_somebody_else(
    inviter: Inviter, host: str
) -> None:
    """Who has a certificate for an address is told the tokens that are for whoever is there."""
    put_member(inviter.own, Member(guid_text(ALPHA), "ALPHA", ("10.0.0.1",), 7, "0A", 8))
    inviter.invite("C", host, secret=b"c" * 16)
    said = inviter.join(b"C" * 16, secret=b"c" * 16)["error"]
    assert said.startswith(host)
    assert guid_text(b"C" * 16) not in read_members(inviter.own)
    inviter.invite("ALPHA", secret=b"d" * 16)
    assert "in the certificate of ALPHA" in inviter.join(b"C" * 16, secret=b"d" * 16)["error"]


def test_what_an_earlier_version_let_stand_in_a_certificate_goes_with_its_renewal(
    inviter: Inviter,
) -> None:
    written = {
        guid_text(ALPHA): {"name": "ALPHA", "hosts": ["10.0.0.1"], "at_s": 7},
        guid_text(BETA): {
            "name": "BETA", "hosts": ["BETA", "localhost", "127.0.0.1", "10.0.0.1", "b.example"],
            "at_s": 7,
        },
    }  # fmt: skip
    folder.write(f"{inviter.own}/{folder.ISSUED}", json.dumps(written).encode())
    csr = authority.make_request(authority.make_key(), BETA, "ALPHA", ["localhost"])
    answer = inviter.asked(BETA, want="certificate", request=csr.decode())
    assert common_name(answer["certificate"]) == "BETA"
    assert read_members(inviter.own)[guid_text(BETA)].hosts == ("BETA", "b.example")


def test_a_key_of_an_authority_that_others_may_read_signs_nothing(inviter: Inviter) -> None:
    key = Path(inviter.own) / folder.AUTHORITY_KEY
    key.chmod(0o640)
    assert "its log says why" in inviter.join()["error"]
    assert "chmod 600" in str(inviter.notes[-1]["reason"])
    key.chmod(0o600)
    assert "certificate" in inviter.join(), "the code is not used up by it"


def test_a_removed_member_renews_nothing_and_comes_back_by_invitation(inviter: Inviter) -> None:
    inviter.join()
    removal = Removal(guid_text(BETA), "BETA", inviter.signs.now_s + 1)
    csr = authority.make_request(authority.make_key(), BETA, "B", []).decode()
    inviter.begins_s = inviter.signs.now_s - authority.EARLIER_S
    told = inviter.asked(BETA, want="news")
    assert told == {"removed": [], "authorities": inviter.signs.certificate.decode()}
    put_removed(inviter.own, HERE, {removal.id: removal})
    for said in ({"want": "news"}, {"want": "certificate", "request": csr}):
        assert "was removed" in inviter.asked(BETA, **said)["error"]
    inviter.invite("BETA", secret=b"b" * 16)
    answer = inviter.join(secret=b"b" * 16)
    assert answer["removed"] == [[removal.id, "BETA", removal.at_s]]
    assert not_before(answer["certificate"]) == removal.at_s, "or it would not count either"
    inviter.begins_s = removal.at_s
    assert "certificate" in inviter.asked(BETA, want="certificate", request=csr)


def test_the_name_of_a_removed_member_is_free(inviter: Inviter) -> None:
    """And a name of somebody who is there is not, whatever GUID comes."""
    inviter.join()
    inviter.invite("beta", secret=b"b" * 16)
    assert "in the certificate of BETA" in inviter.join(b"C" * 16, secret=b"b" * 16)["error"]
    removal = Removal(guid_text(BETA), "BETA", inviter.signs.now_s + 1)
    put_removed(inviter.own, HERE, {removal.id: removal})
    assert "certificate" in inviter.join(b"C" * 16, secret=b"b" * 16)


def not_before(pem: str) -> int:
    from cryptography import x509

    return int(x509.load_pem_x509_certificate(pem.encode()).not_valid_before_utc.timestamp())


def test_a_certificate_of_another_authority_renews_nothing(inviter: Inviter) -> None:
    """One that is believed here, too, could have signed for the GUID of any member."""
    inviter.join()
    csr = authority.make_request(authority.make_key(), BETA, "B", []).decode()
    inviter.authority = authority.fingerprint(Authority("OTHER").certificate).hex()
    for said in ({"want": "news"}, {"want": "certificate", "request": csr}):
        assert "has not signed" in inviter.asked(BETA, **said)["error"]
