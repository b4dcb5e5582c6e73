"""A small authority: it signs the certificates of queue managers that trust each other.

It needs ``cryptography`` (the extra ``tls``); nothing else of onceq does. Keys are elliptic
(secp256r1): every version of TLS takes them, and they cost little. An authority signs only what its
caller has checked: the GUID and the hosts.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from onceq.errors import AccessDenied, ConfigurationError
from onceq.model.identity import NO_GUID, guid_bytes
from onceq.model.limits import AUTHORITY_DAYS, CERTIFICATE_DAYS
from onceq.model.marks import DAY_S
from onceq.tls.identity import URN, urn_of

if TYPE_CHECKING:
    from cryptography import x509

EARLIER_S: Final = 3_600
"""Seconds by which the validity of a certificate begins before it is made: clocks differ."""
_NAME_CHARS_MAX: Final = 64
"""Largest length of a common name (X.520)."""
_HOSTS_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class SignatureRequest:
    """A request for a signature.

    Attributes:
        guid: The queue manager that the sender claims to be; it has proven only that it has the
            key.
        name: The name that the sender claims.
        hosts: Names and addresses of hosts by which the sender wants to be reached.
    """

    guid: bytes
    name: str
    hosts: tuple[str, ...]
    csr: x509.CertificateSigningRequest


def available() -> bool:
    """Return True if the library is installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return False
    return True


def need() -> None:
    """Raise ConfigurationError if the library is not installed."""
    if not available():
        raise ConfigurationError(
            "making certificates needs the library cryptography: pip install 'onceq[tls]'; "
            "certificates that others make (tls_certificate in onceq.toml) need nothing"
        )


def make_authority(name: str, now_s: int) -> tuple[bytes, bytes]:
    """Return a new authority: certificate and private key, PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    key = _new_key()
    subject = _named(f"onceq authority of {name}")
    made = (
        _begun(subject, subject, key.public_key(), now_s, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(made), _key_pem(key)


def make_key() -> bytes:
    """Return a new private key, PEM."""
    return _key_pem(_new_key())


def make_request(key: bytes, guid: bytes, name: str, hosts: Sequence[str]) -> bytes:
    """Return a request to sign for a private key, PEM.

    Raises:
        ConfigurationError: The key is none, or a certificate cannot contain a host's name.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    try:
        own: Any = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"the private key cannot be used: {error}") from None
    csr = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_named(name))
        .add_extension(_alternatives(guid, hosts), critical=False)
        .sign(own, hashes.SHA256())
    )
    return _pem(csr)


def read_request(data: bytes) -> SignatureRequest:
    """Read a request; raises AccessDenied for what no authority of ours signs."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    try:
        csr = x509.load_pem_x509_csr(data)
        key = csr.public_key()
        found = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = csr.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        good = csr.is_signature_valid and len(names) == 1 and len(list(found)) <= _HOSTS_MAX
    except Exception as error:
        raise AccessDenied("this is no request for a certificate") from error
    uris = found.get_values_for_type(x509.UniformResourceIdentifier)
    guid = _guid(uris)
    if not good or guid == NO_GUID:
        raise AccessDenied("this request is not for one queue manager, or is not signed")
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.key_size < 256:
        raise AccessDenied("the key of this request is none of the kind that onceq makes")
    hosts = [str(one) for one in found.get_values_for_type(x509.DNSName)]
    hosts += [str(one) for one in found.get_values_for_type(x509.IPAddress)]
    return SignatureRequest(guid, str(names[0].value), tuple(hosts), csr)


@dataclass(frozen=True, slots=True)
class SignedCertificate:
    """A certificate that was signed.

    Attributes:
        pem: The certificate.
        serial: Its number, in hexadecimal as the standard library shows it.
        ends_s: Until when it is good, seconds since 1970.
    """

    pem: bytes
    serial: str
    ends_s: int


def sign(
    asked: SignatureRequest, authority: bytes, key: bytes, now_s: int, *, since_s: int = 0
) -> SignedCertificate:
    """Sign a request.

    Args:
        since_s: Earliest beginning of its validity, seconds since 1970: certificates from before
            that do not count (``members.py``).

    Raises:
        ConfigurationError: The authority cannot sign: its files are none, or it has expired.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        issuer = x509.load_pem_x509_certificate(authority)
        own = serialization.load_pem_private_key(key, None)
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise ConfigurationError(f"the files of the authority cannot be used: {error}") from None
    if issuer.public_key() != own.public_key():
        raise ConfigurationError(
            "the key of the authority does not belong to its certificate: onceq tls rotate was cut "
            "short; run it again to complete it"
        )
    ends_s = int(issuer.not_valid_after_utc.timestamp())
    days = min(CERTIFICATE_DAYS, (ends_s - now_s) // DAY_S)
    if days < 1:
        raise ConfigurationError(
            "the authority's own certificate is at its end: onceq tls rotate makes another one; "
            "where nobody believes this one any more, the others join again"
        )
    assert isinstance(own, ec.EllipticCurvePrivateKey), "onceq makes no other"
    public: Any = asked.csr.public_key()
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        _begun(_named(asked.name), issuer.subject, public, now_s, days, since_s)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(_alternatives(asked.guid, asked.hosts), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(own, hashes.SHA256())
    )
    number = f"{made.serial_number:X}"
    serial = number.zfill(len(number) + len(number) % 2)
    return SignedCertificate(_pem(made), serial, int(made.not_valid_after_utc.timestamp()))


def fingerprint(certificate: bytes) -> bytes:
    """Return the SHA-256 of a certificate, PEM, as ``openssl x509 -fingerprint -sha256`` shows
    it."""
    import ssl

    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii"))).digest()
    except (ValueError, UnicodeDecodeError):
        raise ConfigurationError("the certificate of the authority cannot be read") from None


def _guid(uris: Sequence[str]) -> bytes:
    if len(uris) != 1 or not uris[0].lower().startswith(URN):
        return NO_GUID
    try:
        return guid_bytes(uris[0][len(URN) :])
    except ValueError:
        return NO_GUID


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _begun(subject: Any, issuer: Any, public: Any, now_s: int, days: int, since_s: int = 0) -> Any:
    from cryptography import x509

    begins_s = max(now_s - EARLIER_S, since_s)

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(begins_s, UTC))
        .not_valid_after(datetime.fromtimestamp(now_s + days * DAY_S, UTC))
    )


def _named(name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_NAME_CHARS_MAX])])


def _alternatives(guid: bytes, hosts: Sequence[str]) -> Any:
    from cryptography import x509

    names: list[Any] = [x509.UniformResourceIdentifier(urn_of(guid))]
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if not host.isascii():
                raise ConfigurationError(
                    f"{host!r} is not a host name that a certificate can have"
                ) from None
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def _usage(*, signs: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=signs, crl_sign=signs,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(made: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    data: bytes = made.public_bytes(Encoding.PEM)
    return data


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return data
