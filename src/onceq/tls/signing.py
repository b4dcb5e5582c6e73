"""Signatures of files that leave a queue manager and come back: they prove who made them.

The private key of the queue manager's identity signs, and the certificate is beside the signature.
A reader trusts it for the queue manager that it names in two cases: it knows the key, or an
authority that it trusts had signed the certificate when the signature was made, and that member was
not removed since.

It needs ``cryptography`` (the extra ``tls``), as certificates do.

Upholds: I23 (what is put back is what its queue manager has made).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from onceq.errors import AccessDenied, ConfigurationError
from onceq.model.identity import guid_text
from onceq.tls import authority, folder
from onceq.tls.contexts import IdentityFiles
from onceq.tls.identity import Scope, scopes, urn_of
from onceq.tls.members import HERE, TOLD, Removal, read_removed, removal_of

if TYPE_CHECKING:
    from cryptography import x509

FORMAT: Final = 1
"""Version of what ``Signer.sign`` returns."""
SIGNATURE_BYTES_MAX: Final = 256 << 10
"""Largest signature, with its certificates, that is read."""
_DOMAIN: Final = b"onceq backup manifest\0"
"""Comes before the signed data: nothing that is signed in a handshake begins so."""


@dataclass(frozen=True, slots=True)
class Believed:
    """Whose signatures are trusted.

    Attributes:
        known: Certificates, PEM, of queue managers: each for the one that it names, with its key.
        authorities: Certificates, PEM, of authorities.
        removed: Members that were removed, by GUID: earlier signatures of authorities for them do
            not count.
        scopes: What authorities may speak for, by fingerprint; the others speak for all.
    """

    known: bytes = b""
    authorities: bytes = b""
    removed: Mapping[str, Removal] = field(default_factory=dict)
    scopes: Mapping[str, Scope] = field(default_factory=dict)


class Signer:
    """Signs with the identity of a queue manager."""

    def __init__(self, files: IdentityFiles) -> None:
        """Read its files.

        Raises:
            ConfigurationError, AccessDenied: They cannot be used; they are named.
        """
        from cryptography.hazmat.primitives import hashes, serialization

        authority.need()
        name = files.key or files.certificate
        self._chain = _certificates(folder.read(files.certificate), files.certificate)
        self.fingerprint = self._chain[0].fingerprint(hashes.SHA256()).hex()
        """SHA-256 of the certificate, hexadecimal."""
        try:
            self._key: Any = serialization.load_pem_private_key(folder.read(name), None)
            self.sign(b"")
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{name} cannot sign: {error}") from None

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some data, with the certificate."""
        from cryptography.hazmat.primitives.serialization import Encoding

        signature = self._key.sign(_DOMAIN + data, *_scheme(self._key))
        said = {
            "format": FORMAT,
            # The certificates alone: the same file may contain a private key.
            "certificate": "".join(one.public_bytes(Encoding.PEM).decode() for one in self._chain),
            "signature": base64.b64encode(signature).decode(),
        }
        return json.dumps(said, indent=1).encode() + b"\n"


def signer_of(path: str) -> Signer | None:
    """Return the signer of a directory's queue manager; None without an identity or the library.

    Raises:
        ConfigurationError, AccessDenied: Its files cannot be used; they are named.
    """
    files = folder.files_in(path)
    return Signer(files) if files is not None and authority.available() else None


def believed_in(path: str) -> Believed:
    """Return whom the queue manager of a directory trusts: itself, and its authorities.

    Raises:
        ConfigurationError, AccessDenied: Its files cannot be used; they are named.
    """
    files = folder.files_in(path)
    if files is None:
        return Believed()
    removed = read_removed(folder.folder_of(path), HERE, TOLD)
    try:
        limits = scopes(folder.configured(path).get("authorities", {}))
    except ValueError as error:
        raise ConfigurationError(f"[authorities] of {path}: {error}") from None
    return Believed(folder.read(files.certificate), folder.read(files.authorities), removed, limits)


