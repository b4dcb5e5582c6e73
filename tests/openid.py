"""An OpenID provider of its own: a server on a free port of the loopback that signs anybody in as
the person it is told, and lies in each way that a test asks for."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "onceq-console", "a secret of the console & the provider"


@dataclass
class Key:
    """A private key, as what it signs and how it is published.

    Attributes:
        published: Fields that its public key says besides.
    """

    private: Any
    algorithm: str
    kid: str
    published: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def made(cls, algorithm: str = "RS256", kid: str = "", bits: int = 2048) -> Key:
        """A new one."""
        private: PrivateKeyTypes
        if algorithm.startswith("ES"):
            curve = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1}[algorithm]
            private = ec.generate_private_key(curve())
        else:
            private = rsa.generate_private_key(65537, bits)
        return cls(private, algorithm, kid or secrets.token_hex(4))

    def public(self) -> dict[str, Any]:
        """As a provider publishes it."""
        made = jwt.get_algorithm_by_name(self.algorithm)
        raw: dict[str, Any] = made.to_jwk(self.private.public_key(), as_dict=True)
        return {**raw, "kid": self.kid, "use": "sig", "alg": self.algorithm, **self.published}

    def sign(self, claims: dict[str, Any], headers: dict[str, Any]) -> str:
        """A token."""
        return jwt.encode(claims, self.private, self.algorithm, {"kid": self.kid, **headers})


class OpenId:
    """The provider.

    Attributes:
        sub, name, groups: Whom it signs in.
        key: What it signs with.
        published: Keys that it publishes.
        claims: What it says instead; None: it leaves that out.
        headers: The same of the head of a token.
        described: The same of its description.
        sign: How it signs instead.
        answer: What it answers at an address instead.
        returned: What it hands back with the code instead.
        asked: How often it was asked, by address.
        forgets: Whether a code may be used again.
        method: How clients prove themselves.
    """

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.reset(Key.made())
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._describe),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/jwks", self._keys),
                Route("/agree", self._agree),
            ]
        )

    def reset(self, key: Key) -> None:
        """Be honest again, and sign with a key."""
        self.sub, self.name, self.groups = "4711", "anna", ["operators"]
        self.key, self.published = key, [key]
        self.claims: dict[str, Any] = {}
        self.headers: dict[str, Any] = {}
        self.described: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any], dict[str, Any]], str] | None = None
        self.answer: dict[str, Callable[[], Response]] = {}
        self.returned: dict[str, str | None] = {}
        self.asked: Counter[str] = Counter()
        self.codes: dict[str, dict[str, str]] = {}
        self.forgets = False
        self.method = "client_secret_basic"

    def change_keys(self, algorithm: str = "RS256") -> None:
        """Sign with another key from now on, and publish that alone."""
        self.key = Key.made(algorithm)
        self.published = [self.key]

    def _instead(self, request: Request) -> Response | None:
        path = request.url.path
        self.asked[path] += 1
        return self.answer[path]() if path in self.answer else None

    async def _describe(self, request: Request) -> Response:
        said = {
            "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/jwks",
            "token_endpoint_auth_methods_supported": [self.method], **self.described,
        }  # fmt: skip
        return self._instead(request) or JSONResponse(_without_none(said))

    async def _keys(self, request: Request) -> Response:
        return self._instead(request) or JSONResponse(
            {"keys": [key.public() for key in self.published]}
        )

    async def _authorize(self, request: Request) -> Response:
        """A page with a button, for whoever looks at it."""
        if (instead := self._instead(request)) is not None:
            return instead
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256"
        link = f"/agree?{urlencode(asked)}"
        return HTMLResponse(
            f'<!doctype html><html lang="en"><title>Provider</title>'
            '<link rel="icon" href="data:,">'
            f'<h1>Provider</h1><a href="{link.replace("&", "&amp;")}">Sign in as {self.name}</a>'
        )

    async def _agree(self, request: Request) -> Response:
        """Lead back, with a code."""
        asked = dict(request.query_params)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        said: dict[str, str | None] = {"code": code, "state": asked["state"], **self.returned}
        return RedirectResponse(
            f"{asked['redirect_uri']}?{urlencode(_without_none(said))}", status_code=303
        )

    async def _token(self, request: Request) -> Response:
        if (instead := self._instead(request)) is not None:
            return instead
        form = dict(parse_qsl((await request.body()).decode()))
        asked = self.codes.get(form["code"])
        if asked is None or not self._shown(request, form):
            error = "invalid_grant" if asked is None else "invalid_client"
            return JSONResponse({"error": error}, status_code=400 if asked is None else 401)
        if not self.forgets:
            del self.codes[form["code"]]
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (asked["code_challenge"], asked["redirect_uri"]) != (proof, form["redirect_uri"]):
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        token = (self.sign or self.key.sign)(self.said(asked["nonce"]), self.headers)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": token})

    def said(self, nonce: str) -> dict[str, Any]:
        """What an ID token says."""
        now = int(time.time())
        return _without_none({
            "iss": self.issuer, "sub": self.sub, "aud": CLIENT, "iat": now, "exp": now + 300,
            "nonce": nonce, "preferred_username": self.name, "groups": self.groups, **self.claims,
        })  # fmt: skip

    def _shown(self, request: Request, form: dict[str, str]) -> bool:
        if self.method == "client_secret_post":
            return form.get("client_secret") == SECRET
        wanted = "onceq-console:a+secret+of+the+console+%26+the+provider"
        shown = request.headers.get("authorization", "")
        return shown == "Basic " + base64.b64encode(wanted.encode()).decode()


def _without_none(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}


def unsigned(claims: dict[str, Any], headers: dict[str, Any]) -> str:
    """A token that nobody has signed."""
    return f"{_part({'alg': 'none', **headers})}.{_part(claims)}."


def by_public_key(key: Key) -> Callable[[dict[str, Any], dict[str, Any]], str]:
    """Tokens signed with a public key, as if that were a secret."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.private.public_key().public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip

    def sign(claims: dict[str, Any], headers: dict[str, Any]) -> str:
        head = _part({"alg": "HS256", "kid": key.kid, **headers})
        said = f"{head}.{_part(claims)}"
        import hmac

        return f"{said}.{_text(hmac.digest(public, said.encode(), 'sha256'))}"

    return sign


def _part(value: dict[str, Any]) -> str:
    return _text(json.dumps(value).encode())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@contextlib.contextmanager
def provider(certificate: str = "") -> Iterator[OpenId]:
    """One that runs until the end of the block.

    Args:
        certificate: File with its certificate and key, for ``localhost``; "": it speaks no TLS.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    made = OpenId(listening.getsockname()[1])
    if certificate:
        made.issuer = made.issuer.replace("http://127.0.0.1", "https://localhost")
    server = uvicorn.Server(
        uvicorn.Config(
            made.app,
            log_level="error",
            lifespan="off",
            timeout_graceful_shutdown=1,
            ssl_certfile=certificate or None,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
    assert not thread.is_alive()
