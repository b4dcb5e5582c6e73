"""What is signed with an identity, and whose word a reader takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from onceq.errors import AccessDenied, ConfigurationError
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.identity import guid_text
from onceq.model.marks import DAY_S
from onceq.tls import authority, folder
from onceq.tls.contexts import IdentityFiles
from onceq.tls.identity import urn_of
from onceq.tls.members import HERE, TOLD, Removal, put_removed
from onceq.tls.signing import Believed, Signer, believed_in, signer_of, verify
from tests.certificates import ALPHA, BETA, Authority

DATA = b"a manifest"


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Authority, bytes, int]:
    """Its authority, what ALPHA has signed, and when."""
    made_by = Authority()
    made_by.identity(tmp_path, ALPHA)
    signer = signer_of(str(tmp_path))
    assert signer is not None
    return made_by, signer.sign(DATA), made_by.now_s


def test_it_is_believed_by_who_knows_the_key_and_by_who_believes_the_authority(
    tmp_path: Path,
) -> None:
    one = Authority()
    files = one.identity(tmp_path, ALPHA)
    signer = Signer(files)
    signature = signer.sign(DATA)
    known = Believed(known=folder.read(files.certificate))
    for believed in (known, Believed(authorities=one.certificate), believed_in(str(tmp_path))):
        assert verify(signature, DATA, ALPHA, one.now_s, believed) == signer.fingerprint
    assert signer.fingerprint == authority.fingerprint(folder.read(files.certificate)).hex()
    assert "PRIVATE" not in signature.decode()


def test_the_own_key_is_believed_after_its_certificate_has_ended(tmp_path: Path) -> None:
    one = Authority()
    signature = Signer(one.identity(tmp_path, ALPHA)).sign(DATA)
    own = believed_in(str(tmp_path))
    years = 5 * 365 * DAY_S
    assert verify(signature, DATA, ALPHA, one.now_s + years, own)
    with pytest.raises(AccessDenied, match="no authority that is believed"):
        verify(signature, DATA, ALPHA, one.now_s + years, Believed(authorities=own.authorities))


def test_changed_data_was_not_signed(signed: tuple[Authority, bytes, int]) -> None:
    one, signature, now_s = signed
    with pytest.raises(AccessDenied, match="somebody has changed it"):
        verify(signature, DATA + b"x", ALPHA, now_s, Believed(authorities=one.certificate))


def test_another_authority_is_not_believed(signed: tuple[Authority, bytes, int]) -> None:
    _, signature, now_s = signed
    with pytest.raises(AccessDenied, match="no authority that is believed here has signed"):
        verify(signature, DATA, ALPHA, now_s, Believed(authorities=Authority().certificate))
    with pytest.raises(AccessDenied, match="a key that is not known"):
        verify(signature, DATA, ALPHA, now_s, Believed())


def test_a_member_that_was_removed_signs_nothing_any_more(tmp_path: Path) -> None:
    """Also not for a time before; what it signs that was invited again does count."""
    one, here = Authority(), tmp_path / "here"
    one.identity(here, BETA)
    signature = Signer(one.identity(tmp_path / "alpha", ALPHA)).sign(DATA)
    assert verify(signature, DATA, ALPHA, one.now_s, believed_in(str(here)))
    removal = Removal(guid_text(ALPHA), "ALPHA", one.now_s)
    for name in (HERE, TOLD):
        put_removed(str(here / folder.FOLDER), name, {removal.id: removal})
        believed = believed_in(str(here))
        for made_s in (one.now_s, one.now_s - 60):
            with pytest.raises(AccessDenied, match=r"ALPHA .* was removed .*nothing that its key"):
                verify(signature, DATA, ALPHA, made_s, believed)
        (here / folder.FOLDER / name).unlink()
    put_removed(str(here / folder.FOLDER), HERE, {removal.id: removal})
    again = Signer(one.identity(tmp_path / "again", ALPHA, ago_s=-DAY_S)).sign(DATA)
    assert verify(again, DATA, ALPHA, one.now_s + DAY_S, believed_in(str(here)))


def test_a_partners_authority_signs_for_its_own_alone(tmp_path: Path) -> None:
    """As it speaks in handshakes: by its line in ``[authorities]``."""
    partner, here = Authority("PARTNER"), tmp_path / "here"
    own = Authority()
    own.identity(here, BETA, trusts=own.certificate + partner.certificate)
    signature = Signer(partner.identity(tmp_path / "alpha", ALPHA)).sign(DATA)
    line = authority.fingerprint(partner.certificate).hex()
    for guid, counts in ((ALPHA, True), (BETA, False)):
        (here / CONFIGURATION_FILE).write_text(
            f'[authorities]\n"{line}" = ["peer:{guid_text(guid)}", "name:*"]\n'
        )
        believed = believed_in(str(here))
        if counts:
            assert verify(signature, DATA, ALPHA, partner.now_s, believed)
        else:
            with pytest.raises(AccessDenied, match="no authority that is believed here"):
                verify(signature, DATA, ALPHA, partner.now_s, believed)
    (here / CONFIGURATION_FILE).write_text("[authorities]\nx = 1\n")
    with pytest.raises(ConfigurationError, match=r"\[authorities\]"):
        believed_in(str(here))


def test_another_member_does_not_sign_for_it(tmp_path: Path) -> None:
    """It has a right certificate of the same authority, for a GUID of its own."""
    one = Authority()
    signature = Signer(one.identity(tmp_path, BETA)).sign(DATA)
    with pytest.raises(AccessDenied, match="it was signed by urn:onceq:qm:"):
        verify(signature, DATA, ALPHA, one.now_s, Believed(authorities=one.certificate))


def test_a_member_that_signs_a_certificate_itself_is_not_believed(tmp_path: Path) -> None:
    """With its own certificate as authority: it is none, and is none for whom it is known, too."""
    one = Authority()
    member, key = one.issue(BETA, "BETA")
    asked = authority.read_request(authority.make_request(key, ALPHA, "ALPHA", ()))
    forged = authority.sign(asked, member, key, one.now_s).pem
    for name, data in (("c.pem", forged + member), ("k.pem", key)):
        folder.write(str(tmp_path / name), data)
    files = IdentityFiles(str(tmp_path / "c.pem"), str(tmp_path / "k.pem"), "")
    signature = Signer(files).sign(DATA)
    for believed in (
        Believed(authorities=one.certificate),
        Believed(authorities=member),
        Believed(known=member, authorities=member),
    ):
        with pytest.raises(AccessDenied, match=r"no authority|not known"):
            verify(signature, DATA, ALPHA, one.now_s, believed)


LIES: list[Any] = [
    b"", b"{}", b"[" * 100_000, b"null", b"\xff", {"format": 2}, {"format": None},
    {"signature": "!"}, {"signature": ""}, {"signature": 5}, {"signature": "AAAA"},
    {"certificate": ""}, {"certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n"},
    {"certificate": 7}, {"certificate": "\xe9"},
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: repr(lie)[:30])
def test_what_is_no_signature_is_refused(
    signed: tuple[Authority, bytes, int], lie: bytes | dict[str, Any]
) -> None:
    one, signature, now_s = signed
    believed = Believed(authorities=one.certificate)
    assert verify(signature, DATA, ALPHA, now_s, believed)
    raw = lie if isinstance(lie, bytes) else json.dumps({**json.loads(signature), **lie}).encode()
    with pytest.raises(AccessDenied):
        verify(raw, DATA, ALPHA, now_s, believed)


def test_every_flipped_bit_of_a_signature_is_noticed(signed: tuple[Authority, bytes, int]) -> None:
    one, signature, now_s = signed
    said = json.loads(signature)
    believed = Believed(authorities=one.certificate)
    raw = base64.b64decode(said["signature"])
    for at in range(len(raw)):
        other = raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :]
        wrong = json.dumps({**said, "signature": base64.b64encode(other).decode()}).encode()
        with pytest.raises(AccessDenied):
            verify(wrong, DATA, ALPHA, now_s, believed)


KEYS: dict[str, Callable[[], Any]] = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
}


@pytest.mark.parametrize("kind", KEYS)
def test_certificates_that_others_make_sign_too(tmp_path: Path, kind: str) -> None:
    """With keys of other kinds, by rules that are not the web's, an authority in between, and key
    and certificates in one file."""
    root = trustme.CA()
    between = root.create_child_ca()
    issuer = x509.load_pem_x509_certificate(between.cert_pem.bytes())
    issuer_key: Any = load_pem_private_key(between.private_key_pem.bytes(), None)
    key = KEYS[kind]()
    now_s = int(datetime.now(UTC).timestamp())
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(urn_of(ALPHA))])
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now_s - 60, UTC))
        .not_valid_after(datetime.fromtimestamp(now_s + DAY_S, UTC))
        .add_extension(names, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    one = tmp_path / "one.pem"
    folder.write(str(one), leaf.public_bytes(Encoding.PEM) + between.cert_pem.bytes() + pem)
    signer = Signer(IdentityFiles(str(one), "", ""))
    signature = signer.sign(DATA)
    believed = Believed(authorities=root.cert_pem.bytes())
    assert verify(signature, DATA, ALPHA, now_s, believed) == signer.fingerprint
    with pytest.raises(AccessDenied):
        verify(signature, DATA, ALPHA, now_s, Believed(authorities=trustme.CA().cert_pem.bytes()))
    with pytest.raises(AccessDenied, match="somebody has changed it"):
        verify(signature, b"other", ALPHA, now_s, believed)


def test_without_an_identity_nothing_is_signed_and_nobody_is_believed(tmp_path: Path) -> None:
    assert signer_of(str(tmp_path)) is None
    assert believed_in(str(tmp_path)) == Believed()


def test_without_the_library_nothing_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Authority().identity(tmp_path, ALPHA)
    monkeypatch.setattr(authority, "available", lambda: False)
    assert signer_of(str(tmp_path)) is None
    with pytest.raises(ConfigurationError, match=r"onceq\[tls\]"):
        verify(b"", DATA, ALPHA, 0, Believed())


def test_an_identity_that_the_configuration_names_signs(tmp_path: Path) -> None:
    one = Authority()
    made, key = one.issue(ALPHA)
    for name, data in (("own.pem", made + key), ("all.pem", one.certificate)):
        folder.write(str(tmp_path / name), data)
    (tmp_path / "onceq.toml").write_text(
        'tls_certificate = "own.pem"\ntls_authorities = "all.pem"\n'
    )
    signer = signer_of(str(tmp_path))
    assert signer is not None
    signature = signer.sign(DATA)
    assert b"PRIVATE" not in signature
    assert verify(signature, DATA, ALPHA, one.now_s, believed_in(str(tmp_path)))


def test_a_key_that_others_can_read_signs_nothing(tmp_path: Path) -> None:
    files = Authority().identity(tmp_path, ALPHA)
    Path(files.key).chmod(0o644)
    with pytest.raises(ConfigurationError, match="others may read the private key"):
        signer_of(str(tmp_path))