def verify(signature: bytes, data: bytes, guid: bytes, made_s: int, believed: Believed) -> str:
    """Check that a queue manager has signed data; return the SHA-256 of its certificate,
    hexadecimal.

    Args:
        signature: What ``Signer.sign`` has returned.
        guid: The queue manager that is to have signed it.
        made_s: When the data was made, in seconds since 1970, according to the data.

    Raises:
        AccessDenied: It has not, or no trusted signer proves it; the text says why.
        ConfigurationError: There is no library, or the trusted certificates cannot be read.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes

    authority.need()
    try:
        said = json.loads(signature[:SIGNATURE_BYTES_MAX])
        chain = _certificates(said["certificate"].encode("ascii"), "the signature")
        raw = base64.b64decode(said["signature"], validate=True)
        key: Any = chain[0].public_key()
        if said["format"] != FORMAT:
            raise AccessDenied(
                f"its signature has format {said['format']}, which is not known here"
            )
        key.verify(raw, _DOMAIN + data, *_scheme(key))
    except InvalidSignature:
        raise AccessDenied("it is not what was signed: somebody has changed it") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigurationError):
        raise AccessDenied("its signature is none") from None
    urn = urn_of(guid).lower()
    if _named(chain[0]) != urn:
        raise AccessDenied(
            f"it was signed by {_named(chain[0]) or 'no queue manager'}, and says that it is of "
            f"{guid_text(guid)}"
        )
    known = _certificates(believed.known, "the certificate") if believed.known else []
    if not any(one.public_key() == key and _named(one) == urn for one in known):
        _believe(chain, made_s, _anchors(believed, guid))
        # The time comes from the data itself: a stolen key can sign for any time before.
        begins_s = int(chain[0].not_valid_before_utc.timestamp())
        removal = removal_of(believed.removed, guid, begins_s)
        if removal is not None:
            raise AccessDenied(f"{removal}: nothing that its key has signed counts any more")
    return chain[0].fingerprint(hashes.SHA256()).hex()


def _anchors(believed: Believed, guid: bytes) -> list[x509.Certificate]:
    """Return the authorities that may speak for a queue manager."""
    from cryptography.hazmat.primitives import hashes

    if not believed.authorities:
        return []
    found = []
    for one in _certificates(believed.authorities, "the file of authorities"):
        scope = believed.scopes.get(one.fingerprint(hashes.SHA256()).hex())
        if scope is None or scope.speaks_for(guid):
            found.append(one)
    return found


def _believe(
    chain: Sequence[x509.Certificate], made_s: int, anchors: list[x509.Certificate]
) -> None:
    """Raise AccessDenied unless one of these authorities had signed for the first of a chain."""
    from cryptography.x509 import verification

    if not anchors:
        raise AccessDenied("it was signed with a key that is not known here")
    policies = verification.ExtensionPolicy
    verifier = (
        verification.PolicyBuilder()
        .store(verification.Store(anchors))
        .time(datetime.fromtimestamp(made_s, UTC))
        # The web's rules do not decide which names an end has; an authority is one by them.
        .extension_policies(
            ca_policy=policies.webpki_defaults_ca(), ee_policy=policies.permit_all()
        )
        .build_client_verifier()
    )
    try:
        verifier.verify(chain[0], list(chain[1:]))
    except verification.VerificationError as error:
        why = str(error).partition(" (encountered")[0]
        raise AccessDenied(
            f"no authority that is believed here has signed for its key: {why}"
        ) from None


def _scheme(key: Any) -> tuple[Any, ...]:
    """Return the arguments, besides the data, with which a key signs and verifies."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return (ec.ECDSA(hashes.SHA256()),)
    if isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey):
        salt = padding.PSS.DIGEST_LENGTH
        return (padding.PSS(padding.MGF1(hashes.SHA256()), salt), hashes.SHA256())
    return ()


def _certificates(data: bytes, where: str) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise ConfigurationError(
            f"{where} holds no certificate that can be used: {error}"
        ) from None


def _named(certificate: x509.Certificate) -> str:
    """Return the queue manager that a certificate is for, as URI; "" if it is for none, or for
    several."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return ""
    uris = found.get_values_for_type(x509.UniformResourceIdentifier)
    return uris[0].lower() if len(uris) == 1 else ""
